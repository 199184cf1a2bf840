"""Training of small float ONNX models: the model's graph is differentiated, and its float initializers are trained.

Each node is computed by a function in `autograd`'s numpy (PyPI), which can be differentiated. A model whose first
dimension is a batch of 1 is run on several samples at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import onnx
from onnx import numpy_helper

from vdla.util.errors import UserError

# Its functions are created from numpy's at run time, unknown to type checkers.
np: Any = import_module("autograd.numpy")
value_and_grad: Any = import_module("autograd").value_and_grad

Tensors = dict[str, Any]
Attributes = Mapping[str, Any]

BATCH = 64
RATE, DECAY = 3e-3, 0.05
"""Adam's step size at the beginning, and the factor by which it has been multiplied at the end."""
MEANS, SQUARES, LEAST = 0.9, 0.999, 1e-8
"""Constants of the optimizer Adam (Kingma and Ba, 2014): decay rates of the means of gradients and of their squares,
and the small number added to the divisor.
"""


def forward(model: onnx.ModelProto, weights: Tensors, data: Any) -> Any:
    """The model's first output for the samples `data` of its first input; `weights` replace initializers. Raises
    UserError for an operator that is not in OPERATORS.
    """
    graph = model.graph
    values: Tensors = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    values |= weights
    values[graph.input[0].name] = data
    for node in graph.node:
        if node.op_type not in OPERATORS:
            raise UserError(
                f"node {node.name} ({node.op_type}): not among the operators that are trained here"
            )
        attributes = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
        inputs = [values[name] if name else None for name in node.input]
        values[node.output[0]] = OPERATORS[node.op_type](inputs, attributes)
    return values[graph.output[0].name]


