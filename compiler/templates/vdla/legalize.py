"""A fused graph made legal for the accelerator: how tensors lie in memory, pools in their convolutions or cut in two.

What decides are plain questions to the templates: does the least tile fit this machine? No tile is chosen here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

from vdla.isa.config import Config

from ...graph.fuse import fuse_pool
from ...graph.graph import Convolution, Graph, MaxPool, Node, Pool, reads
from ...graph.layout import Layout
from ...graph.split_pools import split_max_pools
from .convolution_kernels import patch_workload, pooled_workload
from .patch_conv2d import PATCH_CONV2D
from .pool import MAX_POOL, MOST_WINDOW
from .pool_kernels import max_pool_workload
from .rolling_pool import PATCH_CONV2D_POOL
from .workload import Workload

PATCH_LIMIT = 255
"""Largest run, step and left padding of a patch in bytes (8-bit fields of register PATCH)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Legalized:
    """A graph in the form that is lowered node by node, and how each of its tensors lies in memory."""

    graph: Graph
    layouts: Mapping[str, Layout]


def legalize(graph: Graph, config: Config) -> Legalized:
    """A fused graph with layouts, pools in their convolutions where that works, and pools cut that do not fit."""
    interleaved = {item.tensor for item in graph.inputs if _is_interleaved(config, graph, item.tensor)}
    makers = {node.output: node for node in graph.nodes}
    graph = fuse_pool(
        graph,
        [
            node.output
            for node in graph.nodes
            if isinstance(node, MaxPool)
            and _takes_pool(config, graph, makers.get(node.data), node, interleaved)
        ],
    )
    graph = split_max_pools(
        graph,
        [
            node.output
            for node in graph.nodes
            if isinstance(node, MaxPool) and not MAX_POOL.fits(config, max_pool_workload(graph, node))
        ],
    )
    layouts: dict[str, Layout] = dict.fromkeys(graph.tensors, "blocked")
    layouts |= dict.fromkeys(interleaved, "interleaved")
    return Legalized(graph=graph, layouts=layouts)


def _is_interleaved(config: Config, graph: Graph, tensor: str) -> bool:
    """Whether a graph's input stays as the host has it: all that reads it gathers patches."""
    readers = [node for node in graph.nodes if tensor in reads(node)]
    return (
        config.has("patch")
        and tensor not in {output.tensor for output in graph.outputs}
        and bool(readers)
        and all(_takes_patches(config, graph, node, tensor) for node in readers)
    )


def _takes_patches(config: Config, graph: Graph, node: Node, tensor: str) -> bool:
    """Whether a node is a convolution whose patches of `tensor`, and weights for a whole one, the machine can hold."""
    if not isinstance(node, Convolution) or node.data != tensor:
        return False
    if node.combine is not None and node.combine.operand == tensor:
        return False
    _, channels, height, width = graph.tensors[tensor].nchw
    kernel_height, kernel_width = node.weight.shape[2:]
    if channels % config.block_in == 0 or height * width == 1:
        return False
    return (
        node.groups == 1
        and node.dilations == (1, 1)
        and kernel_width * channels <= PATCH_LIMIT
        and node.strides[1] * channels <= PATCH_LIMIT
        and node.pads[1] * channels <= PATCH_LIMIT
        and width * channels < 1 << 16
        and -(-kernel_height * kernel_width * channels // config.block_in) <= PATCH_LIMIT
        and max(node.pads[0], node.pads[2]) <= 15
        and PATCH_CONV2D.fits(config, patch_workload(graph, node))
    )


def _takes_pool(
    config: Config, graph: Graph, maker: Node | None, pool: MaxPool, interleaved: set[str]
) -> bool:
    """Whether a max-pool can be computed with the convolution before it, rows kept in a ring."""
    if not isinstance(maker, Convolution) or maker.data not in interleaved or maker.combine is not None:
        return False
    behind = Pool(kernel=pool.kernel, strides=pool.strides, pads=pool.pads)
    return max(pool.kernel) <= MOST_WINDOW and PATCH_CONV2D_POOL.fits(
        config, pooled_workload(graph, maker, behind)
    )


def network_key(legalized: Legalized, workloads: Mapping[str, Workload]) -> str:
    """16 hexadecimal digits, equal for networks of the same nodes, read and written alike, whatever their values.

    Knobs found for a node of one in its place serve the other.
    """
    text = repr(
        [(n.name, type(n).__name__, reads(n), n.output, workloads.get(n.name)) for n in legalized.graph.nodes]
    )
    return blake2b(text.encode(), digest_size=8).hexdigest()
