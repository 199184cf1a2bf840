"""Converts element-wise operators, reductions along axes, softmax and normalizations to ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .formulas import aligned, centred, fixed, grids
from .softmax import soften_integers
from .step import RANGES, Step
from .writer import refuse

HIGH = np.float32(1 / 128)
"""TFLite's HARD_SWISH kernel multiplies the input by 128. The unit of its products is this fraction of the input's
scale.
"""
REACH = np.float32(3 / 32768)
"""Scale at which int16 ranges from -3 to 3; outside of this range HARD_SWISH is 0 or x."""
LEAST_NORM = 1e-6
"""Least norm by which L2_NORMALIZATION divides (l2normalization.h of TFLite)."""


def elementwise(step: Step, names: Sequence[str] = (), **attributes: Any) -> None:
    """Converts an operator on tensors that broadcast as in numpy. Its row (`rows.py`) names one ONNX operator, or
    several with commas between them, each of which reads the result of the one before. A Mul in such a list squares
    this result: "Sub,Mul" is (a - b)^2. `names`: the operands, by default the real values of all inputs.
    """
    if step.operator.kind == "SELECT" and len({len(step.shape(index)) for index in step.inputs}) > 1:
        refuse("selects whole rows by a vector", "use SELECT_V2")
    names = names or step.operands()
    for onnx in step.onnx.split(","):
        square = onnx == "Mul" and len(names) == 1
        names = [step.node(onnx, [*names] * 2 if square else names, **attributes)]
    step.put(names[0])


def compare(step: Step) -> None:
    """Converts a comparison. LiteRT's kernel rounds the real values of 8-bit operands to multiples of 1/256 before it
    compares them.
    """
    elementwise(step, [x.name for x in aligned(step, 8, 1.0)[0]])


def squared_difference(step: Step) -> None:
    """Converts SQUARED_DIFFERENCE: 8-bit integers to nodes with the arithmetic of TFLite's kernel, all other types to
    Sub and Mul.
    """
    (terms, unit), result = aligned(step, 7), step.tensor(step.output).grid
    if not terms or result is None:
        elementwise(step)
        return
    difference = terms[0] - terms[1]
    (difference * difference).multiplied(unit**2 / (2**14 * float(result.scale[0]))).put()


def leaky(step: Step) -> None:
    """Converts LEAKY_RELU: floats to LeakyRelu, integers to nodes with the arithmetic of TFLite's kernel."""
    alpha, pair = step.options.Alpha(), grids(step)
    if pair is None:
        elementwise(step, alpha=alpha)
        return
    # TFLite computes both multipliers in float32.
    x, scale = centred(step), pair[0].scale[0]
    above, below = (x.multiplied(float(own / pair[1].scale[0])) for own in (scale, scale * np.float32(alpha)))
    above.apply("Max" if alpha <= 1 else "Min", below).put()


def gelu(step: Step) -> None:
    """Converts GELU, exact or, with TFLite's option Approximate, by tanh."""
    elementwise(step, approximate="tanh" if step.options.Approximate() else "none")


def rescale(step: Step) -> None:
    """Converts QUANTIZE, DEQUANTIZE, ABS and RELU with its variants. If input and output are integers of different
    scales, the result is nodes with the arithmetic of TFLite's kernels, which multiply once by the quotient of the
    scales. DEQUANTIZE of a constant (such as weights stored as float16) gives a constant.
    """
    pair = grids(step)
    low, high = RANGES.get(step.operator.kind, RANGES["NONE"])
    if pair is not None and pair[0].scale != pair[1].scale:
        # The kernel of QUANTIZE divides the scales in float64, the others in float32.
        kind = np.float64 if step.operator.kind == "QUANTIZE" else np.float32
        x, scale = centred(step), kind(pair[1].scale[0])
        x = (x.apply("Abs") if step.onnx else x).multiplied(float(kind(pair[0].scale[0]) / scale))
        if low > -np.inf:
            x = x.apply("Clip", np.rint(low / scale), min(np.rint(high / scale), 2**16))
        x.put()
    elif step.operator.kind != "DEQUANTIZE":
        name = step.operand()
        step.put(step.node(step.onnx, [name]) if step.onnx else step.clamped(name, low, high))
    elif step.writer.known(step.inputs[0]) is not None:
        step.writer.constants[step.output] = step.reals(0, "data")
    else:
        half = step.tensor(step.inputs[0]).dtype == np.float16
        step.put(step.cast(step.operand()) if half else step.node("Identity", [step.operand()]))


