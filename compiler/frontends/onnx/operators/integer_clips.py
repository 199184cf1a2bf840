"""Clip and Relu of integers, between QuantizeLinear and DequantizeLinear, in integer graphs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..attributes import OnnxNode
from ..emit import emit
from ..integer_context import ImportContext, pending_result
from ..operations import Identity
from ..strided_views import without_pads
from ..values import Integer, Real


def import_integer_clip(
    context: ImportContext, node: OnnxNode, value: Integer, low: float, high: float
) -> None:
    """Imports a clamp of the quantized tensor `value` to the integers `low` .. `high` of its own type; scale and zero
    point do not change.
    """
    grid = context.tensors[value.tensor].grid
    data = Real(tensor=value.tensor, shape=value.shape, quantization=grid, view=value.view)
    data = without_pads(context, node, data)
    # The clamp of a pending value is given in real numbers.
    ends = [(end - grid.zero_point) * float(grid.scale) if np.isfinite(end) else end for end in (low, high)]
    natural = context.tensors[data.tensor].shape
    pending = pending_result(node, Identity(data=data), natural, shape=value.shape, view=data.view)
    made = emit(context, node, replace(pending, low=ends[0], high=ends[1]), node.outputs[0], grid)
    if value.tensor in context.unscaled:
        context.unscaled.add(made.tensor)
    context.bind(node, replace(value, tensor=made.tensor, view=made.view))
