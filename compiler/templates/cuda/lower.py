"""From a node of the float graph to a program for a GPU: which tensor expression, which template, which arrays."""

from __future__ import annotations

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
from ...te.ops.matmul import matmul
from ..lower_sums_cpu import lower_dense
from .lower_convolutions import lower_convolution
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
from .lowered import LoweredCudaNode, in_order, on_generic


def lower_cuda_node(
    target: CudaTarget, graph: FloatGraph, node: Node, knobs: object | None = None
) -> LoweredCudaNode | None:
    """The kernels of a node, for graphs whose tensors all lie row by row; None for operators that have no kernel."""
    match node.operator:
        case Convolution():
            return lower_convolution(target, graph, node, node.operator, knobs)
        case Dense():
            return on_generic(lower_dense(graph, node, node.operator, None))
        case MatrixProduct():
            return _matrix_product(graph, node)
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


def _matrix_product(graph: FloatGraph, node: Node) -> LoweredCudaNode:
    a, b = (graph.tensors[name].shape for name in node.own_inputs)
    beside = [graph.tensors[node.inputs[i]].shape[:-2] for i in node.operands(node.result)]
    program = matmul(batch_x=a[:-2], batch_w=b[:-2], rows=a[-2], depth=a[-1], columns=b[-1], beside=beside)
    return in_order(graph, node, program)
