"""Operators of truth values in a float model: comparisons, what joins them, and choices.

A truth value is a float32 number here, 1 or 0. `FloatContext.quantized` says of which tensors, as it says which
stand for integers: what moves values may move them, and nothing computes with them but what is here.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
from onnx import TensorProto

from ...ir.expr import Expr, equal, maximum, minimum, select
from ...te import scalars
from ...te.scalars import argument, number
from ..onnx_context import OnnxNode
from ..onnx_load import type_name
from .onnx_context import FloatContext
from .onnx_pointwise import add_elementwise

TRUTH = "bool"
"""The type, in `FloatContext.quantized`, of tensors of truth values."""
COMPARISONS = frozenset(["Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"])
JOINS = frozenset(["And", "Or", "Xor", "Not"])
LOGIC = frozenset([*COMPARISONS, *JOINS, "IsNaN", "IsInf", "Where", "Cast"])


def import_logic(context: FloatContext, node: OnnxNode) -> None:
    """A node of `LOGIC`."""
    match node.op_type:
        case "Cast":
            _cast(context, node)
        case "Where":
            operands = [_truth(context, node, 0), *_numbers(context, node, 1, 2)]
            body = select(equal(argument(0), 0.0), argument(2), argument(1))
            _add(context, node, body, operands, truth=False)
        case "IsNaN":
            # Equal to itself is all but NaN.
            itself = equal(argument(0), argument(0))
            _add(context, node, _as_number(itself, 0.0, 1.0), _numbers(context, node, 0))
        case "IsInf":
            _add(context, node, _infinite(node), _numbers(context, node, 0))
        case name if name in COMPARISONS:
            _compare(context, node)
        case _:
            operands = [_truth(context, node, i) for i in range(1 if node.op_type == "Not" else 2)]
            _add(context, node, _joined(node), operands)


def _as_number(condition: Expr, then: float = 1.0, otherwise: float = 0.0) -> Expr:
    return select(condition, number(then), number(otherwise))


def _infinite(node: OnnxNode) -> Expr:
    x = argument(0)
    wanted = [
        sign * float("inf")
        for name, sign in (("detect_positive", 1), ("detect_negative", -1))
        if node.integer(name, 1)
    ]
    # Of neither, no element is one: NaN, which nothing equals, asks for none of them.
    return reduce(maximum, [_as_number(equal(x, bound)) for bound in wanted or [float("nan")]])


def _joined(node: OnnxNode) -> Expr:
    a, b = argument(0), argument(1)
    match node.op_type:
        case "Not":
            return 1.0 - a
        case "And":
            return minimum(a, b)
        case "Or":
            return maximum(a, b)
    return scalars.absolute(a - b)


def _compare(context: FloatContext, node: OnnxNode) -> None:
    a, b = argument(0), argument(1)
    truths = [context.quantized.get(context.resolve(name)) == TRUTH for name in node.inputs]
    operands = [_truth(context, node, i) for i in range(2)] if any(truths) else _numbers(context, node, 0, 1)
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
    _add(context, node, _as_number(condition), operands)


def _cast(context: FloatContext, node: OnnxNode) -> None:
    """Cast among float32 and truth values."""
    to = node.integer("to", 0)
    truth = context.quantized.get(context.resolve(node.inputs[0])) == TRUTH
    if to not in (TensorProto.FLOAT, TensorProto.BOOL):
        name = type_name(to) if to in TensorProto.DataType.values() else str(to)
        context.fail(node, f"casts to {name}", "only float32 and bool are computed")
    operand = context.operand(node, 0).name
    if truth == (to == TensorProto.BOOL):
        context.renamed[node.outputs[0]] = operand
    elif truth:
        _add(context, node, argument(0), [operand], truth=False)
    else:
        _add(context, node, _as_number(equal(argument(0), 0.0), 0.0, 1.0), [operand])


def _numbers(context: FloatContext, node: OnnxNode, *indices: int) -> list[str]:
    return [context.operand(node, i).name for i in indices]


def _truth(context: FloatContext, node: OnnxNode, index: int) -> str:
    """An input of truth values, constants included."""
    if context.is_constant(node, index):
        array = context.constants[context.resolve(node.inputs[index])]
        if array.dtype == np.bool_:
            return context.store(f"{context.resolve(node.inputs[index])}.truth", array.astype(np.float32))
    tensor = context.operand(node, index)
    if context.quantized.get(tensor.name) != TRUTH:
        context.refuse(node, f"its input '{node.inputs[index]}' is not bool", "export the model again")
    return tensor.name


def _add(
    context: FloatContext, node: OnnxNode, body: Expr, operands: list[str], *, truth: bool = True
) -> None:
    output = add_elementwise(context, node, body, operands)
    if truth:
        context.quantized[output] = TRUTH
