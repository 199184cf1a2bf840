"""A first convolution with its max-pool on the accelerator: one row of the pool after the other, rows in a ring."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from vdla.isa.config import Config

from ...ir.stmt import Program
from ...schedule import Schedule
from ...target.vdla import intrinsics
from ...te.blocks import Blocks, ceil_div
from ...te.ops import patch_conv2d_pool
from ...te.ops.rolling_pool import Ring, ring_of
from ..space import ESTIMATE, Account, Axis, Columns, EmptySpaceError, Space, Values
from .estimate import FITTED, Fitted, fits
from .patch_conv2d import patch_vectors
from .template import Details, Expression, VdlaTemplate
from .tile_space import CAPACITIES, MOST_COPIES, SLACK, balanced_sizes, copies_axis, up_to
from .tiles import divide
from .workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingShape:
    """What the space needs to know: `columns` of `rows` of patches of `vectors` vectors, pooled to `pooled` rows."""

    images: int
    groups: int
    filters: int
    rows: int
    columns: int
    pooled: int
    vectors: int
    output_vectors: int
    image_bytes: int
    ring: Ring

    @staticmethod
    def of(config: Config, workload: Workload) -> RollingShape:
        """The shape of a workload on one machine. EmptySpaceError where no ring of rows fits the accumulators."""
        ring = ring_of_workload(config, workload)
        if ring is None:
            raise EmptySpaceError(workload.template, "the accumulators")
        rows, columns = workload.window.outputs(workload.height, workload.width)
        pooled, wide = workload.pool.outputs(rows, columns)
        filters = _filter_blocks(config, workload)
        return RollingShape(
            images=ceil_div(workload.batch, config.batch),
            groups=ceil_div(filters, ring.filters),
            filters=filters,
            rows=rows,
            # The pool has no use for the others.
            columns=min(columns, ring.width - workload.pool.pads[1]),
            pooled=pooled,
            vectors=patch_vectors(config, workload),
            output_vectors=filters * pooled * wide,
            image_bytes=workload.batch * workload.channels * workload.height * workload.width,
            ring=ring,
        )

    @property
    def products(self) -> float:
        """Cycles of the array."""
        return 1.0 * self.images * self.filters * self.rows * self.columns * self.vectors


def _filter_blocks(config: Config, workload: Workload) -> int:
    """Output vectors of a position, of whole blocks of activations."""
    blocks = Blocks.of(config)
    return ceil_div(workload.filters, blocks.block) * blocks.outputs


def ring_of_workload(config: Config, workload: Workload) -> Ring | None:
    """The ring of accumulator rows of a convolution with its pool; None where none works."""
    return ring_of(
        workload.pool,
        workload.window.outputs(workload.height, workload.width),
        filter_blocks=_filter_blocks(config, workload),
        together=Blocks.of(config).outputs,
        most_filters=config.par_depth,
        acc_depth=config.acc_depth,
    )


def space(config: Config, workload: Workload) -> Space:
    """All ways to gather the patches. EmptySpaceError where no ring of rows fits the accumulators."""
    shape = RollingShape.of(config, workload)
    axes = (
        Axis(name="columns", values=up_to(shape.columns)),
        copies_axis("data"),
        copies_axis("weights"),
    )
    weights = shape.filters * shape.vectors * config.wgt_bytes
    moved = shape.image_bytes + weights + shape.images * shape.output_vectors * config.out_bytes
    return Space(
        template="patch_conv2d_pool",
        axes=axes,
        account=partial(cost, config, workload, fitted=FITTED),
        floor=max(shape.products, moved / config.memory.bus_bytes),
        slack=SLACK,
        capacities=CAPACITIES,
        candidates=tuple(
            {"columns": balanced_sizes(shape.columns), "data_copies": (count,), "weights_copies": (count,)}
            for count in range(MOST_COPIES, 0, -1)
        ),
    )


def cost(config: Config, workload: Workload, values: Columns, fitted: Fitted) -> Account:
    """The cost model."""
    shape, columns = RollingShape.of(config, workload), values["columns"]
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
    compute = np.full(len(columns), shape.products)
    # Each piece of a row waits for a transfer to begin, unless another copy is being used meanwhile.
    waits = fills * np.where(data == 1, config.memory.read_latency + columns * shape.vectors, fitted.step)
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


def schedule(config: Config, workload: Workload, expression: Expression, values: Values) -> Schedule:
    """The tensor expression of `te.ops.patch_conv2d_pool`, scheduled: so many columns of a row gathered at a time."""
    s = Schedule(expression.program)
    post = expression.post
    tx, x = s.split("conv.x", values["columns"])
    s.reorder("conv.y", tx, x, "conv.o", "conv.kb", "conv.b", "conv.j", "conv.k")
    s.compute_at("patch", tx)
    s.cache_read("W", "og", "wgt")
    s.cache_read("P", "og", "par")
    s.tensorize("conv.b", intrinsics.gemm(config))
    s.tensorize(
        "window", intrinsics.post_rows(config, post, workload.pool_kernel), intrinsics.post_attributes(post)
    )
    for loop in ("og", tx):
        s.virtual_thread(loop)
    return s


def express(config: Config, workload: Workload, details: Details, common: dict[str, Any]) -> Program:
    """The tensor expression."""
    return patch_conv2d_pool(
        convolution=workload.convolution,
        pool=workload.pool,
        ring=RollingShape.of(config, workload).ring,
        pad_value=details.pad_value,
        **common,
    )


PATCH_CONV2D_POOL = VdlaTemplate(
    name="patch_conv2d_pool",
    space=space,
    schedule=schedule,
    cost=cost,
    express=express,
    # The ring of sums is its own copy.
    copies={"data_copies": "inp", "weights_copies": "wgt"},
    dense_weights=True,
)
