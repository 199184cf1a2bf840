"""Knobs of the templates that cut a layer into tiles, and the loops over tiles that they make of a program."""

from __future__ import annotations

from dataclasses import dataclass

from ...schedule import Schedule

TILE_ORDERS = ("oyx", "oxy", "yox", "yxo", "xoy", "xyo")
"""Orders of the loops over tiles, outermost first: output blocks, rows, columns."""
CHUNK, INNERMOST, MIDDLE, OUTERMOST = 0, 1, 2, 3
"""Levels at which a buffer is filled: with every chunk of the reduction, or every iteration of a loop over tiles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """How a layer is cut: output blocks, rows and columns of a tile, reduction blocks of a chunk.

    `order` (one of TILE_ORDERS) is that of the loops over tiles. `data_level` and `weights_level` say where inputs and
    weights are loaded, from CHUNK, where they come anew for every chunk, to OUTERMOST, where they stay for all that is
    inside the outermost loop over tiles. `window` cuts the reduction into rows and columns of the kernel too (None:
    not), for windows of which one block's inputs or weights do not fit. A template ignores knobs that its operator has
    no use for.
    """

    output_blocks: int
    rows: int
    columns: int
    reduction_blocks: int = 1
    order: str = TILE_ORDERS[0]
    data_level: int = CHUNK
    weights_level: int = OUTERMOST
    window: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TileLoops:
    """`names` of the loops over tiles, outermost first, and `output`, the one over output blocks."""

    names: tuple[str, str, str]
    output: str

    @property
    def innermost(self) -> str:
        """The loop whose iterations are tiles."""
        return self.names[-1]

    def at(self, level: int, chunk: str | None = None) -> str:
        """The loop of a level from CHUNK (the loop over chunks, where there is one) to OUTERMOST."""
        if level == CHUNK:
            return self.innermost if chunk is None else chunk
        return self.names[OUTERMOST - level]

    def parameters(self, output_blocks: int, depth: int) -> str:
        """Where parameters are loaded into a table of `depth` entries: as far out as all that is needed there fits."""
        if output_blocks <= depth:
            return self.names[0]
        return self.output


def cut_tiles(s: Schedule, knobs: Knobs, lanes: tuple[str, ...]) -> TileLoops:
    """Cuts the loops o, y, x into tiles; `lanes` are the loops inside. Images are outside of their positions' tiles."""
    loops = {
        "o": s.split("o", knobs.output_blocks),
        "y": s.split("y", knobs.rows),
        "x": s.split("x", knobs.columns),
    }
    first, second, third = (loops[letter][0] for letter in knobs.order)
    outer = ("n", first, second, third) if knobs.order[0] != "o" else (first, "n", second, third)
    s.reorder(*outer, *(loops[letter][1] for letter in "oyx"), *lanes)
    return TileLoops(names=(first, second, third), output=loops["o"][0])
