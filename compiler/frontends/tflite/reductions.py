"""Reductions along axes, softmax and normalizations."""

from __future__ import annotations

import numpy as np

from .step import Step

LEAST_NORM = 1e-6
"""Least norm by which L2_NORMALIZATION divides (l2normalization.h of TFLite)."""


def reduce(step: Step) -> None:
    """A reduction along constant axes. If rows and columns are reduced, (N, C) remain in either layout of an image."""
    source, keep = step.inputs[0], bool(step.options.KeepDims())
    axes = sorted({step.axis(source, int(axis)) for axis in step.numbers(1, "axes")})
    planes = step.writer.prefer_planes((source,)) and (keep or 3 in axes or {1, 2} <= {*axes})
    places = step.constant([step.axis(source, axis, planes) for axis in axes], "axes", np.int64)
    data = step.writer.real(source, planes=planes)
    step.put(step.node(step.onnx, [data, places], keepdims=int(keep)), planes and keep)


def extreme(step: Step) -> None:
    """ARG_MAX and ARG_MIN: the first index of the extreme value."""
    axis = step.axis(step.inputs[0], int(step.numbers(1, "axis").reshape(())))
    found = step.node(step.onnx, [step.writer.real(step.inputs[0])], "wide", axis=axis, keepdims=0)
    step.put(step.cast(found))


def soften(step: Step) -> None:
    """SOFTMAX of beta times the last axis, and LOG_SOFTMAX."""
    beta = step.options.Beta() if step.options else 1.0
    (data,), planes = step.operands(step.inputs[:1])
    if beta not in (0.0, 1.0):
        data = step.node("Mul", [data, step.constant(beta, "beta", np.float32)], "scores")
    step.put(step.node(step.onnx, [data], axis=step.axis(step.inputs[0], -1, planes)), planes)


def l2_normalization(step: Step) -> None:
    """L2_NORMALIZATION along the last axis."""
    data = step.writer.real(step.inputs[0])
    norm = step.node("ReduceL2", [data, step.constant([-1], "axis")], "norm", keepdims=1)
    divisor = step.node("Max", [norm, step.constant(LEAST_NORM, "least", np.float32)], "divisor")
    step.put(step.node("Div", [data, divisor]))
