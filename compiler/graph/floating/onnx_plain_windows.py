"""Convolutions and pools that no template has: any number of dimensions, and weights that are no constants."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ...te import scalars
from ...te.ops.movement import pad_runs
from ...te.ops.plain_windows import plain_convolution, plain_pool, plain_transposed
from ...te.scalars import argument
from ..graph import Shape
from ..onnx_context import OnnxNode
from ..onnx_window_attributes import AUTOMATIC, transposed_pads
from ..operators import Computed, Elementwise, Remap
from .onnx_context import FloatContext
from .onnx_pointwise import add_elementwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Kernel, strides, dilations and pads (`before` and `after`) of a node, with one number per spatial dimension."""

    kernel: Shape
    strides: Shape
    dilations: Shape
    before: Shape
    after: Shape


def import_plain_convolution(context: FloatContext, node: OnnxNode) -> None:
    """Imports Conv."""
    data, weight = context.operand(node, 0), context.operand(node, 1)
    groups = _groups(context, node, data.shape, weight.shape, data.shape[1] if data.shape[1:] else 0)
    if weight.shape[1] * groups != data.shape[1] or weight.shape[0] % groups:
        context.refuse(
            node, f"convolves {data.shape} by {weight.shape} in {groups} groups", "export it again"
        )
    windows = read_windows(context, node, data.shape[2:], weight.shape[2:])
    padded, sizes = _padded(context, node, data.name, windows, 0.0)
    own = (weight.shape[0] // groups, *weight.shape[1:])
    try:
        program = plain_convolution(data.shape[0], groups, own, sizes, windows.strides, windows.dilations)
    except ValueError as error:
        context.refuse(node, str(error), "export the model again")
    shape = (data.shape[0], weight.shape[0], *program.parameters[-1].shape[3:])
    _finish(context, node, Computed(program=program), (padded, weight.name), shape)


def import_plain_transposed(context: FloatContext, node: OnnxNode) -> None:
    """Imports ConvTranspose."""
    data, weight = context.operand(node, 0), context.operand(node, 1)
    groups = _groups(context, node, data.shape, weight.shape, weight.shape[0] if weight.shape else 0)
    if weight.shape[0] != data.shape[1] or weight.shape[0] % groups:
        context.refuse(
            node, f"convolves {data.shape} by {weight.shape} in {groups} groups", "export it again"
        )
    sizes, kernel = data.shape[2:], weight.shape[2:]
    before, after, extra = transposed_pads(context, node, sizes, kernel)
    strides, dilations = (node.integers(name, (1,) * len(sizes)) for name in ("strides", "dilations"))
    outputs = [
        s * (i - 1) + e + (k - 1) * d + 1 - b - a
        for s, i, e, k, d, b, a in zip(strides, sizes, extra, kernel, dilations, before, after, strict=True)
    ]
    if min(outputs) < 1:
        context.refuse(node, f"has outputs of {outputs} and pads {before}", "export the model again")
    own = (weight.shape[0] // groups, *weight.shape[1:])
    program = plain_transposed(data.shape[0], groups, own, sizes, strides, dilations, before, tuple(outputs))
    shape = (data.shape[0], weight.shape[1] * groups, *outputs)
    _finish(context, node, Computed(program=program), (data.name, weight.name), shape)


def import_plain_pool(context: FloatContext, node: OnnxNode) -> None:
    """Imports MaxPool without indices, AveragePool and LpPool."""
    data = context.operand(node, 0)
    if len(data.shape) < 3:
        context.refuse(node, f"pools a tensor of shape {data.shape}", "give it (N, C, ...)")
    kernel = node.integers("kernel_shape", ())
    windows = read_windows(
        context, node, data.shape[2:], kernel, rounded_up=bool(node.integer("ceil_mode", 0))
    )
    greatest = node.op_type == "MaxPool"
    power = float(node.integer("p", 2)) if node.op_type == "LpPool" else 0.0
    name = data.name
    if power:
        body = (
            scalars.general_power(scalars.absolute(argument(0)), power)
            if power > 1
            else scalars.absolute(argument(0))
        )
        body = argument(0) * argument(0) if power == 2 else body
        name = context.add(
            node, Elementwise(body=body), (name,), data.shape, output=context.temporary(node, "power")
        )
    padded, sizes = _padded(context, node, name, windows, float("-inf") if greatest else 0.0)
    try:
        program = plain_pool(
            prod(data.shape[:2]),
            sizes,
            windows.kernel,
            windows.strides,
            windows.dilations,
            "max" if greatest else "add",
        )
    except ValueError as error:
        context.refuse(node, str(error), "export the model again")
    shape = (*data.shape[:2], *program.parameters[-1].shape[1:])
    if greatest:
        context.add(node, Computed(program=program), (padded,), shape)
        return
    total = context.add(
        node, Computed(program=program), (padded,), shape, output=context.temporary(node, "sum")
    )
    if power:
        body = scalars.sqrt(argument(0)) if power == 2 else scalars.general_power(argument(0), 1 / power)
        context.add(node, Elementwise(body=body if power > 1 else argument(0) + 0.0), (total,), shape)
        return
    counts = context.store(
        context.temporary(node, "counts"), _counts(node, data.shape[2:], windows, shape[2:])
    )
    add_elementwise(context, node, scalars.divide(argument(0), argument(1)), [total, counts])


def _counts(node: OnnxNode, sizes: Shape, windows: Windows, outputs: Shape) -> np.ndarray:
    """Divisor of each window of an AveragePool: its elements inside the data, plus pads with `count_include_pad` (but
    not the pads that only rounding up adds)."""
    counts = np.ones(outputs, np.float32)
    included = bool(node.integer("count_include_pad", 0))
    declared = node.integers("pads", (0,) * (2 * len(sizes)))
    for d, size in enumerate(sizes):
        low = -windows.before[d] if included else 0
        high = size + (min(windows.after[d], declared[len(sizes) + d]) if included else 0)
        if included and node.text("auto_pad", "NOTSET").startswith("SAME"):
            high = size + windows.after[d]
        starts = np.arange(outputs[d]) * windows.strides[d] - windows.before[d]
        # For elements start + k * dilation: the first k inside, and the first k behind the end.
        first, end = (
            np.clip(-((starts - bound) // windows.dilations[d]), 0, windows.kernel[d])
            for bound in (low, high)
        )
        along = [1] * len(sizes)
        along[d] = -1
        counts = counts * np.maximum(end - first, 0).astype(np.float32).reshape(along)
    return counts


def read_windows(
    context: FloatContext, node: OnnxNode, sizes: Shape, kernel: Shape, *, rounded_up: bool = False
) -> Windows:
    """Reads the windows of a node over spatial dimensions `sizes`; `rounded_up`: a partial window at the end is one."""
    rank = len(sizes)
    strides, dilations = (node.integers(name, (1,) * rank) for name in ("strides", "dilations"))
    auto = node.text("auto_pad", "NOTSET")
    pads = node.integers("pads", (0,) * (2 * rank))
    if (
        auto not in AUTOMATIC
        or not len(strides) == len(dilations) == len(kernel) == rank
        or len(pads) != 2 * rank
    ):
        context.refuse(
            node, f"has auto_pad {auto}, strides {strides} and pads {pads} for {sizes}", "export it again"
        )
    if min((*strides, *dilations, *kernel)) < 1 or min(pads) < 0:
        context.refuse(
            node, f"has strides {strides}, dilations {dilations} and pads {pads}", "export it again"
        )
    before, after = list(pads[:rank]), list(pads[rank:])
    for d in range(rank):
        span = (kernel[d] - 1) * dilations[d] + 1
        if auto.startswith("SAME"):
            total = max(0, (-(-sizes[d] // strides[d]) - 1) * strides[d] + span - sizes[d])
            before[d] = total // 2 if auto == "SAME_UPPER" else total - total // 2
            after[d] = total - before[d]
        elif auto == "VALID":
            before[d] = after[d] = 0
        if rounded_up and not auto.startswith("SAME"):
            length = sizes[d] + before[d] + after[d]
            count = -(-(length - span) // strides[d]) + 1
            # A window that starts behind the data is dropped.
            if (count - 1) * strides[d] >= sizes[d] + before[d]:
                count -= 1
            after[d] += max(0, (count - 1) * strides[d] + span - length)
    return Windows(
        kernel=tuple(kernel), strides=strides, dilations=dilations, before=tuple(before), after=tuple(after)
    )


def _padded(
    context: FloatContext, node: OnnxNode, name: str, windows: Windows, fill: float
) -> tuple[str, Shape]:
    """Name of the padded data, and the sizes of their spatial dimensions."""
    shape = context.tensors[name].shape
    sizes = tuple(b + n + a for b, n, a in zip(windows.before, shape[2:], windows.after, strict=True))
    if sizes == shape[2:]:
        return name, sizes
    runs = [pad_runs(n, 0, 0) for n in shape[:2]]
    runs += [pad_runs(n, b, a) for n, b, a in zip(shape[2:], windows.before, windows.after, strict=True)]
    output = context.temporary(node, "padded")
    operator = Remap(runs=tuple(runs), fill=fill)
    return context.add(node, operator, (name,), (*shape[:2], *sizes), output=output), sizes


def _groups(context: FloatContext, node: OnnxNode, data: Shape, weight: Shape, channels: int) -> int:
    groups = node.integer("group", 1)
    if len(data) < 3 or len(weight) != len(data) or groups < 1 or channels % groups:
        context.refuse(node, f"convolves {data} by {weight} in {groups} groups", "export the model again")
    if (declared := node.integers("kernel_shape", weight[2:])) != weight[2:]:
        context.refuse(
            node, f"has the kernel_shape {declared} and weights of {weight[2:]}", "export the model again"
        )
    return groups


def _finish(
    context: FloatContext, node: OnnxNode, operator: Computed, inputs: tuple[str, str], shape: Shape
) -> None:
    """Adds the node that computes the sums, and the addition of the bias if there is one."""
    if len(node.inputs) < 3 or not node.inputs[2]:
        context.add(node, operator, inputs, shape)
        return
    bias = context.operand(node, 2)
    if bias.shape != (shape[1],):
        context.refuse(node, f"has a bias of shape {bias.shape}", f"give ({shape[1]},)")
    total = context.add(node, operator, inputs, shape, output=context.temporary(node, "sum"))
    column = context.view(
        node, bias, (shape[1], *(1,) * (len(shape) - 2)), output=context.temporary(node, "bias")
    )
    add_elementwise(context, node, argument(0) + argument(1), [total, column])
