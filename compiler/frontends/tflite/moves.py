"""Converts operators that reshape, reorder, join, cut, pad, repeat or select elements to ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tflite

from .flatbuffer import damaged
from .step import Step
from .windows import planes_order
from .writer import PLANE_AXES, TO_PLANES, Writer, refuse

_MOST = 2**31 - 1
"""End of a slice that reaches to the end of its axis."""


def _moved(step: Step, move: Callable[[str, str], str], *, planes: bool = False) -> None:
    """Converts an operator that only moves elements of its first input. `move(input, output)` adds an ONNX node between
    tensors of these names and returns its output's name. `planes`: whether that input has the layout (N, C, H, W).
    """
    writer, source = step.writer, step.inputs[0]
    if step.same_integers():
        name = move(writer.integral(source, planes=planes), step.tensor(step.output).name)
        writer.put_integers(step.output, name)
    else:
        step.put(move(writer.real(source, planes=planes), step.name))


def reshape(step: Step) -> None:
    """Converts RESHAPE, SQUEEZE or EXPAND_DIMS to an ONNX Reshape to the output shape that the TFLite file declares."""
    writer, source, output = step.writer, step.inputs[0], step.output
    before, after = step.shape(source), step.shape(output)
    if np.prod(before) != np.prod(after):
        raise damaged(f"{step.operator.kind} makes {after} of {before}")
    if (array := writer.known(source)) is not None and step.same_type():
        writer.constants[output] = array.reshape(after)
        return
    planes = len(before) == 4 and writer.in_planes(source)
    if planes and (order := planes_order(before)) is not None:
        planes = after == (before[0], np.prod(before[1:])) and step.same_type() and _only_weighted(step)
        if planes:
            writer.columns[output] = order
    _moved(step, lambda name, result: writer.reshaped(name, after, result), planes=planes)


def _only_weighted(step: Step) -> bool:
    """Whether only FULLY_CONNECTED operators with constant weights read the output. A row of the output must have one
    element for each column of the weights. The columns of the weights can then be reordered, so the elements of the
    output may be in any order.
    """
    output, writer = step.output, step.writer
    readers = [operator for operator in writer.network.operators if output in operator.inputs]
    return output not in writer.network.outputs and all(
        reader.kind == "FULLY_CONNECTED"
        and reader.inputs[0] == output
        and (weights := writer.known(reader.inputs[1])) is not None
        and weights.shape[1:] == step.shape(output)[1:]
        for reader in readers
    )


def transpose(step: Step) -> None:
    """Converts TRANSPOSE with a constant order of axes."""
    order = [int(axis) for axis in step.writer.values(step.inputs[1], "order")]
    if sorted(order) != list(range(step.writer.rank(step.inputs[0]))):
        raise damaged(f"{step.operator.kind} has the axis order {order}, which is not a permutation")
    _moved(step, lambda name, result: step.writer.node("Transpose", [name], result, perm=order))


def shape(step: Step) -> None:
    """Replaces SHAPE by a constant, since all shapes are static."""
    dtype = step.tensor(step.output).dtype
    step.writer.constants[step.output] = np.array(step.shape(step.inputs[0]), dtype)


def blocks(step: Step) -> None:
    """Converts DEPTH_TO_SPACE or SPACE_TO_DEPTH. A channel's number in the smaller image is (position in the block) *
    (channels of the larger image) + (channel of the larger image); this is ONNX's mode "DCR".
    """
    name, size = step.writer.real(step.inputs[0], planes=True), step.options.BlockSize()
    more = {"mode": "DCR"} if step.onnx == "DepthToSpace" else {}
    step.put(step.node(step.onnx, [name], blocksize=size, **more), planes=True)


def space_to_batch(step: Step) -> None:
    """Converts SPACE_TO_BATCH_ND of images: pads them and divides them into blocks. For each position in a block, the
    pixels at this position in all blocks become one image.
    """
    (rows, columns), ((top, bottom), (left, right)) = _block_operands(step)
    batch, height, width, channels = step.shape(step.inputs[0])
    pads = step.constant([0, 0, top, left, 0, 0, bottom, right], "pads")
    padded = step.node("Pad", [step.writer.real(step.inputs[0], planes=True), pads], "padded")
    height, width = height + top + bottom, width + left + right
    apart = (batch, channels, height // rows, rows, width // columns, columns)
    together = (batch * rows * columns, channels, height // rows, width // columns)
    step.put(_rearranged(step.writer, padded, step.name, apart, (3, 5, 0, 1, 2, 4), together), planes=True)


def batch_to_space(step: Step) -> None:
    """Converts BATCH_TO_SPACE_ND of images: the inverse of SPACE_TO_BATCH_ND; it crops where that operator pads."""
    (rows, columns), ((top, bottom), (left, right)) = _block_operands(step)
    batch, height, width, channels = step.shape(step.inputs[0])
    images = batch // (rows * columns)
    apart = (rows, columns, images, channels, height, width)
    together = (images, channels, height * rows, width * columns)
    data = step.writer.real(step.inputs[0], planes=True)
    whole = _rearranged(step.writer, data, f"{step.name}/whole", apart, (2, 3, 4, 0, 5, 1), together)
    limits = [(top, left), (height * rows - bottom, width * columns - right), (2, 3)]
    step.put(step.node("Slice", [whole, *(step.constant(limit, "crop") for limit in limits)]), planes=True)


def _block_operands(step: Step) -> tuple[tuple[int, int], list[list[int]]]:
    """Reads the constant inputs 1 and 2 of an operator on blocks: ((rows, columns) of a block, pads or crops as [(top,
    bottom), (left, right)]).
    """
    block = step.numbers(1, "block size").tolist()
    ends = step.numbers(2, "pads").reshape(-1, 2).tolist()
    if step.writer.rank(step.inputs[0]) != 4 or len(block) != 2 or len(ends) != 2:
        refuse(f"works on {step.shape(step.inputs[0])}", "only images (N, H, W, C) are supported")
    if min(block) < 1 or min(min(pair) for pair in ends) < 0:
        raise damaged(f"{step.operator.kind} has a block size below 1 or a negative pad: {block}, {ends}")
    return (block[0], block[1]), ends


def _rearranged(
    writer: Writer, data: str, name: str, apart: Sequence[int], order: Sequence[int], together: Sequence[int]
) -> str:
    """Reshapes `data` to `apart`, transposes it by `order` and reshapes it to `together`; returns the result's name."""
    split = writer.reshaped(data, apart, f"{name}/split")
    turned = writer.node("Transpose", [split], f"{name}/turned", perm=order)
    return writer.reshaped(turned, together, name)


