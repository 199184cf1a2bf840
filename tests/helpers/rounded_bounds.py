"""Bounds on the values that a model in QDQ form may compute, by interval arithmetic. Sums in float32 have rounding
errors, so that a value close to a half may be quantized to either neighbouring integer, and later values change with
it.

Quantization is monotone, so the bounds of a quantized value are the quantized bounds of the value. If no value is near
a half, both bounds stay equal.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import numpy_helper

SLACK = 2.0**-20
"""Bound on rounding errors in float32: of functions, relative to 1 + the result's size; of sums of up to 128 products
of numbers near 1, relative to the sum of the products' sizes.
"""

Interval = tuple[np.ndarray, np.ndarray]

MONOTONE = {
    "Sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "Tanh": np.tanh,
    "HardSigmoid": lambda v: np.clip(0.2 * v + 0.5, 0, 1),
    "Softplus": lambda v: np.logaddexp(0, v),
}


def bounds(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> dict[str, Interval]:
    """Bounds of each tensor of `model` except weights, for the inputs `feeds` and all rounding errors of float32:
    (lower, upper), float64 arrays of the tensor's shape. Bounds of a quantized tensor are stored integers.

    Supports QuantizeLinear, DequantizeLinear, Reshape, Clip, Conv with 1x1 windows in one group, MatMul, Add, Mul, and
    the functions in MONOTONE; raises KeyError for other operators, and for a constant as a node's first input (except
    of DequantizeLinear).
    """
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    found = {name: (array.astype(np.float64),) * 2 for name, array in feeds.items()}
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in constants:
            constants[node.output[0]] = _weights(node, constants)
            continue
        found[node.output[0]] = _bounds_of(node, constants, found)
    return found


def _weights(node: onnx.NodeProto, constants: Mapping[str, np.ndarray]) -> np.ndarray:
    integers, scale, zero_point = (constants[name].astype(np.float64) for name in node.input)
    axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 1)
    shape = [-1 if scale.ndim and place == axis else 1 for place in range(integers.ndim)]
    return (integers - zero_point.reshape(shape)) * scale.reshape(shape)


def _bounds_of(
    node: onnx.NodeProto, constants: Mapping[str, np.ndarray], found: Mapping[str, Interval]
) -> Interval:
    low, high = found[node.input[0]]
    if node.op_type in MONOTONE:
        function = MONOTONE[node.op_type]
        return _wider(function(low), function(high))
    match node.op_type:
        case "QuantizeLinear":
            scale, zero_point = (constants[name] for name in node.input[1:])
            limits = np.iinfo(zero_point.dtype)
            steps = (np.rint(end / np.float64(scale)) + int(zero_point) for end in _wider(low, high))
            least, most = (np.clip(step, limits.min, limits.max) for step in steps)
            return least, most
        case "DequantizeLinear":
            scale, zero_point = (constants[name] for name in node.input[1:])
            return (low - int(zero_point)) * np.float64(scale), (high - int(zero_point)) * np.float64(scale)
        case "Reshape":
            shape = constants[node.input[1]]
            return low.reshape(shape), high.reshape(shape)
        case "Clip":
            least, most = (float(constants[name]) for name in node.input[1:])
            return np.clip(low, least, most), np.clip(high, least, most)
        case "Conv":
            weights = constants[node.input[1]][:, :, 0, 0]
            bias = constants[node.input[2]] if len(node.input) > 2 else 0.0
            least, most = _product(*(np.moveaxis(end, 1, -1) for end in (low, high)), weights.T)
            return np.moveaxis(least + bias, -1, 1), np.moveaxis(most + bias, -1, 1)
        case "MatMul":
            return _product(low, high, constants[node.input[1]])
        case "Add" | "Mul":
            other = node.input[1]
            ends = (constants[other],) * 2 if other in constants else found[other]
            if node.op_type == "Add":
                return _wider(low + ends[0], high + ends[1])
            products = [a * b for a in (low, high) for b in ends]
            return _wider(np.minimum.reduce(products), np.maximum.reduce(products))
        case _:
            raise KeyError(f"{node.op_type} is not supported")


def _product(low: np.ndarray, high: np.ndarray, weights: np.ndarray) -> Interval:
    positive, negative = np.maximum(weights, 0), np.minimum(weights, 0)
    rounding = SLACK * (np.maximum(abs(low), abs(high)) @ abs(weights))
    return low @ positive + high @ negative - rounding, high @ positive + low @ negative + rounding


def _wider(low: np.ndarray, high: np.ndarray) -> Interval:
    return low - SLACK * (1 + abs(low)), high + SLACK * (1 + abs(high))
