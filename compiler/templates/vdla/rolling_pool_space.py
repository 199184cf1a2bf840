"""All ways to gather the patches of a first convolution with its pool on the accelerator."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from vdla.isa.config import Config

from ...te.ops.rolling_pool import Ring
from ..space import ESTIMATE, Account, Axis, Columns, Space, Values
from .tile_space import CAPACITIES, SLACK, copies_axis, up_to
from .tiling import Copies, divide, fits


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingShape:
    """What the space needs to know: `columns` of `rows` of patches of `vectors` vectors, pooled to `pooled` rows."""

    images: int
    batch: int
    groups: int
    filters: int
    rows: int
    columns: int
    pooled: int
    vectors: int
    output_vectors: int
    image_bytes: int
    ring: Ring


def space(config: Config, shape: RollingShape) -> Space:
    """The space of `rolling_pool_vdla.schedule` for one shape; costs are cycles."""
    axes: tuple[Axis, ...] = (
        Axis(name="columns", values=up_to(shape.columns)),
        copies_axis("data"),
        copies_axis("weights"),
    )
    return Space(
        template="patch_conv2d_pool",
        axes=axes,
        account=partial(account, config, shape),
        floor=_floor(config, shape),
        slack=SLACK,
        capacities=CAPACITIES,
    )


def copies(values: Values) -> Copies:
    """The copies of buffers of a point; the ring of sums is its own."""
    return Copies(data=values["data_copies"], weights=values["weights_copies"], sums=1)


def _products(shape: RollingShape) -> float:
    return 1.0 * shape.images * shape.filters * shape.rows * shape.columns * shape.vectors


def _floor(config: Config, shape: RollingShape) -> float:
    weights = shape.filters * shape.vectors * config.wgt_bytes
    moved = shape.image_bytes + weights + shape.images * shape.output_vectors * config.out_bytes
    return max(_products(shape), moved / config.memory.bus_bytes)


def account(config: Config, shape: RollingShape, values: Columns) -> Account:
    """The account of many points."""
    columns = values["columns"]
    pieces = divide(shape.columns, columns)
    fills = shape.groups * shape.images * shape.pooled * pieces
    data = np.minimum(values["data_copies"], fills)
    weights = np.minimum(values["weights_copies"], shape.groups)
    rows = -(-shape.rows // shape.pooled)
    limits = {
        "the input scratchpad": fits(config, "inp", columns * rows * shape.vectors, data),
        "the weight scratchpad": fits(
            config, "wgt", np.full_like(columns, shape.ring.filters * shape.vectors), weights
        ),
    }
    compute = np.full(len(columns), _products(shape))
    # Each piece of a row waits for a transfer to begin, unless another copy is being used meanwhile.
    waits = fills * np.where(data == 1, config.memory.read_latency + columns * shape.vectors, 4.0)
    quantities = {
        "pieces": pieces,
        "patches of a filling": columns,
        "fillings": fills,
        "data copies in use": data,
        "weights copies in use": weights,
        "compute between fillings": compute / fills,
        ESTIMATE: compute + waits,
    }
    return Account(
        limits=limits,
        bound=compute,
        quantities={name: np.asarray(item, dtype=np.float64) for name, item in quantities.items()},
        effective={**values, "data_copies": data, "weights_copies": weights},
    )