def concatenate(step: Step) -> None:
    """Converts CONCATENATION with its fused activation."""
    names, planes = step.operands()
    axis = step.axis(step.output, step.options.Axis(), planes)
    step.put(step.node("Concat", names, axis=axis), planes)


def pack(step: Step) -> None:
    """Converts PACK: tensors are stacked along a new axis."""
    axis = step.axis(step.output, step.options.Axis())
    place = step.constant([axis], "axis")
    parts = [step.node("Unsqueeze", [step.writer.real(index), place], "part") for index in step.inputs]
    step.put(step.node("Concat", parts, axis=axis))


def unpack(step: Step) -> None:
    """Converts UNPACK: each index along an axis becomes an output without this axis."""
    writer, (source, *_), outputs = step.writer, step.inputs, step.operator.outputs
    axis = step.axis(source, step.options.Axis())
    if step.shape(source)[axis] != len(outputs):
        raise damaged(
            f"{step.operator.kind} of {step.shape(source)} along axis {axis} along axis {axis} has {len(outputs)} "
            "outputs, not one for each element, not one for each element"
        )
    place = writer.constant(np.array([axis]), f"{step.tensor(source).name}/axis")
    parts = _parts(step, writer.real(source), source, axis, [1] * len(outputs))
    for index, part in zip(outputs, parts, strict=True):
        writer.put(index, writer.node("Squeeze", [part, place], f"{step.tensor(index).name}/exact"))


