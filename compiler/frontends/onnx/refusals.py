"""Errors about nodes that an integer graph cannot have: operands that are not quantized, and unsupported variants of
operators.
"""

from __future__ import annotations

from math import prod
from typing import NoReturn

from ...graph.errors import ModelError, ProcessorsOnlyError
from .attributes import OnnxNode
from .integer_context import MERGE_PATTERN, QUANTIZE, ImportContext
from .known_values import Constant, QuantizedConstant
from .table import Rows
from .values import FloatInput, Integer, Pending, Real, RowStatistic, Value

_CONSTANT = "is a constant", "fold the operation when exporting the model"
_PROBLEMS: dict[type, tuple[str, str]] = {
    FloatInput: ("is a float tensor that is never quantized", QUANTIZE),
    Constant: _CONSTANT,
    QuantizedConstant: _CONSTANT,
    Integer: ("is integer", "dequantize the tensor first (DequantizeLinear)"),
    RowStatistic: (
        "holds one number per row (a mean or a variance), which only a normalization can read",
        "run the node on the processor (--target vdla,llvm)",
    ),
}
"""For each class of values, the error text (problem, remedy) about an operand that is not quantized because its value
is of this class.
"""


def refuse_float(context: ImportContext, node: OnnxNode, index: int, value: Value | None) -> NoReturn:
    """Raises ModelError: input `index` is no quantized tensor. The message says what `value` is (None: missing)."""
    if value is None:
        context.refuse(node, f"its input {index} is missing")
    name = node.inputs[index] if index < len(node.inputs) else str(index)
    if isinstance(value, Real):
        raise ModelError(
            f"{context.source}: node '{node.name}' ({node.op_type}): its input '{name}' is quantized, which the "
            "operator does not take; run the node on the processor (--target vdla,llvm)"
        )
    if isinstance(value, Pending):
        problem, way_out = f"(from '{value.name}') is float: no QuantizeLinear follows", QUANTIZE
    else:
        problem, way_out = _PROBLEMS[type(value)]
    context.fail(node, f"its input '{name}' {problem}", way_out)


def refuse_statistic(context: ImportContext, node: OnnxNode) -> NoReturn:
    """Raises NodeError for a node that reads a row statistic (such as a mean of squares) but is no step of a
    normalization.
    """
    values = [context.value(node, index) for index in range(len(node.inputs))]
    index = next(i for i, value in enumerate(values) if isinstance(value, RowStatistic))
    context.refuse_float(node, index, values[index])


def refuse_form(context: ImportContext, node: OnnxNode, rows: Rows) -> NoReturn:
    """Raises NodeError about a variant of an operator that the operator table does not support, although it has `rows`
    for the operator.
    """
    values = [context.value(node, index) for index in range(len(node.inputs))]
    for index, value in enumerate(values):
        if isinstance(value, FloatInput):
            context.refuse_float(node, index, value)
    if any(row.reads is None for row in rows):
        # A function of one tensor.
        constants = [value for value in values if isinstance(value, Constant | QuantizedConstant)]
        if any(prod(value.shape) != 1 for value in constants):
            context.fail(
                node,
                "has a constant of several elements, but is computed by a look-up table, whose constants must be "
                "single numbers",
                "use a constant of one element",
            )
        if len(values) - len(constants) == 1 and any(isinstance(value, Pending) for value in values):
            context.fail(
                node,
                "reads a float result: no QuantizeLinear follows the node that computes it",
                MERGE_PATTERN,
            )
    for index, value in enumerate(values):
        if isinstance(value, Pending):
            context.refuse_float(node, index, value)
    activations = sum(isinstance(value, Real | Integer) for value in values)
    raise ProcessorsOnlyError(
        context.source,
        node.name,
        node.op_type,
        "combines several tensors, which only processors and GPUs do"
        if activations > 1
        else "has attributes or shapes that only processors and GPUs support",
        "run the node on the processor (--target vdla,llvm)",
    )
