"""Windows by attributes of nodes, for integer and float graphs: kernels, strides, dilations and pads of convolutions
and pools, and output shapes; Conv and pools over two dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..te.blocks import Pads, Pair, Window
from ..te.ops.convolution import transposed_outputs
from ..te.ops.sums import Epilogue
from .geometry import Windows, automatic_pads, ceiling_pads, output_plane
from .onnx_attributes import OnnxNode
from .onnx_context import GraphContext
from .operators import AveragePool, Convolution, MaxPool

Sizes = tuple[int, int, int, int]
PerDimension = tuple[int, ...]
AUTOMATIC = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def convolution_window(
    context: GraphContext, node: OnnxNode, data: Sequence[int], weight: Sequence[int]
) -> tuple[Window, int, Sizes]:
    """Window, groups and the output's shape of a Conv of data (N, C, H, W) by weights (O, C / groups, kh, kw)."""
    groups = convolution_groups(context, node, data, weight)
    _check_image(context, node, data)
    batch, _, *plane = data
    window = _on_plane(read_windows(context, node, plane, tuple(weight[2:])))
    try:
        height, width = window.outputs(*plane)
    except ValueError as error:
        context.fail(node, f"{error} of its input {plane[0]} x {plane[1]}", "use a larger input")
    return window, groups, (batch, weight[0], height, width)


def transposed_window(
    context: GraphContext, node: OnnxNode, data: Sequence[int], weight: Sequence[int]
) -> tuple[Window, int, Pair, Sizes]:
    """Window, groups, output padding and output shape of a ConvTranspose with weights (C, O / groups, kh, kw)."""
    groups = convolution_groups(context, node, data, weight, transposed=True)
    _check_image(context, node, data)
    batch, _, *plane = data
    _, share, *kernel = weight
    before, after, padding = transposed_pads(context, node, plane, kernel)
    strides, dilations = (node.integers(name, (1, 1)) for name in ("strides", "dilations"))
    window = _on_plane(
        Windows(kernel=tuple(kernel), strides=strides, pads=(*before, *after), dilations=dilations)
    )
    try:
        height, width = transposed_outputs(window, *_pair(plane), _pair(padding))
    except ValueError as error:
        context.fail(node, str(error), "use smaller pads and strides")
    return window, groups, _pair(padding), (batch, share * groups, height, width)


def _check_image(context: GraphContext, node: OnnxNode, data: Sequence[int]) -> None:
    if len(data) != 4:
        context.fail(node, f"its input has shape {data}", "only 2-D windows over (N, C, H, W) are supported")


def convolution_groups(
    context: GraphContext,
    node: OnnxNode,
    data: Sequence[int],
    weight: Sequence[int],
    *,
    transposed: bool = False,
) -> int:
    """Number of groups of a Conv or (`transposed`) ConvTranspose in any number of dimensions; refuses shapes of data
    and weights that do not match."""
    if len(data) != len(weight) or len(data) < 3:
        context.refuse(node, f"has weights {tuple(weight)} for data {tuple(data)}")
    groups = node.integer("group", 1)
    if groups < 1 or weight[0] % groups or (weight[0] if transposed else weight[1] * groups) != data[1]:
        context.refuse(node, f"has weights {tuple(weight)} in {groups} groups for {data[1]} channels")
    return groups