def split(step: Step) -> None:
    """Converts SPLIT into equal parts, or SPLIT_V into parts of given sizes."""
    source, place = (step.inputs[0], 2) if step.operator.kind == "SPLIT_V" else (step.inputs[1], 0)
    (data,), planes = step.operands((source,))
    axis = step.axis(source, int(step.numbers(place, "axis").reshape(())), planes)
    rows_axis = PLANE_AXES.index(axis) if planes else axis
    sizes = [step.shape(index)[rows_axis] for index in step.operator.outputs]
    for index, part in zip(step.operator.outputs, _parts(step, data, source, axis, sizes), strict=True):
        step.writer.put(index, part, planes=planes)


def _parts(step: Step, data: str, source: int, axis: int, sizes: Sequence[int]) -> list[str]:
    """Splits the value `data`, which belongs to the tensor `source`, into parts with the given `sizes` along `axis`.
    Returns a new name for each part, one part for each output of the operator.
    """
    names = [step.writer.name(f"{step.tensor(index).name}/part") for index in step.operator.outputs]
    lengths = step.writer.constant(np.array(sizes, np.int64), f"{step.tensor(source).name}/sizes")
    step.writer.add("Split", [data, lengths], names, axis=axis)
    return names


def pad(step: Step) -> None:
    """Converts PAD (zeros), PADV2 (a constant) or MIRROR_PAD (reflection: REFLECT without the edge, SYMMETRIC
    with it).
    """
    writer, source = step.writer, step.inputs[0]
    ends, mode = step.numbers(1, "pads").reshape(-1, 2), "constant"
    (data,), planes = step.operands((source,))
    if len(ends) != writer.rank(source):
        raise damaged(f"{step.operator.kind} has {len(ends)} pads")
    ends = ends[[0, 3, 1, 2]] if planes else ends
    inputs = [data, step.constant(ends.T.reshape(-1), "pads", np.int64)]
    if step.options is not None:
        mode = "reflect"
        if step.options.Mode() != tflite.MirrorPadMode.REFLECT:
            step.put(_mirrored(step, data, ends, planes), planes)
            return
    elif len(step.inputs) > 2:
        value = writer.real_values(step.inputs[2], "value").reshape(())
        dtype = np.float32 if writer.quantized(source) else step.tensor(source).dtype
        inputs.append(step.constant(value.astype(dtype), "value"))
    step.put(step.node("Pad", inputs, mode=mode), planes)


def _mirrored(step: Step, data: str, ends: np.ndarray, planes: bool) -> str:
    """Extends `data` at both ends of each axis by its mirror image, in which the edge is repeated. `ends[i]`: number of
    elements to add (before, after) axis i. The axes of `data` and of `ends` are in the order (N, C, H, W) if `planes`,
    else in TFLite's order.
    """
    sizes = step.shape(step.inputs[0])
    sizes = [sizes[axis] for axis in TO_PLANES] if planes else sizes
    for axis, (size, (front, behind)) in enumerate(zip(sizes, ends.tolist(), strict=True)):
        if not (0 <= front <= size and 0 <= behind <= size):
            raise damaged(
                f"{step.operator.kind} mirrors {front} elements before and {behind} after an axis of only {size}"
            )
        if front or behind:
            places = np.pad(np.arange(size), (front, behind), mode="symmetric")
            data = step.node(
                "Gather", [data, step.constant(places, "places", np.int64)], "mirrored", axis=axis
            )
    return data if ends.any() else step.node("Identity", [data])


