"""All ways to cut a depthwise convolution on the accelerator."""

from __future__ import annotations

from functools import partial

import numpy as np
from vdla.isa.config import Config

from .conv2d_vdla import ConvolutionShape
from .image_account import (
    extents_of,
    image_filling,
    least_data_beats,
    outputs_of,
    stored_beats,
    stores,
)
from .space import Account, Axis, Columns, Space, Values
from .tile_account import (
    ALWAYS,
    SLACK,
    Filling,
    Tiles,
    copies_axis,
    level_axis,
    most_instructions,
    one_point,
    order_axis,
    products,
    tile_axes,
    tile_knobs,
    unrolled_micro_ops,
)
from .tile_quantities import storing, tile_quantities
from .tiling import CHUNK, INNERMOST, Copies, Knobs, balanced_sizes, divide, fits, store_reads


def space(config: Config, shape: ConvolutionShape) -> Space:
    """The space of `depthwise_vdla.schedule` for one shape; costs are cycles."""
    axes = (
        *tile_axes(extents_of(shape), config.par_depth),
        Axis(name="window_rows", values=tuple(balanced_sizes(shape.kernel[0]).tolist())),
        Axis(name="window_columns", values=tuple(balanced_sizes(shape.kernel[1]).tolist())),
        order_axis(),
        level_axis("data_level", CHUNK),
        level_axis("weights_level", INNERMOST),
        copies_axis("data_copies"),
        copies_axis("weights_copies"),
        copies_axis("sums_copies"),
    )
    return Space(
        template="depthwise_conv2d",
        axes=axes,
        account=partial(account, config, shape),
        floor=_floor(config, shape),
        slack=SLACK,
    )


def knobs(values: Values, shape: ConvolutionShape) -> Knobs:
    """The knobs of a point's values."""
    window = (values["window_rows"], values["window_columns"])
    copies = Copies(data=values["data_copies"], weights=values["weights_copies"], sums=values["sums_copies"])
    tiles = _tiles(shape, one_point(values))
    return tile_knobs(values, tiles, copies, None if window == shape.kernel else window)


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
    sums = tiles.sizes["o"] * tiles.sizes["y"] * tiles.sizes["x"]
    sums_copies = np.minimum(values["sums_copies"], tiles.count)
    instructions = ALWAYS + products(tiles, (data, weights), sums_copies, overwriting=True)
    instructions = instructions + stores(shape, tiles) + data_loads + fills
    instructions = instructions + tiles.parameter_fills(config.par_depth)
    limits = {
        "the input scratchpad": fits(config, "inp", data.size, data.copies),
        "the weight scratchpad": fits(config, "wgt", weights.size, weights.copies),
        # Weight rows are addressed by the micro-op's weight index, relative to a tile.
        "the row index of a micro-op": tiles.sizes["o"] * weight_tiles * config.block_out <= config.wgt_depth,
        "the accumulators": fits(config, "acc", sums, sums_copies),
        "the parameter table": tiles.sizes["o"] <= config.par_depth,
        # Parts of a window have sequences of their own: rows of weight tiles are not relocated.
        "the micro-op memory": unrolled_micro_ops(tiles, shape.kernel[0] * shape.kernel[1])
        <= config.uop_depth,
        "chunks that load something": by_chunk | (tiles.chunks == 1),
        "the length of a program": instructions <= _most_instructions(config, shape),
    }
    busiest = _busiest(config, shape)
    traffic = data.beats + weights.beats + stored_beats(config, shape)
    quantities = tile_quantities(
        tiles,
        {"data": data, "weights": weights},
        compute=busiest,
        traffic=traffic,
        loading=data.fills * data.exposed + weights.beats,
        storing=storing(config, tiles, sums, stored_beats(config, shape), shape.operand),
        sums_copies=sums_copies,
        instructions=instructions,
        stored_by_tile=sums * max(1.0, config.out_bytes / config.memory.bus_bytes),
    )
    quantities |= {"sums of a tile": 1.0 * sums, "sums copies in use": 1.0 * sums_copies}
    used = {"data_copies": data.copies, "weights_copies": weights.copies, "sums_copies": sums_copies}
    return Account(
        limits=limits,
        bound=np.maximum(busiest, traffic),
        quantities=quantities,
        effective={
            **values,
            **tiles.effective(values["data_level"], values["weights_level"]),
            **used,
        },
    )
