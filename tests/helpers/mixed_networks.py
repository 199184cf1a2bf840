"""Quantized networks (QDQ) with operators between quantized layers that the accelerator does not support."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
from float_networks import FloatNetwork, inferred_shape


class MixedNetwork(FloatNetwork):
    """A float network under construction; `pair` quantizes its last tensor with one scale, to uint8 or int8
    (`dtype`).
    """

    def __init__(self, *shape: int, seed: int = 0, opset: int = 17, dtype: type = np.uint8):
        super().__init__(*shape, seed=seed, opset=opset)
        self.dtype = dtype

    def pair(self, scale: float = 0.05, zero_point: int | None = None) -> str:
        """Adds QuantizeLinear and DequantizeLinear of the last tensor with `scale` and `zero_point` (None: 128 for
        uint8, 0 for int8); returns the name of the dequantized tensor.
        """
        middle = 128 if self.dtype is np.uint8 else 0
        grid = [
            self.constant(np.float32(scale)),
            self.constant(self.dtype(middle if zero_point is None else zero_point)),
        ]
        self.add("QuantizeLinear", *grid)
        return self.add("DequantizeLinear", *grid)

    def weight(self, *shape: int) -> str:
        """Adds random int8 weights and their DequantizeLinear, with a scale for each index of the first axis; returns
        the name of the dequantized tensor.
        """
        last, depth = self.last, int(np.prod(shape[1:]))
        integers = self.constant(self.rng.integers(-127, 128, shape).astype(np.int8))
        scales = self.constant((self.rng.uniform(0.5, 1, shape[0]) / 70 / depth**0.5).astype(np.float32))
        zeros = self.constant(np.zeros(shape[0], np.int8))
        name = self.add("DequantizeLinear", inputs=[integers, scales, zeros], axis=0)
        self.last = last
        return name

    def quantized_convolution(
        self, filters: int, size: int = 3, *, pair: bool = True, **attributes: Any
    ) -> str:
        """Adds a convolution of the last tensor with `filters` filters of `size` x `size` int8 weights. The input is
        padded by `size` // 2, unless `attributes` (of the ONNX node) say otherwise. With `pair`, quantizes the result.
        Returns the name of the last tensor.
        """
        attributes = {"pads": [size // 2] * 4, **attributes}
        weight = self.weight(filters, self.shape[1] // attributes.get("group", 1), size, size)
        self.add("Conv", weight, kernel_shape=[size, size], **attributes)
        self.shape = inferred_shape(self)
        return self.pair() if pair else self.last

    def layer_normalization(self) -> str:
        """Adds (x - mean) / sqrt(mean((x - mean)**2) + 1e-5) over the channels, in single operators; returns the name
        of the result.
        """
        data = self.last
        mean = self.add("ReduceMean", axes=[1], keepdims=1)
        centred = self.add("Sub", inputs=[data, mean])
        self.add("Mul", inputs=[centred, centred])
        self.add("ReduceMean", axes=[1], keepdims=1)
        self.add("Add", self.constant(np.float32(1e-5)))
        self.add("Sqrt")
        return self.add("Div", inputs=[centred, self.last])

    def guard(self) -> str:
        """Adds a Where that replaces NaN by 0 in the last tensor, as exporters write after the softmax of attention;
        returns the name of the result.
        """
        data = self.last
        condition = self.add("IsNaN")
        return self.add("Where", inputs=[condition, self.constant(np.float32(0)), data])

    def other(self, operator: str, *others: str, **attributes: Any) -> str:
        """Adds a node on the last tensor and `others`, whose output shape is inferred; returns the name of
        the output.
        """
        self.add(operator, *others, **attributes)
        self.shape = inferred_shape(self)
        return self.last


def unoptimized(model: bytes, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs of ONNX Runtime by name, without graph optimization, so that every QuantizeLinear rounds."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, map(np.asarray, session.run(None, feeds)), strict=True))
