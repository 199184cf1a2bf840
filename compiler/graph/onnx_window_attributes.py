"""Windows by attributes of nodes: kernels, strides, dilations and pads of convolutions and pools, and output shapes,
for integer and float graphs."""

from __future__ import annotations

from collections.abc import Sequence

from ..te.blocks import Pads, Pair, Window
from ..te.ops.convolution import transposed_outputs
from .geometry import automatic_pads, ceiling_pads, output_plane, window_extent
from .onnx_context import NodeContext, OnnxNode

Sizes = tuple[int, int, int, int]
PerDimension = tuple[int, ...]
AUTOMATIC = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


def convolution_window(
    context: NodeContext, node: OnnxNode, data: Sequence[int], weight: Sequence[int]
) -> tuple[Window, int, Sizes]:
    """Window, groups and the output's shape of a Conv of data (N, C, H, W) by weights (O, C / groups, kh, kw)."""
    if len(data) != 4 or len(weight) != 4:
        context.fail(
            node,
            f"has weights {tuple(weight)} for data {tuple(data)}",
            "only two spatial dimensions are supported; add one of size 1 with Unsqueeze",
        )
    batch, channels, *plane = data
    filters, depth, *kernel = weight
    groups = node.integer("group", 1)
    if groups < 1 or depth * groups != channels or filters % groups:
        context.refuse(
            node,
            f"has weights {tuple(weight)} in {groups} groups for {channels} channels",
            "export the model again",
        )
    window = _window(context, node, _pair(plane), _pair(kernel))
    try:
        height, width = window.outputs(*plane)
    except ValueError as error:
        context.fail(node, f"{error} of its input {plane[0]} x {plane[1]}", "use a larger input")
    return window, groups, (batch, filters, height, width)


def transposed_window(
    context: NodeContext, node: OnnxNode, data: Sequence[int], weight: Sequence[int]
) -> tuple[Window, int, Pair, Sizes]:
    """Window, groups, output padding and output shape of a ConvTranspose with weights (C, O / groups, kh, kw)."""
    if len(data) != 4 or len(weight) != 4:
        context.fail(
            node,
            f"has weights {tuple(weight)} for data {tuple(data)}",
            "only two spatial dimensions are supported; add one of size 1 with Unsqueeze",
        )
    batch, channels, *plane = data
    depth, share, *kernel = weight
    groups = node.integer("group", 1)
    if groups < 1 or depth != channels or channels % groups:
        context.refuse(
            node,
            f"has weights {tuple(weight)} in {groups} groups for {channels} channels",
            "export it again",
        )
    before, after, padding = transposed_pads(context, node, plane, kernel)
    strides, dilations = (_pair(node.integers(name, (1, 1))) for name in ("strides", "dilations"))
    _check_kernel(context, node, _pair(kernel))
    window = Window(
        kernel=_pair(kernel), strides=strides, pads=(*_pair(before), *_pair(after)), dilations=dilations
    )
    try:
        height, width = transposed_outputs(window, *_pair(plane), _pair(padding))
    except ValueError as error:
        context.fail(node, str(error), "use smaller pads and strides")
    return window, groups, _pair(padding), (batch, share * groups, height, width)


def transposed_pads(
    context: NodeContext, node: OnnxNode, sizes: Sequence[int], kernel: Sequence[int]
) -> tuple[PerDimension, PerDimension, PerDimension]:
    """(pads before, pads after, output padding) of a ConvTranspose, each by spatial dimension: declared, or derived
    from `auto_pad` or `output_shape`."""
    rank = len(sizes)
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


def pool_window(context: NodeContext, node: OnnxNode, data: Sequence[int]) -> tuple[Window, Pads, Sizes]:
    """Window (with the pads of `ceil_mode`), declared pads and output shape of a pool of (N, C, H, W)."""
    if len(data) != 4:
        context.fail(node, f"pools a tensor of shape {tuple(data)}", "only (N, C, H, W) is supported")
    batch, channels, *plane = data
    kernel = node.integers("kernel_shape", ())
    if len(kernel) != 2 or min(kernel) < 1:
        context.fail(node, f"has the kernel {kernel}", "give two sizes of 1 or more")
    declared = _window(context, node, _pair(plane), _pair(kernel))
    pads = effective = declared.pads
    spans = (
        window_extent(kernel[0], declared.dilations[0]),
        window_extent(kernel[1], declared.dilations[1]),
    )
    if max(pads[0], pads[2]) >= spans[0] or max(pads[1], pads[3]) >= spans[1]:
        context.fail(node, f"pads {pads} reach a whole kernel {spans}", "use pads smaller than the kernel")
    if node.integer("ceil_mode", 0):
        effective = ceiling_pads(_pair(plane), spans, declared.strides, pads)
        # ONNX's shape inference counts windows entirely in the pad: its shapes from here on are wrong.
        context.static_shapes.clear()
    window = Window(
        kernel=declared.kernel, strides=declared.strides, pads=effective, dilations=declared.dilations
    )
    outputs = output_plane(_pair(plane), window.kernel, window.strides, window.dilations, effective)
    if min(outputs) < 1:
        context.fail(
            node, f"kernel {kernel} is larger than its padded input {tuple(plane)}", "use a larger input"
        )
    return window, pads, (batch, channels, *outputs)


def _window(context: NodeContext, node: OnnxNode, plane: Pair, kernel: Pair) -> Window:
    """The window of `kernel` that a node's attributes describe."""
    _check_kernel(context, node, kernel)
    strides, dilations = node.integers("strides", (1, 1)), node.integers("dilations", (1, 1))
    if any(len(values) != 2 or min(values) < 1 for values in (strides, dilations)):
        context.fail(node, f"has strides {strides} and dilations {dilations}", "give two of 1 or more each")
    steps, spread = _pair(strides), _pair(dilations)
    pads = _declared_pads(context, node, plane, kernel, steps, spread)
    return Window(kernel=kernel, strides=steps, pads=pads, dilations=spread)


def _check_kernel(context: NodeContext, node: OnnxNode, kernel: Pair) -> None:
    declared = node.integers("kernel_shape", kernel)
    if declared != kernel:
        context.refuse(
            node, f"has the kernel_shape {declared} and weights of {kernel}", "export the model again"
        )


def _declared_pads(
    context: NodeContext, node: OnnxNode, plane: Pair, kernel: Pair, strides: Pair, dilations: Pair
) -> Pads:
    """Pads (top, left, bottom, right) from `pads` or `auto_pad`."""
    automatic = node.text("auto_pad", "NOTSET")
    if automatic in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        return automatic_pads(automatic, plane, kernel, strides, dilations)
    if automatic != "NOTSET":
        context.fail(
            node, f"has auto_pad '{automatic}'", "there are NOTSET, SAME_UPPER, SAME_LOWER and VALID"
        )
    pads = node.integers("pads", (0, 0, 0, 0))
    if len(pads) != 4 or min(pads) < 0:
        context.fail(node, f"has pads {pads}", "only four pads of 0 or more are supported")
    return (pads[0], pads[1], pads[2], pads[3])


def _pair(values: Sequence[int]) -> Pair:
    return values[0], values[1]
