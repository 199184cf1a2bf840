"""Transpose in a quantized model: another view of a tensor, another order of the model's input, or of weights."""

from __future__ import annotations

from dataclasses import replace

from .onnx_axes import permutation
from .onnx_context import ImportContext, OnnxNode
from .onnx_strided_views import elements_of, seen_as
from .onnx_values import FloatInput, Integer, Pending, QuantizedConstant, Real


def import_transpose(context: ImportContext, node: OnnxNode) -> None:
    """Imports a Transpose; it does not become a node."""
    value = context.first(node)
    order, is_view = permutation(context, node, value.shape)
    shape = tuple(value.shape[axis] for axis in order)
    match value:
        case QuantizedConstant(integers=integers, axis=axis):
            moved_axis = None if axis is None else order.index(axis)
            context.bind(node, replace(value, integers=integers.transpose(order), axis=moved_axis))
        case _ if is_view:
            context.bind_view(node, shape)
        case FloatInput(declared=declared, permutation=before) if value.shape == _permuted(declared, before):
            before = before or tuple(range(len(declared)))
            context.bind(node, replace(value, permutation=tuple(before[axis] for axis in order), shape=shape))
        case Real() | Integer() | Pending():
            # Elements move only when an operator needs them in this order.
            context.bind(node, seen_as(context, value, elements_of(context, value).transpose(order)))
        case _:
            context.fail(
                node,
                f"moves the dimensions {value.shape} to {shape} of what is not quantized",
                "quantize its input (QuantizeLinear, DequantizeLinear)",
            )


def _permuted(shape: tuple[int, ...], permutation: tuple[int, ...] | None) -> tuple[int, ...]:
    return shape if permutation is None else tuple(shape[axis] for axis in permutation)
