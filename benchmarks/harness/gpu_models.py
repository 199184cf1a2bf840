"""Models of one layer or operator for GPUs: the layers of the TVM paper (its Table 2), and other operators of networks.

`reduced` models are small in every dimension, but have the layer's kernel and strides, and odd numbers of channels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from vdla.codesign import models
from vdla.codesign.models.transformers.bert import BertSizes, bert_encoder
from vdla.codesign.named_layers import CONVOLUTIONS, DEPTHWISE, even_window

from .peer import model_of, value

NETWORKS = ("resnet18", "mobilenet", "language_model", "dqn", "dcgan")
"""The five networks of the TVM paper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCase:
    """A float32 model to check and time on GPUs: its name, the `group` of table rows that it belongs to, and the
    function `make(reduced)` that builds it, in small sizes if `reduced` is True.
    """

    name: str
    group: str
    make: Callable[[bool], onnx.ModelProto]


def layer_cases() -> tuple[ModelCase, ...]:
    """Models of one convolution each: C1-C12 of ResNet-18 and D1-D9 of MobileNet (the TVM paper's Table 2)."""
    return (
        *(
            ModelCase(name=n, group="convolutions", make=partial(_convolution, *shape))
            for n, shape in CONVOLUTIONS.items()
        ),
        *(
            ModelCase(
                name=n,
                group="depthwise convolutions",
                make=partial(_depthwise, size, channels, stride),
            )
            for n, (size, channels, stride) in DEPTHWISE.items()
        ),
    )


