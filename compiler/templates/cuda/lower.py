"""From a node of the float graph to a program for a GPU: which tensor expression, which template, which arrays."""

from __future__ import annotations

from ...graph.floating.assign_layouts import is_depthwise
from ...graph.floating.graph import FloatGraph, Node
from ...graph.floating.operators import Convolution, Dense
from ...target.cuda.machine import CudaTarget
from ..lower_sums_cpu import lower_convolution, lower_dense, lower_depthwise
from ..lowered_node import LoweredNode, kernel_key
from . import generic
from .flat import flattened
from .lowered import LoweredCudaNode


def lower_cuda_node(
    target: CudaTarget, graph: FloatGraph, node: Node, knobs: object | None = None
) -> LoweredCudaNode | None:
    """The kernels of a node, for graphs whose tensors all lie row by row; None for a view, which has none."""
    match node.operator:
        case Convolution():
            if is_depthwise(node.operator, graph.tensors[node.inputs[1]]):
                return _generic(lower_depthwise(graph, node, node.operator, None))
            return _generic(lower_convolution(graph, node, node.operator, None))
        case Dense():
            return _generic(lower_dense(graph, node, node.operator, None))
    return None


def _generic(lowered: LoweredNode) -> LoweredCudaNode:
    """What a processor's template has a tensor expression for, as kernels without a template of their own."""
    program = flattened(lowered.program)
    shapes = {p.name: p.shape for p in program.parameters}
    return LoweredCudaNode(
        node=lowered.node,
        key=kernel_key("generic", program),
        program=program,
        schedule=lambda target: generic.schedule(target, program),
        tensors=lowered.tensors,
        constants={p: array.reshape(shapes[p]) for p, array in lowered.constants.items()},
    )
