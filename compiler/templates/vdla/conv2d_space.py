"""All ways to cut a convolution on the accelerator: which of them fit, what they move, what a model may learn from."""

from __future__ import annotations

from functools import partial

import numpy as np
from vdla.isa.config import Config

from ..space import Account, Axis, Columns, Space, Values
from .array_account import array_account
from .conv2d import ConvolutionShape
from .image_account import extents_of, image_filling, least_data_beats, stored_beats
from .tile_account import Filling, Side, Tiles, most_instructions, transfers, unrolled_micro_ops
from .tile_space import one_point, tile_knobs, tile_space, up_to, window_axes
from .tiling import CHUNK, Knobs, divide


def space(config: Config, shape: ConvolutionShape) -> Space:
    """The space of `conv2d_vdla.schedule` for one shape; costs are cycles."""
    return tile_space(
        config,
        "conv2d",
        extents=extents_of(shape),
        chunks=(Axis(name="reduction_blocks", values=up_to(shape.input_blocks)), *window_axes(shape.kernel)),
        levels={"data": CHUNK, "weights": CHUNK},
        copies=("data", "weights", "sums"),
        account=partial(account, config, shape),
        floor=_floor(config, shape),
    )


def knobs(values: Values, shape: ConvolutionShape) -> Knobs:
    """The knobs of a point's values."""
    return tile_knobs(values, _tiles(shape, one_point(values)), shape.kernel)


def _tiles(shape: ConvolutionShape, values: Columns) -> Tiles:
    cuts = divide(shape.kernel[0], values["window_rows"]) * divide(shape.kernel[1], values["window_columns"])
    chunks = divide(shape.input_blocks, values["reduction_blocks"]) * cuts
    return Tiles.of(shape.images, extents_of(shape), values, chunks)


def _products(shape: ConvolutionShape) -> float:
    taps = shape.kernel[0] * shape.kernel[1]
    positions = shape.images * shape.out_height * shape.out_width
    return float(positions * shape.output_blocks * shape.input_blocks * taps)


def _most_instructions(config: Config, shape: ConvolutionShape) -> float:
    sums = shape.images * shape.output_blocks * shape.out_height * shape.out_width / config.acc_depth
    taps = shape.kernel[0] * shape.kernel[1]
    weights = shape.output_blocks * shape.input_blocks * taps / config.wgt_depth
    data = shape.images * shape.input_blocks * shape.height * shape.width / config.inp_depth
    return most_instructions(sums + weights + data, shape.images * shape.output_blocks)


def _floor(config: Config, shape: ConvolutionShape) -> float:
    """Cycles below which no program gets: one product a cycle, every byte at least once."""
    weights = shape.output_blocks * shape.input_blocks * shape.kernel[0] * shape.kernel[1] * config.wgt_bytes
    data = least_data_beats(config, shape, config.inp_bytes)
    return max(_products(shape), data + weights / config.memory.bus_bytes + stored_beats(config, shape))


def account(config: Config, shape: ConvolutionShape, values: Columns) -> Account:
    """The account of many points."""
    reduction, window = values["reduction_blocks"], (values["window_rows"], values["window_columns"])
    tiles = _tiles(shape, values)
    by_chunk = values["data_level"] == CHUNK
    data, data_loads = image_filling(
        config,
        shape,
        tiles,
        level=values["data_level"],
        copies=values["data_copies"],
        blocks=np.where(by_chunk, reduction, shape.input_blocks),
        window=(
            np.where(by_chunk, window[0], shape.kernel[0]),
            np.where(by_chunk, window[1], shape.kernel[1]),
        ),
        element=config.inp_bytes,
        alike=True,
    )
    weights, weights_loads = _weights(config, shape, values, tiles)
    whole = (reduction + shape.input_blocks % reduction) * np.prod(
        [w + k % w for k, w in zip(shape.kernel, window, strict=True)], axis=0
    )
    return array_account(
        config,
        shape,
        tiles,
        values,
        data=data,
        weights=weights,
        loads=(data_loads, weights_loads),
        overwriting=True,
        micro_ops=unrolled_micro_ops(tiles, whole),
        limits={
            "chunks that load something": by_chunk | (values["weights_level"] == CHUNK) | (tiles.chunks == 1)
        },
        most_instructions=_most_instructions(config, shape),
        compute=_products(shape),
    )


def _weights(
    config: Config, shape: ConvolutionShape, values: Columns, tiles: Tiles
) -> tuple[Filling, np.ndarray]:
    """The weights, and instructions that load them."""
    level = values["weights_level"]
    outside, by_chunk = tiles.outside(level), level == CHUNK
    taps = [
        np.where(by_chunk, values[name], k)
        for name, k in zip(("window_rows", "window_columns"), shape.kernel, strict=True)
    ]
    cuts = [divide(k, w) for k, w in zip(shape.kernel, taps, strict=True)]
    output, blocks = (
        tiles.held("o", outside),
        np.where(by_chunk, values["reduction_blocks"], shape.input_blocks),
    )
    box = (
        Side.of(output, shape.output_blocks, boxes=divide(shape.output_blocks, output)),
        Side.of(blocks, shape.input_blocks, boxes=divide(shape.input_blocks, blocks)),
        Side.of(taps[0], shape.kernel[0], boxes=cuts[0]),
        Side.of(taps[1], shape.kernel[1], boxes=cuts[1]),
    )
    again = tiles.turns("nyx", outside)
    fills = again * tiles.turns("o", outside) * np.where(by_chunk, tiles.chunks, 1)
    moved = 1.0 * shape.output_blocks * shape.input_blocks * shape.kernel[0] * shape.kernel[1] * again
    beats = moved * config.wgt_bytes / config.memory.bus_bytes
    filling = Filling(
        size=output * blocks * taps[0] * taps[1],
        fills=fills,
        beats=beats,
        copies=np.minimum(values["weights_copies"], fills),
        exposed=beats / fills,
    )
    return filling, fills * transfers(box)
