"""Converts element-wise operators, reductions along axes, softmax and normalizations to ONNX."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .model import Grid
from .softmax import soften_integers
from .step import Step
from .writer import refuse

HIGH = np.float32(1 / 128)
"""Unit of the products in TFLite's HARD_SWISH kernel, as a fraction of the input's scale: the kernel multiplies the
input by 128.
"""
REACH = np.float32(3 / 32768)
"""Scale at which int16 ranges from -3 to 3; outside of this range HARD_SWISH is 0 or x."""
LEAST_NORM = 1e-6
"""Least norm by which L2_NORMALIZATION divides (l2normalization.h of TFLite)."""


def elementwise(step: Step, **attributes: Any) -> None:
    """Converts an operator on tensors that broadcast as in numpy. Its row (`rows.py`) names one ONNX operator or, with
    commas between them, several, each of which reads the result of the one before. "Sub,Mul" is (a - b)^2: a Mul with
    a single input multiplies this input by itself.
    """
    if step.operator.kind == "SELECT" and len({step.writer.rank(index) for index in step.inputs}) > 1:
        refuse("selects whole rows by a vector", "use SELECT_V2")
    names, planes = step.operands()
    for onnx in step.onnx.split(","):
        square = onnx == "Mul" and len(names) == 1
        names = [step.node(onnx, names * 2 if square else names, **attributes)]
    step.put(names[0], planes)


def leaky(step: Step) -> None:
    """Adds the ONNX nodes for LEAKY_RELU."""
    elementwise(step, alpha=step.options.Alpha())


def gelu(step: Step) -> None:
    """Adds the ONNX nodes for GELU, exact or by tanh."""
    elementwise(step, approximate="tanh" if step.options.Approximate() else "none")


def clamp(step: Step) -> None:
    """Adds the ONNX nodes for RELU6, RELU_N1_TO_1 and RELU_0_TO_1."""
    bounds = {"RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}
    (name,), planes = step.operands()
    step.put(step.clamped(name, *bounds[step.operator.kind], step.tensor(step.output).grid), planes)


def requantize(step: Step) -> None:
    """Converts QUANTIZE or DEQUANTIZE. A constant input (such as weights stored as float16) gives a constant output."""
    writer, source, output = step.writer, step.inputs[0], step.output
    if writer.known(source) is not None and not writer.quantized(output):
        writer.constants[output] = writer.real_values(source, "data")
        return
    (name,), planes = step.operands((source,))
    if step.tensor(source).dtype == np.float16:
        name = step.node("Cast", [name], "wide", to=1)
    if name == writer.reals.get((source, planes)) and not writer.quantized(output):
        name = step.node("Identity", [name])
    step.put(name, planes)


def cast(step: Step) -> None:
    """Converts CAST between tensors that are not quantized."""
    (name,), planes = step.operands()
    step.put(step.cast(name), planes)


def hard_swish(step: Step) -> None:
    """Converts HARD_SWISH, x * clamp(x + 3, 0, 6) / 6: floats to HardSwish, integers to nodes with TFLite's arithmetic.

    The kernel (`HardSwish` in TFLite's reference_ops.h) multiplies by factors of 15 bits. Every intermediate number is
    exact in float32, except the last product. The error of the last product is below 2^-9 of its unit, far smaller than
    a step of the output.
    """
    writer, data = step.writer, step.inputs[0]
    source, result = step.tensor(data).grid, step.tensor(step.output).grid
    if source is None or result is None or writer.known(data) is not None:
        elementwise(step)
        return
    planes, one = writer.prefer_planes((data,)), np.ones(1, np.float32)

    def node(kind: str, value: str, *numbers: float) -> str:
        return step.node(kind, [value, *(step.constant(n, "number", np.float32) for n in numbers)], "step")

    def rounded(value: str) -> str:
        return node("Floor", node("Add", value, 0.5))

    def signed(sign: str, size: str) -> str:
        """Adds nodes that give the values `size` the signs of the values `sign`; returns the result's name."""
        return writer.node("Mul", [writer.node("Sign", [sign], f"{sign}/sign"), size], f"{size}/signed")

    scale = HIGH * source.scale[0]
    (factor, shift), (gate_factor, gate_shift) = fixed(scale / result.scale[0]), fixed(scale / REACH)
    stored = writer.integral(data, planes=planes)
    centred_grid = Grid(scale=one, zero=source.zero)
    centred = writer.dequantized(stored, centred_grid, f"{step.name}/centred", step.tensor(data).dtype)
    scaled = rounded(node("Mul", centred, factor / 256))
    gate = node("Clip", node("Mul", centred, 128 * 2.0 ** max(gate_shift - 1, 0)), -32768, 32767)
    gate = rounded(node("Mul", gate, gate_factor / 32768))
    if gate_shift > 0:
        gate = node("Clip", node("Mul", gate, 2), -32768, 32767)
    elif gate_shift < 0:
        gate = signed(gate, rounded(node("Mul", node("Abs", gate), 2.0**gate_shift)))
    gate = node("Floor", node("Mul", node("Add", gate, 32768), 0.5))
    product = node("Mul", step.node("Mul", [scaled, gate], "product"), 2.0**-15)
    size = rounded(node("Mul", node("Floor", node("Abs", product)), 2.0**shift))
    grid = Grid(scale=one, zero=result.zero)
    integers = writer.quantized_node(signed(product, size), grid, step.tensor(step.output))
    writer.put_integers(step.output, integers, planes=planes)


def fixed(multiplier: float, bits: int = 15) -> tuple[int, int]:
    """`multiplier` as TFLite's fixed-point number of 31 or 15 `bits`: (factor, shift), where factor / 2**bits *
    2**shift is nearest to it. TFLite rounds to 31 bits first.
    """
    fraction, shift = math.frexp(multiplier)
    factor = math.floor(fraction * 2**31 + 0.5)
    if factor == 2**31:
        factor, shift = factor // 2, shift + 1
    return (factor if bits == 31 else min((factor + 2**15) >> 16, 2**15 - 1)), shift


def reduce(step: Step) -> None:
    """Converts a reduction along constant axes. An image is read as planes (N, C, H, W) only if the order of the
    remaining axes is the same in both layouts, or if all axes remain (KeepDims).
    """
    source, keep = step.inputs[0], bool(step.options.KeepDims())
    axes = sorted({step.axis(source, int(axis)) for axis in step.numbers(1, "axes")})
    planes = step.writer.prefer_planes((source,)) and (keep or 3 in axes or {1, 2} <= {*axes})
    places = step.constant([step.axis(source, axis, planes) for axis in axes], "axes", np.int64)
    data = step.writer.real(source, planes=planes)
    step.put(step.node(step.onnx, [data, places], keepdims=int(keep)), planes and keep)


def extreme(step: Step) -> None:
    """Converts ARG_MAX or ARG_MIN; of several equal extreme values, the first one's index is the result."""
    axis = step.axis(step.inputs[0], int(step.numbers(1, "axis").reshape(())))
    found = step.node(step.onnx, [step.writer.real(step.inputs[0])], "wide", axis=axis, keepdims=0)
    step.put(step.cast(found))


def soften(step: Step) -> None:
    """Converts SOFTMAX of beta times the input, or LOG_SOFTMAX, along the last axis."""
    beta = step.options.Beta() if step.options else 1.0
    short = all(step.tensor(index).dtype == np.int16 for index in (step.inputs[0], step.output))
    known = step.writer.known(step.inputs[0]) is not None
    if step.onnx == "Softmax" and short and not known and step.quantized(step.inputs[0], step.output):
        soften_integers(step, beta)
        return
    (data,), planes = step.operands(step.inputs[:1])
    if beta not in (0.0, 1.0):
        data = step.node("Mul", [data, step.constant(beta, "beta", np.float32)], "scores")
    step.put(step.node(step.onnx, [data], axis=step.axis(step.inputs[0], -1, planes)), planes)


def l2_normalization(step: Step) -> None:
    """Converts L2_NORMALIZATION along the last axis."""
    data = step.writer.real(step.inputs[0])
    norm = step.node("ReduceL2", [data, step.constant([-1], "axis")], "norm", keepdims=1)
    divisor = step.node("Max", [norm, step.constant(LEAST_NORM, "least", np.float32)], "divisor")
    step.put(step.node("Div", [data, divisor]))