def transposed_pads(
    context: GraphContext, node: OnnxNode, sizes: Sequence[int], kernel: Sequence[int]
) -> tuple[PerDimension, PerDimension, PerDimension]:
    """(pads before, pads after, output padding) of a ConvTranspose, each by spatial dimension: declared, or derived
    from `auto_pad` or `output_shape`."""
    rank = len(sizes)
    _check_kernel(context, node, tuple(kernel))
    strides, dilations, extra = (
        node.integers(name, (one,) * rank)
        for name, one in (("strides", 1), ("dilations", 1), ("output_padding", 0))
    )
    auto, pads = node.text("auto_pad", "NOTSET"), node.integers("pads", (0,) * (2 * rank))
    wanted = node.integers("output_shape", ())[-rank:]
    counts = [len(values) for values in (strides, dilations, extra, wanted or extra)]
    if auto not in AUTOMATIC or counts != [rank] * 4 or len(pads) != 2 * rank:
        context.refuse(
            node, f"has auto_pad {auto}, strides {strides} and pads {pads} for {sizes}", "export it again"
        )
    if min((*strides, *dilations)) < 1 or min((*extra, *pads)) < 0:
        context.fail(
            node, f"has strides {strides}, pads {pads} and output_padding {extra}", "give none below 0"
        )
    before, after, padding = list(pads[:rank]), list(pads[rank:]), list(extra)
    if auto == "VALID":
        before, after = [0] * rank, [0] * rank
    if not wanted and auto in ("NOTSET", "VALID"):
        return tuple(before), tuple(after), tuple(padding)
    for d in range(rank):
        full = strides[d] * (sizes[d] - 1) + extra[d] + (kernel[d] - 1) * dilations[d] + 1
        total = full - (wanted[d] if wanted else sizes[d] * strides[d])
        padding[d] += max(0, -total)
        total = max(0, total)
        before[d] = total // 2 if auto == "SAME_UPPER" else total - total // 2
        after[d] = total - before[d]
    return tuple(before), tuple(after), tuple(padding)


def pool_window(context: GraphContext, node: OnnxNode, data: Sequence[int]) -> tuple[Window, Pads, Sizes]:
    """Window (with the pads of `ceil_mode`), declared pads and output shape of a pool of (N, C, H, W)."""
    if len(data) != 4:
        context.fail(node, f"pools a tensor of shape {tuple(data)}", "only (N, C, H, W) is supported")
    batch, channels, *plane = data
    windows, declared = pool_windows(context, node, plane)
    window, (top, left, bottom, right) = _on_plane(windows), declared
    spans = windows.extents
    if max(top, bottom) >= spans[0] or max(left, right) >= spans[1]:
        context.fail(
            node, f"pads {declared} reach a whole kernel {spans}", "use pads smaller than the kernel"
        )
    if node.integer("ceil_mode", 0):
        # ONNX's shape inference counts windows entirely in the pad: its shapes from here on are wrong.
        context.static_shapes.clear()
    outputs = output_plane(_pair(plane), window.kernel, window.strides, window.dilations, window.pads)
    if min(outputs) < 1:
        context.fail(
            node,
            f"kernel {window.kernel} is larger than its padded input {tuple(plane)}",
            "use a larger input",
        )
    return window, (top, left, bottom, right), (batch, channels, *outputs)


def pool_windows(context: GraphContext, node: OnnxNode, sizes: Sequence[int]) -> tuple[Windows, PerDimension]:
    """Windows (with the pads of `ceil_mode`) and declared pads of a pool over dimensions `sizes`."""
    windows = read_windows(context, node, sizes, node.integers("kernel_shape", ()))
    if not node.integer("ceil_mode", 0):
        return windows, windows.pads
    return (
        replace(windows, pads=ceiling_pads(sizes, windows.extents, windows.strides, windows.pads)),
        windows.pads,
    )


def read_windows(
    context: GraphContext, node: OnnxNode, sizes: Sequence[int], kernel: PerDimension
) -> Windows:
    """The windows of `kernel` over dimensions `sizes` that a node's attributes describe."""
    rank = len(sizes)
    strides, dilations = (node.integers(name, (1,) * rank) for name in ("strides", "dilations"))
    auto, pads = node.text("auto_pad", "NOTSET"), node.integers("pads", (0,) * (2 * rank))
    _check_kernel(context, node, kernel)
    if auto not in AUTOMATIC:
        context.refuse(
            node, f"has auto_pad '{auto}'", f"there are {', '.join(AUTOMATIC[:-1])} and {AUTOMATIC[-1]}"
        )
    counts = [len(kernel), len(strides), len(dilations), len(pads) / 2]
    if counts != [rank] * 4 or min((*kernel, *strides, *dilations)) < 1 or min(pads) < 0:
        context.refuse(
            node,
            f"has the kernel {kernel}, strides {strides}, dilations {dilations} and pads {pads} for {tuple(sizes)}",
            "give a number of 1 or more for each dimension, and pads of 0 or more",
        )
    if auto != "NOTSET":
        pads = automatic_pads(auto, sizes, kernel, strides, dilations)
    return Windows(kernel=kernel, strides=strides, dilations=dilations, pads=pads)


