"""Comparisons, logical operators on bool, Where, and casts of a float model."""

from __future__ import annotations

from functools import reduce

import numpy as np
from onnx import TensorProto, helper

from ...ir.expr import Expr, cast, dtype_of, equal, not_equal, select
from ...ir.types import DType
from ...te import small_types
from ...te.scalars import argument
from ..graph import Tensor
from ..onnx_attributes import OnnxNode
from ..onnx_context import TYPES, GraphContext
from ..onnx_load import type_name
from .onnx_pointwise import add_elementwise

COMPARISONS = frozenset(["Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"])


def import_logic(context: GraphContext, node: OnnxNode) -> None:
    """Imports a comparison, And, Or, Xor, Not, IsNaN, IsInf, Where, Cast or CastLike."""
    match node.op_type:
        case "Cast" | "CastLike":
            _cast(context, node)
        case "Where":
            _where(context, node)
        case "IsNaN":
            # Only NaN differs from itself.
            x = argument(0)
            add_elementwise(context, node, not_equal(x, x), [context.operand(node, 0).name])
        case "IsInf":
            add_elementwise(context, node, _infinite(node), [context.operand(node, 0).name])
        case name if name in COMPARISONS:
            _compare(context, node)
        case _:
            operands = [_truth(context, node, i) for i in range(1 if node.op_type == "Not" else 2)]
            add_elementwise(context, node, _joined(node), operands)


def element_type(context: GraphContext, node: OnnxNode, number: int) -> DType:
    """The DType of ONNX's element type `number` (TensorProto.DataType); fails for types that the graph lacks."""
    name = type_name(number) if number in TensorProto.DataType.values() else str(number)
    if number in (0, TensorProto.STRING) or number not in TensorProto.DataType.values():
        context.fail(node, f"casts to {name}", f"there are {', '.join(TYPES)}")
    held = helper.tensor_dtype_to_np_dtype(number).name
    if held not in TYPES:
        context.fail(node, f"casts to {name}", f"there are {', '.join(TYPES)}")
    return DType(held)


def _infinite(node: OnnxNode) -> Expr:
    x = argument(0)
    wanted = [
        sign * float("inf")
        for name, sign in (("detect_positive", 1), ("detect_negative", -1))
        if node.integer(name, 1)
    ]
    # If neither sign is detected the result is all false: a comparison with NaN.
    return reduce(_either, [equal(x, bound) for bound in wanted or [float("nan")]])


def _either(a: Expr, b: Expr) -> Expr:
    return not_equal(cast(a, DType.UINT8) + cast(b, DType.UINT8), 0)


def _joined(node: OnnxNode) -> Expr:
    """Logical operators as arithmetic on uint8: "and" and "or" of expressions would branch before they read."""
    a, b = argument(0, DType.BOOL), argument(1, DType.BOOL)
    match node.op_type:
        case "Not":
            return equal(cast(a, DType.UINT8), 0)
        case "And":
            return not_equal(cast(a, DType.UINT8) * cast(b, DType.UINT8), 0)
        case "Or":
            return _either(a, b)
    return not_equal(a, b)


def _compare(context: GraphContext, node: OnnxNode) -> None:
    tensors = [context.tensor(node, i) for i in range(2)]
    a, b = (argument(i, _alike(context, node, tensors)) for i in range(2))
    match node.op_type:
        case "Less":
            condition = a < b
        case "LessOrEqual":
            condition = a <= b
        case "Greater":
            condition = b < a
        case "GreaterOrEqual":
            condition = b <= a
        case _:
            condition = equal(a, b)
    add_elementwise(context, node, condition, [tensor.name for tensor in tensors])


def _where(context: GraphContext, node: OnnxNode) -> None:
    tensors = [context.tensor(node, i) for i in (1, 2)]
    dtype = _alike(context, node, tensors)
    body = select(argument(0, DType.BOOL), argument(1, dtype), argument(2, dtype))
    add_elementwise(context, node, body, [_truth(context, node, 0), *[tensor.name for tensor in tensors]])


def _alike(context: GraphContext, node: OnnxNode, tensors: list[Tensor]) -> DType:
    """The dtype that all tensors share; fails if they differ."""
    types = [tensor.dtype for tensor in tensors]
    if len(set(types)) > 1:
        context.refuse(node, f"works on {' and '.join(types)}")
    return types[0]


def _cast(context: GraphContext, node: OnnxNode) -> None:
    """Imports Cast and CastLike: integers wrap, floats are truncated toward zero; bool is true for nonzero numbers."""
    data = context.tensor(node, 0)
    if node.op_type == "Cast":
        to = element_type(context, node, node.integer("to", 0))
    else:
        to = context.tensor(node, 1).dtype
    if data.dtype is to:
        context.renamed[node.outputs[0]] = data.name
        return
    if context.is_constant(node, 0) and not to.is_code and not data.dtype.is_code:
        with np.errstate(all="ignore"):
            context.constants[node.outputs[0]] = context.constants[data.name].astype(to.numpy)
        return
    add_elementwise(context, node, _converted(context, node, data.dtype, to), [data.name])


def _converted(context: GraphContext, node: OnnxNode, dtype: DType, to: DType) -> Expr:
    """The expression that casts argument 0 from `dtype` to `to`."""
    x: Expr = argument(0, dtype)
    if dtype.is_code:
        x = small_types.decoded(x)
    if not to.is_code:
        return cast(x, to)
    held = dtype_of(x)
    if to in small_types.INTEGERS:
        return small_types.encoded(cast(x, DType.INT32), to)
    if (
        held not in (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.INT8, DType.UINT8)
        and not dtype.is_code
    ):
        # The detour over float32 would round twice.
        context.fail(node, f"casts {dtype} to {to}", "cast it to float32 before")
    rounding = node.text("round_mode", "up")
    if rounding not in ("up", "down", "nearest"):
        context.refuse(node, f"rounds '{rounding}'", "there are up, down and nearest")
    saturate = bool(node.integer("saturate", 1))
    return small_types.encoded(cast(x, DType.FLOAT32), to, saturate=saturate, rounding=rounding)


def _truth(context: GraphContext, node: OnnxNode, index: int) -> str:
    """Name of a bool input, constants included; fails for other dtypes."""
    tensor = context.tensor(node, index)
    if tensor.dtype is not DType.BOOL:
        context.refuse(node, f"its input '{node.inputs[index]}' is not bool")
    return tensor.name
