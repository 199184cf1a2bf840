"""Imports Conv into an integer graph, and prepares weights and biases of all products with constants."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.isa.scales import INT8_LOW, requantize_scale

from ....graph.int8_convolution import Int8Convolution
from ....graph.operators import Convolution
from ....te.post import Post
from ..attributes import OnnxNode
from ..emit import Rounding, bias_of, bias_step, plane_operand, real_operand
from ..integer_context import QUANTIZE, Edges, ImportContext, pending_result
from ..known_values import Bias, Constant, QuantizedConstant
from ..operations import Product
from ..values import Pending

TWO_ACTIVATIONS = (
    "multiplies two activations, which needs an accelerator with batch = 1 and block_in = block_out",
    "change the configuration, or run the node on the processor (--target vdla,llvm)",
)
"""Error text (problem, way out) about a product that the target cannot compute."""


def convolved(context: ImportContext, node: OnnxNode, operator: Convolution, edges: Edges) -> Pending:
    """Convolves a dequantized tensor. Returns a result of `edges.shape`, which the next QuantizeLinear rounds."""
    if operator.transposed:
        from .transposed import transposed

        return transposed(context, node, operator, edges.shape)
    weight, scale = weight_operand(context, node, context.value(node, 1), channel_axis=0)
    data = real_operand(context, node, 0)
    plane_operand(context, node, data)
    product = Product(
        data=data,
        weight=weight,
        weight_scale=scale,
        bias=bias_operand(context, node, 2),
        window=operator.window,
        groups=operator.groups,
    )
    return pending_result(node, product, edges.shape)


def weight_operand(
    context: ImportContext, node: OnnxNode, value: object, *, channel_axis: int
) -> tuple[np.ndarray, np.ndarray]:
    """Constant weights `value` minus their zero point, and a float32 scale per output channel (along `channel_axis`).
    Weights are int8, or int16 if one does not fit int8 (`wide_weights`). Raises NodeError for any other `value`.
    """
    if isinstance(value, Constant):
        context.fail(node, "its weights are float", QUANTIZE)
    if not isinstance(value, QuantizedConstant):
        able = context.abilities
        if node.op_type == "MatMul" and not (able.products or able.processor):
            context.fail(node, *TWO_ACTIVATIONS)
        context.fail(node, "its weights are not constant", "make the weights an initializer")
    if value.integers.dtype.name not in ("int8", "uint8"):
        context.fail(
            node,
            f"its weights must be int8 or uint8, not {value.integers.dtype}",
            "quantize weights to 8 bits",
        )
    if value.axis is not None and value.axis != channel_axis:
        context.fail(
            node,
            f"its weights have a scale along axis {value.axis}, which is not the axis of output channels",
            f"quantize them along axis {channel_axis}, or per tensor",
        )
    centred = value.centred()
    if centred.size == 0 or centred.ndim <= channel_axis:
        context.refuse(
            node,
            f"its weights of shape {centred.shape} are empty or have no axis {channel_axis} of output channels",
        )
    scale = np.broadcast_to(value.scale, (centred.shape[channel_axis],)).astype(np.float32)
    wide = centred.min() < -128 or centred.max() > 127
    return centred.astype(np.int16 if wide else np.int8, copy=False), scale


def bias_operand(context: ImportContext, node: OnnxNode, index: int) -> Bias:
    """Input `index` as a bias; None if the input is left out. Raises NodeError if it is not a constant."""
    value = context.value(node, index)
    if value is None or isinstance(value, Constant | QuantizedConstant):
        return value
    return context.fail(node, f"its bias '{node.inputs[index]}' is not a constant", "make it an initializer")


def round_product(context: ImportContext, product: Product, to: Rounding) -> str:
    """Adds an integer convolution or matrix product, requantized by `to`; returns the name of the result's tensor."""
    if product.weight.dtype != np.int8:
        from .wide_weights import split_weights

        product = split_weights(context, product, to)
    source = product.data.quantization
    step = bias_step(source.scale, product.weight_scale)
    scale = requantize_scale(source.scale, product.weight_scale, to.grid.scale)
    post = to.post()
    zero_point = source.stored_zero_point
    bias = bias_of(product.bias, step, scale)
    weight, bias, scale = fitted_sums(bias, product.weight, zero_point, scale, post)
    operator = Int8Convolution(
        weight=weight,
        bias=bias,
        scale=scale,
        window=product.window,
        groups=product.groups,
        pad_value=zero_point,
        post=post,
    )
    return to.append(context, operator, (product.data.tensor,))


def fitted_sums(
    bias: NDArray[np.int64],
    weight: NDArray[np.int8],
    zero_point: int,
    scale: NDArray[np.float32],
    stage: Post,
) -> tuple[NDArray[np.int8], NDArray[np.int32], NDArray[np.float32]]:
    """Prepares the constants of an integer product: `weight` (O, ...), `bias` (O,), `scale` (O,) and the input's
    `zero_point`. Returns (int8 weights, int32 biases, scales). From each returned bias, `zero_point` times the sum of
    the filter's weights is subtracted. If sums may leave 32 bits before `stage` requantizes them,
    `accumulators.sums_in_range` changes these constants, or raises AccumulatorError."""
    rows = weight.reshape(len(weight), -1)
    # In int32, which holds the sums of rows this short, summing is twice as fast as in int64.
    total = rows.sum(axis=1, dtype=np.int32 if rows.shape[1] < 1 << 24 else np.int64).astype(np.int64)
    wanted = np.broadcast_to(bias, total.shape) - zero_point * total
    if np.abs(wanted).max(initial=0) + rows.shape[1] * INT8_LOW**2 < 2**31:
        # Sums of this many products of int8 values fit whatever the signs of the weights.
        return weight, wanted.astype(np.int32), scale
    from ..accumulators import sums_in_range

    return sums_in_range(bias, weight, zero_point, scale, stage)
