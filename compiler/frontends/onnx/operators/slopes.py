"""Imports PRelu with one slope for each channel into integer graphs. The result is the sum of two tensors: the positive
part of the data, and the negative part times the slopes. Both tensors have the scale and zero point of the result, so
that their sum is not rounded again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..attributes import OnnxNode
from ..emit import Rounding, emit, real_operand
from ..integer_context import ImportContext
from ..known_values import Constant, QuantizedConstant
from ..operations import Identity, Opaque, Product
from ..strided_views import without_pads
from .channel_constants import for_each_channel
from .elementwise import round_pairwise


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
