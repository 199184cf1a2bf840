"""Axes shared by the accelerator's tiled templates, candidates for default points, loops over tiles of a schedule."""

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
"""Names of memories. One point needs the least space in all of these: tiles of one element, fills in the innermost
loop, one copy of each buffer. If this point does not fit one of the memories, no point of the space fits.
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
    """The search space of a layer's tiles, with all orders of the loops over tiles. `template`: name of the template.

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
    """Groups of candidate points, of which the cheapest is the default. All points have balanced tile sizes and one
    order of loops.

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


def canonical(values: Values, tiles: Tiles) -> Values:
    """The `values` of a point with the order of loops and the fill levels of `Tiles.effective`, so that points of equal
    effect yield the same program. A level for which the template has no knob is the innermost. `tiles`: the loops over
    tiles at this point.
    """
    levels = one_point({name: values.get(name, CHUNK) for name in ("data_level", "weights_level")})
    effective = tiles.effective(levels["data_level"], levels["weights_level"])
    return {**values, **{name: int(column[0]) for name, column in effective.items()}}


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
        """The loop that loads parameters: the outermost if `output_blocks` entries fit `depth`, else `output`."""
        if output_blocks <= depth:
            return self.names[0]
        return self.output


def cut_tiles(s: Schedule, values: Values, lanes: tuple[str, ...]) -> TileLoops:
    """Splits the loops o (output blocks), y (rows) and x (columns) of a schedule into tiles, with the sizes and the
    loop order of a point's `values`; `lanes`: the loops inside a tile. The loop over images is outside of y and x.
    """
    loops = {
        "o": s.split("o", values["output_blocks"]),
        "y": s.split("y", values["rows"]),
        "x": s.split("x", values["columns"]),
    }
    order = TILE_ORDERS[values["order"]]
    first, second, third = (loops[letter][0] for letter in order)
    outer = ("n", first, second, third) if order[0] != "o" else (first, "n", second, third)
    s.reorder(*outer, *(loops[letter][1] for letter in "oyx"), *lanes)
    return TileLoops(names=(first, second, third), output=loops["o"][0], columns=loops["x"][0])
