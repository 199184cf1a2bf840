"""Simulated quantization: a float model that computes the same values as a model in QDQ form.

Integers are stored as float32 numbers of the same value (Jacob et al. 2018, section 3). Sums of products are rounded in
float32, not exact. If a sum is halfway between two integers, the result may therefore differ by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .float_model import assemble, constant_protos

ROUNDER = np.float32(1.5 * 2**23)
"""Adding and subtracting this number rounds float32 of magnitudes below 2**22 to integers, half to even."""


def simulated(model: onnx.ModelProto, outputs: Sequence[str]) -> onnx.ModelProto:
    """The float model that computes the same values as `model` in QDQ form, with the float32 tensors `outputs` as
    outputs.
    """
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    constants = dict(arrays)
    header = onnx.ModelProto()
    header.CopyFrom(model)
    for part in ("node", "initializer", "value_info"):
        header.graph.ClearField(part)
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear":
            nodes += _rounding(node, arrays, constants)
        elif node.op_type == "DequantizeLinear" and node.input[0] in arrays:
            constants[node.output[0]] = _dequantized(node, arrays)
        elif node.op_type == "DequantizeLinear":
            nodes.append(helper.make_node("Mul", node.input[:2], node.output, name=node.name))
        else:
            nodes.append(node)
    return assemble(header, nodes, constant_protos(constants), outputs=outputs)


def _rounding(
    node: onnx.NodeProto, arrays: dict[str, np.ndarray], constants: dict[str, np.ndarray]
) -> list[onnx.NodeProto]:
    """The nodes that compute the result of a QuantizeLinear minus its zero point. `arrays`: values of its operands; the
    numbers that the nodes need are added to `constants`. The nodes clip before they round; the order makes no
    difference, because the bounds are integers.
    """
    data, scale, zero_point = node.input
    limits, zero = np.iinfo(arrays[zero_point].dtype), int(arrays[zero_point])
    output = node.output[0]
    names = [f"{output}.{part}" for part in ("low", "high", "rounder", "divided", "clipped", "shifted")]
    for name, value in zip(names, (limits.min - zero, limits.max - zero, ROUNDER), strict=False):
        constants[name] = np.array(value, np.float32)
    low, high, rounder, divided, clipped, shifted = names
    steps = (
        ("Div", (data, scale), divided),
        ("Clip", (divided, low, high), clipped),
        ("Add", (clipped, rounder), shifted),
        ("Sub", (shifted, rounder), output),
    )
    return [
        helper.make_node(operator, inputs, [result], name=f"{node.name}.{operator}")
        for operator, inputs, result in steps
    ]


def _dequantized(node: onnx.NodeProto, arrays: dict[str, np.ndarray]) -> np.ndarray:
    integers, scale, zero_point = (arrays[name] for name in node.input)
    if scale.ndim:
        axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 1)
        shape = [-1 if position == axis else 1 for position in range(integers.ndim)]
        scale, zero_point = scale.reshape(shape), zero_point.reshape(shape)
    return (integers.astype(np.int64) - zero_point).astype(np.float32) * scale
