"""Add, Sub, Mul and Div of a quantized tensor and a float constant of several numbers, in integer graphs. The constant
becomes a factor and an addend for each channel, or a quantized tensor whose stored values span the range of the
constant's numbers.

PRelu with one slope for each channel is the sum of two tensors: the positive part of the data, and the negative part
times the slopes. Both tensors have the scale and zero point of the result, so that their sum is not rounded again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..attributes import OnnxNode
from ..emit import Rounding, emit, real_operand
from ..integer_context import ImportContext
from ..known_values import Constant, QuantizedConstant
from ..operations import Identity, Opaque, Product
from ..strided_views import contiguous, elements_of, without_pads
from ..values import Pending, Real
from .batch_normalization import affine
from .elementwise import pairwise, round_pairwise, stored_operand
from .quantized_constants import spanned


def import_channel_constants(context: ImportContext, node: OnnxNode) -> bool:
    """Imports Add, Sub, Mul and Div of a quantized tensor and a float constant of several numbers. A constant with one
    number for each channel gives a depthwise convolution. With any other constant, Add and Mul become a node on two
    quantized tensors. Returns False for all other nodes.
    """
    values = [context.value(node, index) for index in (0, 1)]
    kinds = Constant if node.op_type in ("Add", "Mul") else Constant | QuantizedConstant
    for index, constant in enumerate(values):
        data = values[1 - index]
        if not isinstance(constant, kinds) or not isinstance(data, Real):
            continue
        numbers = constant.real().astype(np.float64)
        if numbers.size == 1 or (node.op_type == "Div" and index == 0):
            return False
        data = without_pads(context, node, data)
        with np.errstate(divide="ignore"):
            factor, addend = {
                "Add": (np.ones_like(numbers), numbers),
                "Sub": (np.full_like(numbers, 1 if index else -1), -numbers if index else numbers),
                "Mul": (numbers, np.zeros_like(numbers)),
                "Div": (1 / numbers, np.zeros_like(numbers)),
            }[node.op_type]
        made = for_each_channel(context, node, data, factor, addend)
        if made is None and node.op_type in ("Add", "Mul") and np.isfinite(numbers).all():
            operands: list[object] = [data, spanned(constant)]
            b = stored_operand(context, node, 1, operands)
            a = stored_operand(context, node, 0, operands)
            made = pairwise(context, node, {"Add": "add", "Mul": "multiply"}[node.op_type], a, b)
        if made is not None:
            context.bind(node, made)
            return True
    return False


def for_each_channel(
    context: ImportContext, node: OnnxNode, data: Real, factor: np.ndarray, addend: np.ndarray
) -> Pending | None:
    """Computes data * `factor` + `addend` as a depthwise 1x1 convolution. `factor` and `addend` broadcast to the data.
    Returns a pending result, which the next QuantizeLinear rounds, or None if factor or addend differ within a channel
    or are not finite."""
    found = _of_channels(context, data, factor, addend)
    if found is None and len(data.shape) in (3, 4):
        # Channels of the model may be positions of the stored tensor.
        data = contiguous(context, node, data)
        found = _of_channels(context, data, factor, addend)
    if found is None:
        return None
    return context.element_wise(node, affine(data, *found), data)


def _of_channels(
    context: ImportContext, data: Real, *parts: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Reduces each of `parts` (a factor, an addend) to one number for each channel of the tensor that stores `data`.
    The parts broadcast to the data. Returns None if a part differs within a channel, is not finite or does not
    broadcast.
    """
    _, channels, height, width = context.tensors[data.tensor].nchw
    channel = elements_of(context, data).reshape(-1) // (height * width) % channels
    found: list[np.ndarray] = []
    for part in parts:
        try:
            wide = np.broadcast_to(part, data.shape).reshape(-1)
        except ValueError:
            return None
        own = np.zeros(channels)
        own[channel] = wide
        if not np.isfinite(wide).all() or (own[channel] != wide).any():
            return None
        found.append(own)
    return found[0], found[1]


def import_slopes(context: ImportContext, node: OnnxNode) -> bool:
    """Imports a PRelu with one constant slope for each channel; returns False for a PRelu of any other slopes.

    A PRelu with a single slope is imported by another row of the operator table, as a look-up table.
    """
    slopes = context.value(node, 1)
    if not isinstance(slopes, Constant | QuantizedConstant) or slopes.real().size == 1:
        return False
    data = without_pads(context, node, real_operand(context, node, 0, viewed=True))
    factor = slopes.real().astype(np.float64)
    product = for_each_channel(context, node, data, factor, np.zeros_like(factor))
    if product is None:
        return False
    operation = product.operation
    assert isinstance(operation, Product)
    data = operation.data
    plain = context.element_wise(node, Identity(data=data), data)

    def rounded(context: ImportContext, to: Rounding) -> str:
        above = emit(context, node, replace(plain, low=0.0), f"{to.output}.above", to.grid)
        below = emit(context, node, replace(plain, high=0.0), f"{to.output}.below", data.quantization)
        scaled = replace(product, operation=replace(operation, data=below))
        parts = (above, emit(context, node, scaled, f"{to.output}.scaled", to.grid))
        return round_pairwise(context, to, kind="add", operands=parts)

    context.bind(node, replace(plain, operation=Opaque(round=rounded)))
    return True
