"""The loops over tiles that all templates of the accelerator have: output blocks, rows, columns, in any order."""

from __future__ import annotations

from dataclasses import dataclass

from ...schedule import Schedule
from .tiling import CHUNK, OUTERMOST, Knobs


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
