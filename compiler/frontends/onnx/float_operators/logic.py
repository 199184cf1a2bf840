"""Comparisons, operators on bool and on bits, Where, and casts of a float model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce
from types import MappingProxyType

import numpy as np
from onnx import TensorProto

from ....graph.graph import Tensor
from ....ir.conditions import not_equal
from ....ir.expr import Expr, cast, dtype_of, equal, select, wrap
from ....ir.types import DType
from ....te import scalars, small_types
from ....te.scalars import absolute, argument
from ..attributes import OnnxNode
from ..context import TYPES, GraphContext
from ..float_importer import held_type
from ..model.load import type_name
from .pointwise import add_elementwise

COMPARISONS: Mapping[str, Callable[[Expr, Expr], Expr]] = MappingProxyType(
    {
        "Less": lambda a, b: a < b,
        "LessOrEqual": lambda a, b: a <= b,
        "Greater": lambda a, b: b < a,
        "GreaterOrEqual": lambda a, b: b <= a,
        "Equal": equal,
    }
)


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
    """The DType of ONNX's element type `number` (TensorProto.DataType); raises NodeError for others."""
    held = held_type(number)
    if held not in TYPES:
        name = type_name(number) if number in TensorProto.DataType.values() else str(number)
        context.fail(node, f"the element type {name} is not supported", f"use one of {', '.join(TYPES)}")
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
    """The expression of Not, And, Or or Xor as arithmetic on uint8. (The logical operators of expressions are not used:
    they would branch before they read their second operand.)
    """
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
    add_elementwise(context, node, COMPARISONS[node.op_type](a, b), [tensor.name for tensor in tensors])


def _where(context: GraphContext, node: OnnxNode) -> None:
    tensors = [context.tensor(node, i) for i in (1, 2)]
    dtype = _alike(context, node, tensors)
    body = select(argument(0, DType.BOOL), argument(1, dtype), argument(2, dtype))
    add_elementwise(context, node, body, [_truth(context, node, 0), *[tensor.name for tensor in tensors]])


def _alike(context: GraphContext, node: OnnxNode, tensors: list[Tensor]) -> DType:
    """The dtype that all `tensors` have; raises InvalidNodeError if their dtypes differ."""
    types = [tensor.dtype for tensor in tensors]
    if len(set(types)) > 1:
        context.refuse(node, f"its operands must have one type, not {' and '.join(types)}")
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
        context.fail(node, f"a cast of {dtype} to {to} is not supported", "cast the input to float32 first")
    rounding = node.text("round_mode", "up")
    if rounding not in ("up", "down", "nearest"):
        context.refuse(node, f"its round_mode '{rounding}' is unknown", "use up, down or nearest")
    saturate = bool(node.integer("saturate", 1))
    return small_types.encoded(cast(x, DType.FLOAT32), to, saturate=saturate, rounding=rounding)


def _truth(context: GraphContext, node: OnnxNode, index: int) -> str:
    """Name of input `index`; raises InvalidNodeError unless it is bool."""
    tensor = context.tensor(node, index)
    if tensor.dtype is not DType.BOOL:
        context.refuse(node, f"its input '{node.inputs[index]}' must be bool, not {tensor.dtype}")
    return tensor.name


_MASKS = {"BitwiseAnd": "bit_and", "BitwiseOr": "bit_or", "BitwiseXor": "bit_xor"}


def import_bits(context: GraphContext, node: OnnxNode) -> None:
    """Imports BitwiseNot, BitwiseAnd, BitwiseOr, BitwiseXor, BitShift, BitCast or Mod."""
    count = 1 if node.op_type in ("BitwiseNot", "BitCast") else 2
    tensors = [context.tensor(node, i) for i in range(count)]
    dtype = tensors[0].dtype
    if node.op_type == "BitCast":
        to = element_type(context, node, node.integer("to", 0))
        if to.bits != dtype.bits or DType.BOOL in (to, dtype):
            context.fail(
                node,
                f"the bits of {dtype} cannot be read as {to}",
                "use two types of the same size, and not bool",
            )
        add_elementwise(context, node, scalars.bit_cast(argument(0, dtype), to), [tensors[0].name])
        return
    if any(tensor.dtype is not dtype for tensor in tensors) or dtype is DType.BOOL:
        context.refuse(
            node, f"its operands must be numbers of one type, not {' and '.join(t.dtype for t in tensors)}"
        )
    if not dtype.is_integer and node.op_type != "Mod":
        context.refuse(node, f"its operands must be integers, not {dtype}")
    body = _body(context, node, [argument(i, dtype) for i in range(count)], dtype)
    add_elementwise(context, node, body, [tensor.name for tensor in tensors])


def _body(
    context: GraphContext, node: OnnxNode, arguments: list[Expr] | list[scalars.Var], dtype: DType
) -> Expr:
    x, *rest = arguments
    match node.op_type:
        case "BitwiseNot":
            ones = dtype.limits[1] if dtype.is_unsigned else -1
            return scalars.of_bits("bit_xor", x, wrap(ones, dtype))
        case "BitShift":
            direction = node.text("direction", "")
            if direction not in ("LEFT", "RIGHT"):
                context.refuse(node, f"its direction '{direction}' is unknown", "use LEFT or RIGHT")
            return scalars.of_bits(f"shift_{direction.lower()}", x, rest[0])
        case "Mod":
            truncated = bool(node.integer("fmod", 0))
            if dtype.is_float:
                return _float_remainder(context, node, x, rest[0], dtype)
            return (
                scalars.of_bits("remainder", x, rest[0]) if truncated else scalars.floor_remainder(x, rest[0])
            )
    return scalars.of_bits(_MASKS[node.op_type], x, rest[0])


def _float_remainder(context: GraphContext, node: OnnxNode, x: Expr, y: Expr, dtype: DType) -> Expr:
    """The remainder of x / y, computed in float64. If the attribute fmod is 1, it is x - y * trunc(x / y), which has
    the sign of x; otherwise it has the sign of y. It is exact for quotients below 2**29 and NaN for larger ones. An
    infinite y counts as larger than any x.
    """
    if dtype is not DType.FLOAT32:
        context.fail(node, f"a remainder of {dtype} is not supported", "put a Cast to float32 before it")
    wide, divisor = cast(x, DType.FLOAT64), cast(y, DType.FLOAT64)
    quotient = scalars.divide(wide, divisor)
    rest = wide - scalars.whole("truncate", quotient) * divisor
    inside = select(quotient * quotient < 2.0**58, cast(rest, DType.FLOAT32), math.nan)
    rest = select(equal(absolute(y), math.inf), select(equal(x - x, 0.0), x, math.nan), inside)
    if node.integer("fmod", 0):
        # A remainder of 0 has the dividend's sign.
        return select(equal(rest, 0.0), x * scalars.number(0.0), rest)
    opposite = not_equal(rest < 0.0, y < 0.0)
    # A remainder of 0 has the divisor's sign.
    return select(
        equal(rest, 0.0),
        select(y < 0.0, scalars.number(-0.0), scalars.number(0.0)),
        select(opposite, rest + y, rest),
    )
