"""Depthwise convolution on the accelerator: one vector of channels an operation."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from vdla.isa.config import Config

from ...ir.stmt import Program
from ...schedule import Schedule
from ...target.vdla import intrinsics
from ...te.blocks import ceil_div
from ...te.ops import depthwise_conv2d
from ...te.ops.common import CHAIN
from ..space import Account, Columns, Space, Values
from .buffer_fill import ImageBuffer, image_fill, innermost, least_data_beats, resident
from .estimate import FITTED, ArrayLayer, BufferFill, Fitted, array_cost, store_reads
from .template import Details, Expression, VdlaTemplate
from .tile_space import cut_tiles, one_point, tile_knobs, tile_space, window_axes
from .tiles import CHUNK, INNERMOST, Tiles, divide, unrolled_micro_ops
from .workload import LayerShape, Workload


def space(config: Config, workload: Workload) -> Space:
    """All ways to cut a depthwise convolution."""
    shape = LayerShape.of(config, workload)
    data = 0.0 if workload.resident else least_data_beats(config, shape, config.inp_bytes)
    return tile_space(
        config,
        "depthwise_conv2d",
        shape,
        chunks=window_axes(shape.kernel),
        levels={"data": innermost(workload), "weights": INNERMOST},
        copies=("data", "weights", "sums"),
        cost=partial(cost, config, workload, fitted=FITTED),
        floor=max(_busiest(config, shape), data + _weight_beats(config, shape) + shape.stored_beats(config)),
    )


def _tiles(shape: LayerShape, values: Columns) -> Tiles:
    cuts = divide(shape.kernel[0], values["window_rows"]) * divide(shape.kernel[1], values["window_columns"])
    return Tiles.of(shape, values, cuts)


def _weight_tiles(config: Config, shape: LayerShape) -> int:
    """Tiles that hold the kernels of one block of channels, a position a row."""
    return ceil_div(shape.taps, config.block_out)


def _busiest(config: Config, shape: LayerShape) -> float:
    """Cycles that the array, or the unit that stores, cannot do without: one position of one block a cycle."""
    vectors = np.array(shape.outputs)
    return float(max(vectors * shape.taps, store_reads(config, vectors)))


def _weight_beats(config: Config, shape: LayerShape) -> float:
    tiles = shape.output_blocks * _weight_tiles(config, shape)
    return tiles * config.wgt_bytes / config.memory.bus_bytes


def cost(config: Config, workload: Workload, values: Columns, fitted: Fitted) -> Account:
    """The cost model."""
    shape = LayerShape.of(config, workload)
    tiles, weight_tiles = _tiles(shape, values), _weight_tiles(config, shape)
    by_chunk = values["data_level"] == CHUNK
    image = ImageBuffer(
        level=values["data_level"],
        copies=values["data_copies"],
        blocks=tiles.held("o", tiles.outside(values["data_level"])),
        window=(
            np.where(by_chunk, values["window_rows"], shape.kernel[0]),
            np.where(by_chunk, values["window_columns"], shape.kernel[1]),
        ),
        element=config.inp_bytes,
        alike=False,
    )
    inputs = shape.images * shape.input_blocks * shape.height * shape.width * (not workload.resident)
    rows = tiles.sizes["o"] * weight_tiles * config.block_out
    layer = ArrayLayer(
        shape=shape,
        tiles=tiles,
        data=resident(tiles) if workload.resident else image_fill(config, shape, tiles, image),
        weights=_weights(config, shape, values, tiles),
        compute=_busiest(config, shape),
        # Parts of a window have sequences of their own: rows of weight tiles are not relocated.
        micro_ops=unrolled_micro_ops(tiles, shape.taps),
        least_fills=inputs / config.inp_depth + shape.output_blocks * weight_tiles / config.wgt_depth,
        limits={
            # Weight rows are addressed by the micro-op's weight index, relative to a tile.
            "the row index of a micro-op": rows <= config.wgt_depth,
            "chunks that load something": by_chunk | (tiles.chunks == 1),
        },
        innermost=innermost(workload),
    )
    return array_cost(config, layer, values, fitted)


def _weights(config: Config, shape: LayerShape, values: Columns, tiles: Tiles) -> BufferFill:
    outside = tiles.outside(values["weights_level"])
    fills = tiles.repetitions("nyxo", outside)
    beats = _weight_beats(config, shape) * tiles.repetitions("nyx", outside)
    return BufferFill(
        size=tiles.held("o", outside) * _weight_tiles(config, shape),
        fills=fills,
        beats=beats,
        copies=np.minimum(values["weights_copies"], fills),
        exposed=beats / fills,
        loads=fills,
    )


def schedule(config: Config, workload: Workload, expression: Expression, values: Values) -> Schedule:
    """The tensor expression of `te.ops.depthwise_conv2d`, scheduled."""
    shape = LayerShape.of(config, workload)
    knobs = tile_knobs(values, _tiles(shape, one_point(values)), shape.kernel)
    s = Schedule(expression.program)
    tiles = cut_tiles(s, knobs, ("b", "j"))
    s.compute_at("conv", tiles.innermost)
    s.set_scope("acc", "acc")
    chunk: tuple[str, ...] = ()
    kh, kw = "conv.kh", "conv.kw"
    if knobs.window is not None:
        khc, kh = s.split(kh, knobs.window[0])
        kwc, kw = s.split(kw, knobs.window[1])
        chunk = (khc, kwc)
    s.reorder(*chunk, "conv.n", "conv.y", "conv.x", "conv.o", kh, kw, "conv.b", "conv.j")
    if not workload.resident:
        s.compute_at("pad", tiles.at(knobs.data_level, chunk[-1] if chunk else None))
        s.set_scope("padded", "inp")
    s.cache_read("W", tiles.at(knobs.weights_level), "wgt")
    s.cache_read("P", tiles.parameters(shape.output_blocks, config.par_depth), "par")
    s.tensorize("conv.b", intrinsics.depthwise(config, CHAIN if workload.resident else "inp"))
    finish = intrinsics.post(config, expression.post, chained=workload.margins is not None)
    s.tensorize("b", finish, intrinsics.post_attributes(expression.post))
    for loop in (*tiles.names, *chunk):
        s.virtual_thread(loop)
    return s


def express(_: Config, workload: Workload, details: Details, common: dict[str, Any]) -> Program:
    """The tensor expression."""
    return depthwise_conv2d(
        convolution=replace(workload.convolution, groups=workload.channels),
        pad_value=details.pad_value,
        area=details.area,
        resident=workload.resident,
        margins=workload.margins,
        **common,
    )


DEPTHWISE_CONV2D = VdlaTemplate(
    name="depthwise_conv2d",
    space=space,
    schedule=schedule,
    cost=cost,
    express=express,
    copies={"data_copies": "inp", "weights_copies": "wgt", "sums_copies": "acc"},
    plain_constants=True,
)
