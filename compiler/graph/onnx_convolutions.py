"""Conv over two dimensions with constant weights, for integer and float graphs."""

from __future__ import annotations

from ..te.ops.sums import Epilogue
from .onnx_context import GraphContext
from .onnx_node import OnnxNode
from .onnx_window_attributes import convolution_window
from .operators import Convolution


def import_convolution(context: GraphContext, node: OnnxNode) -> None:
    """Imports Conv of two spatial dimensions with constant weights."""
    data, weight = context.operand(node, 0), context.operand(node, 1)
    window, groups, shape = convolution_window(context, node, data.shape, weight.shape)
    bias = bias_name(context, node, shape[1])
    inputs = (data.name, weight.name) if bias is None else (data.name, weight.name, bias)
    operator = Convolution(window=window, groups=groups, epilogue=Epilogue(bias=bias is not None))
    context.add(node, operator, inputs, shape)


def bias_name(context: GraphContext, node: OnnxNode, filters: int) -> str | None:
    """Name of the constant bias of a node with so many filters; None where it is left out."""
    bias = context.array(node, 2, "bias")
    if bias is None:
        return None
    if bias.shape != (filters,):
        context.fail(node, f"has a bias of shape {bias.shape}", f"give ({filters},)")
    return context.operand(node, 2).name
