"""Operators that join, cut, pad, repeat or pick elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tflite

from .activations import activate
from .flatbuffer import damaged
from .model import Operator
from .pointwise import operands
from .writer import PLANE_AXES, Writer, refuse, result_name


def axis_of(writer: Writer, index: int, axis: int, *, planes: bool = False) -> int:
    """An axis of a tensor, counted from the front in the layout `planes`."""
    rank = writer.rank(index)
    if not -rank <= axis < rank:
        raise damaged(f"tensor '{writer.tensor(index).name}' has no axis {axis}")
    return PLANE_AXES[axis % rank] if planes else axis % rank


def concatenate(writer: Writer, operator: Operator) -> None:
    """CONCATENATION, with its fused activation."""
    options, output = operator.options("ConcatenationOptions"), operator.outputs[0]
    names, planes = operands(writer, operator.inputs)
    axis = axis_of(writer, output, options.Axis(), planes=planes)
    result = writer.node("Concat", names, result_name(writer, operator, options), axis=axis)
    writer.put(output, activate(writer, output, result, options.FusedActivationFunction()), planes=planes)


def pack(writer: Writer, operator: Operator) -> None:
    """PACK: tensors side by side along a new axis."""
    output = operator.outputs[0]
    axis = axis_of(writer, output, operator.options("PackOptions").Axis())
    place = writer.constant(np.array([axis]), f"{writer.tensor(output).name}/axis")
    name = result_name(writer, operator)
    parts = [
        writer.node("Unsqueeze", [writer.real(index), place], f"{name}/part") for index in operator.inputs
    ]
    writer.put(output, writer.node("Concat", parts, name, axis=axis))


def unpack(writer: Writer, operator: Operator) -> None:
    """UNPACK: the parts along an axis, without the axis."""
    source = operator.inputs[0]
    axis = axis_of(writer, source, operator.options("UnpackOptions").Axis())
    if writer.tensor(source).shape[axis] != len(operator.outputs):
        raise damaged(f"{operator.kind} of {writer.tensor(source).shape} has {len(operator.outputs)} outputs")
    place = writer.constant(np.array([axis]), f"{writer.tensor(source).name}/axis")
    parts = _parts(writer, operator, source, axis, [1] * len(operator.outputs))
    for index, part in zip(operator.outputs, parts, strict=True):
        writer.put(index, writer.node("Squeeze", [part, place], f"{writer.tensor(index).name}/exact"))


def _parts(
    writer: Writer, operator: Operator, source: int, axis: int, sizes: Sequence[int], *, planes: bool = False
) -> list[str]:
    names = [writer.name(f"{writer.tensor(index).name}/part") for index in operator.outputs]
    lengths = writer.constant(np.array(sizes, np.int64), f"{writer.tensor(source).name}/sizes")
    writer.add("Split", [writer.real(source, planes=planes), lengths], names, axis=axis)
    return names


def split(writer: Writer, operator: Operator) -> None:
    """SPLIT into equal parts, and SPLIT_V into parts of given sizes."""
    varied = operator.kind == "SPLIT_V"
    source, where = (operator.inputs[0], operator.inputs[2]) if varied else operator.inputs[1::-1]
    planes = writer.prefer_planes((source,))
    axis = axis_of(writer, source, int(writer.values(where, "axis").reshape(())), planes=planes)
    rows_axis = PLANE_AXES.index(axis) if planes else axis
    sizes = [writer.tensor(index).shape[rows_axis] for index in operator.outputs]
    names = _parts(writer, operator, source, axis, sizes, planes=planes)
    for index, name in zip(operator.outputs, names, strict=True):
        writer.put(index, name, planes=planes)


def pad(writer: Writer, operator: Operator) -> None:
    """PAD by zeros, PADV2 by a constant, MIRROR_PAD by reflection."""
    source, ends = operator.inputs[0], writer.values(operator.inputs[1], "pads").reshape(-1, 2)
    planes = writer.prefer_planes((source,))
    if len(ends) != writer.rank(source):
        raise damaged(f"{operator.kind} has {len(ends)} pads")
    if planes:
        ends = ends[[0, 3, 1, 2]]
    name = result_name(writer, operator)
    pads = writer.constant(ends.T.reshape(-1).astype(np.int64), f"{name}/pads")
    inputs = [writer.real(source, planes=planes), pads]
    mode = "constant"
    if operator.kind == "MIRROR_PAD":
        mode = "reflect"
        if operator.options("MirrorPadOptions").Mode() != tflite.MirrorPadMode.REFLECT:
            refuse("mirrors with its edge (SYMMETRIC)", "use REFLECT")
    elif len(operator.inputs) > 2:
        value = writer.real_values(operator.inputs[2], "value").reshape(())
        dtype = np.float32 if writer.quantized(source) else writer.tensor(source).dtype
        inputs.append(writer.constant(value.astype(dtype), f"{name}/value"))
    writer.put(operator.outputs[0], writer.node("Pad", inputs, name, mode=mode), planes=planes)


def cut(writer: Writer, operator: Operator) -> None:
    """SLICE: begin and size; a size of -1 is the rest."""
    source = operator.inputs[0]
    first = writer.values(operator.inputs[1], "begin").reshape(-1).tolist()
    sizes = writer.values(operator.inputs[2], "size").reshape(-1).tolist()
    shape = writer.tensor(source).shape
    last = [whole if size == -1 else at + size for at, size, whole in zip(first, sizes, shape, strict=True)]
    planes = writer.prefer_planes((source,))
    _slice(writer, operator, list(range(len(shape))), first, last, [1] * len(shape), planes=planes)


def strided(writer: Writer, operator: Operator) -> None:
    """STRIDED_SLICE: numpy's slices; an axis of `shrink_axis_mask` is an index, which removes the axis."""
    options, source = operator.options("StridedSliceOptions"), operator.inputs[0]
    if options.EllipsisMask() or options.NewAxisMask():
        refuse("has an ellipsis or a new axis", "write all axes, and add axes by EXPAND_DIMS")
    shape = writer.tensor(source).shape
    first, last, steps = (writer.values(i, "range").reshape(-1).tolist() for i in operator.inputs[1:4])
    axes, shrunk = list(range(len(first))), options.ShrinkAxisMask()
    if 0 in steps or len(first) > len(shape):
        raise damaged(f"{operator.kind} of {shape} has steps {steps}")
    most = 2**31 - 1
    for axis in axes:
        if shrunk >> axis & 1:
            steps[axis] = 1
            last[axis] = first[axis] + 1 if first[axis] != -1 else most
            continue
        if options.BeginMask() >> axis & 1:
            first[axis] = 0 if steps[axis] > 0 else most
        if options.EndMask() >> axis & 1:
            last[axis] = most if steps[axis] > 0 else -most
    planes = not shrunk and writer.prefer_planes((source,))
    _slice(writer, operator, axes, first, last, steps, planes=planes, view=bool(shrunk))


