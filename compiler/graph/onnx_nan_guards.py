"""Removes guards against NaN, which quantized tensors never hold: IsNaN, IsInf, and a Where that replaces NaN.

Exported attention has such guards after its softmax, for rows that a mask hides entirely. The integer graph gives these
rows, which no output uses, the softmax of equal scores.
"""

from __future__ import annotations

import numpy as np

from .onnx_context import ImportContext, OnnxNode
from .onnx_values import Constant, Pending, Real


def import_guard(context: ImportContext, node: OnnxNode) -> bool:
    """Binds IsNaN or IsInf of a quantized tensor to False, and a Where that takes all elements of one operand, of the
    result's shape, to that operand. Returns whether the node is one of these."""
    if node.op_type in ("IsNaN", "IsInf"):
        value = context.value(node, 0)
        # Scores that await their softmax may be infinite by a mask.
        if isinstance(value, Real | Pending) and (node.op_type == "IsNaN" or isinstance(value, Real)):
            context.bind(node, Constant(array=np.zeros(value.shape, np.bool_)))
            return True
    elif node.op_type == "Where":
        condition, *values = (context.value(node, index) for index in range(3))
        if isinstance(condition, Constant) and condition.array.size and _alike(condition.array):
            taken, other = values if condition.array.flat[0] else reversed(values)
            shapes = [condition.array.shape, *(value.shape for value in (taken, other) if value is not None)]
            if isinstance(taken, Real | Pending) and np.broadcast_shapes(*shapes) == taken.shape:
                context.bind(node, taken)
                return True
    return False


def _alike(condition: np.ndarray) -> bool:
    return bool((condition == condition.flat[0]).all())
