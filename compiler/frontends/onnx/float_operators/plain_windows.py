"""Windowed operators of a float model without a kernel template. These are convolutions and pools of any number of
dimensions, convolutions whose weights are not constant, pools with indices, pools of integers, MaxUnpool, Col2Im and
GridSample.
"""

from __future__ import annotations

from math import prod

import numpy as np
from onnx import TensorProto, helper

from ....graph.budgets import SMALLER, too_large
from ....graph.geometry import Windows, average_divisors
from ....graph.graph import Shape
from ....graph.operators import Computed, Elementwise, Remap
from ....ir.types import DType
from ....te import scalars
from ....te.ops.grid_sample import Outside, Sampling, grid_sample
from ....te.ops.movement import pad_runs
from ....te.ops.plain_windows import Spacing, plain_convolution, plain_pool, plain_transposed
from ....te.scalars import argument
from ..attributes import OnnxNode
from ..axes import check_spatial
from ..context import GraphContext
from ..operators.pools import pool_windows
from ..operators.transposed import transposed_windows
from ..operators.window_attributes import bias_tensor, convolution_groups, read_windows
from ..steps import FloatSteps
from .pointwise import add_elementwise


def import_plain_convolution(context: GraphContext, node: OnnxNode) -> None:
    """Imports a Conv for which there is no kernel template: any number of dimensions, any weights."""
    data, weight = context.operand(node, 0), context.operand(node, 1)
    groups = convolution_groups(context, node, data.shape, weight.shape)
    windows = read_windows(context, node, data.shape[2:], weight.shape[2:])
    padded, sizes = _padded(context, node, data.name, windows, 0.0)
    own = (weight.shape[0] // groups, *weight.shape[1:])
    try:
        program = plain_convolution(data.shape[0], groups, own, sizes, _spacing(windows))
    except ValueError as error:
        context.refuse(node, str(error))
    shape = (data.shape[0], weight.shape[0], *program.parameters[-1].shape[3:])
    _finish(context, node, Computed(program=program), (padded, weight.name), shape)


def import_plain_transposed(context: GraphContext, node: OnnxNode) -> None:
    """Imports a ConvTranspose for which there is no kernel template: any number of dimensions, any weights."""
    data, weight = context.operand(node, 0), context.operand(node, 1)
    groups = convolution_groups(context, node, data.shape, weight.shape, transposed=True)
    sizes = data.shape[2:]
    windows, extra = transposed_windows(context, node, sizes, weight.shape[2:])
    before, after = windows.pads[: len(sizes)], windows.pads[len(sizes) :]
    outputs = [
        s * (i - 1) + e + extent - b - a
        for s, i, e, extent, b, a in zip(
            windows.strides, sizes, extra, windows.extents, before, after, strict=True
        )
    ]
    if min(outputs) < 1:
        context.refuse(
            node,
            f"its pads {windows.pads} crop all of its output: the output's size would be {outputs}",
            "use smaller pads",
        )
    own = (weight.shape[0] // groups, *weight.shape[1:])
    program = plain_transposed(data.shape[0], groups, own, sizes, _spacing(windows), before, tuple(outputs))
    shape = (data.shape[0], weight.shape[1] * groups, *outputs)
    _finish(context, node, Computed(program=program), (data.name, weight.name), shape)


def import_plain_pool(context: GraphContext, node: OnnxNode) -> None:
    """Imports MaxPool without indices, AveragePool and LpPool."""
    data = context.operand(node, 0)
    check_spatial(context, node, data.shape)
    windows, declared = pool_windows(context, node, data.shape[2:])
    greatest, name, power = node.op_type == "MaxPool", data.name, 0
    if node.op_type == "LpPool":
        power = node.integer("p", 2)
        if power < 1:
            context.refuse(node, f"its p is {power}; an Lp norm has a p of at least 1", "use p = 1 or p = 2")
        body = scalars.absolute(argument(0)) if power != 2 else argument(0) * argument(0)
        body = scalars.general_power(body, float(power)) if power > 2 else body
        name = context.add(
            node, Elementwise(body=body), (name,), data.shape, output=context.temporary(node, "power")
        )
    padded, sizes = _padded(context, node, name, windows, float("-inf") if greatest else 0.0)
    try:
        program = plain_pool(
            prod(data.shape[:2]), sizes, windows.kernel, _spacing(windows), "max" if greatest else "add"
        )
    except ValueError as error:
        context.refuse(node, str(error))
    shape = (*data.shape[:2], *program.parameters[-1].shape[1:])
    if greatest or power == 1:
        context.add(node, Computed(program=program), (padded,), shape)
        return
    total = context.add(
        node, Computed(program=program), (padded,), shape, output=context.temporary(node, "sum")
    )
    if power:
        body = scalars.sqrt(argument(0)) if power == 2 else scalars.general_power(argument(0), 1 / power)
        context.add(node, Elementwise(body=body), (total,), shape)
        return
    counted = bool(node.integer("count_include_pad", 0))
    divisors = average_divisors(data.shape[2:], windows, declared, counted).astype(np.float32)
    counts = context.store(context.temporary(node, "counts"), divisors)
    add_elementwise(context, node, scalars.divide(argument(0), argument(1)), [total, counts])


def _spacing(windows: Windows) -> Spacing:
    return Spacing(strides=windows.strides, dilations=windows.dilations)


def _padded(
    context: GraphContext, node: OnnxNode, name: str, windows: Windows, fill: float
) -> tuple[str, Shape]:
    """Pads the tensor `name` with `fill`, by the pads of `windows`. Returns the name and the spatial sizes of the
    padded tensor.
    """
    shape = context.tensors[name].shape
    rank = len(shape) - 2
    ends = [(0, 0), (0, 0), *zip(windows.pads[:rank], windows.pads[rank:], strict=True)]
    sizes = tuple([before + n + behind for n, (before, behind) in zip(shape, ends, strict=True)][2:])
    if sizes == shape[2:]:
        return name, sizes
    runs = [pad_runs(n, before, behind) for n, (before, behind) in zip(shape, ends, strict=True)]
    output = context.temporary(node, "padded")
    operator = Remap(runs=tuple(runs), fill=fill)
    return context.add(node, operator, (name,), (*shape[:2], *sizes), output=output), sizes


def _finish(
    context: GraphContext, node: OnnxNode, operator: Computed, inputs: tuple[str, str], shape: Shape
) -> None:
    """Adds the node with `operator`, which computes the sums of a convolution from `inputs`; the result has `shape`. If
    the ONNX node has a bias, also adds the node that adds the bias.
    """
    if len(node.inputs) < 3 or not node.inputs[2]:
        context.add(node, operator, inputs, shape)
        return
    bias = bias_tensor(context, node, shape[1])
    total = context.add(node, operator, inputs, shape, output=context.temporary(node, "sum"))
    column = context.view(
        node, bias, (shape[1], *(1,) * (len(shape) - 2)), output=context.temporary(node, "bias")
    )
    add_elementwise(context, node, argument(0) + argument(1), [total, column])


def is_neither_image_nor_line(context: GraphContext, node: OnnxNode) -> bool:
    """Whether a node's data is neither an image (N, C, H, W) nor a line (N, C, L)."""
    return len(context.tensor(node, 0).shape) not in (3, 4)


def global_pool_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute GlobalAveragePool and GlobalMaxPool of any number of dimensions: a reduction."""
    check_spatial(s.context, s.node, s.shape(0))
    operator = "ReduceMax" if s.node.op_type == "GlobalMaxPool" else "ReduceMean"
    s.done(s.add(operator, s.input(0), s.axes(*range(2, len(s.shape(0)))), keepdims=1))


def global_lp_pool_steps(s: FloatSteps) -> None:
    """Adds the ONNX node that computes a GlobalLpPool: an LpPool whose window covers all positions of a channel."""
    check_spatial(s.context, s.node, s.shape(0))
    s.done(s.add("LpPool", s.input(0), kernel_shape=s.shape(0)[2:], p=s.node.integer("p", 2)))


def gives_indices(context: GraphContext, node: OnnxNode) -> bool:
    """Whether a MaxPool has indices as its second output, or 8-bit integers as its input."""
    return any(node.outputs[1:]) or context.tensor(node, 0).dtype in (DType.INT8, DType.UINT8)


def max_pool_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute a MaxPool with a second output (the indices of the maxima), or a MaxPool of
    integers. The integers are cast to float32, and the maxima are cast back.
    """
    shape = s.shape(0)
    check_spatial(s.context, s.node, shape)
    kind = helper.np_dtype_to_tensor_dtype(s.dtype(0).numpy)
    x = s.input(0) if kind == TensorProto.FLOAT else s.add("Cast", s.input(0), to=TensorProto.FLOAT)
    maxima = s.add("MaxPool", x, **s.attributes("storage_order"))
    s.done(maxima if kind == TensorProto.FLOAT else s.add("Cast", maxima, to=kind))
    if not any(s.node.outputs[1:]):
        return
    windows, _ = pool_windows(s.context, s.node, shape[2:])
    outputs, places = _window_indices(windows, shape[2:])
    if not places.size:
        s.fail(
            f"its windows of {tuple(windows.kernel)} elements do not fit into its input of {tuple(shape[2:])} elements",
            "use a larger input",
        )
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


def _window_indices(windows: Windows, sizes: tuple[int, ...]) -> tuple[list[int], np.ndarray]:
    """Returns the number of windows along each dimension, and the flat indices [windows, elements] of the elements of
    each window in a tensor of spatial `sizes`. Elements in the padding all have the index that follows the last
    element's.
    """
    rank = len(sizes)
    pads = list(zip(windows.pads[:rank], windows.pads[rank:], strict=True))
    padded = np.pad(np.arange(prod(sizes)).reshape(sizes), pads, constant_values=prod(sizes))
    if any(size < extent for size, extent in zip(padded.shape, windows.extents, strict=True)):
        return [0] * rank, np.empty((0, prod(windows.kernel)), np.int64)
    every = np.lib.stride_tricks.sliding_window_view(padded, windows.extents)
    steps = [slice(None, None, step) for step in (*windows.strides, *windows.dilations)]
    found = every[tuple(steps)]
    return list(found.shape[:rank]), found.reshape(-1, prod(windows.kernel))


def max_unpool_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute MaxUnpool: a ScatterElements of the values into zeros, and a Pad if the output
    shape is larger.
    """
    shape, rank = s.shape(0), len(s.shape(0)) - 2
    kernel, strides = (s.node.integers(name, (1,) * rank) for name in ("kernel_shape", "strides"))
    pads = s.node.integers("pads", (0,) * (2 * rank))
    if rank < 1 or not len(kernel) == len(strides) == rank == len(pads) // 2 or s.shape(1) != shape:
        s.refuse(
            f"its kernel {kernel} and strides {strides} must have one number for each spatial dimension, its pads "
            f"{pads} two for each, and its indices the shape {shape} of its input"
        )
    inner = [
        (n - 1) * t + k - pads[d] - pads[d + rank]
        for d, (n, k, t) in enumerate(zip(shape[2:], kernel, strides, strict=True))
    ]
    own = (*shape[:2], *inner)
    wanted = s.array(2, "output shape")
    goal = own if wanted is None else tuple(int(size) for size in wanted)
    if min(own) < 1 or len(goal) != len(own) or any(a > b for a, b in zip(own, goal, strict=True)):
        s.refuse(
            f"its output shape {goal} must be at least {own}, the shape that its kernel, strides and pads give"
        )
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
    """Adds the ONNX nodes that compute Col2Im: a ConvTranspose with weights of ones adds each block at its position in
    the image.
    """
    image, block = (s.array(i, what) for i, what in ((1, "image shape"), (2, "block shape")))
    if image is None or block is None or len(s.shape(0)) != 3 or image.shape != block.shape:
        s.refuse(
            f"its input of shape {s.shape(0)} must have three dimensions, and its image shape and block shape the "
            "same number of sizes"
        )
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
        s.refuse(
            f"its columns of shape {s.shape(0)} do not match an image of {sizes} elements in blocks of {kernel} "
            "elements"
        )
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


def import_grid_sample(context: GraphContext, node: OnnxNode) -> None:
    """Imports GridSample of two or three spatial dimensions. The mode "cubic" is supported for two dimensions only."""
    data, grid = context.operand(node, 0), context.operand(node, 1)
    modes: dict[str, Sampling] = {
        "nearest": "nearest",
        "linear": "linear",
        "cubic": "cubic",
        "bilinear": "linear",
        "bicubic": "cubic",
    }
    outsides: dict[str, Outside] = {"zeros": "zeros", "border": "border", "reflection": "reflection"}
    mode = modes.get(node.text("mode", "linear"))
    outside = outsides.get(node.text("padding_mode", "zeros"))
    rank = len(data.shape) - 2
    fits = len(grid.shape) == rank + 2 and grid.shape[0] == data.shape[0] and grid.shape[-1] == rank
    if mode is None or outside is None:
        context.fail(
            node,
            f"mode {node.text('mode', 'linear')} with padding_mode {node.text('padding_mode', 'zeros')} is not "
            "supported",
            f"use mode nearest, linear or cubic, and padding_mode {', '.join(outsides)}",
        )
    if rank not in (2, 3) or not fits:
        context.fail(
            node,
            f"its input of shape {data.shape} does not match its grid of shape {grid.shape}",
            "give an input (N, C, H, W) with a grid (N, *, *, 2), or (N, C, D, H, W) with (N, *, *, *, 3)",
        )
    if mode == "cubic" and rank == 3:
        context.fail(node, "mode cubic is supported for images (N, C, H, W) only", "use mode linear")
    outputs = grid.shape[1:-1]
    program = grid_sample(
        data.shape, outputs, mode, outside, align_corners=bool(node.integer("align_corners", 0))
    )
    context.add(node, Computed(program=program), (data.name, grid.name), (*data.shape[:2], *outputs))