def _slice(
    writer: Writer, operator: Operator, axes: Sequence[int], first: Sequence[int], last: Sequence[int],
    steps: Sequence[int], *, planes: bool, view: bool = False,
) -> None:  # fmt: skip
    source, output, name = operator.inputs[0], operator.outputs[0], result_name(writer, operator)
    own = [axis_of(writer, source, axis, planes=planes) for axis in axes]
    limits = [
        writer.constant(np.array(part, np.int64), f"{name}/range") for part in (first, last, own, steps)
    ]
    result = writer.node("Slice", [writer.real(source, planes=planes), *limits], name)
    if view:
        result = writer.reshaped(result, writer.tensor(output).shape, f"{name}/view")
    writer.put(output, result, planes=planes)


def gather(writer: Writer, operator: Operator) -> None:
    """GATHER along an axis, without batch dimensions."""
    options, (source, indices) = operator.options("GatherOptions"), operator.inputs
    if options.BatchDims():
        refuse(f"gathers within {options.BatchDims()} batch dimensions", "gather from the whole tensor")
    axis = axis_of(writer, source, options.Axis())
    names = [writer.real(source), writer.real(indices)]
    writer.put(operator.outputs[0], writer.node("Gather", names, result_name(writer, operator), axis=axis))


def repeat(writer: Writer, operator: Operator, onnx_operator: str) -> None:
    """TILE by constant numbers of repetitions, and BROADCAST_TO the declared shape of the output."""
    name, output = result_name(writer, operator), operator.outputs[0]
    tiled = operator.kind == "TILE"
    numbers = writer.values(operator.inputs[1], "repetitions") if tiled else writer.tensor(output).shape
    inputs = [
        writer.real(operator.inputs[0]),
        writer.constant(np.array(numbers, np.int64), f"{name}/numbers"),
    ]
    writer.put(output, writer.node(onnx_operator, inputs, name))


def reverse(writer: Writer, operator: Operator) -> None:
    """REVERSE_V2 along constant axes."""
    axes = writer.values(operator.inputs[1], "axes").reshape(-1).tolist()
    back = [-1] * len(axes)
    _slice(writer, operator, axes, back, [-(2**31)] * len(axes), back, planes=False)
