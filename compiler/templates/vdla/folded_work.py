"""Array operations for a weight tile on machines that fold (extension `fold`): such a machine multiplies a tile part
by part and leaves out the parts without weights.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from vdla.isa.config import Config

from ...codegen.vdla.folds import FoldedWeights
from ...graph.layout import Constant
from ...graph.special_weights import pack_patch_weight
from ...te.blocks import ceil_div
from ...te.ops.patch_layout import PatchLayout
from .workload import Workload


@lru_cache(maxsize=1024)
def parts_of_tiles(config: Config, channels: int, filters: int) -> tuple[float, int]:
    """Mean and largest number of parts of a weight tile that contain weights, over the tiles of a dense (filters,
    channels) matrix. (1, 1) on machines that do not fold, i.e. multiply a whole tile in one operation.
    """
    if config.tile_parts == 1:
        return 1.0, 1
    tiles = ceil_div(channels, config.block_in) * ceil_div(filters, config.block_out)
    found: list[tuple[int, int]] = []
    for shape in range(config.tile_parts.bit_length()):
        groups = 1 << shape
        inputs, lanes = config.block_in // groups, config.columns * groups
        of_inputs, of_lanes = ceil_div(channels, inputs), ceil_div(filters, lanes)
        most = min(of_inputs, groups) * min(of_lanes, config.tile_parts // groups)
        found.append((of_inputs * of_lanes, most))
    # Of the shapes with the fewest parts the first, as in emission (`FoldedWeights`).
    total, most = min(found, key=lambda item: item[0])
    return total / tiles, most


@lru_cache(maxsize=256)
def patch_weights(config: Config, workload: Workload, layout: PatchLayout) -> FoldedWeights | None:
    """The parts of weight tiles that contain weights, for a convolution on patches; None on machines that do not fold,
    i.e. multiply a whole tile in one operation.
    """
    if config.tile_parts == 1:
        return None
    weight = np.ones((workload.filters, workload.channels, *workload.kernel), np.int8)
    cut = np.array([layout.apart, layout.count, layout.columns, *workload.strides])
    return FoldedWeights.of(config, Constant(form=pack_patch_weight, arrays=(weight, cut)))
