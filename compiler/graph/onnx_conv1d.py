"""Windows over one dimension: a line (N, C, L) becomes an image (N, C, L, 1), the layout of rows of channels as
well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .floating.onnx_conv1d import plane_attributes, plane_sizes
from .onnx_attributes import OnnxNode
from .onnx_emit import real_operand
from .onnx_integer_context import ImportContext
from .onnx_strided_views import line_of, settled
from .onnx_values import Constant, Integer, Pending, QuantizedConstant, Real, Value

WEIGHTS = {"Conv": 1, "ConvTranspose": 1}
"""Index of the input that holds weights, which have the dimensions of the window."""


def import_on_line(
    context: ImportContext, node: OnnxNode, importer: Callable[[ImportContext, OnnxNode], None]
) -> None:
    """Imports a node with windows over a line as the same node over an image of one column."""
    widened: dict[str, Value] = {node.inputs[0]: _as_image(context, node)}
    if (index := WEIGHTS.get(node.op_type)) is not None:
        weights = context.value(node, index)
        if isinstance(weights, Constant) and weights.array.ndim == 3:
            widened[node.inputs[index]] = Constant(array=weights.array[..., None])
        elif isinstance(weights, QuantizedConstant) and weights.integers.ndim == 3:
            widened[node.inputs[index]] = replace(weights, integers=weights.integers[..., None])
        elif not isinstance(weights, Constant | QuantizedConstant):
            context.fail(
                node, "its weights are not constant", "only products with constant weights are supported"
            )
    for index in (2, 3) if node.op_type == "Resize" else ():
        if (sizes := plane_sizes(context, node, index, 1)) is not None:
            widened[node.inputs[index]] = Constant(array=sizes)
    line = {name: context.values[name] for name in widened}
    output = node.outputs[0]
    inferred = context.static_shapes.pop(output, None)
    context.values.update(widened)
    try:
        importer(context, replace(node, attributes=plane_attributes(context, node, 1)))
    finally:
        context.values.update(line)
        if inferred is not None and context.static_shapes:
            context.static_shapes[output] = inferred
    value = context.values[output]
    assert isinstance(value, Pending | Integer | Real)
    context.bind(node, replace(value, shape=value.shape[:3]))


def _as_image(context: ImportContext, node: OnnxNode) -> Real | Integer:
    """The first operand, (N, C, L), as (N, C, L, 1)."""
    value = context.value(node, 0)
    if isinstance(value, Integer):
        grid = context.tensors[value.tensor].grid
        real = Real(tensor=value.tensor, shape=value.shape, quantization=grid, view=value.view)
        there = line_of(context, node, settled(context, node, real))
        return replace(value, tensor=there.tensor, shape=there.shape, view=None)
    return line_of(context, node, real_operand(context, node, 0))
