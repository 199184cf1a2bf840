"""Axes shared by the accelerator's tiled templates, candidates for default points, conversion of points to knobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from vdla.isa.config import Config

from ...schedule import Schedule
from ...te.blocks import Pair
from ..columns import Columns, Values, one_point
from ..space import Axis, CostEstimates, Space
from .tiles import CHUNK, OUTERMOST, TILE_ORDERS, Tiles
from .workload import LayerShape

SLACK = 3.0
"""Points whose lower bound on cycles exceeds the space's `floor` by more than this factor are not searched."""
MOST_COPIES = 4
CAPACITIES = frozenset(
    {
        "the input scratchpad",
        "the weight scratchpad",
        "the accumulators",
        "the parameter table",
        "the micro-op memory",
        "the row index of a micro-op",
        "the windows of the store unit",
    }
)
"""Names of the memories of which a tile of one element, with fills in the innermost loop and one copy of each buffer,
needs least. If this tile does not fit such a memory, no point of the space fits.
"""


def tile_space(
    config: Config,
    template: str,
    shape: LayerShape,
    *,
    chunks: Sequence[Axis] = (),
    levels: Mapping[str, int],
    copies: Sequence[str],
    cost: Callable[[Columns], CostEstimates],
    floor: float,
) -> Space:
    """The search space of a layer's tiles, with all orders of the loops over tiles.

    `chunks`: axes that cut the reduction. `levels`: for each buffer, the innermost loop (CHUNK to OUTERMOST) in which
    it may be filled. `copies`: names of buffers that may have several copies. `cost`: the cost model. `floor`: lower
    bound on the cycles of any program.
    """
    axes = (
        Axis(
            name="output_blocks",
            values=up_to(max(1, min(shape.output_blocks, config.par_depth // shape.vectors))),
        ),
        Axis(name="rows", values=up_to(shape.out_height)),
        Axis(name="columns", values=up_to(shape.out_width)),
        *chunks,
        Axis(name="order", values=tuple(range(len(TILE_ORDERS)))),
        *(
            Axis(name=f"{name}_level", values=tuple(range(innermost, OUTERMOST + 1)))
            for name, innermost in levels.items()
        ),
        *(copies_axis(name) for name in copies),
    )
    return Space(
        template=template,
        axes=axes,
        cost=cost,
        floor=floor,
        slack=SLACK,
        capacities=CAPACITIES,
        candidates=_candidates(axes),
        open_grids=True,
    )


def _candidates(axes: Sequence[Axis]) -> tuple[Mapping[str, Sequence[int]], ...]:
    """Groups of candidate points, of which the cheapest is the default. All have balanced tile sizes and one order of
    loops.

    Inputs and weights are filled at the innermost or outermost level; all buffers have the same number of copies. The
    first groups have whole windows. The other groups are used if no tile with whole windows fits: windows are cut,
    tiles have the fewest filters, and weights are reloaded for each chunk.
    """
    group: dict[str, Sequence[int]] = {}
    for axis in axes:
        values = axis.values
        match axis.name:
            case "output_blocks" | "rows" | "columns" | "reduction_blocks":
                group[axis.name] = balanced_sizes(values[-1])
            case "window_rows" | "window_columns":
                group[axis.name] = values[-1:]
            case "order":
                group[axis.name] = values[:1]
            case "weights_level" | "data_level":
                group[axis.name] = sorted({values[0], values[-1]})
    groups = [group]
    if "window_rows" in group and any(
        len(axis.values) > 1 for axis in axes if axis.name.startswith("window_")
    ):
        cut = {axis.name: axis.values for axis in axes if axis.name.startswith("window_")}
        stay = {name: group[name][:1] for name in ("output_blocks", "weights_level")}
        groups.append({**group, **cut, **stay})
    copies = [axis.name for axis in axes if axis.name.endswith("_copies")]
    return tuple(
        {**group, **dict.fromkeys(copies, (count,))}
        for group in groups
        for count in range(MOST_COPIES, 0, -1)
    )


@lru_cache(maxsize=1024)
def balanced_sizes(extent: int) -> tuple[int, ...]:
    """The distinct tile sizes ceil(extent / k) for k in 1..extent, ascending."""
    return tuple(sorted({ceil(extent / k) for k in range(1, extent + 1)}))


@lru_cache(maxsize=1024)
def up_to(size: int) -> tuple[int, ...]:
    """The integers from 1 to `size`, candidates for the size of a tile."""
    return tuple(range(1, size + 1))


def window_axes(kernel: Pair) -> tuple[Axis, Axis]:
    """The two axes that cut a reduction: rows and columns of the kernel."""
    return (
        Axis(name="window_rows", values=balanced_sizes(kernel[0])),
        Axis(name="window_columns", values=balanced_sizes(kernel[1])),
    )


def copies_axis(buffer: str) -> Axis:
    """The axis of a buffer's number of copies, 1 to MOST_COPIES."""
    return Axis(name=f"{buffer}_copies", values=up_to(MOST_COPIES))


def tile_knobs(values: Values, tiles: Tiles, kernel: Pair = (1, 1)) -> Knobs:
    """The knobs at the point with these `values`. `tiles`: the loops over tiles at this point. A loop level for which
    the template has no knob is the innermost.

    A window equal to the `kernel` becomes None. Levels with the same effect become the same level (`Tiles.effective`),
    so that points of equal effect yield the same program.
    """
    levels = one_point({name: values.get(name, CHUNK) for name in ("data_level", "weights_level")})
    effective = tiles.effective(levels["data_level"], levels["weights_level"])
    window = (values.get("window_rows", kernel[0]), values.get("window_columns", kernel[1]))
    return Knobs(
        output_blocks=values["output_blocks"],
        rows=values["rows"],
        columns=values["columns"],
        reduction_blocks=values.get("reduction_blocks", 1),
        order=TILE_ORDERS[int(tiles.order[0])],
        data_level=int(effective["data_level"][0]),
        weights_level=int(effective["weights_level"][0]),
        window=None if window == kernel else window,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """The knobs of a tiled layer: output blocks, rows and columns of a tile, and reduction blocks of a chunk.

    `order` (one of TILE_ORDERS): order of the loops over tiles. `data_level`, `weights_level`: loop level at which
    inputs and weights are loaded, from CHUNK (for each chunk) to OUTERMOST (in the outermost loop over tiles).
    `window`: rows and columns of the kernel in a chunk (None: all), for windows too large for one block's inputs or
    weights to fit. A template ignores knobs that its operator does not use.
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
    """Names of the loops over tiles: all (`names`, outermost first), over blocks (`output`), over `columns`."""

    names: tuple[str, str, str]
    output: str
    columns: str

    @property
    def innermost(self) -> str:
        """The innermost loop over tiles: one iteration computes one tile."""
        return self.names[-1]

    def at(self, level: int, chunk: str | None = None) -> str:
        """Name of the loop in which a buffer with fill `level` (CHUNK to OUTERMOST) is filled. For level CHUNK it is
        the loop `chunk` over the reduction or, if there is none, the innermost loop over tiles.
        """
        if level == CHUNK:
            return self.innermost if chunk is None else chunk
        return self.names[OUTERMOST - level]

    def parameters(self, output_blocks: int, depth: int) -> str:
        """The loop that loads parameters into a table of `depth` entries: the outermost loop in which they fit."""
        if output_blocks <= depth:
            return self.names[0]
        return self.output


def cut_tiles(s: Schedule, knobs: Knobs, lanes: tuple[str, ...]) -> TileLoops:
    """Splits the loops o (output blocks), y (rows) and x (columns) of a schedule into tiles; `lanes`: the loops inside
    a tile. The loop over images is outside of y and x.
    """
    loops = {
        "o": s.split("o", knobs.output_blocks),
        "y": s.split("y", knobs.rows),
        "x": s.split("x", knobs.columns),
    }
    first, second, third = (loops[letter][0] for letter in knobs.order)
    outer = ("n", first, second, third) if knobs.order[0] != "o" else (first, "n", second, third)
    s.reorder(*outer, *(loops[letter][1] for letter in "oyx"), *lanes)
    return TileLoops(names=(first, second, third), output=loops["o"][0], columns=loops["x"][0])
