"""Imports Sub of two tensors into an integer graph, as the sum of the first tensor and the negated second tensor.
ReduceMin also negates tensors by functions of this file.

The negative of a quantized tensor has the same scale. A stored value v becomes -1 - v (look-up table `NEGATED`), and a
zero point z becomes -1 - z. Nothing is rounded.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....graph.abilities import needs
from ....graph.int8_convolution import Quantization
from ....graph.int8_operators import Table
from ..attributes import OnnxNode
from ..emit import append, real_operand
from ..integer_context import ImportContext
from ..known_values import Constant, QuantizedConstant
from ..strided_views import without_pads
from ..values import Real
from .elementwise import pairwise, stored_operand
from .quantized_constants import spanned

NEGATED = (-1 - np.arange(-128, 128)).astype(np.int8)


def import_difference(context: ImportContext, node: OnnxNode) -> None:
    """Imports Sub of two tensors, or of a tensor and a constant, as the sum of the first operand and the negative of
    the second.
    """
    operands = [context.value(node, index) for index in (0, 1)]
    for index, value in enumerate(operands):
        if isinstance(value, Constant):
            operands[index] = spanned(value)
        elif not isinstance(value, QuantizedConstant):
            operands[index] = real_operand(context, node, index, viewed=True)
    subtrahend = operands[1]
    if isinstance(subtrahend, QuantizedConstant):
        if subtrahend.axis is not None:
            subtrahend = spanned(subtrahend)
        limits = np.iinfo(subtrahend.integers.dtype)
        flip = int(limits.min) + int(limits.max)
        integers = (flip - subtrahend.integers.astype(np.int64)).astype(subtrahend.integers.dtype)
        operands[1] = replace(subtrahend, integers=integers, zero_point=flip - subtrahend.zero_point)
    elif isinstance(subtrahend, Real):
        operands[1] = negated(context, node, without_pads(context, node, subtrahend))
    a, b = (stored_operand(context, node, index, operands) for index in range(2))
    context.bind(node, pairwise(context, node, "add", a, b))


def negated(context: ImportContext, node: OnnxNode, data: Real) -> Real:
    """The negative of `data`, without a rounding."""
    return looked_up(context, node, data, NEGATED, negative(data.quantization), f"{data.tensor}.negated")


def magnitudes(context: ImportContext, node: OnnxNode, data: Real) -> Real:
    """The absolute values of `data`, of the same scale, without a rounding."""
    grid = Quantization(scale=data.quantization.scale, zero_point=0, dtype="uint8")
    distance = np.abs(np.arange(-128, 128) - data.quantization.stored_zero_point)
    table, name = (distance + grid.offset).astype(np.int8), f"{node.outputs[0]}.magnitudes"
    return looked_up(context, node, data, table, grid, name)


def looked_up(
    context: ImportContext, node: OnnxNode, data: Real, table: np.ndarray, grid: Quantization, name: str
) -> Real:
    """Looks up the stored values of `data` in `table`, int8 (256,). The result is a new tensor with the quantization
    `grid`, read through the same view as `data`. The tensor is called `name`; a later call with the same name returns
    the same tensor.
    """
    if not context.abilities.tables:
        context.fail(node, *needs("table"))
    shape = context.tensors[data.tensor].shape
    key = (data.tensor, shape, name.encode())
    if key not in context.moved:
        tensor = context.declare(name, shape, grid)
        append(context, (node.name,), tensor, Table(table=table), (data.tensor,), tensor)
        context.moved[key] = tensor
    return replace(data, tensor=context.moved[key], quantization=grid)


def negative(grid: Quantization) -> Quantization:
    """The quantization of negated values. If a stored value v represents the number x in `grid`, then the stored value
    -1 - v represents -x in the returned quantization.
    """
    flip = 255 if grid.dtype == "uint8" else -1
    return replace(grid, zero_point=flip - grid.zero_point)
