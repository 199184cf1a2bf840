"""Operators of one element at a time, of one or more tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from onnx import helper

from .activations import activate, clamped
from .model import Operator
from .writer import TO_PLANES, Writer, refuse, result_name

_FUSED = ("ADD", "SUB", "MUL", "DIV")
"""Operators with a fused activation."""


def operands(writer: Writer, inputs: Sequence[int]) -> tuple[list[str], bool]:
    """(real values of the operands in one layout, whether the layout is planes)."""
    planes = writer.prefer_planes(inputs)
    return [_aligned(writer, index, planes) for index in inputs], planes


def _aligned(writer: Writer, index: int, planes: bool) -> str:
    """An operand; in planes a constant of fewer than four axes gets four, as it would broadcast among rows."""
    tensor, array = writer.tensor(index), writer.known(index)
    if not planes or array is None or array.ndim in (0, 4):
        return writer.real(index, planes=planes)
    image = array.reshape((1,) * (4 - array.ndim) + array.shape).transpose(TO_PLANES)
    name = writer.constant(image, tensor.name)
    if tensor.grid is None:
        return name
    if not tensor.grid.one:
        refuse(f"its constant '{tensor.name}' has a scale for each channel", "quantize it with one scale")
    return writer.dequantized(name, tensor.grid, f"{tensor.name}/real", array.dtype)


def pair(writer: Writer, operator: Operator, onnx_operator: str) -> None:
    """An operator of tensors that broadcast as numpy's do, with its fused activation. `onnx_operator` may name a second
    one behind a comma, which gets the first one's result (Mul: twice)."""
    output = operator.outputs[0]
    if operator.kind == "SELECT" and len({writer.rank(index) for index in operator.inputs}) > 1:
        refuse("selects whole rows by a vector", "use SELECT_V2")
    names, planes = operands(writer, operator.inputs)
    options = operator.options(f"{operator.kind.title()}Options") if operator.kind in _FUSED else None
    first, _, second = onnx_operator.partition(",")
    result = writer.node(first, names, result_name(writer, operator, options))
    if second:
        result = writer.node(second, [result] * (1 + (second == "Mul")), result_name(writer, operator))
    if options is not None:
        result = activate(writer, output, result, options.FusedActivationFunction())
    writer.put(output, result, planes=planes)


def function(writer: Writer, operator: Operator, onnx_operator: str) -> None:
    """A function of one tensor that ONNX has as well, or two of ONNX's with a comma between them."""
    _chain(writer, operator, *((name, {}) for name in onnx_operator.split(",")))


def _chain(writer: Writer, operator: Operator, *steps: tuple[str, dict[str, object]]) -> None:
    """Functions of one tensor, one after the other: (operator, attributes) of each."""
    (name,), planes = operands(writer, operator.inputs[:1])
    for onnx_operator, attributes in steps:
        name = writer.node(onnx_operator, [name], result_name(writer, operator), **attributes)
    writer.put(operator.outputs[0], name, planes=planes)


def clamp(writer: Writer, operator: Operator) -> None:
    """RELU6, RELU_N1_TO_1 and RELU_0_TO_1."""
    low, high = {"RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}[operator.kind]
    (name,), planes = operands(writer, operator.inputs)
    output = operator.outputs[0]
    writer.put(output, clamped(writer, writer.tensor(output), name, low, high), planes=planes)


def leaky(writer: Writer, operator: Operator) -> None:
    """LEAKY_RELU."""
    _chain(writer, operator, ("LeakyRelu", {"alpha": operator.options("LeakyReluOptions").Alpha()}))


def gelu(writer: Writer, operator: Operator) -> None:
    """GELU, exact or by tanh."""
    approximate = "tanh" if operator.options("GeluOptions").Approximate() else "none"
    _chain(writer, operator, ("Gelu", {"approximate": approximate}))


def square(writer: Writer, operator: Operator) -> None:
    """SQUARE."""
    pair(writer, replace(operator, inputs=operator.inputs * 2), "Mul")


def requantize(writer: Writer, operator: Operator) -> None:
    """QUANTIZE and DEQUANTIZE; of a constant, such as weights stored as float16, the result is a constant."""
    source, output = operator.inputs[0], operator.outputs[0]
    if writer.known(source) is not None and not writer.quantized(output):
        writer.constants[output] = writer.real_values(source, "data")
        return
    (name,), planes = operands(writer, (source,))
    if writer.tensor(source).dtype == np.float16:
        name = writer.node("Cast", [name], f"{result_name(writer, operator)}/wide", to=1)
    if name == writer.reals.get((source, planes)) and not writer.quantized(output):
        name = writer.node("Identity", [name], result_name(writer, operator))
    writer.put(output, name, planes=planes)


def cast(writer: Writer, operator: Operator) -> None:
    """CAST between numbers without scales."""
    (name,), planes = operands(writer, operator.inputs)
    to = helper.np_dtype_to_tensor_dtype(np.dtype(writer.tensor(operator.outputs[0]).dtype.name))
    name = writer.node("Cast", [name], result_name(writer, operator), to=to)
    writer.put(operator.outputs[0], name, planes=planes)
