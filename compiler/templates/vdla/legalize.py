"""A fused graph made legal for the accelerator: how tensors lie in memory, pools in their convolutions or cut in two.

What decides are plain questions to the templates: does the least tile fit this machine? No tile is chosen here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b

from vdla.isa.config import Config

from ...graph.abilities import Abilities, needs
from ...graph.crop_taps import crop_taps
from ...graph.errors import node_error
from ...graph.fuse import (
    fuse_combines,
    fuse_lookups,
    fuse_phases,
    fuse_pool,
    fuse_spare_positions,
    fuse_swaps,
)
from ...graph.graph import Graph, Node
from ...graph.int8_operators import Int8Convolution, Int8MaxPool, Rows, Table
from ...graph.layout import Layout
from ...graph.remove_dead import remove_dead
from ...graph.spare_positions import leave_room
from ...graph.split_pools import split_max_pools
from ...te.blocks import Blocks, Window
from .attention_kernels import fuse_attention
from .convolution_kernels import patch_workload, pooled_workload
from .joined_tensors import Inside, joined_tensors
from .normed_kernels import fuse_norms
from .patch_conv2d import PATCH_CONV2D
from .patch_layouts import PAD_LIMIT, PATCH_LIMIT
from .pool import MAX_POOL, MOST_WINDOW
from .pool_kernels import is_broadcast, max_pool_workload
from .rolling_pool import PATCH_CONV2D_POOL
from .split_products import split_products
from .turned_kernels import turns
from .whole_blocks import whole_blocks
from .workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Legalized:
    """A graph in the form that is lowered node by node, how its tensors lie in memory, and which lie in others."""

    graph: Graph
    layouts: Mapping[str, Layout]
    inside: Mapping[str, Inside] = field(default_factory=dict[str, Inside])

    @property
    def places(self) -> dict[str, tuple[str, int]]:
        """The tensor in which each of those lies, and the byte at which it begins there."""
        return {name: (item.tensor, item.offset) for name, item in self.inside.items()}


def legalize(graph: Graph, config: Config) -> Legalized:
    """A fused graph with layouts, pools in their convolutions where that works, and pools cut that do not fit.

    Raises NodeError for a node that needs an extension which the machine lacks.
    """
    _check_extensions(graph, config)
    if Abilities.of(config).planes:
        graph = remove_dead(fuse_combines(graph, partial(_takes_planes, config, graph)))
    graph = crop_taps(fuse_phases(graph))
    if config.has("table"):
        graph = split_products(graph, Blocks.of(config).block, turns(config))
    if turns(config):
        graph = leave_room(graph, Blocks.of(config).block)
        graph = fuse_swaps(graph, Blocks.of(config).block, broadcast=config.has("broadcast"))
    graph = whole_blocks(graph, config)
    interleaved = {item.tensor for item in graph.inputs if _is_interleaved(config, graph, item.tensor)}
    makers = graph.producers()
    graph = fuse_pool(
        graph,
        [
            node.output
            for node, window in _max_pools(graph)
            if _takes_pool(config, graph, makers.get(node.inputs[0]), window, interleaved)
        ],
    )
    graph = split_max_pools(
        graph,
        [
            node.output
            for node, window in _max_pools(graph)
            if not MAX_POOL.fits(config, max_pool_workload(config, graph, node, window))
        ],
    )
    if config.has("table"):
        graph = fuse_lookups(graph)
    graph = fuse_attention(config, fuse_spare_positions(graph, interleaved))
    graph = fuse_norms(config, graph, interleaved)
    layouts: dict[str, Layout] = dict.fromkeys(graph.tensors, "blocked")
    layouts |= dict.fromkeys(interleaved, "interleaved")
    return Legalized(graph=graph, layouts=layouts, inside=joined_tensors(graph, config))


def _check_extensions(graph: Graph, config: Config) -> None:
    """A graph may have been imported for other machines."""
    abilities = Abilities.of(config)
    for node in graph.nodes:
        problem = None
        if isinstance(node.operator, Table) and not abilities.tables:
            problem = needs("table")
        elif is_broadcast(graph, node) and not abilities.planes:
            problem = needs("broadcast")
        elif isinstance(node.operator, Rows) and not abilities.rows:
            problem = needs("rows")
        if problem is not None:
            member = node.members[0] if node.members else node.name
            raise node_error(f"configuration {config.name}", member, node.kind, *problem)


def _takes_planes(config: Config, graph: Graph, node: Node) -> bool:
    """Whether the store of a convolution may combine with one value for each plane: that of blocks of channels, 1x1.

    Not where the chain memory may hold its output, with pads, which an operand has not.
    """
    operator = node.operator
    return (
        isinstance(operator, Int8Convolution)
        and operator.window == Window(kernel=(1, 1))
        and operator.groups == 1
        and operator.phases is None
        and graph.tensors[node.inputs[0]].nchw[1] % config.block_in == 0
        and graph.tensors[node.output].size > config.chain_buffer_bytes
    )


def _max_pools(graph: Graph) -> list[tuple[Node, Window]]:
    return [
        (node, operator.window) for node in graph.nodes if isinstance(operator := node.operator, Int8MaxPool)
    ]


def _is_interleaved(config: Config, graph: Graph, tensor: str) -> bool:
    """Whether a graph's input stays as the host has it: all that reads it gathers patches."""
    readers = [node for node in graph.nodes if tensor in node.inputs]
    return (
        config.has("patch")
        and tensor not in {output.tensor for output in graph.outputs}
        and bool(readers)
        and all(_takes_patches(config, graph, node, tensor) for node in readers)
    )


