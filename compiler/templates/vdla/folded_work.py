"""Weight tiles on machines that fold (extension `fold`): such a machine multiplies a tile part by part and leaves out
the parts without weights. Cost models, and kernels that are measured alone, assume dense weights without zeros.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from vdla.isa.config import Config

from ...codegen.vdla.folds import FoldedWeights
from ...graph.layout import Constant, pack_weight
from ...graph.special_weights import pack_patch_weight
from ...te.blocks import ceil_div
from ...te.ops.patch_layout import PatchLayout
from .workload import Workload


@lru_cache(maxsize=1024)
def parts_of_tiles(config: Config, channels: int, filters: int) -> tuple[float, int]:
    """Mean and largest number of parts of a weight tile that contain weights, over the tiles of a dense (filters,
    channels) matrix. (1, 1) on machines without the extension `fold`, which multiply a whole tile in one operation.
    """
    if config.tile_parts == 1:
        return 1.0, 1
    weight = np.ones((filters, channels, 1, 1), np.int8)
    weights = FoldedWeights.of(config, Constant(form=pack_weight, arrays=(weight,)))
    assert weights is not None, "weights of a GEMM are folded"
    tiles = ceil_div(channels, config.block_in) * ceil_div(filters, config.block_out)
    return int(weights.used.sum()) / tiles, int(weights.used.sum(axis=-1).max())


@lru_cache(maxsize=256)
def patch_weights(config: Config, workload: Workload, layout: PatchLayout) -> FoldedWeights | None:
    """The parts of weight tiles that contain weights, for a convolution on patches; None on machines without the
    extension `fold`, which multiply a whole tile in one operation.
    """
    if config.tile_parts == 1:
        return None
    weight = np.ones((workload.filters, workload.channels, *workload.kernel), np.int8)
    cut = np.array([layout.apart, layout.count, layout.columns, *workload.strides])
    return FoldedWeights.of(config, Constant(form=pack_patch_weight, arrays=(weight, cut)))


@lru_cache(maxsize=64)
def folded_dense_weights(config: Config, workload: Workload) -> FoldedWeights | None:
    """The parts of weight tiles that hold weights, if a workload's weights are a dense matrix (filters x channels)
    without zeros.

    None for other templates than conv2d, patch_conv2d and patch_conv2d_pool, for products whose weights are computed by
    the network, and on machines that always multiply a weight tile as a whole.
    """
    if config.tile_parts == 1 or workload.own_weights:
        return None
    match workload.template:
        case "conv2d":
            weight = np.ones((workload.filters, workload.channels, *workload.kernel), np.int8)
            return FoldedWeights.of(config, Constant(form=pack_weight, arrays=(weight,)))
        case "patch_conv2d":
            from .patch_layouts import tiled_layout

            return patch_weights(config, workload, tiled_layout(config, workload))
        case "patch_conv2d_pool":
            from .rolling_pool import RollingShape

            return patch_weights(config, workload, RollingShape.of(config, workload).layout)
        case _:
            return None
