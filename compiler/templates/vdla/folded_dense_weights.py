"""Assumed use of weight tiles for kernels that are measured alone, without the network's weights. The assumption
matters on machines with the extension `fold`, whose array multiplies a weight tile in several parts and skips parts
without weights.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from vdla.isa.config import Config

from ...codegen.vdla.folds import FoldedWeights
from ...graph.layout import Constant, pack_weight
from .conv2d import CONV2D
from .folded_work import patch_weights
from .patch_conv2d import PATCH_CONV2D
from .patch_layouts import tiled_layout
from .rolling_pool import PATCH_CONV2D_POOL, RollingShape
from .workload import Workload


@lru_cache(maxsize=64)
def folded_dense_weights(config: Config, workload: Workload) -> FoldedWeights | None:
    """The parts of weight tiles that hold weights, if a workload's weights are a dense matrix (filters x channels)
    without zeros.

    None for templates without weight tiles, for products whose weights are computed by the network, and on machines
    that always multiply a weight tile as a whole.
    """
    if config.tile_parts == 1 or workload.own_weights:
        return None
    match workload.template:
        case CONV2D.name:
            weight = np.ones((workload.filters, workload.channels, *workload.kernel), np.int8)
            return FoldedWeights.of(config, Constant(form=pack_weight, arrays=(weight,)))
        case PATCH_CONV2D.name:
            return patch_weights(config, workload, tiled_layout(config, workload))
        case PATCH_CONV2D_POOL.name:
            return patch_weights(config, workload, RollingShape.of(config, workload).layout)
        case _:
            return None
