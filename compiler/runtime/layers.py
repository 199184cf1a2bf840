"""The layers of a compiled network for reports, with the work and the roofline cycles of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vdla.isa.config import Config

from ..graph.cost import count_macs
from ..graph.graph import Graph, Node
from ..graph.traffic import compulsory_bytes, roofline_cycles
from .artifact import Compiled


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One fused group of operators of the network, number `group` in the program. `op`: the kind of its graph node.
    `members`: names of its ONNX nodes. `macs`: number of its multiplications. `compulsory_bytes`: the least
    number of bytes that the ONNX convolution or matrix product in the group must move (0 for other operators).

    `roofline_cycles` (`traffic.roofline_cycles`) is for the ONNX convolution or matrix product in the group, before
    fusion (0 for other operators). It is the greater of two times: the time of the operator's multiplications, and the
    time in which memory moves the bytes that the operator must move. `bound` says which of the two is greater.
    """

    name: str
    op: str
    members: tuple[str, ...]
    macs: int
    roofline_cycles: float
    bound: Literal["compute", "memory"]
    compulsory_bytes: int
    group: int


def layers_of(compiled: Compiled) -> tuple[Layer, ...]:
    """The layers in the order of the program."""
    graph, config = compiled.graph, compiled.program.config
    return tuple([_layer(graph, node, config, number) for number, node in enumerate(graph.nodes)])


def _layer(graph: Graph, node: Node, config: Config, group: int) -> Layer:
    macs = count_macs(graph, node)
    roofline = roofline_cycles(graph, node, config)
    return Layer(
        name=node.name,
        op=node.kind,
        members=node.members,
        macs=macs,
        roofline_cycles=roofline,
        bound="compute" if macs and roofline == macs / config.multiplies_per_cycle else "memory",
        compulsory_bytes=compulsory_bytes(graph, node),
        group=group,
    )