def _takes_patches(config: Config, graph: Graph, node: Node, tensor: str) -> bool:
    """Whether a node is a convolution whose patches of `tensor`, and weights for a whole one, the machine can hold."""
    operator = node.operator
    if not isinstance(operator, Int8Convolution) or node.inputs[0] != tensor or tensor in node.inputs[1:]:
        return False
    _, channels, height, width = graph.tensors[tensor].nchw
    window = operator.window
    kernel_height, kernel_width = window.kernel
    if channels % config.block_in == 0 or height * width == 1:
        return False
    return (
        operator.groups == 1
        and operator.phases is None
        and operator.spaced is None
        and operator.taken is None
        and window.dilations == (1, 1)
        and kernel_width * channels <= PATCH_LIMIT
        and window.strides[1] * channels <= PATCH_LIMIT
        and window.pads[1] * channels <= PATCH_LIMIT
        and width * channels < 1 << 16
        and -(-kernel_height * kernel_width * channels // config.block_in) <= PATCH_LIMIT
        and max(window.pads[0], window.pads[2]) <= PAD_LIMIT
        and PATCH_CONV2D.fits(config, patch_workload(graph, node, operator))
    )


def _takes_pool(
    config: Config, graph: Graph, maker: Node | None, pool: Window, interleaved: set[str]
) -> bool:
    """Whether a max-pool can be computed with the convolution before it, rows kept in a ring."""
    if maker is None or not isinstance(operator := maker.operator, Int8Convolution):
        return False
    if maker.inputs[0] not in interleaved or operator.post.combination is not None:
        return False
    return max(pool.kernel) <= MOST_WINDOW and PATCH_CONV2D_POOL.fits(
        config, pooled_workload(config, graph, maker, operator, pool)
    )


def network_key(legalized: Legalized, workloads: Mapping[str, Workload]) -> str:
    """16 hexadecimal digits, equal for networks of the same nodes, read and written alike, whatever their values.

    Knobs found for a node of one in its place serve the other.
    """
    text = repr([(n.name, n.kind, n.inputs, n.output, workloads.get(n.name)) for n in legalized.graph.nodes])
    return blake2b(text.encode(), digest_size=8).hexdigest()
