"""QuantizeLinear and DequantizeLinear of a quantized model: the quantization (scale and zero point) of its tensors and
constants.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from .int8_convolution import Quantization
from .onnx_attributes import OnnxNode
from .onnx_emit import emit
from .onnx_inputs import quantized_input
from .onnx_integer_context import ImportContext, pending_result
from .onnx_known_values import Constant, QuantizedConstant
from .onnx_operations import Same
from .onnx_rounding import (
    check_real_type,
    check_scale_axis,
    checked_scale,
    read_grid,
    refuse_blocks,
    rounded_type,
)
from .onnx_values import FloatInput, Integer, Pending, Real

NARROW = ("int4", "uint4", "int2", "uint2")
"""Types of constants of fewer than 8 bits; such weights become int8."""


def import_quantize(context: ImportContext, node: OnnxNode) -> None:
    """Imports a QuantizeLinear of a pending result, a model input, a tensor with another quantization, or a constant.
    """
    value, output = context.value(node, 0), node.outputs[0]
    if isinstance(value, Constant | QuantizedConstant):
        _quantize_constant(context, node, value)
        return
    if not isinstance(value, FloatInput | Real | Pending):
        context.refuse_float(node, 0, value)
    quantization = _grid(context, node, value.shape, rounds=True)
    match value:
        case FloatInput():
            context.bind(node, quantized_input(context, node, value, output, quantization))
            return
        case Real(tensor=stored, shape=shape, view=view):
            natural = context.tensors[stored].shape
            same = pending_result(node, Same(data=value), natural, shape=shape, view=view)
            tensor = emit(context, node, same, output, quantization).tensor
        case Pending(shape=shape, view=view):
            tensor = emit(context, node, value, output, quantization).tensor
    context.bind(node, Integer(tensor=tensor, shape=shape, dtype=quantization.dtype, view=view))


def _grid(
    context: ImportContext, node: OnnxNode, shape: tuple[int, ...], *, rounds: bool = False
) -> Quantization:
    """Scale and zero point of an activation of `shape` (`rounds`: from a QuantizeLinear); fails for several scales."""
    dtype, scale, zero_point = read_grid(context, node, shape, rounds=rounds)
    if scale.size != 1:
        context.fail(
            node,
            f"activation '{node.inputs[0]}' has {scale.size} scales, one per channel",
            "quantize activations per tensor; only weights may have a scale per channel",
        )
    return Quantization(
        scale=np.float32(scale.reshape(-1)[0]), zero_point=int(zero_point.reshape(())), dtype=dtype
    )


def _quantize_constant(context: ImportContext, node: OnnxNode, value: Constant | QuantizedConstant) -> None:
    refuse_blocks(context, node)
    real = value.real()
    scale = context.array(node, 1, "scale")
    zero_point = context.array(node, 2, "zero point")
    if scale is None or real.dtype.kind != "f":
        context.fail(node, f"quantizes a constant of {real.dtype}", "give float constants and a scale")
    dtype = rounded_type(context, node, None if zero_point is None else zero_point.dtype)
    if dtype.name not in ("int8", "uint8", "int32", *NARROW):
        context.fail(
            node, f"quantizes a constant to {dtype}", "quantize weights to 8 bits or fewer and biases to 32"
        )
    if scale.size == 1:
        check_scale_axis(context, node, real.shape)
    empty = np.zeros(real.shape, dtype)
    grid = quantized_constant(context, node, empty, scale, zero_point, node.integer("axis", 1))
    limits = ml_dtypes.iinfo(dtype)
    rounded = np.rint(real.astype(np.float32) / grid.along_axis(grid.scale)).astype(
        np.float64
    ) + grid.along_axis(grid.zero_point)
    context.bind(node, Constant(array=np.clip(rounded, limits.min, limits.max).astype(dtype)))


def import_dequantize(context: ImportContext, node: OnnxNode) -> None:
    """Imports a DequantizeLinear: gives an integer tensor or constant its scale."""
    value = context.value(node, 0)
    refuse_blocks(context, node)
    check_real_type(context, node)
    match value:
        case Integer():
            quantization = _grid(context, node, value.shape)
            if len(node.inputs) > 2 and node.inputs[2] and quantization.dtype != value.dtype:
                context.refuse(
                    node, f"reads {value.dtype} with a {quantization.dtype} zero point", "export it again"
                )
            own = Quantization(
                scale=quantization.scale, zero_point=quantization.zero_point, dtype=value.dtype
            )
            context.bind(node, context.seen_as(value, own))
        case Constant(array=array):
            scale, zero_point = context.array(node, 1, "scale"), context.array(node, 2, "zero point")
            narrow = array.dtype.name in NARROW
            if scale is None or not (narrow or array.dtype.name in ("int8", "uint8", "int32")):
                context.fail(
                    node,
                    f"dequantizes a constant of {array.dtype}",
                    f"use constants of int8, uint8, int32, {', '.join(NARROW)}",
                )
            if scale.size == 1:
                check_scale_axis(context, node, array.shape)
            integers, axis = array.astype(np.int8) if narrow else array, node.integer("axis", 1)
            context.bind(node, quantized_constant(context, node, integers, scale, zero_point, axis))
        case _:
            context.fail(node, f"its input '{node.inputs[0]}' is already float", "remove it")


def quantized_constant(
    context: ImportContext,
    node: OnnxNode,
    integers: np.ndarray,
    scale: np.ndarray,
    zero_point: np.ndarray | None,
    axis: int,
) -> QuantizedConstant:
    """A quantized constant from integers, scale and zero point, per tensor or along `axis`; fails on sizes that do not
    match.

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
    if integers.ndim and not -integers.ndim <= axis < integers.ndim:
        context.refuse(
            node, f"has axis {axis} for a constant of shape {integers.shape}", "quantize the model again"
        )
    axis %= max(integers.ndim, 1)
    if (
        narrow.ndim != 1
        or integers.ndim == 0
        or narrow.size != integers.shape[axis]
        or zeros.size not in (1, narrow.size)
    ):
        context.fail(
            node,
            f"{narrow.size} scales along axis {axis} do not fit a constant of shape {integers.shape}",
            "quantize per tensor or per channel",
        )
    zeros = np.broadcast_to(zeros.reshape(-1), narrow.shape)
    column = (-1, *[1] * (integers.ndim - 1 - axis))
    integers = _mirrored(context, node, integers, zeros.reshape(column), negative.reshape(column))
    return QuantizedConstant(integers=integers, scale=narrow, zero_point=zeros, axis=axis)


def _mirrored(
    context: ImportContext, node: OnnxNode, integers: np.ndarray, zero_point: np.ndarray, where: np.ndarray
) -> np.ndarray:
    """`integers`, mirrored at the zero point where `where` is true; fails where the result leaves their type."""
    if not where.any():
        return integers
    mirrored = np.where(where, 2 * zero_point - integers.astype(np.int64), integers)
    limits = np.iinfo(integers.dtype)
    if mirrored.min(initial=0) < limits.min or mirrored.max(initial=0) > limits.max:
        context.fail(
            node,
            f"has a negative scale for {integers.dtype} constants that end at {integers.min()}",
            "quantize weights with positive scales",
        )
    return mirrored.astype(integers.dtype)
