"""Templates of pools and element-wise operators on the accelerator: inputs are widened into the accumulators, and the
store unit computes the results.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from vdla.isa.config import Config
from vdla.isa.registers import register

from ...codegen.vdla import intrinsics
from ...ir.stmt import Program
from ...schedule import Schedule
from ...te.ops.pointwise import reduced_windows
from ...te.post import PoolOperator
from ..columns import Columns, Deferred, Values, one_point
from ..space import CostEstimates, Space
from .buffer_fill import ImageBuffer, image_fill, least_data_beats
from .estimate import FITTED, LOAD_LATENCY, Fitted, TiledWork, fits, store_cycles, store_latency, store_reads
from .template import Details, Expression, VdlaTemplate
from .tile_space import canonical, cut_tiles, tile_space
from .tiles import ALWAYS, INNERMOST, Tiles, most_instructions
from .workload import LayerShape, Workload

MOST_WINDOW = 1 << min(item.width for item in register("WINDOW").fields if item.name.endswith("_minus_1"))
"""Largest number of rows or columns of a pool's window that the fields of register WINDOW can hold."""


def space(config: Config, workload: Workload) -> Space:
    """The knob space of a pool or an element-wise operator."""
    shape = LayerShape.of(config, workload)
    traffic = shape.bus_cycles(config, least_data_beats(config, shape, config.out_bytes))
    return tile_space(
        config,
        workload.template,
        shape,
        levels={"data": INNERMOST},
        copies=("data",),
        cost=partial(cost, config, workload, fitted=FITTED),
        floor=max(_busiest(config, shape), traffic),
    )


def _busiest(config: Config, shape: LayerShape) -> float:
    """Lower bound on the cycles of a pool: the cycles in which the store unit reads all windows."""
    return float(store_reads(config, np.array(shape.outputs), shape.taps))


def cost(config: Config, workload: Workload, values: Columns, fitted: Fitted) -> CostEstimates:
    """The cost model of pools and element-wise operators: legality limits, lower bounds, features and estimated cycles
    at many points.
    """
    shape = LayerShape.of(config, workload)
    tiles = Tiles.of(shape, values)
    ones = np.ones_like(tiles.order)
    image = ImageBuffer(
        level=values["data_level"],
        copies=values["data_copies"],
        blocks=tiles.held("o", tiles.outside(values["data_level"])),
        window=(ones * shape.kernel[0], ones * shape.kernel[1]),
        element=config.out_bytes,
        reads_all_blocks=False,
    )
    data = image_fill(config, shape, tiles, image)
    sums = tiles.sums
    stores = tiles.stores(windows=shape.taps > 1)
    work = TiledWork(
        tiles=tiles,
        buffers={"data": data},
        compute=_busiest(config, shape),
        traffic=shape.bus_cycles(config, data.beats),
        # One load ends before the next begins.
        loading=data.loading + data.loads * (config.memory.read_latency + LOAD_LATENCY),
        storing=store_cycles(
            config, tiles, stores, tiles.count * store_reads(config, sums * shape.taps), shape
        ),
        store_latency=store_latency(config, shape),
        sums_copies=data.copies,
        instructions=ALWAYS + stores + data.loads + tiles.parameter_fills(config.par_depth),
        last_beats=sums * max(1.0, config.out_bytes / config.memory.bus_bytes),
    )
    inputs = shape.images * shape.input_blocks * shape.height * shape.width
    most = most_instructions(inputs / config.acc_depth, shape.images * shape.output_blocks)

    def effective() -> Columns:
        level = tiles.effective(values["data_level"], values["data_level"])["data_level"]
        return {
            **values,
            "order": tiles.order,
            "data_level": np.maximum(level, INNERMOST),
            "data_copies": data.copies,
        }

    return CostEstimates(
        limits={
            "the windows of the store unit": ones * max(shape.kernel) <= MOST_WINDOW,
            "the accumulators": fits(config, "acc", data.size, data.copies),
            "the parameter table": tiles.sizes["o"] <= config.par_depth,
        },
        search_limits={"the length of a program": work.instructions <= most},
        bound=np.maximum(work.compute, work.traffic),
        quantities=work.quantities(config, fitted),
        effective=Deferred(effective),
    )


def schedule(config: Config, workload: Workload, expression: Expression, values: Values) -> Schedule:
    """Schedules the tensor expression of `te.ops.pointwise` with the knob values of a point."""
    shape, post = LayerShape.of(config, workload), expression.post
    values = canonical(values, Tiles.of(shape, one_point(values)))
    pool = _operator(workload)
    single = workload.kernel == (1, 1)
    s = Schedule(expression.program)
    tiles = cut_tiles(s, values, ("b", "j") if single else ())
    s.compute_at("pad", tiles.at(values["data_level"]))
    s.set_scope("acc", "acc")
    s.cache_read("P", tiles.parameters(shape.output_blocks, config.par_depth), "par")
    s.tensorize(
        "b" if single else "window",
        intrinsics.post(config, post, workload.kernel, pool),
        intrinsics.post_attributes(post, pool),
    )
    for loop in tiles.names:
        s.virtual_thread(loop)
    return s


def _express(_: Config, workload: Workload, details: Details, common: dict[str, Any]) -> Program:
    """Builds the tensor expression of `te.ops.pointwise` for a workload. Pads never win in a max-pool. `common`: the
    expression's arguments `blocks`, `post` and `name`.
    """
    strides = workload.strides if details.taken is None else details.taken
    return reduced_windows(
        sizes=workload.sizes,
        window=replace(workload.window, strides=strides),
        pool=_operator(workload),
        pad_value=-128 if workload.template == MAX_POOL.name else details.pad_value,
        placement=details.placement(workload),
        **common,
    )


def _operator(workload: Workload) -> PoolOperator:
    return "add" if workload.template == AVERAGE_POOL.name else "max"


# Only the inputs occupy accumulators.
_COMMON = {
    "space": space,
    "schedule": schedule,
    "cost": cost,
    "express": _express,
    "copies": {"data_copies": "acc"},
}
MAX_POOL = VdlaTemplate(name="max_pool", **_COMMON)
AVERAGE_POOL = VdlaTemplate(name="average_pool", **_COMMON)
ELEMENTWISE = VdlaTemplate(name="elementwise", **_COMMON)
