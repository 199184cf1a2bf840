"""Legalization of max-pools: fused into the preceding convolution, computed in one pass, or split into two pools if one
pass does not fit.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from vdla.isa.config import Config

from ...graph.graph import Graph, Node
from ...graph.int8_convolution import Int8Convolution
from ...graph.int8_operators import Int8MaxPool
from ...rewrites.fuse_pairs import fuse_pool
from ...rewrites.split_pools import split_max_pools
from ...te.blocks import Window
from .convolution_kernels import pooled_workload
from .pool import MAX_POOL, MOST_WINDOW
from .pool_kernels import max_pool_workload
from .rolling_pool import PATCH_CONV2D_POOL

if TYPE_CHECKING:
    from .legalize import Machine


def fit_max_pools(graph: Graph, machine: Machine) -> Graph:
    """Fuses or splits max-pools until each fits the machine's memories.

    A convolution also computes the max-pool after it under two conditions: its input is a tensor in the host's
    channels-last layout (`machine.interleaved`), and the machine has room for a ring buffer of rows of the
    convolution's output. All other max-pools are split if they are too large.
    """
    config, makers = machine.config, graph.producers()
    graph = fuse_pool(
        graph,
        [
            node.output
            for node, window in _max_pools(graph)
            if _takes_pool(config, graph, makers.get(node.inputs[0]), window, machine.interleaved)
        ],
    )
    return split_max_pools(
        graph,
        [
            node.output
            for node, window in _max_pools(graph)
            if not MAX_POOL.fits(config, max_pool_workload(config, graph, node, window))
        ],
    )


def _max_pools(graph: Graph) -> list[tuple[Node, Window]]:
    return [
        (node, operator.window) for node in graph.nodes if isinstance(operator := node.operator, Int8MaxPool)
    ]


def _takes_pool(
    config: Config, graph: Graph, maker: Node | None, pool: Window, interleaved: Collection[str]
) -> bool:
    """Whether the convolution `maker` before a max-pool can also compute the pool, from a ring buffer with rows of the
    convolution's sums. `interleaved`: names of the tensors with interleaved channels, one of which `maker` must read.
    """
    if maker is None or not isinstance(operator := maker.operator, Int8Convolution):
        return False
    if maker.inputs[0] not in interleaved or operator.post.combination is not None:
        return False
    return max(pool.kernel) <= MOST_WINDOW and PATCH_CONV2D_POOL.fits(
        config, pooled_workload(config, graph, maker, operator, pool)
    )
