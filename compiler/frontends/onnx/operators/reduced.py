"""Imports ReduceMax, ReduceMin, ReduceSum, ReduceL1, ReduceL2 and ReduceSumSquare into integer graphs. The first four
become pools over the reduced axes. The last two become scalar products of rows. A row times itself is the row's sum of
squares. A row times its direction (the row divided by its length) is the row's length.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from ....graph.abilities import needs
from ....graph.int8_convolution import Quantization
from ..attributes import OnnxNode
from ..axes import reduced_axes, reduced_shape
from ..emit import Rounding, emit, real_operand
from ..integer_context import ImportContext, pending_result
from ..operations import Function, Maximum, Opaque, Operation, Shared
from ..strided_views import elements_of, with_view, without_pads
from ..values import Pending, Real, reshaped
from .activation_products import multiplied
from .differences import magnitudes, negated
from .pools import Lines, average_of, lines_along
from .products import TWO_ACTIVATIONS
from .rows import shared_rows
from .tables import real_values, round_function

DIRECTION = Quantization(scale=np.float32(1 / 127), zero_point=0, dtype="int8")
"""Scale and zero point of directions: rows of length 1, whose elements are between -1 and 1."""

LARGEST_SQUARE = 255**2
"""The largest square of a stored value's distance from its zero point."""


def import_reduced(context: ImportContext, node: OnnxNode) -> None:
    """Imports a reduction of a dequantized tensor over any axes."""
    data = without_pads(context, node, real_operand(context, node, 0, viewed=True))
    found = reduced_axes(context, node, data.shape)
    axes, shape = set(found or ()), reduced_shape(node, data.shape, found)
    if node.op_type in ("ReduceL2", "ReduceSumSquare"):
        context.bind(node, reshaped(_products(context, node, data, axes), shape))
        return
    lines = lines_along(context, node, data, {axis for axis in axes if data.shape[axis] != 1})
    operation = _operation(context, node, lines)
    pending = pending_result(node, operation, lines.natural, shape=shape, view=lines.view.reshape(shape))
    context.bind(node, with_view(context, pending, lines.view.reshape(shape)))


def _operation(context: ImportContext, node: OnnxNode, lines: Lines) -> Operation:
    match node.op_type:
        case "ReduceMax":
            return Maximum(data=lines.data, window=lines.window)
        case "ReduceMin":
            return Opaque(round=partial(_round_minimum, node=node, lines=lines))
        case "ReduceL1":
            lines = replace(lines, data=magnitudes(context, node, lines.data))
    return average_of(lines.data, lines.window, total=True)


def _round_minimum(context: ImportContext, to: Rounding, *, node: OnnxNode, lines: Lines) -> str:
    """Computes a ReduceMin as -max(-x). Adds nodes that negate the data and take the maximum, and a look-up table that
    negates and rounds the maximum. Returns the name of the output tensor. `lines`: the reduction as a pool.
    """
    data = negated(context, node, lines.data)
    most = replace(to.pending, operation=Maximum(data=data, window=lines.window), low=-np.inf, high=np.inf)
    greatest = emit(context, node, most, f"{to.output}.negated", data.quantization)
    return round_function(context, Function(data=greatest, values=-real_values(greatest)), to)


def _products(context: ImportContext, node: OnnxNode, data: Real, axes: set[int]) -> Pending:
    """Computes ReduceSumSquare or ReduceL2 by matrix products. Returns a pending result, which the next QuantizeLinear
    rounds.

    A row consists of the elements along `axes`. The sum of squares of a row is the product of the row with itself. The
    length of a row is the product of the row with its direction (the row divided by its length). Sums of products are
    exact; only directions are rounded.
    """
    stay = [axis for axis in range(len(data.shape)) if axis not in axes]
    order = [*stay, *sorted(axes)]
    count = prod(data.shape[axis] for axis in axes)
    elements = elements_of(context, data).transpose(order).reshape(-1, count)
    if node.op_type == "ReduceL2":
        other = _directions(context, node, with_view(context, data, elements))
    elif count * LARGEST_SQUARE >= 2**31:
        context.fail(
            node, f"adds {count} squares, whose sum may exceed 32 bits", "reduce fewer elements at once"
        )
    else:
        other = with_view(context, data, elements)
    across, down = (len(elements), 1, count), (len(elements), count, 1)
    first = with_view(context, data, elements.reshape(across))
    second = with_view(context, other, elements_of(context, other).reshape(down))
    found = multiplied(context, node, first, second)
    if found is None:
        context.fail(node, *TWO_ACTIVATIONS)
    return found


def _directions(context: ImportContext, node: OnnxNode, rows: Real) -> Real:
    """The directions of `rows`, (rows, elements): each row divided by its length, in 8 bits."""
    if not context.abilities.rows:
        context.fail(node, *needs("rows"))
    count = rows.shape[1]
    shared = Shared(
        data=rows, gain=np.full(count, count**-0.5), offset=np.zeros(count), centre=False, epsilon=0.0
    )
    unit = shared_rows(context, node, shared, rows)
    return emit(context, node, unit, f"{node.outputs[0]}.direction", DIRECTION)
