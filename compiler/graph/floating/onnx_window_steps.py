"""Pools by other operators: with indices, of integers, global pools of any rank; MaxUnpool and Col2Im."""

from __future__ import annotations

from math import prod

import numpy as np
from onnx import TensorProto, helper

from ..budgets import SMALLER, too_large
from ..geometry import Windows
from ..onnx_steps import FloatSteps
from ..onnx_window_attributes import pool_windows


def global_pool_steps(s: FloatSteps) -> None:
    """The ONNX nodes of GlobalAveragePool and GlobalMaxPool of any number of dimensions: a reduction."""
    if len(s.shape(0)) < 3:
        s.refuse(f"pools a tensor of shape {s.shape(0)}", "give it (N, C, ...)")
    operator = "ReduceMax" if s.node.op_type == "GlobalMaxPool" else "ReduceMean"
    s.done(s.add(operator, s.input(0), s.axes(*range(2, len(s.shape(0)))), keepdims=1))


def max_pool_steps(s: FloatSteps) -> None:
    """The ONNX nodes of MaxPool with indices, or of integers, which are cast to float32 and back."""
    shape = s.shape(0)
    if len(shape) < 3:
        s.refuse(f"pools a tensor of shape {shape}", "give it (N, C, ...)")
    kind = helper.np_dtype_to_tensor_dtype(s.dtype(0).numpy)
    x = s.input(0) if kind == TensorProto.FLOAT else s.add("Cast", s.input(0), to=TensorProto.FLOAT)
    maxima = s.add("MaxPool", x, **s.attributes("storage_order"))
    s.done(maxima if kind == TensorProto.FLOAT else s.add("Cast", maxima, to=kind))
    if not any(s.node.outputs[1:]):
        return
    windows, _ = pool_windows(s.context, s.node, shape[2:])
    outputs, places = _places(windows, shape[2:])
    if not places.size:
        s.fail(f"windows of {tuple(windows.kernel)} do not fit into {tuple(shape[2:])}", "use a larger input")
    size, rows = prod(shape[2:]), prod(shape[:2])
    if problem := too_large((rows, *places.shape), 8):
        s.fail(f"a tensor of all elements of its windows {problem}", SMALLER)
    # One row per window; pads read the element -inf, appended to the data.
    flat = s.add("Reshape", x, s.constant([rows, size], np.int64))
    outside = s.constant(np.full((rows, 1), -np.inf), np.float32)
    wide = s.add("Concat", flat, outside, axis=1)
    elements = s.add("Gather", wide, s.constant(places, np.int64), axis=1)
    first = s.add("ArgMax", elements, axis=2, keepdims=0)
    known = places
    if s.node.integer("storage_order", 0):
        # Column-major: the last dimension is the slowest.
        known = np.arange(size).reshape(shape[:1:-1]).transpose().reshape(-1)
        known = np.append(known, 0)[places]
    at = s.add("Add", first, s.constant(np.arange(len(places)) * places.shape[1], np.int64))
    index = s.add("Gather", s.constant(known.reshape(-1), np.int64), at, axis=0)
    index = s.add("Add", index, s.constant(np.arange(rows).reshape(-1, 1) * size, np.int64))
    s.done(s.add("Reshape", index, s.constant([*shape[:2], *outputs], np.int64)), 1)


def _places(windows: Windows, sizes: tuple[int, ...]) -> tuple[list[int], np.ndarray]:
    """Number of windows along each dimension, and the flat indices [windows, elements] of each window's elements in a
    space of `sizes`; a pad has the index one behind the last element."""
    steps = [
        np.arange(0, n + b + a - (k - 1) * d, s)[:, None] - b + np.arange(k)[None] * d
        for n, b, a, k, d, s in zip(
            sizes,
            windows.pads[: len(sizes)],
            windows.pads[len(sizes) :],
            windows.kernel,
            windows.dilations,
            windows.strides,
            strict=True,
        )
    ]
    outputs = [len(step) for step in steps]
    rank = len(sizes)
    place, inside = np.zeros((1,) * (2 * rank), np.int64), np.ones((1,) * (2 * rank), bool)
    for axis, (step, size) in enumerate(zip(steps, sizes, strict=True)):
        along = [1] * (2 * rank)
        along[axis], along[rank + axis] = step.shape
        at = step.reshape(along)
        place = place * size + at
        inside = inside & (at >= 0) & (at < size)
    whole = np.where(inside, place, prod(sizes))
    return outputs, whole.reshape(prod(outputs), prod(windows.kernel))