def cut(step: Step) -> None:
    """Converts SLICE by begins and sizes along all axes; a size of -1 extends to the end."""
    begins, sizes = step.numbers(1, "begin").tolist(), step.numbers(2, "size").tolist()
    lengths = step.shape(step.inputs[0])
    ends = [
        whole if size == -1 else at + size for at, size, whole in zip(begins, sizes, lengths, strict=True)
    ]
    planes = step.writer.prefer_planes(step.inputs[:1])
    _slice(step, list(range(len(lengths))), begins, ends, [1] * len(lengths), planes=planes)


def strided(step: Step) -> None:
    """Converts STRIDED_SLICE, which slices as numpy. An axis in `shrink_axis_mask` is indexed by one number, and the
    output lacks it.
    """
    options = step.options
    if options.EllipsisMask() or options.NewAxisMask():
        refuse("has an ellipsis or a new axis", "write all axes, and add axes by EXPAND_DIMS")
    begins, ends, steps = (step.numbers(place, "range").tolist() for place in (1, 2, 3))
    axes, shrunk = list(range(len(begins))), options.ShrinkAxisMask()
    if 0 in steps or len(begins) > step.writer.rank(step.inputs[0]):
        raise damaged(f"{step.operator.kind} of {step.shape(step.inputs[0])} has invalid steps {steps}")
    for axis in axes:
        if shrunk >> axis & 1:
            steps[axis] = 1
            if options.BeginMask() >> axis & 1:
                begins[axis] = 0
            ends[axis] = begins[axis] + 1 if begins[axis] != -1 else _MOST
            continue
        if options.BeginMask() >> axis & 1:
            begins[axis] = 0 if steps[axis] > 0 else _MOST
        if options.EndMask() >> axis & 1:
            ends[axis] = _MOST if steps[axis] > 0 else -_MOST
    planes = not shrunk and step.writer.prefer_planes(step.inputs[:1])
    _slice(step, axes, begins, ends, steps, planes=planes, view=bool(shrunk))


def reverse(step: Step) -> None:
    """Converts REVERSE_V2 along constant axes."""
    axes = step.numbers(1, "axes").tolist()
    back = [-1] * len(axes)
    _slice(step, axes, back, [-(2**31)] * len(axes), back, planes=False)


def _slice(
    step: Step, axes: Sequence[int], begins: Sequence[int], ends: Sequence[int], steps: Sequence[int],
    *, planes: bool, view: bool = False,
) -> None:  # fmt: skip
    """Adds a Slice of the first input, which is read as (N, C, H, W) if `planes`. `axes` are numbered as in TFLite.
    `view`: the result is reshaped to the output's shape.
    """
    source, writer = step.inputs[0], step.writer
    own = [step.axis(source, axis, planes) for axis in axes]
    limits = [step.constant(part, "range", np.int64) for part in (begins, ends, own, steps)]
    result = step.node("Slice", [writer.real(source, planes=planes), *limits])
    if view:
        result = writer.reshaped(result, step.shape(step.output), f"{step.name}/view")
    step.put(result, planes)


def gather(step: Step) -> None:
    """Converts GATHER along an axis, without batch dimensions."""
    source, indices = step.inputs
    if batch := step.options.BatchDims():
        refuse(f"gathers along {batch} batch dimensions (batch_dims)", "export the model with batch_dims = 0")
    axis = step.axis(source, step.options.Axis())
    names = [step.writer.real(source), step.writer.real(indices)]
    step.put(step.node("Gather", names, axis=axis))


def repeat(step: Step) -> None:
    """Converts TILE by constant numbers of repetitions, or BROADCAST_TO the declared shape of the output."""
    tiled = step.operator.kind == "TILE"
    numbers = step.writer.values(step.inputs[1], "repetitions") if tiled else step.shape(step.output)
    inputs = [step.writer.real(step.inputs[0]), step.constant(numbers, "numbers", np.int64)]
    step.put(step.node(step.onnx, inputs))
