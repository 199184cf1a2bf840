"""QuantizeLinear and DequantizeLinear of a float model: what rounding to integers does to float32 numbers.

Integers between the two are float32 numbers of the same values. What moves values or picks some of them may stand
there; any other operator gets integers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...ir.types import DType
from ...te import scalars
from ...te.scalars import Scalar, argument
from ..graph import Tensor
from ..onnx_context import OnnxNode
from ..onnx_rounding import check_real_type, check_scale_axis, rounded_type
from ..operators import Elementwise
from .onnx_context import FloatContext
from .onnx_pointwise import as_type

QUANTIZED = {"int8": (-128.0, 127.0), "uint8": (0.0, 255.0)}
MOVES = frozenset(
    (
        *(
            "Transpose",
            "Concat",
            "Split",
            "Slice",
            "Gather",
            "GatherND",
            "Expand",
            "Pad",
            "Flatten",
            "Reshape",
            "Squeeze",
            "Unsqueeze",
        ),
        *(
            "Identity",
            "Dropout",
            "MaxPool",
            "GlobalMaxPool",
            "Max",
            "Min",
            "Relu",
            "Shape",
            "Size",
            "DequantizeLinear",
            "DepthToSpace",
            "SpaceToDepth",
        ),
    )
)
"""Operators that treat numbers and integers alike."""


def import_quantize(context: FloatContext, node: OnnxNode) -> None:
    """QuantizeLinear, per tensor or along an axis: y = saturate(round_half_even(x / scale) + zero_point)."""
    data = context.operand(node, 0)
    dtype, scale, zero_point = _grid(context, node, data, rounds=True)
    low, high = QUANTIZED[dtype]
    inputs, (s, z) = _operands(context, node, data, scale, zero_point)
    # The bounds are whole numbers: saturating first changes nothing, and rounding needs numbers of moderate size.
    steps = scalars.clip(scalars.divide(argument(0), s), low - z, high - z)
    name = context.add(node, Elementwise(body=scalars.round_half_even(steps) + z), inputs, data.shape)
    context.quantized[name] = dtype


def import_dequantize(context: FloatContext, node: OnnxNode) -> None:
    """DequantizeLinear of what the model itself quantized: y = (x - zero_point) * scale."""
    data = context.operand(node, 0)
    made = context.quantized.get(data.name)
    if made is None:
        context.fail(node, f"its input '{node.inputs[0]}' is float", "remove it")
    check_real_type(context, node)
    dtype, scale, zero_point = _grid(context, node, data)
    if len(node.inputs) > 2 and node.inputs[2] and dtype != made:
        context.refuse(node, f"reads {made} with a {dtype} zero point", "export it again")
    inputs, (s, z) = _operands(context, node, data, scale, zero_point)
    context.add(node, Elementwise(body=(argument(0) - z) * s), inputs, data.shape)


def with_integers(context: FloatContext, node: OnnxNode) -> tuple[OnnxNode, str]:
    """The node, and the integer type of the operands that it treats as numbers, "" where there is none.

    What such a node makes is quantized as its operands are. For any other operator, which computes with integers or
    takes several types, operands that stand for integers become integers.
    """
    types = {context.quantized.get(context.resolve(name), "") for name in node.inputs if name} - {""}
    if not types:
        return node, ""
    nearest = node.op_type == "Resize" and node.text("mode", "nearest") == "nearest"
    if (nearest or node.op_type in MOVES) and len(types) == 1:
        return node, types.pop()
    return replace(node, inputs=tuple(as_integers(context, node, name) for name in node.inputs)), ""


def as_integers(context: FloatContext, node: OnnxNode, name: str) -> str:
    """The name of a tensor that holds, as integers, the numbers of the tensor `name` that stand for integers; `name`
    itself for any other."""
    resolved = context.resolve(name)
    if resolved not in context.quantized:
        return name
    if resolved not in context.integers:
        dtype = DType(context.quantized[resolved])
        if resolved in context.constants:
            array = context.constants[resolved].astype(dtype.numpy)
            context.integers[resolved] = context.store(f"{resolved}.{dtype}", array)
        else:
            context.integers[resolved] = as_type(context, node, context.tensors[resolved], dtype)
    return context.integers[resolved]


def _grid(
    context: FloatContext, node: OnnxNode, data: Tensor, *, rounds: bool = False
) -> tuple[str, np.ndarray, np.ndarray]:
    """The integer type, scale and zero point, of one element each or with the data's rank; fails on others. `rounds`:
    of a QuantizeLinear, which may name the type itself."""
    scale, zero_point = context.array(node, 1, "scale"), context.array(node, 2, "zero point")
    if scale is None:
        context.fail(node, "has no scale", "give scale and zero point as initializers")
    if node.integer("block_size", 0):
        context.fail(node, "works in blocks", "quantize per tensor or per channel")
    if rounds:
        dtype = rounded_type(context, node, None if zero_point is None else zero_point.dtype)
    else:
        dtype = np.dtype(np.uint8) if zero_point is None else zero_point.dtype
    zero_point = np.zeros(scale.shape, dtype) if zero_point is None else zero_point
    if zero_point.dtype.name not in QUANTIZED:
        context.fail(node, f"has a zero point of {zero_point.dtype}", "quantize activations to int8 or uint8")
    narrow = scale.astype(np.float32)
    if scale.dtype.kind != "f" or not (np.isfinite(narrow).all() and (narrow > 0).all()):
        context.fail(node, "its scale is not a positive finite number", "calibrate the model again")
    if scale.size == 1:
        check_scale_axis(context, node, data.shape)
        if zero_point.size != 1:
            context.fail(node, f"has {zero_point.size} zero points for one scale", "give it one zero point")
        return zero_point.dtype.name, narrow.reshape(()), zero_point.reshape(())
    rank, axis = len(data.shape), node.integer("axis", 1)
    if (
        scale.ndim != 1
        or not -rank <= axis < rank
        or data.shape[axis] != scale.size
        or zero_point.shape != scale.shape
    ):
        context.refuse(
            node, f"has {scale.size} scales along axis {axis} of {data.shape}", "quantize it again"
        )
    along = [1] * rank
    along[axis] = scale.size
    return zero_point.dtype.name, narrow.reshape(along), zero_point.reshape(along)


def _operands(
    context: FloatContext, node: OnnxNode, data: Tensor, scale: np.ndarray, zero_point: np.ndarray
) -> tuple[tuple[str, ...], tuple[Scalar, Scalar]]:
    """The inputs of the element-wise node, and scale and zero point in its body."""
    if not scale.ndim:
        return (data.name,), (float(scale), float(zero_point))
    arrays = (("scale", scale), ("zero_point", zero_point.astype(np.float32)))
    names = [context.store(context.temporary(node, what), array) for what, array in arrays]
    return (data.name, *names), (argument(1), argument(2))
