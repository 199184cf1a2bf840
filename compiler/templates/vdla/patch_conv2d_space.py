"""All ways to cut a first convolution, whose patches the load unit gathers, on the accelerator."""

from __future__ import annotations

from functools import partial

import numpy as np
from vdla.isa.config import Config

from ..space import Account, Columns, Space, Values
from .array_account import array_account
from .image_account import extents_of, outputs_of, stored_beats
from .patch_conv2d import PatchShape
from .tile_account import Filling, Tiles, most_instructions, seen, unrolled_micro_ops
from .tile_space import one_point, tile_knobs, tile_space
from .tiling import INNERMOST, Knobs, store_reads


def space(config: Config, shape: PatchShape) -> Space:
    """The space of `patch_conv2d_vdla.schedule` for one shape; costs are cycles."""
    return tile_space(
        config,
        "patch_conv2d",
        extents=extents_of(shape),
        levels={"data": INNERMOST, "weights": INNERMOST},
        copies=("data", "weights", "sums"),
        account=partial(account, config, shape),
        floor=_floor(config, shape),
    )


def knobs(values: Values, shape: PatchShape) -> Knobs:
    """The knobs of a point's values."""
    return tile_knobs(values, Tiles.of(shape.images, extents_of(shape), one_point(values)))


def _busiest(config: Config, shape: PatchShape) -> float:
    """Cycles that the array, or the unit that stores, cannot do without."""
    vectors = np.array(outputs_of(shape))
    return float(max(vectors * shape.vectors, store_reads(config, vectors)))


def _data_bytes(shape: PatchShape, columns: np.ndarray | int) -> np.ndarray:
    """Bytes of the image that patches of `columns` positions at a time touch: each row of them anew."""
    rows = seen(1, shape.out_height, shape.kernel[0], shape.strides[0], 1, shape.height)
    width = seen(columns, shape.out_width, shape.kernel[1], shape.strides[1], 1, shape.width)
    return 1.0 * shape.batch * rows * width * shape.channels


def _weight_beats(config: Config, shape: PatchShape) -> float:
    return shape.output_blocks * shape.vectors * config.wgt_bytes / config.memory.bus_bytes


def _floor(config: Config, shape: PatchShape) -> float:
    # Where the stride is larger than the kernel, single patches read less than a row of them.
    data = float(_data_bytes(shape, np.array([1, shape.out_width])).min()) / config.memory.bus_bytes
    return max(_busiest(config, shape), data + (_weight_beats(config, shape) + stored_beats(config, shape)))


def _most_instructions(config: Config, shape: PatchShape) -> float:
    data = shape.images * shape.out_height * shape.out_width * shape.vectors / config.inp_depth
    weights = shape.output_blocks * shape.vectors / config.wgt_depth
    fillings = data + weights + outputs_of(shape) / config.acc_depth
    return most_instructions(fillings, shape.images * shape.output_blocks)


def account(config: Config, shape: PatchShape, values: Columns) -> Account:
    """The account of many points."""
    tiles = Tiles.of(shape.images, extents_of(shape), values)
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
    beats = _weight_beats(config, shape) * tiles.turns("nyx", outside)
    weights = Filling(
        size=tiles.held("o", outside) * shape.vectors,
        fills=fills,
        beats=beats,
        copies=np.minimum(values["weights_copies"], fills),
        exposed=beats / fills,
    )
    return array_account(
        config,
        shape,
        tiles,
        values,
        data=data,
        weights=weights,
        loads=(gathered, windows, fills),
        overwriting=shape.vectors > 1,
        micro_ops=unrolled_micro_ops(tiles, shape.vectors),
        limits={},
        most_instructions=_most_instructions(config, shape),
        compute=_busiest(config, shape),
        # There are no chunks: their level is that of the innermost loop.
        innermost=INNERMOST,
    )
