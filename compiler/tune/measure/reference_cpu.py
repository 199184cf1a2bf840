"""What workloads on processors compute, in plain numpy: measured candidates must give the same.

Shares nothing with tensor expressions and schedules but the shapes of their parameters; workloads that are programs
themselves are evaluated nest by nest (`ir.evaluate`), which no schedule has touched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ...ir.evaluate import evaluate
from ...ir.expr import Binary, Const, Load
from ...ir.stmt import Program, Reduce
from ...ir.visit import enclosing_loops, free_vars, walk
from ...te.blocks import Window
from ...te.functions import FUNCTIONS
from ...te.scalar_steps import Steps, operands
from ...templates.cpu.workload import (
    Conv2dCpu,
    CpuWorkload,
    DenseCpu,
    DepthwiseCpu,
    ElementwiseCpu,
    Parts,
    PoolCpu,
    SketchCpu,
)

Arrays = Mapping[str, np.ndarray]
LOW, HIGH = 0.0, 6.0
"""Limits of a "clip" in a workload."""


def inputs(workload: CpuWorkload, seed: int = 0) -> dict[str, np.ndarray]:
    """Arrays for all parameters that the workload's program reads, by name: float32, normally distributed.

    Positions of blocks beyond the channels are zeros, as tensors in blocks have them. What sums of products read is
    scaled so that they are about 1: functions fused behind them would make more of their rounding errors otherwise.
    """
    rng = np.random.default_rng(seed)
    arrays = {
        p.name: rng.standard_normal(p.shape, dtype=np.float32) for p in workload.program().parameters[:-1]
    }
    match workload:
        case Conv2dCpu():
            into, of = workload.channels // workload.groups, workload.filters // workload.groups
            weights = arrays["W"]
            _clear(arrays["X"].transpose(0, 1, 3, 4, 2, 5), into)
            weights[:, of:], weights[:, :, into:] = 0, 0
            if workload.parts.bias:
                arrays["B"][:, of:] = 0
        case DepthwiseCpu():
            _clear(arrays["X"].transpose(0, 2, 3, 1, 4), workload.channels)
            arrays["W"][..., workload.channels :] = 0
        case SketchCpu(expression=program):
            for name, terms in _summed_up(program).items():
                arrays[name] *= np.float32(terms**-0.5)
    return arrays


def expected(workload: CpuWorkload, arrays: Arrays) -> np.ndarray:
    """The result in float32, the sums in float64 where that is cheap, else in float32.

    EvaluateError for a program that no operator of a network has.
    """
    match workload:
        case Conv2dCpu():
            return _convolution(workload, arrays)
        case DepthwiseCpu():
            return _depthwise(workload, arrays)
        case DenseCpu():
            bias = arrays["B"] if workload.parts.bias else None
            return _finish(arrays["X"] @ arrays["W"], bias, arrays.get("R"), workload.parts)
        case PoolCpu():
            return _pool(workload, arrays["X"])
        case ElementwiseCpu(steps=steps):
            return _elementwise(steps, [arrays[f"X{i}"] for i in range(len(workload.shapes))])
        case SketchCpu(expression=program):
            return evaluate(program, arrays, functions=FUNCTIONS)[program.parameters[-1].name]


def _convolution(workload: Conv2dCpu, arrays: Arrays) -> np.ndarray:
    x, w = arrays["X"], arrays["W"]
    batch, groups, blocks, _, _, lanes = x.shape
    window, co = workload.window, workload.block_out
    oh, ow = window.outputs(workload.height, workload.width)
    filters = w.shape[1]
    total = np.zeros((batch, groups, oh * ow, filters), np.float32)
    # Channels last, whole: a tap of the window is a product of matrices.
    x = x.transpose(0, 1, 3, 4, 2, 5).reshape(batch, groups, workload.height, workload.width, blocks * lanes)
    for (kh, kw), part in _taps(x, window, (oh, ow)):
        rows = np.ascontiguousarray(part).reshape(batch, groups, oh * ow, -1)
        total += rows @ w[:, :, :, kh, kw].transpose(0, 2, 1)
    bias = arrays["B"][None, :, None, :] if workload.parts.bias else None
    operand = arrays.get("R")
    if operand is not None:
        operand = operand.transpose(0, 1, 3, 4, 2, 5).reshape(total.shape)
    total = _finish(total, bias, operand, workload.parts)
    total[..., workload.filters // groups :] = 0
    blocked = total.reshape(batch, groups, oh, ow, filters // co, co)
    return np.ascontiguousarray(blocked.transpose(0, 1, 4, 2, 3, 5))


def _depthwise(workload: DepthwiseCpu, arrays: Arrays) -> np.ndarray:
    x, w = arrays["X"], arrays["W"]
    batch, blocks, _, _, block = x.shape
    oh, ow = workload.window.outputs(workload.height, workload.width)
    total = np.zeros((batch, blocks, oh, ow, block), np.float32)
    for (kh, kw), part in _taps(x, workload.window, (oh, ow)):
        total += part * w[kh, kw].reshape(blocks, 1, 1, block)
    bias = arrays["B"].reshape(blocks, 1, 1, block) if workload.parts.bias else None
    total = _finish(total, bias, arrays.get("R"), workload.parts)
    _clear(total.transpose(0, 2, 3, 1, 4), workload.channels)
    return total


def _pool(workload: PoolCpu, x: np.ndarray) -> np.ndarray:
    outputs = workload.window.outputs(workload.height, workload.width)
    greatest = workload.kind == "max"
    taps = [part for _, part in _taps(x[None], workload.window, outputs, -np.inf if greatest else 0.0)]
    if greatest:
        return np.maximum.reduce(taps)[0]
    top, left, bottom, right = workload.counted
    ones = np.zeros((1, 1, workload.height, workload.width, 1), np.float32) + 1
    # Positions that count: those of the input, and as many around it as are counted.
    ones = np.pad(ones, ((0, 0), (0, 0), (top, bottom), (left, right), (0, 0)), constant_values=1)
    pads = tuple([pad - less for pad, less in zip(workload.window.pads, workload.counted, strict=True)])
    window = Window(
        kernel=workload.window.kernel,
        strides=workload.window.strides,
        pads=(pads[0], pads[1], pads[2], pads[3]),
        dilations=workload.window.dilations,
    )
    counts = np.add.reduce([part for _, part in _taps(ones, window, outputs)])
    return (np.add.reduce(taps) / counts)[0].astype(np.float32)


def _elementwise(steps: Steps, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Arithmetic in float32, step by step as it is written; functions in float64, rounded once."""
    values: list[np.ndarray] = []
    last = {taken: number for number, step in enumerate(steps) for taken in operands(step)}
    with np.errstate(all="ignore"):
        for number, step in enumerate(steps):
            match step:
                case ("argument", int(position)):
                    values.append(arrays[position])
                case ("constant", text):
                    values.append(np.array(float(text), np.float32))
                case (str(name), *_):
                    taken = [values[k] for k in operands(step)]
                    values.append(np.asarray(_OPERATIONS[name](*taken)))
            for k in operands(step):
                if last[k] == number:
                    # Many steps of large tensors would take more memory than there is.
                    values[k] = _NOTHING
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    return np.ascontiguousarray(np.broadcast_to(values[-1], shape))


