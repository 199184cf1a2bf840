"""All ways to cut a first convolution, whose patches the load unit gathers, on the accelerator."""

from __future__ import annotations

from functools import partial

import numpy as np
from vdla.isa.config import Config

from .patch_conv2d_vdla import PatchShape
from .space import Account, Columns, Space, Values
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
    seen,
    tile_axes,
    tile_knobs,
    unrolled_micro_ops,
)
from .tile_quantities import storing, tile_quantities
from .tiling import INNERMOST, Copies, Knobs, fits, store_reads


def space(config: Config, shape: PatchShape) -> Space:
    """The space of `patch_conv2d_vdla.schedule` for one shape; costs are cycles."""
    axes = (
        *tile_axes(_extents(shape), config.par_depth),
        order_axis(),
        level_axis("data_level", INNERMOST),
        level_axis("weights_level", INNERMOST),
        copies_axis("data_copies"),
        copies_axis("weights_copies"),
        copies_axis("sums_copies"),
    )
    return Space(
        template="patch_conv2d",
        axes=axes,
        account=partial(account, config, shape),
        floor=_floor(config, shape),
        slack=SLACK,
    )


def knobs(values: Values, shape: PatchShape) -> Knobs:
    """The knobs of a point's values."""
    copies = Copies(data=values["data_copies"], weights=values["weights_copies"], sums=values["sums_copies"])
    tiles = Tiles.of(shape.images, _extents(shape), one_point(values))
    return tile_knobs(values, tiles, copies)


def _extents(shape: PatchShape) -> dict[str, int]:
    return {"o": shape.output_blocks, "y": shape.out_height, "x": shape.out_width}


def _outputs(shape: PatchShape) -> int:
    return shape.images * shape.output_blocks * shape.out_height * shape.out_width


def _busiest(config: Config, shape: PatchShape) -> float:
    """Cycles that the array, or the unit that stores, cannot do without."""
    vectors = np.array(_outputs(shape))
    return float(max(vectors * shape.vectors, store_reads(config, vectors)))


def _data_bytes(shape: PatchShape, columns: np.ndarray | int) -> np.ndarray:
    """Bytes of the image that patches of `columns` positions at a time touch: each row of them anew."""
    rows = seen(1, shape.out_height, shape.kernel[0], shape.strides[0], 1, shape.height)
    width = seen(columns, shape.out_width, shape.kernel[1], shape.strides[1], 1, shape.width)
    return 1.0 * shape.batch * rows * width * shape.channels


def _fixed_beats(config: Config, shape: PatchShape) -> tuple[float, float]:
    """Beats of the weights once, and of outputs and operand."""
    bus = config.memory.bus_bytes
    stored = _outputs(shape) * (2 if shape.operand else 1) * config.out_bytes / bus
    return shape.output_blocks * shape.vectors * config.wgt_bytes / bus, stored


def _floor(config: Config, shape: PatchShape) -> float:
    # Where the stride is larger than the kernel, single patches read less than a row of them.
    data = float(_data_bytes(shape, np.array([1, shape.out_width])).min()) / config.memory.bus_bytes
    return max(_busiest(config, shape), data + sum(_fixed_beats(config, shape)))


def _most_instructions(config: Config, shape: PatchShape) -> float:
    data = shape.images * shape.out_height * shape.out_width * shape.vectors / config.inp_depth
    weights = shape.output_blocks * shape.vectors / config.wgt_depth
    fillings = data + weights + _outputs(shape) / config.acc_depth
    return most_instructions(fillings, shape.images * shape.output_blocks)


def account(config: Config, shape: PatchShape, values: Columns) -> Account:
    """The account of many points."""
    tiles = Tiles.of(shape.images, _extents(shape), values)
    outside = tiles.outside(values["data_level"])
    rows, columns = tiles.held("y", outside), tiles.held("x", outside)
    fills = tiles.turns("nyxo", outside)
    beats = _data_bytes(shape, columns) * tiles.turns("o", outside) / config.memory.bus_bytes
    size = tiles.held("n", outside) * rows * columns * shape.vectors
    data = Filling(
        size=size,
        fills=fills,
        beats=beats,
        copies=np.minimum(values["data_copies"], fills),
        # A patch writes each row of its window in pieces, wherever in a vector it starts.
        exposed=np.maximum(beats / fills, size + rows * columns * shape.kernel[0]),
    )
    # A row of patches each; where a row begins, another part of the image begins.
    gathered = shape.batch * shape.out_height * tiles.turns("ox", outside)
    windows = fills * np.minimum(shape.batch, config.batch)
    outside = tiles.outside(values["weights_level"])
    fills = tiles.turns("nyxo", outside)
    weight_beats, stored = _fixed_beats(config, shape)
    beats = weight_beats * tiles.turns("nyx", outside)
    weights = Filling(
        size=tiles.held("o", outside) * shape.vectors,
        fills=fills,
        beats=beats,
        copies=np.minimum(values["weights_copies"], fills),
        exposed=beats / fills,
    )
    sums = tiles.sizes["o"] * tiles.sizes["y"] * tiles.sizes["x"]
    sums_copies = np.minimum(values["sums_copies"], tiles.count)
    stores = shape.images * shape.output_blocks * tiles.trips["y"] * tiles.trips["x"]
    instructions = ALWAYS + products(tiles, (data, weights), sums_copies, overwriting=shape.vectors > 1)
    instructions = instructions + stores + gathered + windows + fills
    instructions = instructions + tiles.parameter_fills(config.par_depth)
    limits = {
        "the input scratchpad": fits(config, "inp", data.size, data.copies),
        "the weight scratchpad": fits(config, "wgt", weights.size, weights.copies),
        "the accumulators": fits(config, "acc", sums, sums_copies),
        "the parameter table": tiles.sizes["o"] <= config.par_depth,
        "the micro-op memory": unrolled_micro_ops(tiles, shape.vectors) <= config.uop_depth,
        "the length of a program": instructions <= _most_instructions(config, shape),
    }
    busiest = _busiest(config, shape)
    traffic = data.beats + weights.beats + stored
    quantities = tile_quantities(
        tiles,
        {"data": data, "weights": weights},
        compute=busiest,
        traffic=traffic,
        loading=data.fills * data.exposed + weights.beats,
        storing=storing(config, tiles, sums, stored, shape.operand),
        sums_copies=sums_copies,
        instructions=instructions,
        stored_by_tile=sums * max(1.0, config.out_bytes / config.memory.bus_bytes),
    )
    quantities |= {"sums of a tile": 1.0 * sums, "sums copies in use": 1.0 * sums_copies}
    # There are no chunks: their level is that of the innermost loop.
    effective = tiles.effective(values["data_level"], values["weights_level"])
    effective["data_level"] = np.maximum(effective["data_level"], INNERMOST)
    used = {"data_copies": data.copies, "weights_copies": weights.copies, "sums_copies": sums_copies}
    return Account(
        limits=limits,
        bound=np.maximum(busiest, traffic),
        quantities=quantities,
        effective={
            **values,
            **effective,
            **used,
        },
    )
