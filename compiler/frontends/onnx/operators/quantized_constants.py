"""Constants in integer graphs: float constants are rounded to integers, and integers are stored as int8."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from vdla.isa.scales import quantize

from ....graph.int8_convolution import Quantization
from ..attributes import OnnxNode
from ..integer_context import ImportContext
from ..known_values import Constant, QuantizedConstant
from ..own_grids import spanning
from .quantization import (
    NARROW,
    activation_type,
    check_scale_axis,
    quantized_constant,
    refuse_blocks,
    rounded_type,
)


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
    grid = quantized_constant(context, node, empty, scale, zero_point)
    limits = ml_dtypes.iinfo(dtype)
    rounded = np.rint(real.astype(np.float32) / grid.along_axis(grid.scale)).astype(
        np.float64
    ) + grid.along_axis(grid.zero_point)
    context.bind(node, Constant(array=np.clip(rounded, limits.min, limits.max).astype(dtype)))


def rounded(numbers: np.ndarray, grid: Quantization) -> QuantizedConstant:
    """A constant of float32 `numbers`, rounded to the scale, zero point and type of `grid`."""
    stored = quantize(numbers, grid.scale, grid.stored_zero_point)
    return QuantizedConstant(
        integers=(stored.astype(np.int16) + grid.offset).astype(grid.dtype),
        scale=np.asarray(grid.scale),
        zero_point=np.asarray(grid.zero_point),
        axis=None,
    )


def spanned(constant: Constant | QuantizedConstant) -> QuantizedConstant:
    """`constant` rounded to uint8, with the scale and zero point that span its numbers."""
    array = constant.real().astype(np.float32)
    return rounded(array, spanning(float(array.min(initial=0)), float(array.max(initial=0))))


def stored_constant(
    context: ImportContext, node: OnnxNode, constant: QuantizedConstant
) -> tuple[np.ndarray, Quantization]:
    """The elements of `constant` as a tensor of the graph stores them, int8, and their quantization. Raises NodeError
    for several scales.
    """
    if constant.axis is not None:
        context.fail(
            node, "a constant with one scale per channel is not supported", "quantize the constant per tensor"
        )
    dtype = activation_type(context, node, constant.integers.dtype)
    scale, zero_point = np.float32(constant.scale), int(constant.zero_point)
    grid = Quantization(scale=scale, zero_point=zero_point, dtype=dtype)
    return (constant.integers.astype(np.int16) - grid.offset).astype(np.int8), grid