def max_unpool_steps(s: FloatSteps) -> None:
    """The ONNX nodes of MaxUnpool: a ScatterElements of the values into zeros, padded to a larger output shape."""
    shape, rank = s.shape(0), len(s.shape(0)) - 2
    kernel, strides = (s.node.integers(name, (1,) * rank) for name in ("kernel_shape", "strides"))
    pads = s.node.integers("pads", (0,) * (2 * rank))
    if rank < 1 or not len(kernel) == len(strides) == rank == len(pads) // 2 or s.shape(1) != shape:
        s.refuse(f"unpools {shape} by a kernel {kernel}")
    inner = [
        (n - 1) * t + k - pads[d] - pads[d + rank]
        for d, (n, k, t) in enumerate(zip(shape[2:], kernel, strides, strict=True))
    ]
    own = (*shape[:2], *inner)
    wanted = s.array(2, "output shape")
    goal = own if wanted is None else tuple(int(size) for size in wanted)
    if min(own) < 1 or len(goal) != len(own) or any(a > b for a, b in zip(own, goal, strict=True)):
        s.refuse(f"unpools {shape} to {goal}")
    zeros = s.constant(np.zeros(prod(own)), np.float32)
    column = s.constant([-1], np.int64)
    indices, values = (s.add("Reshape", s.input(i), column) for i in (1, 0))
    flat = s.add("ScatterElements", zeros, indices, values, axis=0)
    made = s.add("Reshape", flat, s.constant(own, np.int64))
    if goal != own:
        more = [0] * len(own) + [b - a for a, b in zip(own, goal, strict=True)]
        made = s.add("Pad", made, s.constant(more, np.int64))
    s.done(made)


def column_to_image_steps(s: FloatSteps) -> None:
    """The ONNX nodes of Col2Im: blocks are added at their positions in the image, by a ConvTranspose with ones."""
    image, block = (s.array(i, what) for i, what in ((1, "image shape"), (2, "block shape")))
    if image is None or block is None or len(s.shape(0)) != 3 or image.shape != block.shape:
        s.refuse(f"has columns {s.shape(0)}")
    sizes, kernel = image.astype(int).tolist(), block.astype(int).tolist()
    rank, elements = len(kernel), prod(kernel)
    strides, dilations = (s.node.integers(name, (1,) * rank) for name in ("strides", "dilations"))
    pads = s.node.integers("pads", (0,) * (2 * rank))
    counts, more = [], []
    for d in range(rank):
        span = (kernel[d] - 1) * dilations[d] + 1
        length = sizes[d] + pads[d] + pads[d + rank]
        counts.append((length - span) // strides[d] + 1)
        more.append((length - span) % strides[d])
    batch, rows, columns = s.shape(0)
    if min(counts) < 1 or prod(counts) != columns or rows % elements:
        s.refuse(f"makes an image of {sizes} from {s.shape(0)}")
    channels = rows // elements
    blocks = s.add("Reshape", s.input(0), s.constant([batch, rows, *counts], np.int64))
    ones = np.tile(np.eye(elements).reshape(elements, 1, *kernel), (channels, *[1] * (rank + 1)))
    image_of = s.add(
        "ConvTranspose",
        blocks,
        s.constant(ones, np.float32),
        group=channels,
        strides=list(strides),
        dilations=list(dilations),
        pads=list(pads),
        output_padding=more,
    )
    s.done(image_of)
