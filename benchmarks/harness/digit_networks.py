"""Two small networks for scikit-learn's images of digits (8x8, ten classes): a CNN and a transformer, as float ONNX."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import onnx

from vdla.codesign.models.transformers.bert import BertSizes, bert_layer
from vdla.codesign.models.transformers.writer import Writer, floats
from vdla.util.errors import UserError

SIDE, CLASSES = 8, 10
CHANNELS = (16, 32, 64)
SIZES = BertSizes(layers=2, width=64, heads=4, inner=128)
PATCH = 2
TOKENS = (SIDE // PATCH) ** 2
GREATEST = 16.0
"""Greatest value of a pixel."""


def digits() -> tuple[Any, Any, Any, Any]:
    """Training images, float32 [n, 1, 8, 8] from 0 to 1, and their labels; then test images and labels: every fifth
    image of the data set. Raises UserError if scikit-learn is not installed.
    """
    try:
        datasets: Any = import_module("sklearn.datasets")
    except ImportError:
        raise UserError('the images of digits need scikit-learn: pip install "vdla[accuracy]"') from None

    found = datasets.load_digits()
    images = (found.images / GREATEST).astype(np.float32)[:, None]
    test = np.arange(len(images)) % 5 == 0
    return images[~test], found.target[~test], images[test], found.target[test]


def patches(images: Any) -> Any:
    """Each image's patches of 2x2 pixels, as tokens: float32 [n, 16, 4]."""
    cut = images.reshape(len(images), SIDE // PATCH, PATCH, SIDE // PATCH, PATCH)
    return np.ascontiguousarray(cut.transpose(0, 1, 3, 2, 4).reshape(len(images), TOKENS, PATCH * PATCH))


def cnn(seed: int) -> onnx.ModelProto:
    """A CNN of convolutions, a residual connection, a depthwise convolution, pools and a dense layer: `x` [1, 1, 8, 8]
    to `y` [1, 10].
    """
    w = Writer(rng=np.random.default_rng(seed))
    first, second, third = CHANNELS

    def convolution(name: str, data: str, inputs: int, outputs: int, kernel: int, group: int = 1) -> str:
        depth = inputs // group * kernel * kernel
        values = w.rng.standard_normal((outputs, inputs // group, kernel, kernel)) * np.sqrt(2 / depth)
        weight = w.graph.constant(f"{name}.weight", values, np.float32)
        bias = w.graph.constant(f"{name}.bias", np.zeros(outputs), np.float32)
        attributes = {"kernel_shape": [kernel] * 2, "pads": [kernel // 2] * 4, "group": group}
        return w.node("Conv", name, [data, weight, bias], **attributes)

    def relu(data: str) -> str:
        return w.node("Relu", f"{data}.relu", [data])

    data = relu(convolution("first", "x", 1, first, 3))
    rest = relu(convolution("second", data, first, second, 3))
    added = w.node("Add", "sum", [convolution("third", rest, second, second, 3), rest])
    data = w.node("MaxPool", "pool", [relu(added)], kernel_shape=[2, 2], strides=[2, 2])
    data = relu(convolution("depthwise", data, second, second, 3, group=second))
    data = relu(convolution("pointwise", data, second, third, 1))
    data = w.node("Flatten", "flat", [w.node("GlobalAveragePool", "mean", [data])])
    _scores(w, data, third)
    return w.finish("digits_cnn", {"x": floats((1, 1, SIDE, SIDE))}, {"y": floats((1, CLASSES))})


def transformer(seed: int) -> onnx.ModelProto:
    """A transformer of two layers in the style of BERT, on the tokens of `patches`: `x` [1, 16, 4] to `y` [1, 10]."""
    w, rows = Writer(rng=np.random.default_rng(seed)), (1, TOKENS)
    embedded = w.linear("embedded", "x", PATCH * PATCH, SIZES.width)
    data = w.node("Add", "embeddings", [embedded, w.weight("positions", 1, TOKENS, SIZES.width)])
    for layer in range(SIZES.layers):
        data = bert_layer(w, f"layer{layer}", data, None, rows, SIZES)
    _scores(w, w.reshape("flat", data, (1, TOKENS * SIZES.width)), TOKENS * SIZES.width)
    return w.finish(
        "digits_transformer", {"x": floats((1, TOKENS, PATCH * PATCH))}, {"y": floats((1, CLASSES))}
    )


def _scores(w: Writer, data: str, depth: int) -> None:
    inputs = [data, w.weight("scores.weight", depth, CLASSES), w.weight("scores.bias", CLASSES)]
    w.graph.node("Gemm", "scores", inputs, "y")