def trained(model: onnx.ModelProto, data: Any, labels: Any, epochs: int, seed: int) -> onnx.ModelProto:
    """A model with the same nodes, whose weights are trained by Adam to minimize the cross-entropy of `labels`
    (integers) on the samples `data` (first dimension), in `epochs` passes over all samples in random order of `seed`.

    All float initializers except scalars count as weights.
    """
    weights = {
        item.name: numpy_helper.to_array(item).copy()
        for item in model.graph.initializer
        if item.data_type == onnx.TensorProto.FLOAT and item.dims
    }

    def loss(now: Tensors, some: Any) -> Any:
        scores = forward(model, now, data[some])
        highest = np.max(scores, axis=1, keepdims=True)
        shares = scores - highest - np.log(np.sum(np.exp(scores - highest), axis=1, keepdims=True))
        return -np.mean(shares[np.arange(len(some)), labels[some]])

    gradient = value_and_grad(loss)
    first = {name: np.zeros_like(array) for name, array in weights.items()}
    second = {name: np.zeros_like(array) for name, array in weights.items()}
    rng = np.random.default_rng(seed)
    steps, step = epochs * (len(data) // BATCH), 0
    for _ in range(epochs):
        for some in np.array_split(rng.permutation(len(data)), len(data) // BATCH):
            step += 1
            _, slopes = gradient(weights, some)
            rate = RATE * (DECAY + (1 - DECAY) * (1 - step / steps))
            for name, slope in slopes.items():
                first[name] = MEANS * first[name] + (1 - MEANS) * slope
                second[name] = SQUARES * second[name] + (1 - SQUARES) * slope**2
                mean, square = first[name] / (1 - MEANS**step), second[name] / (1 - SQUARES**step)
                weights[name] = weights[name] - rate * mean / (np.sqrt(square) + LEAST)
    found = onnx.ModelProto()
    found.CopyFrom(model)
    for item in found.graph.initializer:
        if item.name in weights:
            item.CopyFrom(numpy_helper.from_array(weights[item.name].astype(np.float32), item.name))
    return found


def _convolution(inputs: Sequence[Any], attributes: Attributes) -> Any:
    data, weight, bias = inputs
    samples, channels, height, width = data.shape
    pads, strides = attributes.get("pads", [0] * 4), attributes.get("strides", [1, 1])
    # A product with zeros and ones selects the elements of each tap; gradients of slices would be added element by
    # element.
    chosen, (out_height, out_width) = _read_by_taps((height, width), weight.shape[2:], pads, strides)
    taps = chosen.shape[1] // (out_height * out_width)
    read = np.matmul(np.reshape(data, (samples, channels, height * width)), chosen)
    read = np.reshape(read, (samples, channels, taps, out_height, out_width))
    if attributes.get("group", 1) > 1:  # depthwise
        kernels = np.reshape(weight, (1, channels, taps, 1, 1))
        return np.sum(read * kernels, axis=2) + bias[None, :, None, None]
    rows = np.transpose(read, (0, 3, 4, 1, 2))
    rows = np.reshape(rows, (samples, out_height, out_width, channels * taps))
    found = np.matmul(rows, np.transpose(np.reshape(weight, (len(weight), -1)))) + bias
    return np.transpose(found, (0, 3, 1, 2))


def _read_by_taps(
    plane: Sequence[int], kernel: Sequence[int], pads: Sequence[int], strides: Sequence[int]
) -> tuple[Any, tuple[int, int]]:
    """A matrix of 0 and 1, float32 [input positions, kernel elements x output positions], and (height, width) of the
    outputs. An element is 1 if this kernel element reads this input position for this output position. Positions are
    (row, column) pairs, flattened. `plane`: (height, width) of the inputs; `pads`: (top, left, bottom, right).
    """
    (height, width), (top, left, bottom, right) = plane, pads
    out_height = (height + top + bottom - kernel[0]) // strides[0] + 1
    out_width = (width + left + right - kernel[1]) // strides[1] + 1
    found = np.zeros((height, width, kernel[0], kernel[1], out_height, out_width), np.float32)
    for y, x, row, column in np.ndindex(kernel[0], kernel[1], out_height, out_width):
        at = (row * strides[0] + y - top, column * strides[1] + x - left)
        if 0 <= at[0] < height and 0 <= at[1] < width:
            found[(*at, y, x, row, column)] = 1
    return np.reshape(found, (height * width, -1)), (out_height, out_width)


def _max_pool(inputs: Sequence[Any], attributes: Attributes) -> Any:
    (data,), (rows, columns) = inputs, attributes["kernel_shape"]
    samples, channels, height, width = data.shape
    cut = np.reshape(data, (samples, channels, height // rows, rows, width // columns, columns))
    return np.max(np.max(cut, axis=5), axis=3)


def _normalized(inputs: Sequence[Any], attributes: Attributes) -> Any:
    data, scale, shift = inputs
    centred = data - np.mean(data, axis=-1, keepdims=True)
    deviation = np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + attributes["epsilon"])
    return centred / deviation * scale + shift


def _shares(inputs: Sequence[Any], _: Attributes) -> Any:
    powers = np.exp(inputs[0] - np.max(inputs[0], axis=-1, keepdims=True))
    return powers / np.sum(powers, axis=-1, keepdims=True)


def _reshaped(inputs: Sequence[Any], _: Attributes) -> Any:
    data, shape = inputs
    return np.reshape(data, (len(data), *(int(size) for size in shape[1:])))


OPERATORS: Mapping[str, Callable[[Sequence[Any], Attributes], Any]] = {
    "Add": lambda inputs, _: inputs[0] + inputs[1],
    "Mul": lambda inputs, _: inputs[0] * inputs[1],
    "Div": lambda inputs, _: inputs[0] / inputs[1],
    "MatMul": lambda inputs, _: np.matmul(inputs[0], inputs[1]),
    "Gemm": lambda inputs, _: np.matmul(inputs[0], inputs[1]) + inputs[2],
    "Relu": lambda inputs, _: np.maximum(inputs[0], 0.0),
    # Imported with the first network that has the operator: autograd's scipy takes 1.3 s.
    "Erf": lambda inputs, _: import_module("autograd.scipy.special").erf(inputs[0]),
    "Flatten": lambda inputs, _: np.reshape(inputs[0], (len(inputs[0]), -1)),
    "Identity": lambda inputs, _: inputs[0],
    "GlobalAveragePool": lambda inputs, _: np.mean(inputs[0], axis=(2, 3), keepdims=True),
    "Transpose": lambda inputs, attributes: np.transpose(inputs[0], attributes["perm"]),
    "Conv": _convolution,
    "MaxPool": _max_pool,
    "LayerNormalization": _normalized,
    "Softmax": _shares,
    "Reshape": _reshaped,
}
"""Functions of the operators that can be trained: those of `digit_networks`, in the forms used there."""
