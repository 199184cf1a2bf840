"""Converts operators that reshape, reorder, join, cut, pad, repeat or select elements to ONNX."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tflite

from .flatbuffer import require
from .step import Step
from .writer import TO_PLANES, refuse

_MOST = 2**31 - 1
"""End of a slice that reaches to the end of its axis."""


def reshape(step: Step) -> None:
    """Converts RESHAPE, SQUEEZE or EXPAND_DIMS to an ONNX Reshape to the output shape that the TFLite file declares."""
    after = step.shape(step.output)
    if (array := step.writer.known(step.inputs[0])) is not None and step.same_type(
        step.inputs[0], step.output
    ):
        step.writer.constants[step.output] = array.reshape(after)
    else:
        step.move("Reshape", after)


def transpose(step: Step) -> None:
    """Converts TRANSPOSE with a constant order of axes."""
    step.move("Transpose", perm=step.numbers(1, "order").tolist())


def shape(step: Step) -> None:
    """Replaces SHAPE by a constant, since all shapes are static."""
    dtype = step.tensor(step.output).dtype
    step.writer.constants[step.output] = np.array(step.shape(step.inputs[0]), dtype)


def blocks(step: Step) -> None:
    """Converts DEPTH_TO_SPACE or SPACE_TO_DEPTH. The image with fewer pixels has more channels. There, a channel has
    the number (position in the block) * (channels of the other image) + (channel of the other image). This is ONNX's
    mode "DCR".
    """
    more = {"mode": "DCR"} if step.onnx == "DepthToSpace" else {}
    step.put(step.node(step.onnx, [step.operand()], blocksize=step.options.BlockSize(), **more))


def batches(step: Step) -> None:
    """Converts SPACE_TO_BATCH_ND or BATCH_TO_SPACE_ND of images. SPACE_TO_BATCH_ND pads the images and divides them
    into blocks of pixels. For each position within a block, the pixels at this position in all blocks become one image
    of the output batch. BATCH_TO_SPACE_ND is the inverse; it crops instead of padding.
    """
    spread = step.operator.kind == "SPACE_TO_BATCH_ND"
    block, ends = step.numbers(1, "block size").tolist(), step.numbers(2, "pads").T.tolist()
    if len(step.shape(step.inputs[0])) != 4 or len(block) != 2:
        refuse(f"works on {step.shape(step.inputs[0])}", "only images (N, H, W, C) are supported")
    # The batch of many small images, on the side of the input or of the output.
    batch, height, width, channels = step.shape(step.output if spread else step.inputs[0])
    (rows, columns), images, data = block, batch // int(np.prod(block)), step.operand()
    if spread:
        pads = step.constant([0, 0, *ends[0], 0, 0, *ends[1]], "pads")
        data = step.node("Pad", [data, pads], "padded")
        apart, order = (images, channels, height, rows, width, columns), (3, 5, 0, 1, 2, 4)
        together = batch, channels, height, width
    else:
        apart, order = (rows, columns, images, channels, height, width), (2, 3, 4, 0, 5, 1)
        together = images, channels, height * rows, width * columns
    split = step.writer.reshaped(data, apart, f"{step.name}/split")
    turned = step.node("Transpose", [split], "turned", perm=order)
    whole = step.writer.reshaped(turned, together, f"{step.name}/whole")
    if not spread:
        after = together[2] - ends[1][0], together[3] - ends[1][1]
        whole = step.node(
            "Slice", [whole, *(step.constant(limit, "crop") for limit in (ends[0], after, (2, 3)))]
        )
    step.put(whole)


def concatenate(step: Step) -> None:
    """Converts CONCATENATION with its fused activation, or PACK, which stacks tensors along a new axis."""
    axis, parts = step.axis(step.output, step.options.Axis()), step.operands()
    if step.operator.kind == "PACK":
        place = step.constant([axis], "axis")
        parts = [step.node("Unsqueeze", [name, place], "part") for name in parts]
    step.put(step.node("Concat", parts, axis=axis))


def split(step: Step) -> None:
    """Converts SPLIT into equal parts, SPLIT_V into parts of given sizes, or UNPACK into parts of size 1, in which the
    axis is removed.
    """
    whole, along = {"SPLIT": (1, 0), "SPLIT_V": (0, 2), "UNPACK": (0, None)}[step.operator.kind]
    source, writer, outputs = step.inputs[whole], step.writer, step.operator.outputs
    axis = step.options.Axis() if along is None else int(step.numbers(along, "axis").reshape(()))
    sizes = [1 if along is None else step.shape(index)[axis] for index in outputs]
    parts = [f"{step.tensor(index).name}/part" for index in outputs]
    lengths = step.constant(sizes, "sizes")
    writer.node("Split", [step.operand(whole), lengths], *parts, axis=step.axis(source, axis))
    for index, part in zip(outputs, list(writer.nodes[-1].output), strict=True):
        if along is None:
            part = writer.reshaped(part, step.shape(index), f"{step.tensor(index).name}/exact")
        step.put(part, output=index)


def pad(step: Step, mode: str = "constant") -> None:
    """Converts PAD (zeros), PADV2 (a constant) or, with ONNX's `mode` "reflect", the REFLECT form of MIRROR_PAD."""
    ends = step.numbers(1, "pads").reshape(-1, 2)
    ends = ends[list(TO_PLANES)] if step.planes else ends
    inputs = [step.operand(), step.constant(ends.T.reshape(-1), "pads")]
    if len(step.inputs) > 2:
        source = step.tensor(step.inputs[0])
        dtype = np.float32 if source.grid else source.dtype
        inputs.append(step.constant(step.reals(2, "value").reshape(()), "value", dtype))
    step.put(step.node("Pad", inputs, mode=mode))


