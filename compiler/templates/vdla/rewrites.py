"""Rewrites of `legalize` that call functions of `compiler/rewrites`, and tell these functions what the machine can
compute.
"""

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


def exchange(graph: Graph, machine: Machine) -> Graph:
    """Removes each Swap (exchange of channels and positions) that `fuse_swaps` can fuse into the 1x1 convolution before
    it, which then computes its result transposed. Before that, `leave_room` pads the inputs of these convolutions to
    whole blocks of positions where the node that computes the input can do so.
    """
    from ...rewrites.row_padding import leave_room

    block = Blocks.of(machine.config).block
    return fuse_swaps(leave_room(graph, block), block, broadcast=machine.config.has("broadcast"))


def join_phases(graph: Graph, machine: Machine) -> Graph:
    """Fuses each Interleave into the convolution before it (`fuse_phases`). An Interleave is the last step of a
    transposed convolution: it puts the outputs of the convolution's phases side by side.
    """
    return fuse_phases(graph)


def look_up(graph: Graph, machine: Machine) -> Graph:
    """Fuses table look-ups into the convolutions and products before them, where possible (`fuse_lookups`)."""
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
