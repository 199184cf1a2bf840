"""QuantizeLinear and DequantizeLinear of a float model. QuantizeLinear rounds to integer values, which a float32 tensor
holds.

Operators between a QuantizeLinear and a DequantizeLinear read these float32 tensors. Operators that only move or select
values (`MOVES`) read them as float32; for any other operator they are cast to integers. A QuantizeLinear for which
`makes_integers` holds has an integer tensor as its result instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from onnx import TensorProto, helper

from ....graph.graph import Tensor
from ....graph.operators import Elementwise
from ....ir.types import DType
from ....te import scalars
from ....te.scalars import Scalar, argument
from ..attributes import OnnxNode
from ..context import GraphContext
from ..operators.quantization import check_real_type, read_grid, rounded_type, scale_axis
from ..steps import FloatSteps
from .pointwise import as_type

QUANTIZED = {"int8": (-128.0, 127.0), "uint8": (0.0, 255.0)}

MOVES = frozenset(
    (
        *("Transpose", "Concat", "Split", "Slice", "Gather", "GatherND", "Expand", "Pad", "Flatten"),
        *("Reshape", "Squeeze", "Unsqueeze", "Identity", "Dropout", "MaxPool", "GlobalMaxPool", "Max"),
        *("Min", "Relu", "Shape", "Size", "DequantizeLinear", "DepthToSpace", "SpaceToDepth"),
    )
)
"""Operators whose result on float32 tensors of integer values equals their result on integers."""

RANGES: Mapping[DType, tuple[int, int]] = MappingProxyType(
    {
        **{d: d.limits for d in (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16)},
        DType.INT4: (-8, 7),
        DType.UINT4: (0, 15),
        DType.INT2: (-2, 1),
        DType.UINT2: (0, 3),
    }
)
"""Lower and upper bound to which QuantizeLinear saturates, by integer dtype."""


def makes_integers(context: GraphContext, node: OnnxNode) -> bool:
    """Whether a QuantizeLinear is imported with an integer tensor as its result, not with a float32 tensor that holds
    integers.
    """
    known = not any(node.inputs[2:]) or context.is_constant(node, 2)
    zero_point = context.tensor(node, 2).dtype.numpy if any(node.inputs[2:]) else None
    plain = known and rounded_type(context, node, zero_point) in (np.int8, np.uint8)
    # The quotient of 16-bit floats is rounded to 16 bits too.
    halves = context.half_type(node) is not None
    return not (plain and context.is_constant(node, 1)) or halves or bool(node.integer("block_size", 0))


def import_quantize(context: GraphContext, node: OnnxNode) -> None:
    """Imports QuantizeLinear, per tensor or along an axis: y = saturate(round_half_even(x / scale) + zero_point)."""
    data = context.operand(node, 0)
    dtype, scale, zero_point = _grid(context, node, data)
    low, high = QUANTIZED[dtype]
    inputs, (s, z) = _operands(context, node, data, scale, zero_point)
    # The bounds are integers, so saturating first changes no result; round_half_even needs moderate magnitudes.
    steps = scalars.clip(scalars.divide(argument(0), s), low - z, high - z)
    name = context.add(node, Elementwise(body=scalars.round_half_even(steps) + z), inputs, data.shape)
    context.quantized[name] = dtype


def reads_integers(context: GraphContext, node: OnnxNode) -> bool:
    """Whether a DequantizeLinear reads an integer tensor, not a float32 tensor that holds integers."""
    return context.resolve(node.inputs[0]) not in context.quantized


def import_dequantize(context: GraphContext, node: OnnxNode) -> None:
    """Imports DequantizeLinear of a tensor that the model itself quantized: y = (x - zero_point) * scale."""
    data = context.operand(node, 0)
    check_real_type(context, node)
    _, scale, zero_point = _grid(context, node, data, holds=context.quantized[data.name])
    inputs, (s, z) = _operands(context, node, data, scale, zero_point)
    context.add(node, Elementwise(body=(argument(0) - z) * s), inputs, data.shape)


def with_integers(context: GraphContext, node: OnnxNode) -> tuple[OnnxNode, str]:
    """Prepares the import of a node some of whose float32 inputs may hold quantized integers. Returns (node to import,
    integer dtype).

    A node of an operator in `MOVES`, or a Resize in mode nearest, only moves the integers. If all integers have one
    dtype, the node is returned unchanged with this dtype, which its float32 result then holds. In any other node,
    integer tensors with the same values replace the inputs that hold integers; the returned dtype is "".
    """
    types = {context.quantized.get(context.resolve(name), "") for name in node.inputs if name} - {""}
    if not types:
        return node, ""
    nearest = node.op_type == "Resize" and node.text("mode", "nearest") == "nearest"
    if (nearest or node.op_type in MOVES) and len(types) == 1:
        return node, types.pop()
    return replace(node, inputs=tuple(as_integers(context, node, name) for name in node.inputs)), ""


def as_integers(context: GraphContext, node: OnnxNode, name: str) -> str:
    """Casts the float32 tensor `name` to the dtype of the integers that it holds; returns the name of the result.
    Returns `name` itself if the tensor holds real numbers.
    """
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
    context: GraphContext, node: OnnxNode, data: Tensor, *, holds: str | None = None
) -> tuple[str, np.ndarray, np.ndarray]:
    """The integer dtype, scale and zero point of a QuantizeLinear or DequantizeLinear (see `read_grid`). Scale and zero
    point are scalars or broadcast to `data` along an axis; raises NodeError for other shapes.
    """
    dtype, scale, zero_point = read_grid(context, node, data.shape, holds=holds)
    if scale.size == 1:
        return dtype, scale.reshape(()), zero_point.reshape(())
    axis = scale_axis(context, node, data.shape, scale, zero_point)
    along = [-1 if d == axis else 1 for d in range(len(data.shape))]
    zero_points = np.broadcast_to(zero_point.reshape(-1), scale.shape)
    return dtype, scale.reshape(along), zero_points.reshape(along)


def _operands(
    context: GraphContext, node: OnnxNode, data: Tensor, scale: np.ndarray, zero_point: np.ndarray
) -> tuple[tuple[str, ...], tuple[Scalar, Scalar]]:
    """Prepares the element-wise node that quantizes or dequantizes `data`. Returns the names of the node's inputs, and
    the pair (scale, zero point) for the node's expression. A single scale and zero point become numbers in the
    expression; several become two further inputs.
    """
    if not scale.ndim:
        return (data.name,), (float(scale), float(zero_point))
    arrays = (("scale", scale), ("zero_point", zero_point.astype(np.float32)))
    names = [context.store(context.temporary(node, what), array) for what, array in arrays]
    return (data.name, *names), (argument(1), argument(2))


def quantize_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute QuantizeLinear to integer or small-float tensors: round(x / scale) + zero point,
    saturated.
    """
    given = s.dtype(2).numpy if s.input(2) else None
    to = DType(rounded_type(s.context, s.node, given).name)
    if s.is_constant(1):
        known = s.context.constants[s.context.resolve(s.node.inputs[1])]
        if not (np.isfinite(known).all() and (known > 0).all()):
            s.fail("its scale is not a positive finite number", "calibrate the model again")
    scale = _broadcastable(s, 1)
    # The quotient has the dtype of the scale, 16-bit floats included.
    quotient = s.add("Div", s.add("CastLike", s.input(0), scale), scale)
    quotient = s.add("Cast", quotient, to=TensorProto.FLOAT)
    kind = helper.np_dtype_to_tensor_dtype(to.numpy)
    if to not in RANGES:
        if not to.is_code:
            s.refuse(f"its output type {to} is not a type of quantized numbers")
        s.done(s.add("Cast", quotient, to=kind, saturate=s.node.integer("saturate", 1)))
        return
    whole = s.add("Round", quotient)
    if s.input(2):
        whole = s.add("Add", whole, s.add("Cast", _broadcastable(s, 2), to=TensorProto.FLOAT))
    low, high = (s.constant(value, np.float32) for value in RANGES[to])
    s.done(s.add("Cast", s.add("Clip", whole, low, high), to=kind))


