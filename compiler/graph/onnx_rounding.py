"""Result types of QuantizeLinear and DequantizeLinear, for integer and float graphs."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from .onnx_context import NodeContext, OnnxNode

UNUSED_AXES = (-1, 0, 1)
"""Axes that exporters write (or leave as the default) for a node of one scale, where the axis has no meaning."""


def rounded_type(context: NodeContext, node: OnnxNode, zero_point: np.dtype | None) -> np.dtype:
    """The element type of QuantizeLinear's result: its zero point's or, without one (None), its attribute
    `output_dtype`, by default uint8. Refuses a node whose two types differ."""
    number = node.integer("output_dtype", TensorProto.UNDEFINED)
    if number == TensorProto.UNDEFINED:
        return np.dtype(np.uint8) if zero_point is None else zero_point
    if number not in TensorProto.DataType.values():
        context.refuse(node, f"has output_dtype {number}, which is no type", "export the model again")
    named = helper.tensor_dtype_to_np_dtype(number)
    if zero_point is not None and zero_point != named:
        context.refuse(
            node, f"has output_dtype {named} and a zero point of {zero_point}", "export the model again"
        )
    return named


def check_real_type(context: NodeContext, node: OnnxNode) -> None:
    """Fails on a DequantizeLinear whose attribute `output_dtype` is another type than float32."""
    number = node.integer("output_dtype", TensorProto.UNDEFINED)
    if number not in (TensorProto.UNDEFINED, TensorProto.FLOAT):
        name = TensorProto.DataType.Name(number) if number in TensorProto.DataType.values() else number
        context.fail(node, f"has output_dtype {name}", "dequantize to float32, and put a Cast behind it")


def check_scale_axis(context: NodeContext, node: OnnxNode, shape: tuple[int, ...]) -> None:
    """Refuses a QuantizeLinear or DequantizeLinear whose axis `shape` does not have; common unused axes pass."""
    rank, axis = len(shape), node.integer("axis", 1)
    if not -rank <= axis < rank and axis not in UNUSED_AXES:
        context.refuse(node, f"has axis {axis} for a tensor of shape {shape}", "quantize the model again")
