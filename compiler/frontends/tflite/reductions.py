"""Reductions along axes, softmax and normalizations."""

from __future__ import annotations

import numpy as np
from onnx import helper

from .model import Operator
from .moves import axis_of
from .writer import Writer, result_name

LEAST_NORM = 1e-6
"""Least norm by which L2_NORMALIZATION divides (l2normalization.h of TFLite)."""


def reduce(writer: Writer, operator: Operator, onnx_operator: str) -> None:
    """A reduction along constant axes. Reduced rows and columns leave (N, C), the same from planes and from rows."""
    source, output = operator.inputs[0], operator.outputs[0]
    keep = bool(operator.options("ReducerOptions").KeepDims())
    listed = writer.values(operator.inputs[1], "axes").reshape(-1)
    axes = sorted({axis_of(writer, source, int(axis)) for axis in listed})
    planes = writer.prefer_planes((source,)) and (keep or 3 in axes or {1, 2} <= {*axes})
    own = [axis_of(writer, source, axis, planes=planes) for axis in axes]
    name = result_name(writer, operator)
    places = writer.constant(np.array(own, np.int64), f"{name}/axes")
    data = writer.real(source, planes=planes)
    result = writer.node(onnx_operator, [data, places], name, keepdims=int(keep))
    writer.put(output, result, planes=planes and keep)


def extreme(writer: Writer, operator: Operator, onnx_operator: str) -> None:
    """ARG_MAX and ARG_MIN: the first index of the extreme value."""
    source, output = operator.inputs[0], operator.outputs[0]
    axis = axis_of(writer, source, int(writer.values(operator.inputs[1], "axis").reshape(())))
    name = result_name(writer, operator)
    found = writer.node(onnx_operator, [writer.real(source)], f"{name}/wide", axis=axis, keepdims=0)
    to = helper.np_dtype_to_tensor_dtype(np.dtype(writer.tensor(output).dtype.name))
    writer.put(output, writer.node("Cast", [found], name, to=to))


def soften(writer: Writer, operator: Operator, onnx_operator: str) -> None:
    """SOFTMAX of beta times the last axis, and LOG_SOFTMAX."""
    beta = operator.options("SoftmaxOptions").Beta() if operator.kind == "SOFTMAX" else 1.0
    source, name = operator.inputs[0], result_name(writer, operator)
    planes = writer.prefer_planes((source,))
    data = writer.real(source, planes=planes)
    if beta not in (0.0, 1.0):
        factor = writer.constant(np.array(beta, np.float32), f"{name}/beta")
        data = writer.node("Mul", [data, factor], f"{name}/scores")
    axis = axis_of(writer, source, -1, planes=planes)
    writer.put(operator.outputs[0], writer.node(onnx_operator, [data], name, axis=axis), planes=planes)


def l2_normalization(writer: Writer, operator: Operator) -> None:
    """L2_NORMALIZATION along the last axis."""
    source, name = operator.inputs[0], result_name(writer, operator)
    data = writer.real(source)
    axis = writer.constant(np.array([-1]), f"{name}/axis")
    norm = writer.node("ReduceL2", [data, axis], f"{name}/norm", keepdims=1)
    least = writer.constant(np.array(LEAST_NORM, np.float32), f"{name}/least")
    norm = writer.node("Max", [norm, least], f"{name}/divisor")
    writer.put(operator.outputs[0], writer.node("Div", [data, norm], name))
