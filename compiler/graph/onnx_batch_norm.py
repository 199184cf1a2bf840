"""BatchNormalization in inference form."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .onnx_context import NodeContext, OnnxNode


def batch_norm_factors(
    context: NodeContext, node: OnnxNode, channels: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(factor, addend) of each channel, float64 (channels,) each; fails in training mode and on parameters of other
    shapes."""
    if node.integer("training_mode", 0) or len([name for name in node.outputs if name]) > 1:
        context.refuse(node, "is in training mode", "export the model for inference")
    parts: list[np.ndarray] = []
    for index, what in enumerate(("scale", "bias", "mean", "variance"), start=1):
        part = context.array(node, index, what)
        if part is None or part.shape != (channels,):
            context.refuse(node, f"has no {what} of {channels} channels", "export the model again")
        parts.append(part.astype(np.float64))
    scale, bias, mean, variance = parts
    with np.errstate(
        all="ignore"
    ):  # Channels without a variance are infinite or NaN, as they are to ONNX Runtime.
        factor = scale / np.sqrt(variance + float(node.attributes.get("epsilon", 1e-5)))
        return factor, bias - mean * factor
