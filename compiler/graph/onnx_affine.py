"""A BatchNormalization of a quantized tensor that no other operator absorbs: a factor and an addend for each channel.

It is a product of one weight for each channel, so every target computes it as a depthwise 1x1 convolution.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..te.blocks import Window
from .onnx_attributes import OnnxNode
from .onnx_batch_norm import batch_norm_factors
from .onnx_emit import real_operand
from .onnx_integer_context import ImportContext, pending_result
from .onnx_values import Constant, Pending, Product, Real

MOST_WEIGHT = 127
"""Largest weight: the larger the weight, the finer the steps of the addend."""
MOST_STEPS = 2**23
"""Largest addend in steps: a sum with it is exact in float32."""


def import_batch_norm(context: ImportContext, node: OnnxNode) -> None:
    """Imports a BatchNormalization of a quantized tensor."""
    data = real_operand(context, node, 0)
    tensor = context.tensors[data.tensor]
    if data.shape not in (tensor.shape, tensor.nchw):
        context.fail(
            node,
            f"its input is {tensor.shape} reshaped to {data.shape}",
            "make it so where it enters the model",
        )
    factor, addend = batch_norm_factors(context, node, data.shape[1])
    if not (np.isfinite(factor).all() and np.isfinite(addend).all()):
        context.fail(node, "has a factor or addend that is not finite", "give variances above 0")
    context.bind(node, scaled(node, data, tensor.shape, factor, addend))


def scaled(
    node: OnnxNode,
    data: Real,
    natural: tuple[int, ...],
    factor: NDArray[np.float64],
    addend: NDArray[np.float64],
) -> Pending:
    """data * factor + addend, both finite (C,), for each channel of `data`, a tensor of shape `natural`."""
    size, step = np.abs(factor), float(data.quantization.scale)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        most = np.floor(MOST_STEPS * step * size / np.abs(addend))
    weight = np.where(addend == 0, MOST_WEIGHT, np.clip(np.nan_to_num(most), 0, MOST_WEIGHT))
    # If the addend takes more steps than that, the data are negligible and get weight 0.
    weight = np.where(size == 0, 0, weight)
    alone = np.where(addend == 0, 1.0, np.abs(addend) / (step * MOST_STEPS))
    scale = np.where(weight == 0, alone, size / np.maximum(weight, 1))
    signed = (np.sign(factor) * weight).astype(np.int8)
    product = Product(
        data=data,
        weight=signed.reshape(-1, 1, 1, 1),
        weight_scale=scale.astype(np.float32),
        bias=Constant(array=addend),
        window=Window(kernel=(1, 1)),
        groups=len(factor),
    )
    return pending_result(node, product, natural, shape=data.shape)
