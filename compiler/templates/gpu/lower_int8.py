"""Lowering, for GPUs, of integer nodes, whose tensors hold all channels of a position in one block."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ...codegen.cuda.machine import GpuTarget
from ...graph.graph import Graph, Node
from ...graph.int8_convolution import Int8Convolution
from ...graph.int8_operators import Int8Elementwise, Int8Operator, Table
from ..cpu.lower_int8 import depthwise_expression, int8_expression, is_depthwise
from .lower_moves import ELEMENTS
from .lowered import GENERIC, Kernel, LoweredCudaNode, lower_expression

_KERNELS: Mapping[type, Kernel] = MappingProxyType(
    {
        Int8Elementwise: ELEMENTS,
        Table: ELEMENTS,
    }
)
"""The kernel of each operator type that has a template of its own; other types use `GENERIC`."""


def lower_int8_node(
    target: GpuTarget, graph: Graph, node: Node, operator: Int8Operator, knobs: Any = None
) -> LoweredCudaNode:
    """The kernels of an integer node of a graph that `graph.int8_for_processors` made with `channels_last`."""
    if not isinstance(operator, Int8Convolution):
        expression = int8_expression(graph, node, operator)
        return lower_expression(graph, node, expression, _KERNELS.get(type(operator), GENERIC), knobs)
    if is_depthwise(graph, node, operator):
        return lower_expression(graph, node, depthwise_expression(graph, node, operator))
    from ..cpu.lower_int8 import _convolution

    return lower_expression(graph, node, _convolution(graph, node, operator))
