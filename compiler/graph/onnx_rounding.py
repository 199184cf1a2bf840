"""Scales, zero points and result types of QuantizeLinear and DequantizeLinear, for integer and float graphs."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from .int8_convolution import ActivationType
from .onnx_attributes import OnnxNode
from .onnx_context import GraphContext

UNUSED_AXES = (-1, 0, 1)
"""Axes that exporters write (or leave as the default) for a node of one scale, where the axis has no meaning."""


def rounded_type(context: GraphContext, node: OnnxNode, zero_point: np.dtype | None) -> np.dtype:
    """The element type of QuantizeLinear's result: its zero point's or, without one (None), its attribute
    `output_dtype`, by default uint8. Refuses a node whose two types differ."""
    number = node.integer("output_dtype", TensorProto.UNDEFINED)
    if number == TensorProto.UNDEFINED:
        return np.dtype(np.uint8) if zero_point is None else zero_point
    if number not in TensorProto.DataType.values():
        context.refuse(node, f"has output_dtype {number}, which is no type")
    named = helper.tensor_dtype_to_np_dtype(number)
    if zero_point is not None and zero_point != named:
        context.refuse(node, f"has output_dtype {named} and a zero point of {zero_point}")
    return named


def check_real_type(context: GraphContext, node: OnnxNode) -> None:
    """Fails on a DequantizeLinear whose attribute `output_dtype` is another type than float32."""
    number = node.integer("output_dtype", TensorProto.UNDEFINED)
    if number not in (TensorProto.UNDEFINED, TensorProto.FLOAT):
        name = TensorProto.DataType.Name(number) if number in TensorProto.DataType.values() else number
        context.fail(node, f"has output_dtype {name}", "dequantize to float32, and put a Cast behind it")


def check_scale_axis(context: GraphContext, node: OnnxNode, shape: tuple[int, ...]) -> None:
    """Refuses a QuantizeLinear or DequantizeLinear whose axis `shape` does not have, unless the axis is one of
    UNUSED_AXES.
    """
    rank, axis = len(shape), node.integer("axis", 1)
    if not -rank <= axis < rank and axis not in UNUSED_AXES:
        context.refuse(node, f"has axis {axis} for a tensor of shape {shape}", "quantize the model again")


def read_grid(
    context: GraphContext, node: OnnxNode, shape: tuple[int, ...], *, rounds: bool = False
) -> tuple[ActivationType, np.ndarray, np.ndarray]:
    """Type of the integers, scale (float32) and zero point of a QuantizeLinear (`rounds`) or DequantizeLinear of an
    activation of `shape`; fails for scales of blocks, and for several zero points of one scale."""
    refuse_blocks(context, node)
    scale, zero_point = context.array(node, 1, "scale"), context.array(node, 2, "zero point")
    if scale is None:
        context.fail(node, "has no scale", "give scale and zero point as initializers")
    dtype = np.dtype(np.uint8) if zero_point is None else zero_point.dtype
    if rounds:
        dtype = rounded_type(context, node, None if zero_point is None else dtype)
    zero_point = np.zeros(scale.shape, dtype) if zero_point is None else zero_point
    if scale.size == 1:
        check_scale_axis(context, node, shape)
        if zero_point.size != 1:
            context.fail(node, f"has {zero_point.size} zero points for one scale", "give it one zero point")
    return activation_type(context, node, dtype), checked_scale(context, node, scale), zero_point


def refuse_blocks(context: GraphContext, node: OnnxNode) -> None:
    """Fails on a node with a scale for each block."""
    if node.integer("block_size", 0):
        context.fail(node, "works in blocks", "quantize per tensor or per channel")


def checked_scale(context: GraphContext, node: OnnxNode, scale: np.ndarray) -> np.ndarray:
    """The scale as float32; fails unless finite and positive."""
    if scale.dtype not in (np.dtype(np.float32), np.dtype(np.float16), np.dtype(np.float64)):
        context.fail(node, f"its scale has type {scale.dtype}", "give float32 scales")
    narrow = scale.astype(np.float32)
    if not (np.isfinite(narrow).all() and (narrow > 0).all()):
        context.fail(node, "its scale is not a positive finite number", "calibrate the model again")
    return narrow


def activation_type(context: GraphContext, node: OnnxNode, dtype: np.dtype) -> ActivationType:
    """The name of the type of an activation's integers; fails on all but int8 and uint8."""
    if dtype == np.int8:
        return "int8"
    if dtype == np.uint8:
        return "uint8"
    return context.fail(node, f"quantizes to {dtype}", "quantize activations to int8 or uint8")
