"""HARD_SWISH: of floats ONNX's operator; of integers the steps of TFLite's kernel, which multiplies by 15 bits.

The steps are those of `HardSwish` in TFLite's reference_ops.h. All of their numbers are exact in float32 but for the
last product, whose error is below 2^-9 of a step that is far smaller than the output's.
"""

from __future__ import annotations

import math

import numpy as np

from .model import Grid, Operator
from .pointwise import function
from .writer import Writer, result_name

HIGH = np.float32(1 / 128)
"""Scale of the kernel's input, relative to the tensor's."""
REACH = np.float32(3 / 32768)
"""Scale on which the gate's ends, -3 and 3, are the ends of int16."""


def hard_swish(writer: Writer, operator: Operator) -> None:
    """x * clamp(x + 3, 0, 6) / 6."""
    data, output = operator.inputs[0], operator.outputs[0]
    source, result = writer.tensor(data).grid, writer.tensor(output).grid
    if source is None or result is None or writer.known(data) is not None:
        function(writer, operator, "HardSwish")
        return
    planes, name = writer.prefer_planes((data,)), result_name(writer, operator)
    one = np.ones(1, np.float32)

    def step(kind: str, value: str, *numbers: float) -> str:
        more = [writer.constant(np.array(number, np.float32), f"{name}/number") for number in numbers]
        return writer.node(kind, [value, *more], f"{name}/step")

    def rounded(value: str) -> str:
        return step("Floor", step("Add", value, 0.5))

    scale = HIGH * source.scale[0]
    (factor, shift), (gate_factor, gate_shift) = fixed(scale / result.scale[0]), fixed(scale / REACH)
    stored = writer.integral(data, planes=planes)
    dtype = writer.tensor(data).dtype
    centred = writer.dequantized(stored, Grid(scale=one, zero=source.zero), f"{name}/centred", dtype)
    scaled = rounded(step("Mul", centred, factor / 256))
    gate = step("Clip", step("Mul", centred, 128 * 2.0 ** max(gate_shift - 1, 0)), -32768, 32767)
    gate = rounded(step("Mul", gate, gate_factor / 32768))
    if gate_shift > 0:
        gate = step("Clip", step("Mul", gate, 2), -32768, 32767)
    elif gate_shift < 0:
        gate = _signed(writer, gate, rounded(step("Mul", step("Abs", gate), 2.0**gate_shift)))
    gate = step("Floor", step("Mul", step("Add", gate, 32768), 0.5))
    product = step("Mul", writer.node("Mul", [scaled, gate], f"{name}/product"), 2.0**-15)
    size = rounded(step("Mul", step("Floor", step("Abs", product)), 2.0**shift))
    grid = Grid(scale=one, zero=result.zero)
    integers = writer.quantized_node(_signed(writer, product, size), grid, writer.tensor(output))
    writer.put_integers(output, integers, planes=planes)


def _signed(writer: Writer, sign: str, size: str) -> str:
    """Values `size` with the signs of `sign`."""
    return writer.node("Mul", [writer.node("Sign", [sign], f"{sign}/sign"), size], f"{size}/signed")


def fixed(multiplier: float) -> tuple[int, int]:
    """(factor of 15 bits, shift): TFLite's form of a multiplier, about factor / 32768 * 2**shift."""
    fraction, shift = math.frexp(multiplier)
    wide = math.floor(fraction * 2**31 + 0.5)
    return min((wide + 2**15) >> 16, 2**15 - 1), shift
