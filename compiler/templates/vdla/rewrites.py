"""Rewrites that few networks need (rows of `legalize.REWRITES`), as functions of a graph and the machine."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from vdla.isa.config import Config

from ...graph.graph import Graph, Node
from ...graph.int8_convolution import Int8Convolution
from ...rewrites.driver import remove_dead
from ...rewrites.fuse_pairs import fuse_combines, fuse_lookups, fuse_phases, fuse_spare_positions, fuse_swaps
from ...te.blocks import Blocks, Window

if TYPE_CHECKING:
    from .legalize import Machine


def combine_planes(graph: Graph, machine: Machine) -> Graph:
    """Fuses element-wise nodes into the stores of 1x1 convolutions, where the second operand of the element-wise node
    has one value for each plane (all positions of one channel).
    """
    return remove_dead(fuse_combines(graph, partial(_takes_planes, machine.config, graph)))


def cut_products(graph: Graph, machine: Machine) -> Graph:
    """Splits convolutions whose readers use different channels (`split_products`)."""
    from .split_products import split_products

    return split_products(graph, Blocks.of(machine.config).block, machine.abilities.products)


def exchange(graph: Graph, machine: Machine) -> Graph:
    """Removes each Swap (exchange of channels and positions): `fuse_swaps` makes the product before the Swap compute
    its result transposed. Before that, `leave_room` pads the input of these products to whole blocks of positions where
    the node that computes the input can do so.
    """
    from ...rewrites.row_padding import leave_room

    block = Blocks.of(machine.config).block
    return fuse_swaps(leave_room(graph, block), block, broadcast=machine.config.has("broadcast"))


def whole_blocks(graph: Graph, machine: Machine) -> Graph:
    """Pads positions and lanes of products to whole blocks (`pad_to_blocks`)."""
    from .pad_to_blocks import pad_to_blocks

    return pad_to_blocks(graph, machine.config)


def max_pools(graph: Graph, machine: Machine) -> Graph:
    """Fuses max-pools into convolutions, or splits max-pools that do not fit (`fit_max_pools`)."""
    from .max_pools import fit_max_pools

    return fit_max_pools(graph, machine.config, machine.interleaved)


def attention(graph: Graph, machine: Machine) -> Graph:
    """Fuses the two products of attention and the softmax between them into one node (`fuse_attention`)."""
    from .attention_kernels import fuse_attention

    return fuse_attention(machine.config, graph)


def sum_positions(graph: Graph, machine: Machine) -> Graph:
    """Computes matrix products of one row without exchanging channels and positions of a factor (`sum_positions`)."""
    from .position_sums import sum_positions

    return sum_positions(graph, machine.config)


def norms(graph: Graph, machine: Machine) -> Graph:
    """Fuses normalizations into the convolutions before them (`fuse_norms`)."""
    from .normed_kernels import fuse_norms

    return fuse_norms(machine.config, graph, machine.interleaved)


def join_phases(graph: Graph, machine: Machine) -> Graph:
    """Fuses each Interleave into the convolution before it (`fuse_phases`). An Interleave is the last step of a
    transposed convolution: it puts the outputs of the convolution's phases side by side.
    """
    return fuse_phases(graph)


def look_up(graph: Graph, machine: Machine) -> Graph:
    """Fuses table look-ups into the nodes before them (`fuse_lookups`)."""
    return fuse_lookups(graph)


def spare_positions(graph: Graph, machine: Machine) -> Graph:
    """Fuses nodes that append pad positions to a tensor into the preceding 1x1 convolutions
    (`fuse_spare_positions`).
    """
    return fuse_spare_positions(graph, machine.interleaved)


def _takes_planes(config: Config, graph: Graph, node: Node) -> bool:
    """Whether the store of a convolution may combine its output with an operand that has one value for each plane (all
    positions of one channel): true for 1x1 kernels with whole blocks of channels.

    False if the output fits in the chain memory (on-chip memory that keeps a layer's output for the next layer): the
    output may get pads there, and the operand has no values for pads.
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
