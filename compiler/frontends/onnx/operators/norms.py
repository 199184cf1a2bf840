"""Normalizations that exporters write node by node: the mean of a row's squares, the inverse of the mean's square root,
and the product of the inverse and the row.

A statistic (mean, mean of squares, variance or length of each row) never becomes a tensor here. It is kept as a
`RowStatistic` until an operator combines it with the tensor of the rows. The result is a normalization or, if the
operator subtracts the mean, rows that are one step of a normalization. Nodes of the model that round a statistic to 8
bits are left out.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
from onnx import TensorProto

from ....graph.abilities import needs
from ..attributes import OnnxNode
from ..axes import reduced_axes
from ..integer_context import ImportContext
from ..known_values import Constant, QuantizedConstant
from ..operations import Centred, Function, Shared, Squared
from ..strided_views import is_line, same_view
from ..values import Pending, Real, RowStatistic, Value
from .rows import shared_rows
from .tables import real_values


def import_norm(context: ImportContext, node: OnnxNode) -> bool:
    """Imports a node that is one step of a normalization written node by node; returns False for any other node."""
    if not node.inputs or (context.abilities.processor and not context.abilities.rows):
        return False
    most = 3 if node.op_type == "Clip" else 2
    values = [context.value(node, index) for index in range(min(most, len(node.inputs)))]
    if node.op_type == "ReduceMean":
        found = _reduced(context, node, values[0])
    elif node.op_type == "ReduceL2":
        found = _length(context, node, values[0])
    elif any(isinstance(value, RowStatistic) for value in values):
        found = _of_statistic(context, node, values)
    elif any(
        isinstance(value, Pending) and isinstance(value.operation, Centred | Shared) for value in values
    ):
        found = _of_pending(node, values)
    else:
        return False
    if found is None:
        return False
    if isinstance(found, RowStatistic):
        # A statistic has no copies, whatever an Expand says: its reader broadcasts it.
        context.values[node.outputs[0]] = found
    else:
        context.bind(node, found)
    return True


def _reduced(context: ImportContext, node: OnnxNode, value: Value | None) -> RowStatistic | None:
    """Imports a ReduceMean over the rows of `value` as a number for each row (`RowStatistic`). The number is the mean
    of the row, the mean of its squares, or its variance, mean((x - mean)^2). Returns None for any other node.
    """
    data: Real | None = None
    moment, centre = "square", False
    match value:
        case Real() if len(value.shape) != 4 and context.abilities.rows and not is_line(context, value):
            data, moment = value, "mean"
        case Pending(operation=Squared(data=data)):
            centre = True
        case Pending(operation=Function(data=read, values=values), low=low, high=high):
            squares = real_values(read).astype(np.float64) ** 2
            if (low, high) == (-np.inf, np.inf) and np.allclose(values, squares, rtol=1e-5, atol=0):
                data = replace(read, shape=value.shape, view=value.view)
    if data is None:
        return None
    if not _is_along_rows(context, node, data):
        return None
    if not context.abilities.rows:
        context.fail(node, *needs("rows"))
    return RowStatistic(data=data, moment=moment, centre=centre)


SMALL = 1e-3
"""A row is divided by its length. Before, a Clip, Max or Add with a small constant may guard the length against zero.
This is the largest constant that counts as such a guard.
"""
BETWEEN = frozenset(
    ("Clip", "Max", "Expand", "Add", "Cast", "Identity", "QuantizeLinear", "DequantizeLinear")
)
"""Operators that may lie between the node that computes the length of a row and the Div that divides the row by its
length.
"""


def _is_along_rows(context: ImportContext, node: OnnxNode, data: Real) -> bool:
    """Whether a reduction of `data` is along the last of several axes, which it keeps."""
    axes, last = reduced_axes(context, node, data.shape), len(data.shape) - 1
    return axes == (last,) and last > 0 and bool(node.integer("keepdims", 1))


def _length(context: ImportContext, node: OnnxNode, value: Value | None) -> RowStatistic | None:
    """Imports a ReduceL2 of `value` that computes the lengths of rows, as a number for each row (`RowStatistic`). This
    is possible only if a Div divides the rows by their lengths, and nothing else reads the lengths; operators in
    `BETWEEN` may come before the Div. Returns None for any other node.
    """
    if not isinstance(value, Real) or not context.abilities.rows:
        return None
    name = node.outputs[0]
    if not _is_along_rows(context, node, value):
        return None
    while True:
        readers = [reader for reader in context.model_nodes if name in reader.inputs]
        if len(readers) != 1:
            return None
        if readers[0].op_type == "Div" and readers[0].inputs == (node.inputs[0], name):
            break
        if readers[0].op_type not in BETWEEN:
            return None
        name = readers[0].outputs[0]
    return RowStatistic(data=value, moment="square", power=0.5, factor=value.shape[-1] ** 0.5)


def _of_statistic(context: ImportContext, node: OnnxNode, values: list[Value | None]) -> Value | None:
    index = next(i for i, value in enumerate(values) if isinstance(value, RowStatistic))
    statistic = values[index]
    assert isinstance(statistic, RowStatistic)
    other = values[1 - index] if len(values) > 1 else None
    number = _number(other)
    match node.op_type:
        case "QuantizeLinear" | "DequantizeLinear" | "Identity" | "Expand":
            return statistic
        case "Clip" | "Max" if index == 0 and number is not None and 0 <= number <= SMALL:
            if len(values) > 2 or statistic.power != 0.5:
                return None
            return replace(statistic, epsilon=max(statistic.epsilon, (number / statistic.factor) ** 2))
        case "Add" if statistic.factor != 1 and number is not None and 0 <= number <= SMALL:
            return replace(statistic, epsilon=max(statistic.epsilon, (number / statistic.factor) ** 2))
        case "Cast" if node.integer("to", 0) == TensorProto.FLOAT:
            return statistic
        case "Sqrt":
            return replace(statistic, power=statistic.power / 2)
        case "Reciprocal":
            return replace(statistic, power=-statistic.power, factor=1 / statistic.factor)
        case "Pow" if index == 0 and number is not None:
            return replace(statistic, power=statistic.power * number)
        case "Div" if index == 1 and number == 1:
            return replace(statistic, power=-statistic.power, factor=1 / statistic.factor)
        case "Add" if number is not None and statistic.power == 1 and number >= 0:
            return replace(statistic, epsilon=statistic.epsilon + number)
    power = {"Mul": statistic.power, "Div": -statistic.power}.get(node.op_type)
    match other:
        case Real() as data:
            centred = False
        case Pending(operation=Centred(data=data)):
            centred = True
        case _:
            return None
    if not _same(data, statistic.data):
        return None
    if node.op_type == "Sub" and index == 1 and not centred and statistic.moment == "mean":
        plain = (statistic.power, statistic.epsilon) == (1, 0)
        return context.element_wise(node, Centred(data=data), data) if plain else None
    if (node.op_type == "Div" and index != 1) or power != -0.5:
        return None
    if statistic.moment != "square" or statistic.centre != centred:
        return None
    channels = data.shape[-1]
    shared = Shared(
        data=data,
        gain=np.full(channels, 1 / statistic.factor if node.op_type == "Div" else statistic.factor),
        offset=np.zeros(channels),
        centre=statistic.centre,
        epsilon=statistic.epsilon,
    )
    return shared_rows(context, node, shared, data)


def _of_pending(node: OnnxNode, values: list[Value | None]) -> Value | None:
    """The value of a node that continues a normalization. It is the square of centred rows (rows minus their mean), or
    a normalization with one more gain or one more offset. Returns None for any other node.
    """
    first = values[0]
    if isinstance(first, Pending) and isinstance(centred := first.operation, Centred):
        twice = node.op_type == "Mul" and node.inputs[0] == node.inputs[1]
        if twice or (node.op_type == "Pow" and _number(values[1]) == 2):
            return replace(
                first,
                name=node.outputs[0],
                members=(*first.members, node.name),
                operation=Squared(data=centred.data),
            )
        return None
    for pending, other in (values, values[::-1]) if len(values) == 2 else ():
        if not isinstance(pending, Pending) or not isinstance(shared := pending.operation, Shared):
            continue
        if shared.gain is None or shared.offset is None or node.op_type not in ("Mul", "Add"):
            return None
        if (
            not isinstance(other, Constant | QuantizedConstant)
            or np.isfinite([pending.low, pending.high]).any()
        ):
            return None
        array = other.real()
        if array.size != 1 and array.shape[-1:] != shared.gain.shape != (array.size,):
            return None
        factor = np.broadcast_to(array.reshape(-1), shared.gain.shape).astype(np.float64)
        if node.op_type == "Mul":
            made = replace(shared, gain=shared.gain * factor, offset=shared.offset * factor)
        else:
            made = replace(shared, offset=shared.offset + factor)
        return replace(pending, name=node.outputs[0], members=(*pending.members, node.name), operation=made)
    return None


def _number(value: Value | None) -> float | None:
    if isinstance(value, Constant | QuantizedConstant) and prod(value.shape) == 1:
        return float(value.real().reshape(())[()])
    return None


def _same(a: Real, b: Real) -> bool:
    return (a.tensor, a.quantization) == (b.tensor, b.quantization) and same_view(a, b)
