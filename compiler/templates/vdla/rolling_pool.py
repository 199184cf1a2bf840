"""Template of a network's first convolution with its max-pool on the accelerator: rows of the pool are computed one
after the other. A ring buffer in the accumulators holds the rows of convolution outputs (sums) that a row of the pool
needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from vdla.isa.config import Config
from vdla.isa.timing import bus_cycles

from ...codegen.vdla import intrinsics
from ...ir.stmt import Program
from ...schedule import Schedule
from ...te.blocks import Blocks, Window, ceil_div
from ...te.ops.patch_layout import PatchLayout
from ...te.ops.patches import Patches
from ...te.ops.rolling_pool import Ring, patch_conv2d_pool, rings_of
from ..columns import ESTIMATE, Columns, Values
from ..space import Axis, CostEstimates, EmptySpaceError, Space
from .estimate import FITTED, Fitted, fits, together
from .folded_work import patch_weights
from .patch_layouts import loading_steps, rolling_layout
from .template import Details, Expression, VdlaTemplate
from .tile_space import CAPACITIES, MOST_COPIES, SLACK, balanced_sizes, copies_axis, up_to
from .tiles import divide
from .workload import LayerShape, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingShape:
    """Sizes of a convolution with its max-pool, and of its buffers. The convolution computes `rows` x `columns` vectors
    of sums for each of `images` blocks of images and each of `filters` vectors of filters. These vectors of filters
    form `groups` groups. The pool reduces the `rows` rows of sums to `pooled` rows. `width`: columns of the
    convolution's output.

    A sum has `vectors` products, each of which needs `parts` array operations on average. `ring` describes the ring
    buffer in which rows of sums wait for the pool. Patches (image parts that the load unit gathers) follow `layout`, in
    a ring buffer of `patch_rows` rows (None: no ring). `output_vectors`: vectors of the pool's output for an image.
    `image_bytes`: size of the input. `steps`: cycles of the load unit to gather all patches. `store`: accumulator reads
    for a row of the pool, in one group.
    """

    images: int
    groups: int
    filters: int
    rows: int
    columns: int
    width: int
    pooled: int
    vectors: int
    output_vectors: int
    image_bytes: int
    ring: Ring
    layout: PatchLayout
    patch_rows: int | None
    steps: float
    parts: float
    store: int

    @staticmethod
    @lru_cache(maxsize=256)
    def of(config: Config, workload: Workload) -> RollingShape:
        """The sizes of a workload on one machine, with the ring buffer of convolution outputs that has the fewest
        estimated cycles.

        Raises EmptySpaceError if no ring buffer fits the accumulators.
        """
        shapes = [_with_ring(config, workload, ring) for ring in _rings(config, workload)]
        if not shapes:
            raise EmptySpaceError(workload.template, "the accumulators")
        return min(shapes, key=lambda shape: shape.cycles(workload.pool))

    @property
    def products(self) -> float:
        """Cycles of the multiplier array, which executes one operation a cycle."""
        return 1.0 * self.images * self.filters * self.rows * self.columns * self.vectors * self.parts

    def cycles(self, pool: Window) -> float:
        """Estimated cycles with loads, products and pooling running concurrently.

        While the store unit reads a row of the pool, array and load unit can run ahead only by the rows that the ring
        buffer has in addition to the rows of a pool window.
        """
        rolled = self.images * self.groups * self.pooled
        row = together(FITTED.sharpness, self.products, self.steps) / rolled / pool.strides[0]
        waiting = max(0, pool.strides[0] - (self.ring.rows - pool.kernel[0]))
        return float(rolled * max(pool.strides[0] * row, self.store + waiting * row))


def _with_ring(config: Config, workload: Workload, ring: Ring) -> RollingShape:
    rows, width = workload.window.outputs(workload.height, workload.width)
    pooled, wide = workload.pool.outputs(rows, width)
    filters = _filter_blocks(config, workload)
    groups = ceil_div(filters, ring.filters)
    # No window of the pool reads further columns.
    columns = min(width, ring.width - workload.pool.pads[1])
    layout, patch_rows = rolling_layout(config, workload, columns, ring.filters)
    return RollingShape(
        images=ceil_div(workload.batch, config.batch),
        groups=groups,
        filters=filters,
        rows=rows,
        columns=columns,
        width=width,
        pooled=pooled,
        vectors=layout.products,
        output_vectors=filters * pooled * wide,
        image_bytes=workload.batch * workload.channels * workload.height * workload.width,
        ring=ring,
        layout=layout,
        patch_rows=patch_rows,
        steps=groups * loading_steps(workload, LayerShape.of(config, workload), layout),
        parts=_parts(config, workload, layout),
        store=ring.filters * wide * workload.pool.kernel[0] * workload.pool.kernel[1],
    )


def _parts(config: Config, workload: Workload, layout: PatchLayout) -> float:
    """Average number of array operations per weight tile. It can be above 1 if the array multiplies a tile in several
    parts.
    """
    weights = patch_weights(config, workload, layout)
    return 1.0 if weights is None else int(weights.used.sum()) * config.tile_parts / weights.used.size


def _filter_blocks(config: Config, workload: Workload) -> int:
    """Number of output vectors of a position when its filters are rounded up to whole blocks."""
    blocks = Blocks.of(config)
    return ceil_div(workload.filters, blocks.block) * blocks.outputs


def _rings(config: Config, workload: Workload) -> tuple[Ring, ...]:
    return rings_of(
        workload.pool,
        workload.window.outputs(workload.height, workload.width),
        filter_blocks=_filter_blocks(config, workload),
        together=Blocks.of(config).outputs,
        most_filters=config.par_depth,
        acc_depth=config.acc_depth,
    )


def space(config: Config, workload: Workload) -> Space:
    """The knob space. The knobs are the number of patch columns that are gathered at a time, and the numbers of copies
    of the buffers for data and for weights.

    Raises EmptySpaceError if no ring of rows fits the accumulators.
    """
    shape = RollingShape.of(config, workload)
    # A ring of patches holds whole rows and has no further copies.
    rolling = shape.patch_rows is not None
    axes = (
        Axis(name="columns", values=(shape.columns,) if rolling else up_to(shape.columns)),
        Axis(name="data_copies", values=(1,)) if rolling else copies_axis("data"),
        copies_axis("weights"),
    )
    weights = shape.filters * shape.layout.columns * shape.vectors * config.whole_tile_bytes
    stored = shape.images * shape.output_vectors * config.out_bytes
    moved = bus_cycles(config, shape.image_bytes + weights, stored)
    return Space(
        template="patch_conv2d_pool",
        axes=axes,
        cost=partial(cost, config, workload, fitted=FITTED),
        floor=max(shape.products, moved / config.memory.bus_bytes),
        slack=SLACK,
        capacities=CAPACITIES,
        candidates=tuple(
            {
                "columns": (shape.columns,) if rolling else balanced_sizes(shape.columns),
                "data_copies": (1 if rolling else count,),
                "weights_copies": (count,),
            }
            for count in range(MOST_COPIES, 0, -1)
        ),
    )


def cost(config: Config, workload: Workload, values: Columns, fitted: Fitted) -> CostEstimates:
    """The cost model of a convolution with its max-pool: legality limits, lower bounds, features and estimated cycles
    at many points.
    """
    shape, columns = RollingShape.of(config, workload), values["columns"]
    pieces = divide(shape.columns, columns)
    fills = shape.groups * shape.images * shape.pooled * pieces
    data = np.minimum(values["data_copies"], fills)
    weights = np.minimum(values["weights_copies"], shape.groups)
    rows = -(-shape.rows // shape.pooled)
    held = columns * rows * shape.vectors
    compute = np.full(len(columns), shape.products)
    # With one copy each piece of a row waits for its transfer; with several, transfers overlap.
    waits = fills * np.where(data == 1, config.memory.read_latency + columns * shape.vectors, fitted.step)
    busy = compute
    if shape.patch_rows is not None:
        row = shape.layout.patch_columns(shape.width) * shape.layout.vectors
        held = np.full_like(columns, shape.patch_rows * row)
        waits = np.full(len(columns), fitted.step * shape.groups * shape.images * shape.rows)
        busy = np.full(len(columns), shape.cycles(workload.pool))
    limits = {
        "the input scratchpad": fits(config, "inp", held, data),
        "the weight scratchpad": fits(
            config,
            "wgt",
            np.full_like(columns, shape.ring.filters * shape.layout.columns * shape.vectors),
            weights,
        ),
    }
    quantities = {
        "pieces": pieces,
        "patches of a filling": columns,
        "fillings": fills,
        "data copies in use": data,
        "weights copies in use": weights,
        "compute between fillings": compute / fills,
        ESTIMATE: busy + waits,
    }
    return CostEstimates(
        limits=limits,
        bound=compute,
        quantities={name: np.asarray(item, dtype=np.float64) for name, item in quantities.items()},
        effective={**values, "data_copies": data, "weights_copies": weights},
    )


def schedule(config: Config, workload: Workload, expression: Expression, values: Values) -> Schedule:
    """Schedules the tensor expression of `te.ops.rolling_pool.patch_conv2d_pool`; patches of `values["columns"]`
    columns are gathered at a time.
    """
    s = Schedule(expression.program)
    post = expression.post
    threads, shape = ["og"], RollingShape.of(config, workload)
    several = ("conv.t",) if shape.layout.count > 1 else ()
    sharing = ("conv.xi",) if shape.layout.columns > 1 else ()
    lanes = ("conv.kb", "conv.b", "conv.j", "conv.k")
    if shape.patch_rows is None:
        tx, x = s.split("conv.x", values["columns"])
        s.reorder("conv.y", tx, x, "conv.o", *lanes)
        s.compute_at("patch", tx)
        threads.append(tx)
    else:
        s.reorder(*several, "conv.x", *sharing, "conv.o", *lanes)
    s.cache_read("W", "og", "wgt")
    s.cache_read("P", "og", "par")
    s.tensorize("conv.b", intrinsics.gemm(config))
    s.tensorize(
        "window",
        intrinsics.post(config, post, workload.pool_kernel, ring=True),
        intrinsics.post_attributes(post),
    )
    for loop in threads:
        s.virtual_thread(loop)
    return s


def express(config: Config, workload: Workload, details: Details, common: dict[str, Any]) -> Program:
    """Builds the tensor expression of `te.ops.rolling_pool.patch_conv2d_pool` for a workload. `common`: its arguments
    `blocks`, `post` and `name`.
    """
    shape = RollingShape.of(config, workload)
    patches = Patches.of(
        common["blocks"], workload.convolution, details.pad_value, shape.layout, shape.patch_rows
    )
    return patch_conv2d_pool(
        patches=patches,
        pool=workload.pool,
        ring=shape.ring,
        post=common["post"],
        name=common["name"],
    )


PATCH_CONV2D_POOL = VdlaTemplate(
    name="patch_conv2d_pool",
    space=space,
    schedule=schedule,
    cost=cost,
    express=express,
    # The ring of sums has no further copies.
    copies={"data_copies": "inp", "weights_copies": "wgt"},
    dense_weights=True,
)
