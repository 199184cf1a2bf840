"""The axes that templates of tiles on the accelerator share, and the knobs that a point of them stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from vdla.isa.config import Config

from ...te.blocks import Pair
from ..space import Account, Axis, Columns, Space, Values
from .tile_account import Tiles
from .tiling import CHUNK, OUTERMOST, TILE_ORDERS, Copies, Knobs, balanced_sizes

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
    *,
    extents: Mapping[str, int],
    chunks: Sequence[Axis] = (),
    levels: Mapping[str, int],
    copies: Sequence[str],
    account: Callable[[Columns], Account],
    floor: float,
) -> Space:
    """The space of tiles of `extents` ("o", "y", "x"), in any order.

    `chunks` are the axes that cut the reduction. `levels` say of each buffer how far inside it may be filled, and
    `copies` of which buffers there may be several.
    """
    axes = (
        Axis(name="output_blocks", values=up_to(min(extents["o"], config.par_depth))),
        Axis(name="rows", values=up_to(extents["y"])),
        Axis(name="columns", values=up_to(extents["x"])),
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
        account=account,
        floor=floor,
        slack=SLACK,
        capacities=CAPACITIES,
    )


def up_to(size: int) -> tuple[int, ...]:
    """All sizes from 1 on."""
    return tuple(range(1, size + 1))


def window_axes(kernel: Pair) -> tuple[Axis, Axis]:
    """The axes that cut a reduction into rows and columns of the kernel."""
    return (
        Axis(name="window_rows", values=tuple(balanced_sizes(kernel[0]).tolist())),
        Axis(name="window_columns", values=tuple(balanced_sizes(kernel[1]).tolist())),
    )


def copies_axis(buffer: str) -> Axis:
    """The axis of the copies of a buffer."""
    return Axis(name=f"{buffer}_copies", values=up_to(MOST_COPIES))


def one_point(values: Values) -> Columns:
    """The columns of a single point."""
    return {name: np.array([value], dtype=np.int64) for name, value in values.items()}


def tile_knobs(values: Values, tiles: Tiles, kernel: Pair = (1, 1), copies: Copies | None = None) -> Knobs:
    """The knobs of one point, whose loops are `tiles`; levels that a template does not have are at their innermost.

    A window that is all of the `kernel` is none. `copies`: what the point says of them, if not of data, weights and
    sums. Levels that mean the same become one, so that points of equal `effective` values become the same program.
    """
    levels = one_point({name: values.get(name, CHUNK) for name in ("data_level", "weights_level")})
    effective = tiles.effective(levels["data_level"], levels["weights_level"])
    window = (values.get("window_rows", kernel[0]), values.get("window_columns", kernel[1]))
    if copies is None:
        data, weights, sums = (values[f"{name}_copies"] for name in ("data", "weights", "sums"))
        copies = Copies(data=data, weights=weights, sums=sums)
    return Knobs(
        output_blocks=values["output_blocks"],
        rows=values["rows"],
        columns=values["columns"],
        reduction_blocks=values.get("reduction_blocks", 1),
        order=TILE_ORDERS[int(tiles.order[0])],
        data_level=int(effective["data_level"][0]),
        weights_level=int(effective["weights_level"][0]),
        window=None if window == kernel else window,
        copies=copies,
    )