def operator_cases() -> tuple[ModelCase, ...]:
    """Models of one operator each, for all operators of networks except the convolutions of `layer_cases`."""
    image, rows, deep = (2, 40, 28, 28), (64, 1000), (3, 12, 33, 64)
    small_image, small_rows, small_deep = (2, 5, 9, 7), (5, 37), (2, 3, 7, 9)

    def sized(large: Sequence[int], small: Sequence[int]) -> Callable[[bool], tuple[int, ...]]:
        return lambda reduced: tuple(small if reduced else large)

    images, matrix, batch = sized(image, small_image), sized(rows, small_rows), sized(deep, small_deep)
    one = [
        ("relu", "Relu", images, {}),
        ("sigmoid", "Sigmoid", images, {}),
        ("tanh", "Tanh", batch, {}),
        ("exp", "Exp", matrix, {}),
        ("erf", "Erf", matrix, {}),
        ("softmax", "Softmax", matrix, {"axis": -1}),
        ("softmax_channels", "Softmax", images, {"axis": 1}),
        ("max_pool", "MaxPool", images, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("average_pool", "AveragePool", images, {"kernel_shape": [2, 3], "strides": [1, 2]}),
        ("global_average_pool", "GlobalAveragePool", images, {}),
        ("transpose_matrix", "Transpose", matrix, {"perm": [1, 0]}),
        ("transpose_heads", "Transpose", batch, {"perm": [0, 2, 1, 3]}),
        ("transpose_width", "Transpose", images, {"perm": [0, 2, 3, 1]}),
    ]
    return (
        *(
            ModelCase(name=name, group="operators", make=partial(_unary, operator, shape, attributes))
            for name, operator, shape, attributes in one
        ),
        *(
            ModelCase(name=name, group="operators", make=make)
            for name, make in (
                ("add", partial(_binary, "Add", images)),
                ("multiply_channels", _scaled),
                ("concatenate", partial(_concatenated, images)),
                ("slice", _sliced),
                ("reduce_sum", _reduced_sum),
                ("layer_normalization", _normalized),
                ("gather", _gathered),
                ("resize", _resized),
                ("dense", _dense),
                ("dense_row", _dense_row),
                ("batched_product", _batched_product),
                ("transposed_convolution", _transposed_convolution),
                ("grouped_convolution", _grouped_convolution),
                ("lstm", partial(_recurrent, "forward")),
                ("lstm_both_ways", partial(_recurrent, "bidirectional")),
            )
        ),
    )


def network_cases() -> tuple[ModelCase, ...]:
    """Benchmark cases of whole networks: the five networks at batch 1 and BERT-base's encoder."""
    return (
        *(ModelCase(name=n, group="networks", make=partial(_network, n)) for n in NETWORKS),
        ModelCase(name="bert_encoder", group="networks", make=_encoder),
    )


def product_case(size: int) -> ModelCase:
    """The model of a product of two square float32 matrices of `size`, both of them inputs."""
    return ModelCase(name=f"gemm{size}", group="products", make=partial(_product, size))


def inputs_of(model: onnx.ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
    """Seeded, normally distributed input arrays for `model`, by name."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, np.ndarray] = {}
    for held in model.graph.input:
        shape = [dimension.dim_value or 1 for dimension in held.type.tensor_type.shape.dim]
        arrays[held.name] = rng.standard_normal(shape, dtype=np.float32)
    return arrays


def _model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int]],
    constants: Mapping[str, np.ndarray] | None = None,
    outputs: Sequence[str] = ("Y",),
) -> onnx.ModelProto:
    """A model of `nodes` with float32 inputs of the given shapes and `constants`, both by name, and the outputs named
    `outputs`, whose shapes are inferred.
    """
    model = model_of(
        nodes, [value(name, tuple(shape)) for name, shape in inputs.items()], [], dict(constants or {})
    )
    for name in outputs:
        model.graph.output.append(helper.make_empty_tensor_value_info(name))
        model.graph.output[-1].type.tensor_type.elem_type = TensorProto.FLOAT
    return onnx.shape_inference.infer_shapes(model)


def _weights(*shape: int, depth: int) -> np.ndarray:
    """Seeded weights. They are so small that a sum of `depth` products with normally distributed inputs has a magnitude
    of about 1.
    """
    rng = np.random.default_rng(depth)
    return rng.standard_normal(shape, dtype=np.float32) * np.float32(1 / np.sqrt(depth))


def _convolution(
    size: int, channels: int, filters: int, kernel: int, stride: int, reduced: bool
) -> onnx.ModelProto:
    if reduced:
        size, channels, filters = min(size, 9 + size % 5), min(channels, 5), min(filters, 18)
    return _conv(size, channels, filters, kernel, stride, 1)


def _depthwise(size: int, channels: int, stride: int, reduced: bool) -> onnx.ModelProto:
    if reduced:
        size, channels = min(size, 8 + size % 7), min(channels, 6)
    return _conv(size, channels, channels, 3, stride, channels)


def _conv(size: int, channels: int, filters: int, kernel: int, stride: int, groups: int) -> onnx.ModelProto:
    window = even_window(kernel, stride)
    weights = _weights(
        filters, channels // groups, kernel, kernel, depth=channels // groups * kernel * kernel
    )
    attributes: dict[str, Any] = {
        "kernel_shape": [kernel, kernel],
        "strides": [stride, stride],
        "pads": list(window.pads),
        "group": groups,
    }
    node = helper.make_node("Conv", ["X", "W"], ["Y"], "conv", **attributes)
    return _model([node], {"X": (1, channels, size, size)}, {"W": weights})


def _unary(
    operator: str, shape: Callable[[bool], tuple[int, ...]], attributes: Mapping[str, Any], reduced: bool
) -> onnx.ModelProto:
    node = helper.make_node(operator, ["X"], ["Y"], operator.lower(), **attributes)
    return _model([node], {"X": shape(reduced)})


def _binary(operator: str, shape: Callable[[bool], tuple[int, ...]], reduced: bool) -> onnx.ModelProto:
    node = helper.make_node(operator, ["X", "Z"], ["Y"], operator.lower())
    return _model([node], {"X": shape(reduced), "Z": shape(reduced)})


def _scaled(reduced: bool) -> onnx.ModelProto:
    channels, side = (5, 7) if reduced else (96, 28)
    node = helper.make_node("Mul", ["X", "S"], ["Y"], "scale")
    return _model([node], {"X": (2, channels, side, side), "S": (2, channels, 1, 1)})


def _concatenated(shape: Callable[[bool], tuple[int, ...]], reduced: bool) -> onnx.ModelProto:
    node = helper.make_node("Concat", ["X", "Z"], ["Y"], "join", axis=1)
    first, channels, *plane = shape(reduced)
    return _model([node], {"X": (first, channels, *plane), "Z": (first, channels + 3, *plane)})


def _sliced(reduced: bool) -> onnx.ModelProto:
    side = 11 if reduced else 111
    names = ("starts", "ends", "axes", "steps")
    numbers = ([1, 0], [side, side - 2], [0, 1], [2, 3])
    node = helper.make_node("Slice", ["X", *names], ["Y"], "slice")
    constants = {n: np.array(v, np.int64) for n, v in zip(names, numbers, strict=True)}
    return _model([node], {"X": (side, side)}, constants)


def _reduced_sum(reduced: bool) -> onnx.ModelProto:
    rows, width = (3, 41) if reduced else (100, 5000)
    node = helper.make_node("ReduceSum", ["X", "axes"], ["Y"], "sum", keepdims=0)
    return _model([node], {"X": (rows, width)}, {"axes": np.array([1], np.int64)})


def _normalized(reduced: bool) -> onnx.ModelProto:
    rows, width = (5, 33) if reduced else (128, 768)
    node = helper.make_node("LayerNormalization", ["X", "S", "B"], ["Y"], "normalize", axis=-1)
    constants = {"S": _weights(width, depth=1) + 1, "B": _weights(width, depth=2)}
    return _model([node], {"X": (rows, width)}, constants)


def _gathered(reduced: bool) -> onnx.ModelProto:
    rows, width = (11, 7) if reduced else (1000, 64)
    indices = np.random.default_rng(0).integers(0, rows, (6, 5))
    node = helper.make_node("Gather", ["X", "I"], ["Y"], "look_up", axis=0)
    return _model([node], {"X": (rows, width)}, {"I": indices.astype(np.int64)})


def _resized(reduced: bool) -> onnx.ModelProto:
    channels, side = (2, 5) if reduced else (32, 28)
    node = helper.make_node(
        "Resize", ["X", "", "scales"], ["Y"], "enlarge", mode="linear",
        coordinate_transformation_mode="half_pixel",
    )  # fmt: skip
    return _model([node], {"X": (1, channels, side, side)}, {"scales": np.array([1, 1, 2, 2], np.float32)})


def _dense(reduced: bool) -> onnx.ModelProto:
    rows, depth, columns = (5, 19, 23) if reduced else (35, 650, 2600)
    node = helper.make_node("Gemm", ["X", "W", "B"], ["Y"], "fc")
    constants = {"W": _weights(depth, columns, depth=depth), "B": _weights(columns, depth=4)}
    return _model([node], {"X": (rows, depth)}, constants)


def _dense_row(reduced: bool) -> onnx.ModelProto:
    depth, columns = (37, 11) if reduced else (512, 1000)
    node = helper.make_node("Gemm", ["X", "W"], ["Y"], "fc", transB=1)
    return _model([node], {"X": (1, depth)}, {"W": _weights(columns, depth, depth=depth)})


def _product(size: int, reduced: bool) -> onnx.ModelProto:
    node = helper.make_node("MatMul", ["X", "W"], ["Y"], "product")
    return _model([node], {"X": (size, size), "W": (size, size)})


def _batched_product(reduced: bool) -> onnx.ModelProto:
    batch, rows, depth, columns = (3, 5, 9, 7) if reduced else (12, 128, 64, 128)
    node = helper.make_node("MatMul", ["X", "Z"], ["Y"], "product")
    return _model([node], {"X": (batch, rows, depth), "Z": (batch, depth, columns)})


def _transposed_convolution(reduced: bool) -> onnx.ModelProto:
    channels, filters, side = (5, 6, 4) if reduced else (256, 128, 8)
    weights = _weights(channels, filters, 4, 4, depth=channels * 4)
    node = helper.make_node(
        "ConvTranspose", ["X", "W"], ["Y"], "deconv", kernel_shape=[4, 4], strides=[2, 2], pads=[1, 1, 1, 1]
    )
    return _model([node], {"X": (1, channels, side, side)}, {"W": weights})


def _grouped_convolution(reduced: bool) -> onnx.ModelProto:
    groups, channels, side = (2, 6, 6) if reduced else (8, 128, 28)
    weights = _weights(channels, channels // groups, 3, 3, depth=9 * channels // groups)
    node = helper.make_node(
        "Conv", ["X", "W"], ["Y"], "grouped", kernel_shape=[3, 3], pads=[1] * 4, group=groups
    )
    return _model([node], {"X": (1, channels, side, side)}, {"W": weights})


def _recurrent(direction: str, reduced: bool) -> onnx.ModelProto:
    steps, batch, width, units = (3, 2, 5, 7) if reduced else (35, 1, 650, 650)
    ways = 2 if direction == "bidirectional" else 1
    constants = {
        "W": _weights(ways, 4 * units, width, depth=width),
        "R": _weights(ways, 4 * units, units, depth=units),
        "B": _weights(ways, 8 * units, depth=4),
    }
    node = helper.make_node(
        "LSTM", ["X", "W", "R", "B"], ["Y"], "lstm", hidden_size=units, direction=direction
    )
    return _model([node], {"X": (steps, batch, width)}, constants)


def _encoder(reduced: bool) -> onnx.ModelProto:
    if reduced:
        return bert_encoder(0, 1, 16, BertSizes(layers=1, width=64, heads=2, inner=128))
    return bert_encoder(0, 1, 128, BertSizes(layers=12))


def _network(name: str, reduced: bool) -> onnx.ModelProto:
    return models.build(name, "float")
