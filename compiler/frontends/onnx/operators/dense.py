"""Import of MatMul and Gemm into an integer graph: products of the last axis of an activation with constant weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....te.blocks import Window
from ..attributes import OnnxNode
from ..emit import real_operand
from ..integer_context import ImportContext, pending_result
from ..known_values import Bias, Constant, QuantizedConstant
from ..operations import Product
from ..strided_views import rows_of
from ..values import Pending, Real
from .products import bias_operand, weight_operand


def import_matmul(context: ImportContext, node: OnnxNode) -> None:
    """Imports a MatMul of an activation (..., K) with constant weights (K, M), or of two activations."""
    value, vector = context.value(node, 1), False
    if isinstance(value, Real):
        from .activation_products import import_multiplied

        if import_multiplied(context, node):
            return
    if isinstance(value, QuantizedConstant) and value.integers.ndim == 1 and value.axis is None:
        value, vector = replace(value, integers=value.integers[:, None]), True
    weight, scale = weight_operand(context, node, value, channel_axis=1)
    product = dense(context, node, real_operand(context, node, 0, viewed=True), weight.T, scale, None)
    if vector:
        # The product has one column; the result of a vector has no such axis.
        view = None if product.view is None else product.view.reshape(product.shape[:-1])
        product = replace(product, shape=product.shape[:-1], view=view)
    context.bind(node, product)


def import_gemm(context: ImportContext, node: OnnxNode) -> None:
    """Imports a Gemm with constant B and C, alpha = beta = 1, A not transposed."""
    transposed = bool(node.integer("transB", 0))
    weight, scale = weight_operand(context, node, context.value(node, 1), channel_axis=0 if transposed else 1)
    rows, data = weight if transposed else weight.T, real_operand(context, node, 0, viewed=True)
    context.bind(node, dense(context, node, data, rows, scale, bias_operand(context, node, 2)))


def dense(
    context: ImportContext, node: OnnxNode, data: Real, rows: np.ndarray, scale: np.ndarray, bias: Bias
) -> Pending:
    """Multiplies the quantized tensor `data` (..., K) by the integer weights `rows` (M, K). `scale`: scale of the
    weights, for each row. `bias`: None, or one value for each row. Returns a pending result, which the next
    QuantizeLinear rounds.

    The product becomes a convolution. Data (N, K) give a convolution whose kernel covers the whole stored tensor. Other
    data are stored with the last axis as channels, and give a 1x1 convolution.
    """
    if len(data.shape) < 2 or rows.ndim != 2 or data.shape[-1] != rows.shape[1]:
        context.fail(
            node,
            f"its input of shape {data.shape} does not match its weights of shape {rows.shape[::-1]}",
            "only (..., K) x (K, M) is supported",
        )
    _check_bias(context, node, bias, rows.shape[0])
    filters, view = rows.shape[0], None
    batch, channels, height, width = context.tensors[data.tensor].nchw
    kernel, natural = (height, width), (batch, filters)
    if data.view is not None or len(data.shape) != 2 or batch != data.shape[0]:
        # Move windows of an image where fewer elements move: before a product that widens, else later, when their
        # order is needed.
        widens = not context.abilities.processor and filters > rows.shape[1]
        lines = rows_of(context, node, data, in_order=widens)
        data = lines.data
        batch, channels, height, width = context.tensors[data.tensor].nchw
        kernel, natural = (1, 1), (batch, filters, height, width)
        view = lines.view(natural)
    product = Product(
        data=data,
        weight=np.ascontiguousarray(rows.reshape(filters, channels, *kernel)),
        weight_scale=scale,
        bias=bias,
        window=Window(kernel=kernel),
    )
    return pending_result(node, product, natural, view=view)


def _check_bias(context: ImportContext, node: OnnxNode, bias: Bias, channels: int) -> None:
    if bias is None:
        return
    size = int(np.prod(bias.shape))
    integer = isinstance(bias, Constant) and bias.array.dtype.kind in "iu"
    if (bias.shape and bias.shape[-1] != size) or size not in (1, channels) or (integer and size != channels):
        context.fail(
            node,
            f"its bias of shape {bias.shape} does not match its {channels} channels",
            "give one value per channel",
        )
