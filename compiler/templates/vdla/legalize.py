"""Legalization of a fused graph for the accelerator: memory layouts of tensors, pools fused into convolutions or split.

Rewrites ask a template whether its smallest tile fits the machine; no tile is chosen here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vdla.isa.config import Config

from ...graph.abilities import Abilities, is_broadcast, needs
from ...graph.errors import node_error
from ...graph.graph import Graph, Node
from ...graph.int8_convolution import Int8Convolution, Interleave
from ...graph.int8_operators import (
    Channels,
    Int8Elementwise,
    Int8MaxPool,
    Positions,
    Products,
    Rows,
    Swap,
    Table,
)
from ...graph.layout import Layout
from ...rewrites.driver import Rewrite, run_rewrites
from .convolution_kernels import patch_workload
from .patch_conv2d import PATCH_CONV2D
from .patch_layouts import PAD_LIMIT, PATCH_LIMIT
from .template import at

if TYPE_CHECKING:
    from .joined_tensors import Inside


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Legalized:
    """Graph that can be lowered node by node, each tensor's memory layout, and tensors stored inside other tensors."""

    graph: Graph
    layouts: Mapping[str, Layout]
    inside: Mapping[str, Inside] = field(default_factory=dict[str, "Inside"])

    @property
    def places(self) -> dict[str, tuple[str, int]]:
        """For each tensor stored inside another one: (name of the other tensor, offset in bytes inside it)."""
        return {name: (item.tensor, item.offset) for name, item in self.inside.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The argument of rewrites: a configuration, and the names of the graph's inputs in the host's layout
    (`interleaved`; empty until the first rewrites are done).
    """

    config: Config
    interleaved: frozenset[str] = frozenset()

    @property
    def abilities(self) -> Abilities:
        """The optional kinds of nodes that the machine can compute."""
        return Abilities.of(self.config)


def legalize(graph: Graph, config: Config) -> Legalized:
    """A fused graph rewritten to nodes that have kernels on the machine, with the layout of each tensor.

    Raises NodeError for a node that needs an extension which the machine lacks.
    """
    _check_extensions(graph, config)
    graph = run_rewrites(graph, REWRITES, Machine(config=config))
    interleaved = frozenset(
        item.tensor for item in graph.inputs if _is_interleaved(config, graph, item.tensor)
    )
    graph = run_rewrites(graph, REWRITES_BY_LAYOUT, Machine(config=config, interleaved=interleaved))
    layouts: dict[str, Layout] = dict.fromkeys(graph.tensors, "blocked")
    layouts |= dict.fromkeys(interleaved, "interleaved")
    return Legalized(graph=graph, layouts=layouts, inside=_inside(graph, config))


def _rare(place: str) -> Callable[[Graph, Machine], Graph]:
    """The rewrite at `place`, FILE:NAME of this folder. The file is imported only when the rewrite is called."""
    return lambda graph, machine: at(place)(graph, machine)


def _crop_windows(graph: Graph, machine: Machine) -> Graph:
    """The graph without taps (window elements) that read only padding (`crop_windows.py`); few graphs have any."""
    for node in graph.nodes:
        operator = node.operator
        _, _, height, width = graph.tensors[node.inputs[0]].nchw
        if isinstance(operator, Int8Convolution) and operator.window.has_pad_taps(height, width):
            from ...rewrites.crop_windows import crop_windows

            return crop_windows(graph)
    return graph


REWRITES: Sequence[Rewrite[Machine]] = (
    Rewrite(
        name="operands of one value for each plane",
        roots=(Int8Elementwise,),
        takes=lambda machine: machine.abilities.planes,
        function=_rare("rewrites:combine_planes"),
    ),
    Rewrite(
        name="phases of transposed convolutions",
        roots=(Interleave,),
        function=_rare("rewrites:join_phases"),
    ),
    Rewrite(name="taps in the pads", roots=(Int8Convolution,), function=_crop_windows),
    Rewrite(
        name="products cut where a table or an exchange reads a part",
        roots=(Table, Swap),
        takes=lambda machine: machine.abilities.tables,
        function=_rare("split_products:split_products"),
    ),
    Rewrite(
        name="channels exchanged with positions by the array",
        roots=(Swap,),
        takes=lambda machine: machine.abilities.products,
        function=_rare("rewrites:exchange"),
    ),
    Rewrite(
        name="whole blocks of positions and channels",
        roots=(Swap, Products),
        function=_rare("pad_to_blocks:pad_to_blocks"),
    ),
)
"""Rewrites that are applied to every network, in this order."""

REWRITES_BY_LAYOUT: Sequence[Rewrite[Machine]] = (
    Rewrite(name="max-pools", roots=(Int8MaxPool,), function=_rare("max_pools:fit_max_pools")),
    Rewrite(
        name="tables looked up by a store",
        roots=(Table,),
        takes=lambda machine: machine.abilities.tables,
        function=_rare("rewrites:look_up"),
    ),
    Rewrite(
        name="room behind positions",
        roots=(Positions,),
        function=_rare("rewrites:spare_positions"),
    ),
    Rewrite(
        name="attention",
        roots=(Products,),
        takes=lambda machine: (
            machine.abilities.rows and machine.config.chain_depth > 0 and machine.abilities.products
        ),
        function=_rare("attention_kernels:fuse_attention"),
    ),
    Rewrite(
        name="sums over positions in place of exchanges",
        roots=(Swap,),
        takes=lambda machine: machine.config.memory.kind == "dram" and machine.abilities.products,
        function=_rare("position_sums:sum_positions"),
    ),
    Rewrite(
        name="normalizations",
        roots=(Rows,),
        takes=lambda machine: machine.abilities.rows and machine.abilities.products,
        function=_rare("normed_kernels:fuse_norms"),
    ),
)
"""Rewrites that depend on which of the graph's inputs are in the host's layout (interleaved)."""


def _inside(graph: Graph, config: Config) -> Mapping[str, Inside]:
    if not any(isinstance(node.operator, Channels) for node in graph.nodes):
        return {}
    from .joined_tensors import joined_tensors

    return joined_tensors(graph, config)


def _check_extensions(graph: Graph, config: Config) -> None:
    """Raises NodeError if a node needs an extension that the machine lacks (graph imported for another machine)."""
    abilities = Abilities.of(config)
    lacking: dict[type, str] = {}
    if not abilities.tables:
        lacking[Table] = "table"
    if not abilities.rows:
        lacking[Rows] = "rows"
    if not abilities.planes:
        lacking[Int8Elementwise] = "broadcast"
    for node in graph.nodes:
        extension = lacking.get(type(node.operator))
        if extension is None or (extension == "broadcast" and not is_broadcast(graph, node)):
            continue
        member = node.members[0] if node.members else node.name
        raise node_error(f"configuration {config.name}", member, node.kind, *needs(extension))


def _is_interleaved(config: Config, graph: Graph, tensor: str) -> bool:
    """Whether graph input `tensor` stays channels-last: it is no output and has readers that can all gather patches."""
    readers = [node for node in graph.nodes if tensor in node.inputs]
    return (
        config.has("patch")
        and tensor not in {output.tensor for output in graph.outputs}
        and bool(readers)
        and all(_takes_patches(config, graph, node, tensor) for node in readers)
    )


def _takes_patches(config: Config, graph: Graph, node: Node, tensor: str) -> bool:
    """Whether a node is a convolution on `tensor` whose patches, and the weights of one patch, fit the machine."""
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
