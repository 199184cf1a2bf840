"""All ways to cut a depthwise convolution on the accelerator."""

from __future__ import annotations

from functools import partial

import numpy as np
from vdla.isa.config import Config

from ..space import Account, Columns, Space, Values
from .array_account import array_account
from .conv2d import ConvolutionShape
from .image_account import extents_of, image_filling, least_data_beats, outputs_of, stored_beats
from .tile_account import Filling, Tiles, most_instructions, unrolled_micro_ops
from .tile_space import one_point, tile_knobs, tile_space, window_axes
from .tiling import CHUNK, INNERMOST, Knobs, divide, store_reads


def space(config: Config, shape: ConvolutionShape) -> Space:
    """The space of `depthwise_vdla.schedule` for one shape; costs are cycles."""
    return tile_space(
        config,
        "depthwise_conv2d",
        extents=extents_of(shape),
        chunks=window_axes(shape.kernel),
        levels={"data": CHUNK, "weights": INNERMOST},
        copies=("data", "weights", "sums"),
        account=partial(account, config, shape),
        floor=_floor(config, shape),
    )


def knobs(values: Values, shape: ConvolutionShape) -> Knobs:
    """The knobs of a point's values."""
    return tile_knobs(values, _tiles(shape, one_point(values)), shape.kernel)


def _tiles(shape: ConvolutionShape, values: Columns) -> Tiles:
    cuts = divide(shape.kernel[0], values["window_rows"]) * divide(shape.kernel[1], values["window_columns"])
    return Tiles.of(shape.images, extents_of(shape), values, cuts)


def _weight_tiles(config: Config, shape: ConvolutionShape) -> int:
    """Tiles that hold the kernels of one block of channels, a position a row."""
    return -(-shape.kernel[0] * shape.kernel[1] // config.block_out)


def _busiest(config: Config, shape: ConvolutionShape) -> float:
    """Cycles that the array, or the unit that stores, cannot do without: one position of one block a cycle."""
    vectors = np.array(outputs_of(shape))
    return float(max(vectors * shape.kernel[0] * shape.kernel[1], store_reads(config, vectors)))


def _weight_beats(config: Config, shape: ConvolutionShape) -> float:
    tiles = shape.output_blocks * _weight_tiles(config, shape)
    return tiles * config.wgt_bytes / config.memory.bus_bytes


def _floor(config: Config, shape: ConvolutionShape) -> float:
    data = least_data_beats(config, shape, config.inp_bytes)
    moved = data + _weight_beats(config, shape) + stored_beats(config, shape)
    return max(_busiest(config, shape), moved)


def _most_instructions(config: Config, shape: ConvolutionShape) -> float:
    data = shape.images * shape.input_blocks * shape.height * shape.width / config.inp_depth
    weights = shape.output_blocks * _weight_tiles(config, shape) / config.wgt_depth
    fillings = data + weights + outputs_of(shape) / config.acc_depth
    return most_instructions(fillings, shape.images * shape.output_blocks)


def account(config: Config, shape: ConvolutionShape, values: Columns) -> Account:
    """The account of many points."""
    window = [values["window_rows"], values["window_columns"]]
    tiles = _tiles(shape, values)
    by_chunk = values["data_level"] == CHUNK
    data, data_loads = image_filling(
        config,
        shape,
        tiles,
        level=values["data_level"],
        copies=values["data_copies"],
        blocks=tiles.held("o", tiles.outside(values["data_level"])),
        window=(
            np.where(by_chunk, window[0], shape.kernel[0]),
            np.where(by_chunk, window[1], shape.kernel[1]),
        ),
        element=config.inp_bytes,
        alike=False,
    )
    outside = tiles.outside(values["weights_level"])
    weight_tiles = _weight_tiles(config, shape)
    fills = tiles.turns("nyxo", outside)
    beats = _weight_beats(config, shape) * tiles.turns("nyx", outside)
    weights = Filling(
        size=tiles.held("o", outside) * weight_tiles,
        fills=fills,
        beats=beats,
        copies=np.minimum(values["weights_copies"], fills),
        exposed=beats / fills,
    )
    rows = tiles.sizes["o"] * weight_tiles * config.block_out
    return array_account(
        config,
        shape,
        tiles,
        values,
        data=data,
        weights=weights,
        loads=(data_loads, fills),
        overwriting=True,
        # Parts of a window have sequences of their own: rows of weight tiles are not relocated.
        micro_ops=unrolled_micro_ops(tiles, shape.kernel[0] * shape.kernel[1]),
        limits={
            # Weight rows are addressed by the micro-op's weight index, relative to a tile.
            "the row index of a micro-op": rows <= config.wgt_depth,
            "chunks that load something": by_chunk | (tiles.chunks == 1),
        },
        most_instructions=_most_instructions(config, shape),
        compute=_busiest(config, shape),
    )
