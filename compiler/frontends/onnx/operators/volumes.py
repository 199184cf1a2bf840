"""Windows over three dimensions in integer graphs: a volume (N, C, D, H, W) is stored as its slices, the images (N * D,
C, H, W).

A convolution over a volume becomes a convolution over images; the slices that the kernel covers become channels of one
image. A pool becomes a pool over images; the slices under its window become one image, which has the first row of each
slice, then the second row of each slice, and so on. Nothing is rounded in between.

A transposed convolution: output slice z, with z + (pads before the first slice) = q * stride + r, is the sum over t of
input slice q - t times the weights at depth r + stride * t. One transposed convolution of images computes all output
slices with the same remainder r; the input slices that an output slice needs are joined as its input channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ....graph.geometry import Windows
from ....graph.int8_operators import Positions
from ....te.blocks import Window
from ....te.ops.transposed_convolution import transposed_outputs
from ..attributes import OnnxNode
from ..emit import Rounding, real_operand
from ..inputs import SLICES
from ..integer_context import ImportContext, pending_result
from ..operations import Maximum, Opaque, Operation, Product
from ..strided_views import arranged, check_size, elements_of, transposed_view, without_pads
from ..values import Pending, Real
from .pools import UNCOUNTED, average_of, lines_along, pool_windows
from .products import bias_operand, weight_operand
from .transposed import round_transposed, transposed_weights, transposed_windows
from .window_attributes import convolution_groups, read_windows

Plane = tuple[int, int]


def import_on_volume(context: ImportContext, node: OnnxNode) -> None:
    """Imports Conv, ConvTranspose and pools, also global, of a volume; raises NodeError for other operators."""
    data = without_pads(context, node, real_operand(context, node, 0, viewed=True))
    match node.op_type:
        case "Conv":
            made = _convolved(context, node, data)
        case "MaxPool" | "AveragePool":
            made = _pooled(context, node, data)
        case "GlobalAveragePool" | "GlobalMaxPool":
            made = _pooled_whole(context, node, data)
        case "ConvTranspose":
            made = transposed_volume(context, node, data)
        case _:
            context.fail(
                node,
                f"has windows over an input of shape {data.shape}, which only processors and GPUs support",
                "run the node on the processor (--target vdla,llvm)",
            )
    context.bind(node, made)


def _convolved(context: ImportContext, node: OnnxNode, data: Real) -> Pending:
    weight, scale = weight_operand(context, node, context.value(node, 1), channel_axis=0)
    groups = convolution_groups(context, node, data.shape, weight.shape)
    filters, fan_in, *kernel = weight.shape
    windows = read_windows(context, node, data.shape[2:], tuple(kernel))
    depths, plane = _checked_outputs(context, node, windows, data.shape[2:])
    # The taps of a channel are neighbours, as the weights of a filter's rows are.
    taken = _taps_of(context, node, data, _depths(windows, depths), beside=False)
    product = Product(
        data=taken,
        weight=np.ascontiguousarray(weight.reshape(filters, fan_in * kernel[0], *kernel[1:])),
        weight_scale=scale,
        bias=bias_operand(context, node, 2),
        window=_plane_window(windows),
        groups=groups,
    )
    return _sliced(node, product, data.shape[0], depths, filters, plane)


def _pooled(context: ImportContext, node: OnnxNode, data: Real) -> Pending:
    if any(node.outputs[1:]):
        context.fail(node, "indices of the maxima are not supported", "leave out its second output")
    windows, declared = pool_windows(context, node, data.shape[2:])
    if windows.dilations != (1, 1, 1):
        context.fail(node, f"dilations {windows.dilations} are not supported", "use a pool without dilations")
    if node.integer("ceil_mode", 0):
        # ONNX's shape inference counts windows entirely in the pad: its shapes from here on are wrong.
        context.static_shapes.clear()
    depths, plane = _checked_outputs(context, node, windows, data.shape[2:])
    taps, size = _depths(windows, depths), data.shape[2]
    average = node.op_type == "AveragePool"
    counts = bool(node.integer("count_include_pad", 0))
    outside = ((taps < 0) | (taps >= size)).any()
    if average and outside and not (counts and windows.pads == declared):
        context.fail(
            node,
            "averages that do not count pads along depth (count_include_pad = 0) are not supported",
            "set count_include_pad to 1, or pad only rows and columns",
        )
    if not average:
        # A slice outside of the volume never wins: the nearest one takes its place.
        inside = np.where(taps < 0, taps.max(axis=1, keepdims=True), taps)
        taps = np.clip(inside, 0, size - 1)
    taken = _taps_of(context, node, data, taps, beside=True)
    rows, window = taps.shape[1], _plane_window(windows)
    top, left, bottom, right = window.pads
    window = replace(
        window,
        kernel=(window.kernel[0] * rows, window.kernel[1]),
        strides=(window.strides[0] * rows, window.strides[1]),
        pads=(top * rows, left, bottom * rows, right),
    )
    counted = (window.pads[0], left, window.pads[2], right) if counts else UNCOUNTED
    operation = average_of(taken, window, counted) if average else Maximum(data=taken, window=window)
    return _sliced(node, operation, data.shape[0], depths, data.shape[1], plane)


def _pooled_whole(context: ImportContext, node: OnnxNode, data: Real) -> Pending:
    lines = lines_along(context, node, data, {2, 3, 4})
    average = node.op_type == "GlobalAveragePool"
    kind = average_of if average else Maximum
    operation = kind(data=lines.data, window=lines.window)
    shape = (*data.shape[:2], 1, 1, 1)
    return pending_result(node, operation, lines.natural, shape=shape, view=lines.view.reshape(shape))


def _checked_outputs(
    context: ImportContext, node: OnnxNode, windows: Windows, sizes: Sequence[int]
) -> tuple[int, Plane]:
    """Number of output slices, and the plane of a slice; raises NodeError where a window is larger than the volume of
    `sizes`.
    """
    ends = zip(sizes, windows.pads[:3], windows.pads[3:], windows.extents, windows.strides, strict=True)
    depth, height, width = (
        (size + low + high - extent) // stride + 1 for size, low, high, extent, stride in ends
    )
    if min(depth, height, width) < 1:
        context.fail(
            node, f"its kernel {windows.kernel} is larger than its input {tuple(sizes)}", "use a larger input"
        )
    return depth, (height, width)


def _depths(windows: Windows, depths: int) -> np.ndarray:
    """For each of `depths` output slices and for each tap of the kernel, the index of the input slice that the tap
    reads: int [outputs, taps]. Indices below 0, and indices from the volume's depth on, are pads.
    """
    first = np.arange(depths) * windows.strides[0] - windows.pads[0]
    return first[:, None] + np.arange(windows.kernel[0]) * windows.dilations[0]


def _plane_window(windows: Windows) -> Window:
    """The window over rows and columns, without the first dimension (depth) of `windows`."""
    _, top, left, _, bottom, right = windows.pads
    pair = [(values[1], values[2]) for values in (windows.kernel, windows.strides, windows.dilations)]
    return Window(kernel=pair[0], strides=pair[1], dilations=pair[2], pads=(top, left, bottom, right))


def _taps_of(context: ImportContext, node: OnnxNode, data: Real, depths: np.ndarray, *, beside: bool) -> Real:
    """Collects the input slices from which each output slice of a volume is computed. Returns a tensor with one image
    for each output slice. `depths` (outputs, taps): indices of the input slices; an index outside of the volume stands
    for a slice of zeros.

    The input slices of an image are joined as channels. With `beside` they are joined as rows instead: the first row of
    each slice, then the second row of each slice, and so on.
    """
    batch, channels, size, height, width = data.shape
    outputs, taps = depths.shape
    check_size(context, node, (batch, channels, outputs, taps, height, width))
    outside = (depths < 0) | (depths >= size)
    found = elements_of(context, data)[:, :, np.where(outside, 0, depths)]
    found = np.where(outside[:, :, None, None], -1, found)
    # found: (N, C, outputs, taps, H, W)
    if beside:
        shape = (batch * outputs, channels, height * taps, width)
        return arranged(context, node, data, found.transpose(0, 2, 1, 4, 3, 5).reshape(shape))
    shape = (batch * outputs, channels * taps, height, width)
    return arranged(context, node, data, found.transpose(0, 2, 1, 3, 4, 5).reshape(shape))


def _sliced(
    node: OnnxNode, operation: Operation, batch: int, depth: int, channels: int, plane: Plane
) -> Pending:
    """Gives the result of an `operation` that computes the slices of a volume as images the form of a volume. Returns a
    pending result, which the next QuantizeLinear rounds. `batch`, `depth`, `channels` and `plane` (H, W): sizes of the
    resulting volume.
    """
    view = transposed_view((batch, channels, depth, *plane), SLICES)
    return pending_result(node, operation, (batch * depth, channels, *plane), view=view)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Remainder:
    """The output slices of a volume whose depths have one remainder modulo the stride. `slices`: the depths of these
    slices; `product`: the transposed convolution of images that computes these slices.
    """

    slices: np.ndarray
    product: Product


def transposed_volume(context: ImportContext, node: OnnxNode, data: Real) -> Pending:
    """Imports a transposed convolution of the volume `data`. Returns a pending result, which the next QuantizeLinear
    rounds.
    """
    groups = convolution_groups(context, node, data.shape, context.present(node, 1).shape, transposed=True)
    windows, extra = transposed_windows(context, node, data.shape[2:], context.present(node, 1).shape[2:])
    weight, scale = transposed_weights(context, node, groups, windows.dilations)
    filters, *kernel = weight.shape[1:]
    windows = replace(windows, kernel=tuple(kernel), dilations=(1, 1, 1))
    stride, before, behind = windows.strides[0], windows.pads[0], windows.pads[3]
    plane_window = _plane_window(windows)
    along_depth = Window(kernel=(kernel[0], 1), strides=(stride, 1), pads=(before, 0, behind, 0))
    try:
        depth, _ = transposed_outputs(along_depth, data.shape[2], 1, (extra[0], 0))
        plane = transposed_outputs(plane_window, data.shape[3], data.shape[4], (extra[1], extra[2]))
    except ValueError as error:
        context.fail(node, str(error), "use smaller pads and strides")
    bias, along = bias_operand(context, node, 2), np.arange(depth) + before
    parts: list[Remainder] = []
    for remainder in sorted({*(along % stride).tolist()}):
        own = weight[:, :, remainder::stride]
        if not own.shape[2]:
            # No weight has this depth: the slices hold nothing but the bias.
            own = np.zeros_like(weight[:, :, :1])
        taps, slices = own.shape[2], np.flatnonzero(along % stride == remainder)
        depths = along[slices, None] // stride - np.arange(taps)
        joined = own.transpose(1, 0, 2, 3, 4).reshape(filters, -1, *kernel[1:])
        product = Product(
            data=_taps_of(context, node, data, depths, beside=False),
            weight=np.ascontiguousarray(joined),
            weight_scale=scale,
            bias=bias,
            window=plane_window,
        )
        parts.append(Remainder(slices=slices, product=product))
    rounded = partial(_round_volume, parts=parts, depth=depth)
    return _sliced(node, Opaque(round=rounded), data.shape[0], depth, filters, plane)


def _round_volume(context: ImportContext, to: Rounding, *, parts: Sequence[Remainder], depth: int) -> str:
    """Adds the nodes that compute a transposed convolution of a volume; returns the name of the result's tensor. Each
    of `parts` computes the output slices of one remainder, by a transposed convolution of images. A last node puts the
    slices of all parts in the order of the volume. `depth`: number of output slices.
    """
    images, filters, *plane = to.pending.natural
    if len(parts) == 1:
        return round_transposed(context, to, product=parts[0].product)
    batch, size = images // depth, plane[0] * plane[1]
    tensors: list[str] = []
    first = np.empty((batch, depth), np.int64)
    start = 0
    for number, part in enumerate(parts):
        count = len(part.slices)
        natural = (batch * count, filters, *plane)
        own = replace(
            to, pending=replace(to.pending, natural=natural), output=f"{to.output}.remainder.{number}"
        )
        tensors.append(round_transposed(context, own, product=part.product))
        first[:, part.slices] = (start + np.arange(batch * count) * size).reshape(batch, count)
        start += batch * count * size
    index = first.reshape(-1, 1, 1) + np.arange(size).reshape(plane)
    order = Positions(index=index, fill=to.grid.stored_zero_point)
    return to.append(context, order, tuple(tensors), name=f"{to.pending.members[0]}.slices")