def mirror(step: Step) -> None:
    """Converts MIRROR_PAD, which extends each axis at both ends by its mirror image. In mode SYMMETRIC the mirror image
    repeats the edge element, in mode REFLECT it does not.
    """
    if step.options.Mode() == tflite.MirrorPadMode.REFLECT:
        pad(step, "reflect")
        return
    data, source, result = step.operand(), step.inputs[0], step.shape(step.output)
    ends = step.numbers(1, "pads").tolist()
    for axis, (size, (front, behind), after) in enumerate(zip(step.shape(source), ends, result, strict=True)):
        fits = max(front, behind) <= size and front + size + behind == after
        require(fits, f"{step.operator.kind} mirrors {front} and {behind} elements of {size} to {after}")
        if front or behind:
            places = step.constant(np.pad(np.arange(size), (front, behind), mode="symmetric"), "places")
            data = step.node("Gather", [data, places], "mirrored", axis=step.axis(source, axis))
    step.put(step.node("Identity", [data]))


def cut(step: Step) -> None:
    """Converts SLICE by begins and sizes along all axes; a size of -1 extends to the end."""
    begins, sizes = step.numbers(1, "begin").tolist(), step.numbers(2, "size").tolist()
    ends = [_MOST if size == -1 else at + size for at, size in zip(begins, sizes, strict=True)]
    _slice(step, range(len(begins)), begins, ends, [1] * len(begins))


def strided(step: Step) -> None:
    """Converts STRIDED_SLICE, which slices as numpy does. An axis in `shrink_axis_mask` is indexed by one number, and
    is removed from the output.
    """
    options, shrunk = step.options, step.options.ShrinkAxisMask()
    if options.EllipsisMask() or options.NewAxisMask():
        refuse("has an ellipsis or a new axis", "write all axes, and add axes by EXPAND_DIMS")
    begins, ends, steps = (step.numbers(place, "range").tolist() for place in (1, 2, 3))
    for axis in range(len(begins)):
        masked = options.BeginMask() >> axis & 1
        if shrunk >> axis & 1:
            steps[axis], begins[axis] = 1, 0 if masked else begins[axis]
            ends[axis] = begins[axis] + 1 if begins[axis] != -1 else _MOST
            continue
        if masked:
            begins[axis] = 0 if steps[axis] > 0 else _MOST
        if options.EndMask() >> axis & 1:
            ends[axis] = _MOST if steps[axis] > 0 else -_MOST
    step.planes = step.planes and not shrunk
    _slice(step, range(len(begins)), begins, ends, steps, view=bool(shrunk))


def reverse(step: Step) -> None:
    """Converts REVERSE_V2 along constant axes."""
    axes = step.numbers(1, "axes").reshape(-1).tolist()
    back = [-1] * len(axes)
    _slice(step, axes, back, [-_MOST - 1] * len(axes), back)


def _slice(
    step: Step, axes: Sequence[int], begins: Sequence[int], ends: Sequence[int], steps: Sequence[int],
    *, view: bool = False,
) -> None:  # fmt: skip
    """Adds a Slice of the operator's first input, with a begin, an end and a step for each of `axes`, which are
    numbered as in TFLite. `view`: the result is reshaped to the output's shape.
    """
    own = [step.axis(step.inputs[0], axis) for axis in axes]
    limits = [step.constant(part, "range") for part in (begins, ends, own, steps)]
    result = step.node("Slice", [step.operand(), *limits])
    if view:
        result = step.writer.reshaped(result, step.shape(step.output), f"{step.name}/view")
    step.put(result)


def gather(step: Step) -> None:
    """Converts GATHER along an axis, without batch dimensions."""
    if batch := step.options.BatchDims():
        refuse(f"gathers along {batch} batch dimensions (batch_dims)", "export the model with batch_dims = 0")
    axis = step.axis(step.inputs[0], step.options.Axis())
    step.put(step.node("Gather", step.operands(), axis=axis))


def repeat(step: Step) -> None:
    """Converts TILE by constant numbers of repetitions, or BROADCAST_TO the declared shape of the output."""
    tiled = step.operator.kind == "TILE"
    numbers = step.numbers(1, "repetitions") if tiled else step.shape(step.output)
    step.put(step.node(step.onnx, [step.operand(), step.constant(numbers, "numbers")]))
