"""QuantizeLinear of constants, in integer graphs."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from ..attributes import OnnxNode
from ..integer_context import ImportContext
from ..known_values import Constant, QuantizedConstant
from .quantization import NARROW, check_scale_axis, quantized_constant, refuse_blocks, rounded_type


def quantize_constant(context: ImportContext, node: OnnxNode, value: Constant | QuantizedConstant) -> None:
    """Imports a QuantizeLinear of the constant `value`, whose integers are computed at import."""
    refuse_blocks(context, node)
    real = value.real()
    scale = context.array(node, 1, "scale")
    zero_point = context.array(node, 2, "zero point")
    if scale is None:
        context.fail(node, "its scale is missing", "give the scale as an initializer")
    if real.dtype.kind != "f":
        context.fail(
            node, f"its constant input must be float, not {real.dtype}", "convert the constant to float32"
        )
    dtype = rounded_type(context, node, None if zero_point is None else zero_point.dtype)
    if dtype.name not in ("int8", "uint8", "int32", *NARROW):
        context.fail(
            node,
            f"a constant quantized to {dtype} is not supported",
            "quantize weights to 8 bits or fewer and biases to 32",
        )
    if scale.size == 1:
        check_scale_axis(context, node, real.shape)
    empty = np.zeros(real.shape, dtype)
    grid = quantized_constant(context, node, empty, scale, zero_point, node.integer("axis", 1))
    limits = ml_dtypes.iinfo(dtype)
    rounded = np.rint(real.astype(np.float32) / grid.along_axis(grid.scale)).astype(
        np.float64
    ) + grid.along_axis(grid.zero_point)
    context.bind(node, Constant(array=np.clip(rounded, limits.min, limits.max).astype(dtype)))
