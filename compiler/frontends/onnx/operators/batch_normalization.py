"""BatchNormalization in inference form: a factor and an addend for each channel, for integer and float graphs.

In an integer graph, BatchNormalization multiplies each channel by one weight, so every target computes it as a
depthwise 1x1 convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ....graph.errors import NodeErrors
from ....graph.operators import BatchNormalization
from ....te.blocks import Window
from ..attributes import OnnxNode
from ..context import GraphContext
from ..emit import real_operand
from ..integer_context import Edges, ImportContext, pending_result
from ..known_values import Constant
from ..operations import Product
from ..strided_views import line_of
from ..values import Pending, Real

MOST_WEIGHT = 127
"""Largest int8 weight to which a channel's factor is quantized. Larger weights allow finer steps of the addend."""
MOST_STEPS = 2**23
"""Largest magnitude of an addend, in units of the scale of the integer sum. float32 represents sums up to this
magnitude exactly.
"""


ConstantInput = Callable[[OnnxNode, int, str], np.ndarray | None]
"""The value of a node's constant input of this index and description; None if the input is left out."""


def channel_values(
    context: NodeErrors, node: OnnxNode, array: ConstantInput, channels: int, names: Sequence[str]
) -> list[NDArray[np.float64]]:
    """Reads the inputs of a normalization after the data, which are called `names`; each has one number for each of
    `channels`. The function `array` reads a constant input. Raises InvalidNodeError for other shapes.
    """
    parts: list[NDArray[np.float64]] = []
    for index, what in enumerate(names, start=1):
        part = array(node, index, what)
        if part is None or part.shape != (channels,):
            context.refuse(node, f"its {what} must have {channels} values, one for each channel")
        parts.append(part.astype(np.float64))
    return parts


def batch_norm_factors(
    context: NodeErrors, node: OnnxNode, array: ConstantInput, channels: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The factor and the addend of each channel, two float64 arrays (channels,). The function `array` reads a constant
    input. Raises InvalidNodeError in training mode, and if a parameter has another shape.
    """
    if node.integer("training_mode", 0) or len([name for name in node.outputs if name]) > 1:
        context.refuse(node, "is in training mode", "export the model for inference")
    names = ("scale", "bias", "mean", "variance")
    scale, bias, mean, variance = channel_values(context, node, array, channels, names)
    # Channels without a variance are infinite or NaN, as they are to ONNX Runtime.
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + float(node.attributes.get("epsilon", 1e-5)))
        return factor, bias - mean * factor


def import_batch_normalization(context: GraphContext, node: OnnxNode) -> None:
    """Imports BatchNormalization in inference form: a scale and a shift per channel, from stored mean and variance."""
    data = context.data_operand(node, 0)
    if len(data.shape) < 2:
        context.fail(
            node,
            f"its input of shape {data.shape} has no channel axis",
            "give data of at least two dimensions (N, C)",
        )
    factors = batch_norm_factors(context, node, context.array, data.shape[1])
    parts = zip(("scale", "shift"), factors, strict=True)
    inputs = (data.name, *[context.store(f"{node.outputs[0]}.{what}", part) for what, part in parts])
    context.add(node, BatchNormalization(), inputs, data.shape)


def scaled(context: ImportContext, node: OnnxNode, _: BatchNormalization, edges: Edges) -> Pending:
    """Applies a BatchNormalization to the quantized tensor `edges.inputs[0]`: data * factor + addend, for each channel.
    Returns a pending result, which the next QuantizeLinear rounds.
    """
    factor, addend = (context.taken(name) for name in edges.inputs[1:])
    if len(edges.shape) > 4:
        from .channel_constants import for_each_channel

        column = (-1, *[1] * (len(edges.shape) - 2))
        data = real_operand(context, node, 0, viewed=True)
        made = for_each_channel(context, node, data, factor.reshape(column), addend.reshape(column))
        if made is not None:
            return made
    data = real_operand(context, node, 0)
    if len(edges.shape) == 3:
        data = line_of(context, node, data)
    tensor = context.tensors[data.tensor]
    if data.shape not in (tensor.shape, tensor.nchw):
        context.fail(
            node,
            f"its input is a tensor of shape {tensor.shape}, reshaped to {data.shape}, which is not supported",
            "remove the reshape: give the model an input of the shape after it",
        )
    if not (np.isfinite(factor).all() and np.isfinite(addend).all()):
        context.fail(
            node,
            "its scale, bias, mean and variance give a factor or addend that is not finite",
            "give variances above 0",
        )
    return pending_result(node, affine(data, factor, addend), tensor.shape, shape=edges.shape)


def affine(data: Real, factor: NDArray[np.float64], addend: NDArray[np.float64]) -> Product:
    """The product that computes data * factor + addend for each channel of an image, as a depthwise 1x1
    convolution.
    """
    size, step = np.abs(factor), float(data.quantization.scale)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        most = np.floor(MOST_STEPS * step * size / np.abs(addend))
    weight = np.where(addend == 0, MOST_WEIGHT, np.clip(np.nan_to_num(most), 0, MOST_WEIGHT))
    # If the addend takes more steps than that, the data are negligible and get weight 0.
    weight = np.where(size == 0, 0, weight)
    alone = np.where(addend == 0, 1.0, np.abs(addend) / (step * MOST_STEPS))
    scale = np.where(weight == 0, alone, size / np.maximum(weight, 1))
    return Product(
        data=data,
        weight=(np.sign(factor) * weight).astype(np.int8).reshape(-1, 1, 1, 1),
        weight_scale=scale.astype(np.float32),
        bias=Constant(array=addend),
        window=Window(kernel=(1, 1)),
        groups=len(factor),
    )
