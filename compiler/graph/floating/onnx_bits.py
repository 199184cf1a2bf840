"""Operators of integers and of bits: shifts, masks, remainders, and the same bits as another type."""

from __future__ import annotations

import math

from ...ir.expr import Expr, cast, equal, not_equal, select, wrap
from ...ir.types import DType
from ...te import scalars
from ...te.scalars import absolute, argument
from ..onnx_attributes import OnnxNode
from ..onnx_context import GraphContext
from .onnx_logic import element_type
from .onnx_pointwise import add_elementwise

_MASKS = {"BitwiseAnd": "bit_and", "BitwiseOr": "bit_or", "BitwiseXor": "bit_xor"}


def import_bits(context: GraphContext, node: OnnxNode) -> None:
    """Imports BitwiseNot, BitwiseAnd, BitwiseOr, BitwiseXor, BitShift, BitCast or Mod."""
    count = 1 if node.op_type in ("BitwiseNot", "BitCast") else 2
    tensors = [context.tensor(node, i) for i in range(count)]
    dtype = tensors[0].dtype
    if node.op_type == "BitCast":
        to = element_type(context, node, node.integer("to", 0))
        if to.bits != dtype.bits or DType.BOOL in (to, dtype):
            context.fail(node, f"reads {dtype} as {to}", "give it types of one size, and none of bool")
        add_elementwise(context, node, scalars.bit_cast(argument(0, dtype), to), [tensors[0].name])
        return
    if any(tensor.dtype is not dtype for tensor in tensors) or dtype is DType.BOOL:
        context.refuse(node, f"works on {' and '.join(t.dtype for t in tensors)}")
    if not dtype.is_integer and node.op_type != "Mod":
        context.refuse(node, f"works on {dtype}")
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
                context.refuse(node, f"shifts in the direction '{direction}'", "there are LEFT and RIGHT")
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
    """x - y * trunc(x / y) in float64, exact for quotients below 2**29; NaN for larger ones."""
    if dtype is not DType.FLOAT32:
        context.fail(node, f"is a remainder of {dtype}", "put a Cast to float32 before it")
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
