"""BatchNormalization in inference form."""

from __future__ import annotations

from typing import NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from .errors import AGAIN
from .onnx_attributes import OnnxNode


class Parameters(Protocol):
    """The part of an import, or of a model to quantize, that knows constant inputs."""

    def refuse(self, node: OnnxNode, problem: str, way_out: str = AGAIN) -> NoReturn:
        """Raises an InvalidNodeError: the node contradicts itself or the model."""
        ...

    def array(self, node: OnnxNode, index: int, what: str) -> np.ndarray | None:
        """A constant input (None where left out); fails where it is not constant."""
        ...


def batch_norm_factors(
    context: Parameters, node: OnnxNode, channels: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(factor, addend) of each channel, float64 (channels,) each; fails in training mode and on parameters of other
    shapes."""
    if node.integer("training_mode", 0) or len([name for name in node.outputs if name]) > 1:
        context.refuse(node, "is in training mode", "export the model for inference")
    parts: list[np.ndarray] = []
    for index, what in enumerate(("scale", "bias", "mean", "variance"), start=1):
        part = context.array(node, index, what)
        if part is None or part.shape != (channels,):
            context.refuse(node, f"has no {what} of {channels} channels")
        parts.append(part.astype(np.float64))
    scale, bias, mean, variance = parts
    with np.errstate(
        all="ignore"
    ):  # Channels without a variance are infinite or NaN, as they are to ONNX Runtime.
        factor = scale / np.sqrt(variance + float(node.attributes.get("epsilon", 1e-5)))
        return factor, bias - mean * factor
