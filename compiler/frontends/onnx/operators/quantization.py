"""QuantizeLinear and DequantizeLinear. This file reads their scale and zero point (grid) and their result type for
integer and float graphs, and imports both operators into integer graphs.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from ....graph.int8_convolution import ActivationType, Quantization
from ..attributes import OnnxNode
from ..context import GraphContext
from ..emit import emit
from ..inputs import quantized_input
from ..integer_context import ImportContext
from ..known_values import Constant, QuantizedConstant
from ..operations import Identity
from ..strided_views import with_pads_for
from ..values import FloatInput, Integer, Pending, Real

NARROW = ("int4", "uint4", "int2", "uint2")
"""Types of constants of fewer than 8 bits; such weights become int8."""
UNUSED_AXES = (-1, 0, 1)
"""Axes that exporters write (or leave as the default) for a node with a single scale, where the axis has no meaning."""


def import_quantize(context: ImportContext, node: OnnxNode) -> None:
    """Imports a QuantizeLinear of a pending result (which is then rounded), of a model input, of a tensor with another
    quantization, or of a constant.
    """
    value, output = context.value(node, 0), node.outputs[0]
    if isinstance(value, Constant | QuantizedConstant):
        from .quantized_constants import quantize_constant

        quantize_constant(context, node, value)
        return
    if not isinstance(value, FloatInput | Real | Pending):
        context.refuse_float(node, 0, value)
    quantization = _grid(context, node, value.shape)
    if isinstance(value, FloatInput):
        context.bind(node, quantized_input(context, node, value, output, quantization))
        return
    if isinstance(value, Real):
        value = context.element_wise(node, Identity(data=value), value)
    tensor = emit(context, node, value, output, quantization).tensor
    context.bind(node, Integer(tensor=tensor, shape=value.shape, dtype=quantization.dtype, view=value.view))


def _grid(
    context: ImportContext, node: OnnxNode, shape: tuple[int, ...], *, holds: ActivationType | None = None
) -> Quantization:
    """Reads the scale and zero point of a QuantizeLinear or DequantizeLinear (see `read_grid`). Raises NodeError for
    more than one scale."""
    dtype, scale, zero_point = read_grid(context, node, shape, holds=holds)
    if scale.size != 1:
        context.fail(
            node,
            f"activation '{node.inputs[0]}' has {scale.size} scales, one per channel",
            "quantize activations per tensor; only weights may have a scale per channel",
        )
    return Quantization(
        scale=np.float32(scale.reshape(-1)[0]), zero_point=int(zero_point.reshape(())), dtype=dtype
    )


def import_dequantize(context: ImportContext, node: OnnxNode) -> None:
    """Imports a DequantizeLinear: gives an integer tensor or constant its scale."""
    value = context.value(node, 0)
    refuse_blocks(context, node)
    check_real_type(context, node)
    match value:
        case Integer():
            own = _grid(context, node, value.shape, holds=value.dtype)
            value = value if value.view is None else with_pads_for(context, node, value, own)
            context.bind(node, context.as_real(value, own))
        case Constant(array=array):
            scale, zero_point = context.array(node, 1, "scale"), context.array(node, 2, "zero point")
            narrow = array.dtype.name in NARROW
            if scale is None or not (narrow or array.dtype.name in ("int8", "uint8", "int32")):
                context.fail(
                    node,
                    f"a dequantized constant of type {array.dtype} is not supported",
                    f"use constants of int8, uint8, int32, {', '.join(NARROW)}",
                )
            if scale.size == 1:
                check_scale_axis(context, node, array.shape)
            integers = array.astype(np.int8) if narrow else array
            context.bind(node, quantized_constant(context, node, integers, scale, zero_point))
        case _:
            context.fail(node, f"its input '{node.inputs[0]}' is already float", "remove this node")


def quantized_constant(
    context: ImportContext,
    node: OnnxNode,
    integers: np.ndarray,
    scale: np.ndarray,
    zero_point: np.ndarray | None,
) -> QuantizedConstant:
    """A quantized constant from integers, scale and zero point, per tensor or along the node's axis. Raises NodeError
    for sizes that do not match. `zero_point` None: 0.

    A negative scale, which ONNX Runtime writes for symmetric weights of 4 bits, becomes positive: the integers are
    mirrored at their zero point, so the real values are unchanged.
    """
    negative, narrow = np.asarray(scale) < 0, checked_scale(context, node, np.abs(scale))
    zeros = np.zeros(narrow.shape, np.int64) if zero_point is None else zero_point.astype(np.int64)
    if narrow.size == 1:
        return QuantizedConstant(
            integers=_mirrored(context, node, integers, zeros.reshape(-1)[0], negative.reshape(-1)[0]),
            scale=narrow.reshape(()),
            zero_point=zeros.reshape(-1)[0].reshape(()),
            axis=None,
        )
    axis = scale_axis(context, node, integers.shape, narrow, zeros)
    zeros = np.broadcast_to(zeros.reshape(-1), narrow.shape)
    column = (-1, *[1] * (integers.ndim - 1 - axis))
    integers = _mirrored(context, node, integers, zeros.reshape(column), negative.reshape(column))
    return QuantizedConstant(integers=integers, scale=narrow, zero_point=zeros, axis=axis)


def _mirrored(
    context: ImportContext, node: OnnxNode, integers: np.ndarray, zero_point: np.ndarray, where: np.ndarray
) -> np.ndarray:
    """Mirrors elements of `integers` at `zero_point`: an element becomes 2 * zero point - element where `where` is
    true. Raises NodeError if a mirrored element does not fit the integers' type.
    """
    if not where.any():
        return integers
    mirrored = np.where(where, 2 * zero_point - integers.astype(np.int64), integers)
    limits = np.iinfo(integers.dtype)
    if mirrored.min(initial=0) < limits.min or mirrored.max(initial=0) > limits.max:
        context.fail(
            node,
            f"has a negative scale; with a positive one its constants (the smallest is {integers.min()}) would not "
            f"fit {integers.dtype}",
            "quantize weights with positive scales",
        )
    return mirrored.astype(integers.dtype)


def rounded_type(context: GraphContext, node: OnnxNode, zero_point: np.dtype | None) -> np.dtype:
    """The element type of a QuantizeLinear's result: the type of the zero point (`zero_point`) or, without one, the
    attribute `output_dtype`, by default uint8. Raises InvalidNodeError if the two differ."""
    number = node.integer("output_dtype", TensorProto.UNDEFINED)
    if number == TensorProto.UNDEFINED:
        return np.dtype(np.uint8) if zero_point is None else zero_point
    if number not in TensorProto.DataType.values():
        context.refuse(node, f"its output_dtype {number} is not the number of an ONNX element type")
    named = helper.tensor_dtype_to_np_dtype(number)
    if zero_point is not None and zero_point != named:
        context.refuse(node, f"its output_dtype {named} does not match its zero point of type {zero_point}")
    return named


def check_real_type(context: GraphContext, node: OnnxNode) -> None:
    """Raises NodeError for a DequantizeLinear whose attribute `output_dtype` is another type than float32."""
    number = node.integer("output_dtype", TensorProto.UNDEFINED)
    if number not in (TensorProto.UNDEFINED, TensorProto.FLOAT):
        name = TensorProto.DataType.Name(number) if number in TensorProto.DataType.values() else number
        context.fail(
            node,
            f"its output_dtype {name} is not supported",
            "dequantize to float32, and put a Cast after it",
        )


def check_scale_axis(context: GraphContext, node: OnnxNode, shape: tuple[int, ...]) -> None:
    """Raises InvalidNodeError if the data's `shape` lacks the node's axis, unless it is one of `UNUSED_AXES`."""
    rank, axis = len(shape), node.integer("axis", 1)
    if not -rank <= axis < rank and axis not in UNUSED_AXES:
        context.refuse(
            node, f"its axis {axis} is not an axis of its input of shape {shape}", "quantize the model again"
        )


def scale_axis(
    context: GraphContext, node: OnnxNode, shape: tuple[int, ...], scale: np.ndarray, zero_point: np.ndarray
) -> int:
    """The axis, 0 or more, along which a QuantizeLinear or DequantizeLinear of data of this `shape` has a scale for
    each index. Raises InvalidNodeError for scales and zero points of other shapes.
    """
    rank, axis = len(shape), node.integer("axis", 1)
    fits = scale.ndim == 1 and -rank <= axis < rank and shape[axis] == scale.size
    if not fits or zero_point.size not in (1, scale.size):
        context.refuse(
            node,
            f"its {scale.size} scales and {zero_point.size} zero points do not match axis {axis} of its input of shape "
            f"{shape}",
            "quantize per tensor or per channel",
        )
    return axis % rank


def read_grid(
    context: GraphContext, node: OnnxNode, shape: tuple[int, ...], *, holds: str | None = None
) -> tuple[ActivationType, np.ndarray, np.ndarray]:
    """Returns (type of the integers, float32 scale, zero point) of a QuantizeLinear or DequantizeLinear of data of this
    `shape`. `holds`: the type of the integers that a DequantizeLinear reads; None for a QuantizeLinear. Raises
    NodeError for a scale per block, and for several zero points of one scale."""
    refuse_blocks(context, node)
    scale, zero_point = context.array(node, 1, "scale"), context.array(node, 2, "zero point")
    if scale is None:
        context.fail(node, "its scale is missing", "give scale and zero point as initializers")
    given = None if zero_point is None else zero_point.dtype
    dtype = rounded_type(context, node, given) if holds is None else np.dtype(holds)
    if given not in (None, dtype):
        context.refuse(
            node, f"its zero point of type {given} does not match its input, integers of type {dtype}"
        )
    zero_point = np.zeros(scale.shape, dtype) if zero_point is None else zero_point
    if scale.size == 1:
        check_scale_axis(context, node, shape)
        if zero_point.size != 1:
            context.fail(
                node,
                f"has {zero_point.size} zero points for one scale",
                "give one zero point",
            )
    return activation_type(context, node, dtype), checked_scale(context, node, scale), zero_point


def refuse_blocks(context: GraphContext, node: OnnxNode) -> None:
    """Raises NodeError for a node with a scale for each block."""
    if node.integer("block_size", 0):
        context.fail(node, "a scale for each block is not supported", "quantize per tensor or per channel")


def checked_scale(context: GraphContext, node: OnnxNode, scale: np.ndarray) -> np.ndarray:
    """The scale as float32; raises NodeError unless it is finite and positive."""
    if scale.dtype not in (np.dtype(np.float32), np.dtype(np.float16), np.dtype(np.float64)):
        context.fail(node, f"its scale must be float, not {scale.dtype}", "give float32 scales")
    narrow = scale.astype(np.float32)
    if not (np.isfinite(narrow).all() and (narrow > 0).all()):
        context.fail(node, "its scale is not a positive finite number", "calibrate the model again")
    return narrow


def activation_type(context: GraphContext, node: OnnxNode, dtype: np.dtype) -> ActivationType:
    """The name of `dtype`, the type of an activation's integers; raises NodeError for all but int8 and uint8."""
    if dtype == np.int8:
        return "int8"
    if dtype == np.uint8:
        return "uint8"
    return context.fail(
        node, f"activations quantized to {dtype} are not supported", "quantize activations to int8 or uint8"
    )