def _float64(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """The function of float32, computed in float64."""
    return lambda *values: np.asarray(function(*(v.astype(np.float64) for v in values))).astype(np.float32)


_NOTHING = np.empty(0, np.float32)
_OPERATIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "+": np.add,
        "-": np.subtract,
        "*": np.multiply,
        "min": np.minimum,
        "max": np.maximum,
        "<": np.less,
        "<=": np.less_equal,
        "==": np.equal,
        "!=": np.not_equal,
        "and": np.logical_and,
        "or": np.logical_or,
        "select": np.where,
        "divide": np.divide,
        "sqrt": np.sqrt,
        "exp": _float64(np.exp),
        "log": _float64(np.log),
        "tanh": _float64(np.tanh),
        "sigmoid": _float64(lambda x: 1 / (1 + np.exp(-x))),
        "erf": _float64(np.vectorize(math.erf, otypes=[np.float64])),
    }
)


def _taps(
    x: np.ndarray, window: Window, outputs: tuple[int, int], fill: float = 0.0
) -> Iterator[tuple[tuple[int, int], np.ndarray]]:
    """For each position of the window what all outputs read there of `x`, whose dimensions 2 and 3 are the plane."""
    top, left, bottom, right = window.pads
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    (sy, sx), (dy, dx), (oh, ow) = window.strides, window.dilations, outputs
    for kh in range(window.kernel[0]):
        for kw in range(window.kernel[1]):
            y0, x0 = kh * dy, kw * dx
            yield (kh, kw), x[:, :, y0 : y0 + (oh - 1) * sy + 1 : sy, x0 : x0 + (ow - 1) * sx + 1 : sx]


def _finish(
    total: np.ndarray, bias: np.ndarray | None, operand: np.ndarray | None, parts: Parts
) -> np.ndarray:
    for term in (bias, operand):
        if term is not None:
            total = total + term
    if parts.activation == "relu":
        return np.maximum(total, 0)
    return np.clip(total, LOW, HIGH) if parts.activation == "clip" else total


def _summed_up(program: Program) -> dict[str, int]:
    """The parameters by which sums multiply, with the terms of the longest of these sums."""
    names = {p.name for p in program.parameters}
    found: dict[str, int] = {}
    for node in walk(program):
        match node:
            case Reduce(op="add", value=Binary(op="*", b=Load(buffer=buffer))) if buffer.name in names:
                own = set().union(*map(free_vars, node.indices))
                around = enclosing_loops(program, node.name)
                extents = [loop.extent for loop in around if loop.name not in own]
                terms = math.prod(int(e.value) for e in extents if isinstance(e, Const))
                found[buffer.name] = max(terms, found.get(buffer.name, 1))
    return found


def _clear(blocked: np.ndarray, channels: int) -> None:
    """Zeros beyond `channels` in a view whose last two dimensions are blocks of channels."""
    blocks, lanes = blocked.shape[-2:]
    beyond = (np.arange(blocks * lanes) >= channels).reshape(blocks, lanes)
    blocked[..., beyond] = 0
