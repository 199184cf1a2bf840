"""Small ONNX models, which are then damaged: chains of layers, quantized or not, and single operators.

The types of an operator's attributes and inputs are from ONNX's own schemas.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, defs, helper, numpy_helper

from .drawing import TEXTS, Draw
from .graphs import tables

OPERATORS = tuple(
    dict.fromkeys(operator.name for operator in tables.OPERATORS.values() if not operator.domain)
)
"""Names of ONNX's own operators that are in the importers' tables."""


def _value_info(name: str, shape: tuple[int, ...], dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def finished(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    constants: dict[str, np.ndarray],
    opset: int,
) -> onnx.ModelProto:
    """A model of the given nodes, inputs, outputs and constants (arrays by name), of ONNX's opset number `opset`."""
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "net", inputs, outputs, tensors)
    return _typed(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10))


class Chain:
    """A chain of layers under construction; `last` is the name of the last layer's output, which has shape `shape`."""

    def __init__(self, draw: Draw, shape: tuple[int, ...]) -> None:
        self.draw = draw
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.shape = shape
        self.input = _value_info("input", shape)
        self.last = "input"

    def constant(self, array: np.ndarray | np.generic) -> str:
        """Adds a constant; returns its name."""
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node of ONNX's operator `op` that reads the last tensor and then the tensors named `inputs`; returns
        the name of its output, which becomes the last tensor.
        """
        number = len(self.nodes)
        self.nodes.append(
            helper.make_node(op, [self.last, *inputs], [f"t{number}"], f"{op.lower()}{number}", **attributes)
        )
        self.last = f"t{number}"
        return self.last

    def normal(self, *shape: int) -> np.ndarray:
        """A random float32 array with a normal distribution."""
        return self.draw.rng.normal(size=shape).astype(np.float32)

    def model(self, opset: int) -> onnx.ModelProto:
        """The model, whose output is the last tensor."""
        output = helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)
        return finished(self.nodes, [self.input], [output], self.constants, opset)


def quantized_network(draw: Draw) -> onnx.ModelProto:
    """A chain of layers with uint8 or int8 activations, as static quantizers write it (QDQ)."""
    chain = Chain(draw, (1, 1 + draw.below(6), 4 + draw.below(5), 4 + draw.below(5)))
    unsigned = draw.chance(0.6)

    def pair(scale: float) -> None:
        zero = np.uint8(draw.below(200)) if unsigned else np.int8(draw.of((0, 0, -5, 9)))
        grid = [chain.constant(np.float32(scale)), chain.constant(np.asarray(zero))]
        chain.add("QuantizeLinear", *grid)
        chain.add("DequantizeLinear", *grid)

    def weights(filters: int, inner: tuple[int, ...]) -> list[str]:
        data, depth = chain.last, int(np.prod(inner))
        scales = (draw.rng.uniform(0.5, 1, filters) / 70 / depth**0.5).astype(np.float32)
        integers = chain.constant(draw.rng.integers(-127, 128, (filters, *inner)).astype(np.int8))
        chain.last = integers
        zeros = chain.constant(np.zeros(filters, np.int8))
        weight = chain.add("DequantizeLinear", chain.constant(scales), zeros, axis=0)
        chain.last = chain.constant(draw.rng.integers(-500, 500, filters).astype(np.int32))
        bias = chain.add("DequantizeLinear", chain.constant(scales * np.float32(0.05)), axis=0)
        chain.last = data
        return [weight, bias]

    pair(0.0523)
    for _ in range(1 + draw.below(3)):
        _, channels, height, width = chain.shape
        match draw.below(6):
            case 0 | 1:
                size, stride, pad = draw.of((1, 2, 3)), draw.of((1, 1, 2)), draw.below(2)
                filters, groups = 1 + draw.below(8), 1
                if draw.chance(0.2):
                    filters = groups = channels
                planes = [(side + 2 * pad - size) // stride + 1 for side in (height, width)]
                if min(planes) < 1:
                    continue
                chain.add(
                    "Conv",
                    *weights(filters, (channels // groups, size, size)),
                    kernel_shape=[size, size],
                    strides=[stride, stride],
                    pads=[pad] * 4,
                    group=groups,
                )
                chain.shape = (1, filters, *planes)
                if draw.chance(0.5):
                    chain.add("Relu")
            case 2:
                if min(height, width) < 2:
                    continue
                chain.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
                chain.shape = (1, channels, height // 2, width // 2)
            case 3:
                if min(height, width) < 3:
                    continue
                chain.add(
                    "AveragePool", kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=int(draw.chance(0.5))
                )
            case 4:
                chain.add(draw.of(("Add", "Mul")), chain.last)
            case _:
                chain.add("Relu")
        # No quotient of two scales may be one half, because then every other value would be halfway between two steps.
        pair(draw.of((0.0213, 0.0517, 0.0971, 0.0037)))
    if draw.chance(0.4):
        chain.add("GlobalAveragePool")
        pair(0.0309)
        chain.add("Flatten")
        chain.add("Gemm", *weights(5, (chain.shape[1],)), transB=1)
        pair(0.0457)
    return chain.model(draw.of((13, 15, 17, 21)))


def float_network(draw: Draw) -> onnx.ModelProto:
    """A chain of float32 layers of convolutional networks and transformers."""
    chain = Chain(draw, (1 + draw.below(2), 1 + draw.below(6), 4 + draw.below(5), 4 + draw.below(5)))
    for _ in range(1 + draw.below(4)):
        batch, channels, height, width = chain.shape
        match draw.below(10):
            case 0:
                size, dilation = draw.of((1, 3)), draw.of((1, 1, 2))
                filters = 1 + draw.below(20)
                pad = dilation * (size // 2)
                chain.add(
                    "Conv",
                    chain.constant(chain.normal(filters, channels, size, size)),
                    chain.constant(chain.normal(filters)),
                    kernel_shape=[size, size],
                    pads=[pad] * 4,
                    dilations=[dilation] * 2,
                )
                chain.shape = (batch, filters, height, width)
            case 1:
                chain.add(draw.of(("Relu", "Sigmoid", "Tanh", "HardSwish", "Exp", "Abs", "Softplus", "Neg")))
            case 2:
                weight = chain.constant(chain.normal(width, width))
                chain.add("MatMul", weight)
            case 3:
                chain.add("Softmax", axis=draw.below(8) - 4)
            case 4:
                operand = chain.constant(
                    chain.normal(*draw.of(((1,), (channels, 1, 1), (width,), (1, 1, height, 1))))
                )
                chain.add(draw.of(("Add", "Mul", "Sub", "Div", "Max", "Min")), operand)
            case 5:
                order = [int(axis) for axis in draw.rng.permutation(4)]
                chain.add("Transpose", perm=order)
                chain.shape = tuple([chain.shape[axis] for axis in order])
            case 6:
                chain.add("Concat", "Constant", chain.last, axis=1)
                chain.shape = (batch, 2 * channels, height, width)
            case 7:
                sizes = [chain.constant(chain.normal(channels)) for _ in range(3)]
                chain.add("BatchNormalization", *sizes, chain.constant(np.abs(chain.normal(channels)) + 0.1))
            case 8:
                chain.add("ReduceMean", axes=[draw.below(4)], keepdims=1)
                node = chain.nodes[-1]
                axis = node.attribute[0].ints[0]
                chain.shape = tuple([1 if d == axis else size for d, size in enumerate(chain.shape)])
            case _:
                chain.add("MaxPool", kernel_shape=[1, 1])
    return chain.model(draw.of((13, 15, 17)))


def operator_model(draw: Draw) -> onnx.ModelProto:
    """A model of one operator, whose attributes and inputs have the types of its schema and random values."""
    opset = draw.of((11, 13, 15, 17, 18, 19, 20, 21, 22, 23))
    op = draw.of(OPERATORS)
    try:
        schema = defs.get_schema(op, opset, "")
    except defs.SchemaError:
        op, schema = "Relu", defs.get_schema("Relu", opset, "")
    shape = draw.shape()
    constants: dict[str, np.ndarray] = {}
    inputs = [_value_info("x0", shape)]
    names = ["x0"]
    formals = list(schema.inputs)
    if op == "Where":
        constants["x0"] = draw.rng.random(shape) < 0.5
        inputs = []
    for number in range(1, len(formals) if len(formals) > 1 else 1):
        formal = formals[number]
        optional = formal.option == defs.OpSchema.FormalParameterOption.Optional
        if optional and draw.chance(0.4):
            names.append("")
            continue
        name = f"x{number}"
        names.append(name)
        types = formal.types
        if "tensor(float)" in types and draw.chance(0.8):
            other = shape if draw.chance(0.5) else draw.shape(range(1, 5))
            if draw.chance(0.3) and not constants and inputs:
                inputs.append(_value_info(name, other))
            else:
                constants[name] = draw.rng.normal(size=other).astype(np.float32)
        elif "tensor(int64)" in types:
            count = draw.of((len(shape), 2 * len(shape), 1, 2))
            dims = () if draw.chance(0.15) else (count,)
            constants[name] = np.array([draw.below(7) - 2 for _ in range(count)], np.int64)[
                : None if dims else 1
            ]
            constants[name] = constants[name].reshape(dims) if dims else constants[name][0:1].reshape(())
        else:
            constants[name] = np.array(draw.below(5), np.uint8)
    while names and not names[-1]:
        names.pop()
    if formals and formals[-1].option == defs.OpSchema.FormalParameterOption.Variadic:
        for number in range(len(names), 1 + draw.below(4)):
            names.append(draw.of(("x0", f"x{number}")))
            if names[-1] != "x0":
                constants[names[-1]] = draw.rng.normal(size=shape).astype(np.float32)
    attributes = {
        name: value
        for name, attribute in schema.attributes.items()
        if draw.chance(0.85 if attribute.required else 0.4)
        and (value := _attribute(draw, name, str(attribute.type).rpartition(".")[2], len(shape))) is not None
    }
    least = max(1, schema.min_output)
    count = least + (draw.below(2) if schema.max_output > least else 0)
    node = helper.make_node(op, names, [f"y{i}" for i in range(count)], "node", **attributes)
    kind = TensorProto.FLOAT
    outputs = [helper.make_tensor_value_info(f"y{i}", kind, None) for i in range(count)]
    return finished([node], inputs, outputs, constants, opset)


def _typed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the output types that ONNX infers; unchanged if ONNX infers none."""
    splits = [n for n in model.graph.node if n.op_type == "Split"]
    if (
        any(a.i != len(n.output) for n in splits for a in n.attribute)
        or model.graph.node[0].op_type == "Einsum"
    ):
        # ONNX's inference crashes on these operators, and does not end for most texts as the equation of Einsum.
        return model
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    for output in plain.graph.output:
        output.ClearField("type")
    try:
        inferred = onnx.shape_inference.infer_shapes(plain)
    except Exception:
        return model
    found = {info.name: info for info in (*inferred.graph.value_info, *inferred.graph.output)}
    for output in model.graph.output:
        if output.name in found and found[output.name].HasField("type"):
            output.CopyFrom(found[output.name])
    return model


def _attribute(draw: Draw, name: str, kind: str, rank: int) -> Any:
    if name == "axis":
        return draw.below(2 * rank + 2) - rank - 1
    match kind:
        case "INT":
            return draw.below(4) - draw.below(2)
        case "INTS":
            count = draw.of((2, 2, rank, 4, 1, 3))
            if name == "perm":
                return [int(axis) for axis in draw.rng.permutation(rank)]
            least = 1 if name in ("kernel_shape", "strides", "dilations") else 0
            return [least + draw.below(3) for _ in range(count)]
        case "FLOAT":
            return float(np.float32(draw.rng.normal()))
        case "STRING":
            return draw.of(TEXTS)
        case "FLOATS":
            return [float(np.float32(draw.rng.normal())) for _ in range(1 + draw.below(3))]
    return None