def dequantize_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute DequantizeLinear of integer or small-float tensors: (x - zero point) * scale."""
    scale = s.dtype(1)
    number = s.add("Cast", s.input(0), to=TensorProto.FLOAT)
    if s.input(2):
        number = s.add("Sub", number, s.add("Cast", _broadcastable(s, 2), to=TensorProto.FLOAT))
    product = s.add("Mul", number, s.add("Cast", _broadcastable(s, 1), to=TensorProto.FLOAT))
    to = s.node.integer("output_dtype", 0) or helper.np_dtype_to_tensor_dtype(scale.numpy)
    s.done(s.add("Cast", product, to=to))


def _broadcastable(s: FloatSteps, index: int) -> str:
    """Reshapes a scale or zero point (input `index`) so that it broadcasts to the data; returns the new name. The input
    is a scalar, a vector along the axis, or a tensor with one number for each block.
    """
    shape, given = s.shape(0), s.shape(index)
    if not given or given == (1,):
        return s.add("Reshape", s.input(index), s.constant([], np.int64))
    axis, block = s.node.integer("axis", 1), s.node.integer("block_size", 0)
    if not -len(shape) <= axis < len(shape):
        s.refuse(f"its axis {axis} is not an axis of its input of shape {shape}", "quantize the model again")
    axis %= len(shape)
    if not block and len(given) == 1 and given[0] == shape[axis]:
        return s.add("Reshape", s.input(index), s.constant([-1, *[1] * (len(shape) - 1 - axis)], np.int64))
    count = -(-shape[axis] // block) if block else 0
    if (*shape[:axis], count, *shape[axis + 1 :]) != given or shape[axis] != count * block:
        s.refuse(
            f"its scales or zero points of shape {given} do not match its input of shape {shape} in blocks of "
            f"{block} elements",
            "quantize the model again",
        )
    wide = s.add("Unsqueeze", s.input(index), s.axes(axis + 1))
    full = (*shape[:axis], count, block, *shape[axis + 1 :])
    return s.add("Reshape", s.add("Expand", wide, s.constant(full, np.int64)), s.constant(shape, np.int64))
