"""The axes that templates of tiles on the accelerator share, the candidates for a default, and the knobs of a point."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil

import numpy as np
from vdla.isa.config import Config

from ...te.blocks import Pair
from ..space import Account, Axis, Columns, Space, Values
from .knobs import CHUNK, OUTERMOST, TILE_ORDERS, Knobs
from .shape import LayerShape
from .tiles import Tiles

SLACK = 3.0
"""Points whose transfers or products alone take this many times the least that any program needs are hopeless."""
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
"""Limits on what a tile takes: least where it has one element, a buffer holds no more than it needs, and is alone."""


def tile_space(
    config: Config,
    template: str,
    shape: LayerShape,
    *,
    chunks: Sequence[Axis] = (),
    levels: Mapping[str, int],
    copies: Sequence[str],
    cost: Callable[[Columns], Account],
    floor: float,
) -> Space:
    """The space of tiles of a layer, in any order.

    `chunks` are the axes that cut the reduction. `levels` say of each buffer how far inside it may be filled, and
    `copies` of which buffers there may be several.
    """
    axes = (
        Axis(name="output_blocks", values=up_to(min(shape.output_blocks, config.par_depth))),
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
        account=cost,
        floor=floor,
        slack=SLACK,
        capacities=CAPACITIES,
        candidates=_candidates(axes),
        open_grids=True,
    )


def _candidates(axes: Sequence[Axis]) -> tuple[Mapping[str, Sequence[int]], ...]:
    """Where a default is sought: tiles of balanced sizes, in one order, inputs as far inside as they may be.

    Weights are as far inside or outside as they may be; all buffers have equally many copies. Windows are whole, if any
    such tile fits; where not even one window fits, few filters and no weights that stay are what is left to try.
    """
    group: dict[str, Sequence[int]] = {}
    for axis in axes:
        values = axis.values
        match axis.name:
            case "output_blocks" | "rows" | "columns" | "reduction_blocks":
                group[axis.name] = balanced_sizes(values[-1])
            case "window_rows" | "window_columns":
                group[axis.name] = values[-1:]
            case "order" | "data_level":
                group[axis.name] = values[:1]
            case "weights_level":
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


def balanced_sizes(extent: int) -> tuple[int, ...]:
    """The tile sizes worth trying: ceil(extent / k) for every k, ascending."""
    return tuple(sorted({ceil(extent / k) for k in range(1, extent + 1)}))


def up_to(size: int) -> tuple[int, ...]:
    """All sizes from 1 on."""
    return tuple(range(1, size + 1))


def window_axes(kernel: Pair) -> tuple[Axis, Axis]:
    """The axes that cut a reduction into rows and columns of the kernel."""
    return (
        Axis(name="window_rows", values=balanced_sizes(kernel[0])),
        Axis(name="window_columns", values=balanced_sizes(kernel[1])),
    )


def copies_axis(buffer: str) -> Axis:
    """The axis of the copies of a buffer."""
    return Axis(name=f"{buffer}_copies", values=up_to(MOST_COPIES))


def one_point(values: Values) -> Columns:
    """The columns of a single point."""
    return {name: np.array([value], dtype=np.int64) for name, value in values.items()}


def tile_knobs(values: Values, tiles: Tiles, kernel: Pair = (1, 1)) -> Knobs:
    """The knobs of one point, whose loops are `tiles`; levels that a template does not have are at their innermost.

    A window that is all of the `kernel` is none. Levels that mean the same become one, so that points of equal
    `effective` values become the same program.
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