def cast(step: Step) -> None:
    """Converts CAST between tensors that are not quantized."""
    step.put(step.cast(step.operand()))


def hard_swish(step: Step) -> None:
    """Converts HARD_SWISH, x * clamp(x + 3, 0, 6) / 6. For 8-bit integers the result is nodes with TFLite's arithmetic,
    for int16 and floats it is HardSwish.

    The kernel (`HardSwish` in TFLite's reference_ops.h) multiplies by factors of 15 bits. Here every intermediate
    number is exact in float32, except the last product. The error of the last product is below 2^-9 of its unit, far
    smaller than a step of the output.
    """
    pair = grids(step)
    if pair is None or step.tensor(step.inputs[0]).dtype.itemsize > 1:
        elementwise(step)
        return
    x, scale = centred(step), HIGH * pair[0].scale[0]
    (factor, shift), (gate_factor, gate_shift) = fixed(scale / pair[1].scale[0]), fixed(scale / REACH)
    gate = (x * (128 * 2.0 ** max(gate_shift - 1, 0))).apply("Clip", -32768, 32767)
    gate = (gate * (gate_factor / 32768)).rounded()
    if gate_shift > 0:
        gate = (gate * 2).apply("Clip", -32768, 32767)
    elif gate_shift < 0:
        gate = gate.halved(-gate_shift)
    gate = ((gate + 32768) * 0.5).apply("Floor")
    product = (x * (factor / 256)).rounded() * gate * 2.0**-15
    (product.apply("Sign") * (product.apply("Abs").apply("Floor") * 2.0**shift).rounded()).put()


def reduce(step: Step) -> None:
    """Converts a reduction along constant axes. An image is read as planes (N, C, H, W) in two cases: all axes remain
    (KeepDims), or the remaining axes have the same order in both layouts.
    """
    source, keep = step.inputs[0], bool(step.options.KeepDims())
    axes = step.numbers(1, "axes").reshape(-1).tolist()
    reduced = {axis % len(step.shape(source)) for axis in axes}
    step.planes = step.planes and (keep or 3 in reduced or {1, 2} <= reduced)
    places = step.constant(sorted({step.axis(source, axis) for axis in axes}), "axes")
    name = step.node(step.onnx, [step.operand(), places], keepdims=int(keep))
    step.planes = step.planes and keep
    step.put(name)


def extreme(step: Step) -> None:
    """Converts ARG_MAX or ARG_MIN; of several equal extreme values, the first one's index is the result."""
    axis = step.axis(step.inputs[0], int(step.numbers(1, "axis").reshape(())))
    step.put(step.cast(step.node(step.onnx, [step.operand()], "wide", axis=axis, keepdims=0)))


def soften(step: Step) -> None:
    """Converts SOFTMAX of beta times the input, or LOG_SOFTMAX, along the last axis."""
    beta = step.options.Beta() if step.options else 1.0
    source, result = step.tensor(step.inputs[0]), step.tensor(step.output)
    short = {source.dtype, result.dtype} == {np.dtype(np.int16)}
    if step.onnx == "Softmax" and short and source.grid and result.grid:
        soften_integers(step, float(source.grid.scale[0]) * beta)
        return
    data = step.operand()
    if beta not in (0.0, 1.0):
        data = step.node("Mul", [data, step.constant(beta, "beta", np.float32)], "scores")
    step.put(step.node(step.onnx, [data], axis=step.axis(step.inputs[0], -1)))


def l2_normalization(step: Step) -> None:
    """Converts L2_NORMALIZATION along the last axis."""
    data, axis = step.operand(), step.constant([-1], "axis")
    norm = step.node("ReduceL2", [data, axis], "norm", keepdims=1)
    divisor = step.node("Max", [norm, step.constant(LEAST_NORM, "least", np.float32)], "divisor")
    step.put(step.node("Div", [data, divisor]))
