"""Template of convolutions on the accelerator: tiles of output blocks, rows and columns; chunks of the reduction."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from vdla.isa.config import Config

from ...codegen.vdla import intrinsics
from ...ir.stmt import Program
from ...schedule import Schedule
from ...te.ops.conv2d import Factors, conv2d
from ..columns import Columns, Values, one_point
from ..space import Axis
from .array_template import (
    Frame,
    array_template,
    image_inputs,
    inputs_scope,
    weight_beats,
    window_fill,
    window_tiles,
)
from .buffer_fill import Side, innermost, transfers
from .estimate import ArrayLayer, ArrayPoints, BufferFill, transfer_cycles
from .folded_work import parts_of_tiles
from .template import Details, Expression
from .tile_space import up_to, window_axes
from .tiles import CHUNK, Tiles, divide, unrolled_micro_ops
from .workload import LayerShape, Workload, vector_loops


def layer(config: Config, workload: Workload) -> ArrayLayer:
    """How a machine computes a convolution: its knobs, bounds and work. ValueError if the window does not fit."""
    shape, last = LayerShape.of(config, workload), workload.last_vectors
    rows, columns = window_axes(shape.kernel)
    if last is not None:
        columns = Axis(name=columns.name, values=columns.values[-1:])
    inputs, data_beats = image_inputs(config, workload, shape)
    return ArrayLayer(
        shape=shape,
        chunks=(Axis(name="reduction_blocks", values=up_to(shape.input_blocks)), rows, columns),
        levels=(innermost(workload), CHUNK),
        # At least one product a cycle: a folding machine may take one part of a weight tile.
        products=_whole_products(workload, shape),
        inputs=inputs,
        data_beats=data_beats,
        weight_tiles=_weight_tiles(shape),
        points=partial(_points, config, workload, shape),
    )


def _tiles(shape: LayerShape, values: Columns) -> Tiles:
    return window_tiles(shape, values, divide(shape.input_blocks, values["reduction_blocks"]))


def _weight_tiles(shape: LayerShape) -> int:
    return shape.output_blocks * shape.vectors * shape.input_blocks * shape.taps


def _whole_products(workload: Workload, shape: LayerShape) -> float:
    """Number of products (input vector x weight tile) in the layer; a product in several operations counts once."""
    last = workload.last_vectors
    missing = 0 if last is None else shape.taps - last
    return float(shape.outputs * (shape.input_blocks * shape.taps - missing))


def _products(config: Config, workload: Workload, shape: LayerShape) -> float:
    """Number of array operations of the layer: products of an input vector and a weight tile, times the average number
    of operations for a tile (above 1 if the array is narrower than a tile, extension `fold`).
    """
    return _whole_products(workload, shape) * _parts(config, workload)[0]


def _parts(config: Config, workload: Workload) -> tuple[float, int]:
    """Average and largest number of array operations for the product of a vector and a weight tile. Both are above 1
    only if the array has fewer columns than a tile, so that each operation multiplies a part of the tile. Parts without
    weights take no operation, unless the weights are activations.
    """
    if workload.own_weights or config.tile_parts == 1:
        return float(config.tile_parts), config.tile_parts
    return parts_of_tiles(config, workload.channels, workload.filters)


def _points(config: Config, workload: Workload, shape: LayerShape, values: Columns) -> ArrayPoints:
    tiles = _tiles(shape, values)
    reduction, window = values["reduction_blocks"], (values["window_rows"], values["window_columns"])
    by_chunk = values["data_level"] == CHUNK
    blocks = np.where(by_chunk, reduction, shape.input_blocks)
    whole = reduction + shape.input_blocks % reduction
    for size, part in zip(shape.kernel, window, strict=True):
        whole = whole * (part + size % part)
    return ArrayPoints(
        tiles=tiles,
        data=window_fill(config, workload, shape, values, tiles, blocks=blocks, reads_all_blocks=True),
        weights=_weights_in_series(config, workload, values)
        if workload.own_weights
        else _weights(config, shape, values, tiles),
        compute=_products(config, workload, shape),
        micro_ops=unrolled_micro_ops(tiles, whole * _parts(config, workload)[1]),
        limits={
            "chunks that load something": by_chunk | (values["weights_level"] == CHUNK) | (tiles.chunks == 1),
            "the parameters of columns": (tiles.sizes["x"] <= config.par_depth) | (not workload.turned),
        },
    )


def _weights_in_series(config: Config, workload: Workload, values: Columns) -> BufferFill:
    """Fills of the weight scratchpad if each image has its own weights. Weights of two images are held if both fit."""
    shape = LayerShape.of(config, replace(workload, batch=config.batch))
    one, images = _weights(config, shape, values, _tiles(shape, values)), workload.batch // config.batch
    return replace(
        one,
        fills=one.fills * images,
        beats=one.beats * images,
        loads=one.loads * images,
        copies=np.where(2 * one.size * one.copies <= config.whole_tiles, 2 * one.copies, one.copies),
    )


def _weights(config: Config, shape: LayerShape, values: Columns, tiles: Tiles) -> BufferFill:
    level = values["weights_level"]
    outside, by_chunk = tiles.outside(level), level == CHUNK
    taps = [
        np.where(by_chunk, values[name], k)
        for name, k in zip(("window_rows", "window_columns"), shape.kernel, strict=True)
    ]
    cuts = [divide(k, w) for k, w in zip(shape.kernel, taps, strict=True)]
    output = tiles.held("o", outside)
    vectors, filters = shape.vectors, shape.vectors * shape.output_blocks
    blocks = np.where(by_chunk, values["reduction_blocks"], shape.input_blocks)
    box = (
        Side.of(vectors * output, filters, boxes=divide(shape.output_blocks, output)),
        Side.of(blocks, shape.input_blocks, boxes=divide(shape.input_blocks, blocks)),
        Side.of(taps[0], shape.kernel[0], boxes=cuts[0]),
        Side.of(taps[1], shape.kernel[1], boxes=cuts[1]),
    )
    again = tiles.repetitions("nyx", outside)
    fills = again * tiles.repetitions("o", outside) * np.where(by_chunk, tiles.chunks, 1)
    beats = weight_beats(config, _weight_tiles(shape) * again)
    # All weights of a filter are contiguous in DRAM. Of a part of them, each block or each row of the kernel
    # is.
    apart = np.where(
        taps[1] == shape.kernel[1], np.where(taps[0] == shape.kernel[0], 1, blocks), blocks * taps[0]
    )
    whole = blocks * taps[0] * taps[1] == shape.input_blocks * shape.taps
    runs = np.where(whole, 1, vectors * output * apart)
    return BufferFill(
        size=shape.vectors * output * blocks * taps[0] * taps[1],
        fills=fills,
        beats=beats,
        copies=np.minimum(values["weights_copies"], fills),
        exposed=transfer_cycles(config, beats / fills, runs),
        loads=fills * transfers(box),
    )


def schedule(config: Config, workload: Workload, expression: Expression, values: Values) -> Schedule:
    """Schedules the tensor expression of `te.ops.conv2d` with the knob values of a point."""
    shape = LayerShape.of(config, workload)
    frame = Frame.of(expression, values, _tiles(shape, one_point(values)), vector_loops(shape))
    s, tiles = frame.schedule, frame.tiles
    icc, ic = s.split("conv.ic", values["reduction_blocks"])
    chunk, kh, kw = (icc,), "conv.kh", "conv.kw"
    if (window := (values["window_rows"], values["window_columns"])) != shape.kernel:
        khc, kh = s.split(kh, window[0])
        kwc, kw = s.split(kw, window[1])
        chunk = (icc, khc, kwc)
    spatial = ("conv.n", "conv.y", "conv.x", "conv.o")
    # If the number of columns depends on the input block, the loop over blocks is outside of the intrinsic.
    nest = (*spatial, ic, kh, kw) if workload.last_vectors is None else (ic, *spatial, kh, kw)
    s.reorder(*chunk, *nest, "conv.b", "conv.j", "conv.k")
    frame = replace(frame, chunk=chunk)
    frame.pad(workload)
    of_filters = tiles.parameters(shape.vectors * shape.output_blocks, config.par_depth)
    frame.weights(tiles.columns if workload.turned else of_filters, chunk[-1])
    zeros = expression.zero_points
    multiply = intrinsics.gemm(config, inputs_scope(workload), zeros)
    s.tensorize("conv.b", multiply, intrinsics.gemm_attributes(zeros))
    return frame.finish(config, expression, chained=workload.margins is not None)


def express(_: Config, workload: Workload, details: Details, common: dict[str, Any]) -> Program:
    """Builds the tensor expression of `te.ops.conv2d` for a workload; `common`: its arguments blocks, post, name."""
    return conv2d(
        convolution=workload.convolution,
        pad_value=details.pad_value,
        placement=details.placement(workload),
        factors=Factors(
            tiles=details.tiles, zero_points=details.zero_points, last_columns=workload.last_vectors
        ),
        **common,
    )


CONV2D = array_template("conv2d", layer, schedule, express, dense_weights=True)
