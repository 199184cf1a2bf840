"""From a node of the float graph to a program for a GPU: which tensor expression, which template, which arrays."""

from __future__ import annotations

from ...graph.floating.assign_layouts import is_depthwise
from ...graph.floating.graph import FloatGraph, Node
from ...graph.floating.operators import (
    AveragePool,
    Concatenate,
    Convolution,
    Dense,
    Elementwise,
    Gather,
    LstmSteps,
    MatrixProduct,
    MaxPool,
    Normalization,
    Permute,
    Reduction,
    Relayout,
    Remap,
    Resize,
    Softmax,
)
from ...target.cuda.machine import CudaTarget
from ...te.blocks import Window
from ..lower_sums_cpu import lower_convolution, lower_depthwise
from .dense import lower_dense
from .lower_moves import (
    lower_concatenation,
    lower_elementwise,
    lower_gather,
    lower_permutation,
    lower_pool,
    lower_relayout,
    lower_remap,
    lower_resize,
)
from .lower_rows import lower_lstm, lower_normalization, lower_reduction, lower_softmax
from .lowered import LoweredCudaNode, on_generic
from .matmul import lower_matrix_product


def lower_cuda_node(
    target: CudaTarget, graph: FloatGraph, node: Node, knobs: object | None = None
) -> LoweredCudaNode | None:
    """The kernels of a node, for graphs whose tensors all lie row by row; None for operators that have no kernel."""
    match node.operator:
        case Convolution():
            if is_depthwise(node.operator, graph.tensors[node.inputs[1]]):
                return on_generic(lower_depthwise(graph, node, node.operator, None))
            return on_generic(lower_convolution(graph, node, node.operator, None))
        case Dense():
            return lower_dense(target, graph, node, node.operator)
        case MatrixProduct():
            return lower_matrix_product(target, graph, node)
        case LstmSteps():
            return lower_lstm(target, graph, node, node.operator)
        case Softmax():
            return lower_softmax(target, graph, node, node.operator)
        case Normalization():
            return lower_normalization(target, graph, node, node.operator)
        case Reduction(kind=kind, axes=axes):
            return lower_reduction(target, graph, node, kind, axes)
        case MaxPool() | AveragePool():
            height, width = graph.data_shape(node)[2:]
            if node.operator.window == Window(kernel=(height, width)):
                # One output a plane: rows of the input.
                kind = "max" if isinstance(node.operator, MaxPool) else "mean"
                return lower_reduction(target, graph, node, kind, (2, 3))
            return lower_pool(graph, node, node.operator)
        case Permute(axes=axes):
            return lower_permutation(target, graph, node, axes)
        case Concatenate(axis=axis):
            return lower_concatenation(graph, node, axis)
        case Remap():
            return lower_remap(graph, node, node.operator)
        case Gather():
            return lower_gather(graph, node, node.operator)
        case Resize():
            return lower_resize(graph, node, node.operator)
        case Elementwise(body=body):
            return lower_elementwise(graph, node, body)
        case Relayout():
            return lower_relayout(graph, node)
    return None