def _on_plane(windows: Windows) -> Window:
    top, left, bottom, right = windows.pads
    return Window(
        kernel=_pair(windows.kernel),
        strides=_pair(windows.strides),
        pads=(top, left, bottom, right),
        dilations=_pair(windows.dilations),
    )


def _check_kernel(context: GraphContext, node: OnnxNode, kernel: PerDimension) -> None:
    declared = node.integers("kernel_shape", kernel)
    if declared != kernel:
        context.refuse(node, f"has the kernel_shape {declared} and weights of {kernel}")


def _pair(values: Sequence[int]) -> Pair:
    return values[0], values[1]


def import_convolution(context: GraphContext, node: OnnxNode) -> None:
    """Imports Conv of two spatial dimensions with constant weights."""
    data, weight = context.operand(node, 0), context.operand(node, 1)
    window, groups, shape = convolution_window(context, node, data.shape, weight.shape)
    bias = bias_name(context, node, shape[1])
    inputs = (data.name, weight.name) if bias is None else (data.name, weight.name, bias)
    operator = Convolution(window=window, groups=groups, epilogue=Epilogue(bias=bias is not None))
    context.add(node, operator, inputs, shape)


def import_transposed_convolution(context: GraphContext, node: OnnxNode) -> None:
    """Imports ConvTranspose of two spatial dimensions with constant weights."""
    data, weight = context.operand(node, 0), context.operand(node, 1)
    window, groups, padding, shape = transposed_window(context, node, data.shape, weight.shape)
    bias = bias_name(context, node, shape[1])
    depth, share, *kernel = weight.shape

    def ordered(array: np.ndarray) -> np.ndarray:
        """The order of a convolution's weight: (filters, channels of a group, rows, columns)."""
        parts = array.reshape(groups, depth // groups, share, *kernel).swapaxes(1, 2)
        return parts.reshape(shape[1], -1, *kernel)

    inputs = (data.name, context.reordered(node, 1, ordered), *([] if bias is None else [bias]))
    operator = Convolution(
        window=window,
        groups=groups,
        epilogue=Epilogue(bias=bias is not None),
        transposed=True,
        output_padding=padding,
    )
    context.add(node, operator, inputs, shape)


def bias_name(context: GraphContext, node: OnnxNode, filters: int) -> str | None:
    """Name of the constant bias of a node with so many filters; None where it is left out."""
    if not any(node.inputs[2:]):
        return None
    if not context.is_constant(node, 2):
        # Fails, and tells which inputs of the model decide the values.
        context.array(node, 2, "bias")
    bias = context.operand(node, 2)
    if bias.shape != (filters,):
        context.fail(node, f"has a bias of shape {bias.shape}", f"give ({filters},)")
    return bias.name


def import_max_pool(context: GraphContext, node: OnnxNode) -> None:
    """Imports MaxPool without indices."""
    data = context.operand(node, 0)
    window, _, shape = pool_window(context, node, data.shape)
    context.add(node, MaxPool(window=window), (data.name,), shape)


def import_average_pool(context: GraphContext, node: OnnxNode) -> None:
    """Imports AveragePool; the divisor counts pads with `count_include_pad`."""
    data = context.operand(node, 0)
    window, pads, shape = pool_window(context, node, data.shape)
    counted = pads if node.integer("count_include_pad", 0) else (0, 0, 0, 0)
    context.add(node, AveragePool(window=window, counted=counted), (data.name,), shape)


def import_global_pool(context: GraphContext, node: OnnxNode) -> None:
    """Imports GlobalAveragePool and GlobalMaxPool: one window over the whole image."""
    data = context.operand(node, 0)
    if len(data.shape) != 4:
        context.fail(node, f"pools a tensor of shape {data.shape}", "only (N, C, H, W) is supported")
    _, _, height, width = data.shape
    window = Window(kernel=(height, width))
    operator = (
        MaxPool(window=window)
        if node.op_type == "GlobalMaxPool"
        else AveragePool(window=window, counted=(0, 0, 0, 0))
    )
    context.add(node, operator, (data.name,), (*data.shape[:2], 1, 1))
