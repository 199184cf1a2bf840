"""MaxPool, AveragePool and global pools, for integer and float graphs; ReduceMean of an integer graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

import numpy as np

from vdla.isa.arithmetic import average_pool_scale

from ....graph.geometry import Windows, average_divisors, ceiling_pads, output_plane
from ....graph.int8_operators import Int8AveragePool, Int8MaxPool
from ....graph.operators import AveragePool, MaxPool
from ....te.blocks import Pads, Window
from ..accumulators import AccumulatorError, average_bias
from ..attributes import OnnxNode
from ..axes import reduced_axes, reduced_shape
from ..context import GraphContext
from ..emit import Rounding, RoundingError, emit, plane_operand, real_operand
from ..integer_context import Edges, ImportContext, pending_result
from ..operations import Identity, Maximum, Opaque
from ..rescaling import rescale, same_integers
from ..strided_views import (
    arranged,
    check_size,
    contiguous,
    elements_of,
    rows_of,
    without_pads,
)
from ..values import Integer, Pending, Real
from .window_attributes import PerDimension, check_image, on_plane, read_windows

UNCOUNTED = (0, 0, 0, 0)
"""No pads on any side: without `count_include_pad`, an average counts no pads as elements."""


def pool_windows(context: GraphContext, node: OnnxNode, sizes: Sequence[int]) -> tuple[Windows, PerDimension]:
    """Reads the windows and pads of a pool; `sizes`: spatial sizes of its input. Returns (windows, pads that the node
    declares). For a node with `ceil_mode`, the windows have larger pads than the node declares, which give the same
    outputs without `ceil_mode`.
    """
    windows = read_windows(context, node, sizes, node.integers("kernel_shape", ()))
    pads = windows.pads
    if node.integer("ceil_mode", 0):
        windows = replace(windows, pads=ceiling_pads(sizes, windows.extents, windows.strides, pads))
    return windows, pads


def import_pool(context: GraphContext, node: OnnxNode) -> None:
    """Imports MaxPool without indices, and AveragePool. With `count_include_pad` an average counts pads as elements."""
    data = context.operand(node, 0)
    check_image(context, node, data.shape)
    plane = data.shape[2], data.shape[3]
    windows, (top, left, bottom, right) = pool_windows(context, node, plane)
    window, spans, declared = on_plane(windows), windows.extents, (top, left, bottom, right)
    if max(top, bottom) >= spans[0] or max(left, right) >= spans[1]:
        context.fail(
            node,
            f"its pads {declared} must be smaller than its kernel {spans}",
            "use pads smaller than the kernel",
        )
    if node.integer("ceil_mode", 0):
        # ONNX's shape inference counts windows entirely in the pad: its shapes from here on are wrong.
        context.static_shapes.clear()
    outputs = output_plane(plane, window.kernel, window.strides, window.dilations, window.pads)
    if min(outputs) < 1:
        problem = f"its kernel {window.kernel} is larger than its input {plane} with its pads"
        context.fail(node, problem, "use a larger input")
    average = node.op_type == "AveragePool"
    counted = declared if average and node.integer("count_include_pad", 0) else UNCOUNTED
    operator = AveragePool(window=window, counted=counted) if average else MaxPool(window=window)
    context.add(node, operator, (data.name,), (*data.shape[:2], *outputs))


def import_global_pool(context: GraphContext, node: OnnxNode) -> None:
    """Imports GlobalAveragePool and GlobalMaxPool: one window over the whole image."""
    data = context.operand(node, 0)
    check_image(context, node, data.shape)
    window, average = Window(kernel=(data.shape[2], data.shape[3])), node.op_type == "GlobalAveragePool"
    operator = AveragePool(window=window, counted=UNCOUNTED) if average else MaxPool(window=window)
    context.add(node, operator, (data.name,), (*data.shape[:2], 1, 1))


def maximum(context: ImportContext, node: OnnxNode, operator: MaxPool, edges: Edges) -> Pending | Integer:
    """The maximum over windows of the dequantized or integer tensor `edges.inputs[0]`."""
    if any(node.outputs[1:]):
        context.fail(node, "indices of the maxima are not supported", "leave out its second output")
    value = context.values[edges.inputs[0]]
    if not isinstance(value, Integer):
        data = real_operand(context, node, 0)
        _check_pool(context, node, data, operator.window)
        return pending_result(node, Maximum(data=data, window=operator.window), edges.shape)
    grid = context.tensors[value.tensor].grid
    data = Real(tensor=value.tensor, shape=value.shape, quantization=grid, view=value.view)
    data = contiguous(context, node, data)
    _check_pool(context, node, data, operator.window)
    pool = pending_result(node, Maximum(data=data, window=operator.window), edges.shape)
    real = emit(context, node, pool, edges.output, grid)
    if value.tensor in context.unscaled:
        context.unscaled.add(real.tensor)
    return Integer(tensor=real.tensor, shape=real.shape, dtype=value.dtype)


def averaged(context: ImportContext, node: OnnxNode, operator: AveragePool, edges: Edges) -> Pending:
    """Averages a dequantized tensor over windows, to a result of `edges.shape`. Returns a pending result, which the
    next QuantizeLinear rounds.
    """
    data = real_operand(context, node, 0)
    _check_pool(context, node, data, operator.window)
    return pending_result(node, average_of(data, operator.window, operator.counted), edges.shape)


def average_of(data: Real, window: Window, counted: Pads = UNCOUNTED, *, total: bool = False) -> Opaque:
    """The pending operation, rounded by the next QuantizeLinear, that averages the elements of each window of `data`;
    with `total`, it adds them up. `counted`: pads that count as elements.
    """
    pool = AveragePool(window=window, counted=counted)
    rounded = partial(round_average, data=data, pool=pool, total=total)
    return Opaque(round=rounded, bounds=None if total else data.quantization)


def _check_pool(context: ImportContext, node: OnnxNode, data: Real, window: Window) -> None:
    """Raises NodeError for a pool of a tensor that is no image (N, C, H, W), and for a dilated window."""
    plane_operand(context, node, data)
    if window.dilations != (1, 1):
        context.fail(node, f"dilations {window.dilations} are not supported", "use a pool without dilations")


def import_reduce_mean(context: ImportContext, node: OnnxNode) -> None:
    """Imports a ReduceMean between DequantizeLinear and QuantizeLinear as an average pool.

    The axes are an attribute or an input. They may include dimensions of size 1. Planes may be reshaped to vectors
    before.
    """
    data = real_operand(context, node, 0, viewed=True)
    rank = len(data.shape)
    axes = reduced_axes(context, node, data.shape)
    shape = reduced_shape(node, data.shape, axes)
    reduced = {axis for axis in axes or () if data.shape[axis] != 1}
    if not reduced and rank > 4:
        # Nothing is reduced, and a tensor of more than four dimensions is no image of which to pool windows.
        view = elements_of(context, data).reshape(shape) if data.view is not None else None
        natural = context.tensors[data.tensor].shape
        context.bind(node, pending_result(node, Identity(data=data), natural, shape=shape, view=view))
        return
    pending = None
    if data.view is not None and rank - 1 not in reduced:
        pending = _row_average(context, node, data, reduced, shape)
    context.bind(node, pending or _image_average(context, node, data, reduced, shape))


def _row_average(
    context: ImportContext, node: OnnxNode, data: Real, axes: set[int], shape: tuple[int, ...]
) -> Pending | None:
    """Computes the average over all pixels of each image. The last axis of the value `data` must be the channels of a
    stored tensor, and `axes` must be exactly the axes of the pixels; otherwise returns None. The result is pending: the
    next QuantizeLinear rounds it. `shape`: shape of the node's result.
    """
    rows = rows_of(context, node, data)
    batch, channels, height, width = context.tensors[rows.data.tensor].nchw
    images = np.moveaxis(rows.places // (height * width), sorted(axes), range(-len(axes), 0))
    images = images.reshape(-1, prod(data.shape[axis] for axis in axes))
    if images.shape != (batch, height * width) or not (images == np.arange(batch)[:, None]).all():
        return None
    operation = average_of(rows.data, Window(kernel=(height, width)))
    return pending_result(node, operation, (batch, channels, 1, 1), shape=shape)


def _image_average(
    context: ImportContext, node: OnnxNode, data: Real, reduced: set[int], shape: tuple[int, ...]
) -> Pending:
    """Computes the average of `data` over the axes `reduced`. If these are the rows, the columns or both of a stored
    image, the average is a pool of this image; otherwise the elements are first copied to a new tensor. Returns a
    pending result, which the next QuantizeLinear rounds. `shape`: shape of the node's result.
    """
    rank = len(data.shape)
    given, data = data, contiguous(context, node, data) if rank <= 4 else data
    batch, channels, height, width = context.tensors[data.tensor].nchw
    if data.view is None and data.shape == (batch, channels, height, width) and reduced <= {2, 3}:
        kernel = (height if 2 in reduced else 1, width if 3 in reduced else 1)
    elif (
        data.view is None
        and data.shape[:2] == (batch, channels)
        and reduced in (set(), {axis for axis in range(2, rank) if data.shape[axis] != 1})
    ):
        # The whole plane, in any shape; or nothing.
        kernel = (height, width) if reduced else (1, 1)
    else:
        lines = lines_along(context, node, given, reduced)
        operation = average_of(lines.data, lines.window)
        return pending_result(node, operation, lines.natural, shape=shape, view=lines.view.reshape(shape))
    natural = (batch, channels, height - kernel[0] + 1, width - kernel[1] + 1)
    return pending_result(node, average_of(data, Window(kernel=kernel)), natural, shape=shape)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lines:
    """A reduction over any axes, in the form of a pool of the tensor `data`. Each element of the result comes from the
    elements of one `window`. `data` is an image, or a new tensor (N, C, L, R) in which a window is a row of R elements.

    `natural`: the pool's output shape (N, C, H, W). `view`: for each element of the reduction's result, its row-major
    index in the pool's output; the array has the shape of the axes that are not reduced.
    """

    data: Real
    window: Window
    natural: tuple[int, int, int, int]
    view: np.ndarray


def lines_along(context: ImportContext, node: OnnxNode, data: Real, reduced: set[int]) -> Lines:
    """Writes a reduction of `data` over the axes `reduced` as a pool. If the reduced elements are planes, rows or
    columns of a stored image, the pool reads this image. Otherwise the elements are first copied to a new tensor.
    """
    from .integer_moves import channel_axes

    check_size(context, node, data.shape)
    data = without_pads(context, node, data)
    elements, rank = elements_of(context, data), len(data.shape)
    stay = [axis for axis in range(rank) if axis not in reduced]
    if data.view is None and data.shape == context.tensors[data.tensor].nchw and reduced <= {2, 3}:
        batch, filters, *plane = data.shape
        kept = tuple([1 if axis in reduced else size for axis, size in enumerate(plane, start=2)])
        kernel = tuple([size if axis in reduced else 1 for axis, size in enumerate(plane, start=2)])
        small = (batch, filters, kept[0], kept[1])
        view = np.arange(prod(small)).reshape([data.shape[axis] for axis in stay])
        return Lines(data=data, window=Window(kernel=(kernel[0], kernel[1])), natural=small, view=view)
    of_channels = set(channel_axes(context, (data,), rank))
    images: list[int] = []
    channels = [axis for axis in stay if axis in of_channels]
    if of_channels & reduced:
        # Channels are exchanged with the positions of their image: the axes that stay become the channels.
        image = elements // prod(context.tensors[data.tensor].nchw[1:])
        images = [axis for axis in stay if (image != np.take(image, [0], axis)).any()]
        channels = [axis for axis in stay if axis not in images]
    places = [axis for axis in stay if axis not in (*images, *channels)]
    order = [*images, *channels, *places, *sorted(reduced)]
    groups = (images, channels, places, sorted(reduced))
    batch, filters, height, length = (prod(data.shape[axis] for axis in group) for group in groups)
    natural, cut = (batch, filters, height, 1), len(stay)
    sizes = [data.shape[axis] for axis in order]
    moved = arranged(context, node, data, elements.transpose(order).reshape(*natural[:3], length))
    placed = np.arange(prod(natural)).reshape(sizes[:cut]).transpose(np.argsort(order[:cut]))
    return Lines(data=moved, window=Window(kernel=(1, length)), natural=natural, view=placed)


def round_average(
    context: ImportContext, to: Rounding, *, data: Real, pool: AveragePool, total: bool = False
) -> str:
    """Adds an integer average pool `pool` of `data`, requantized by `to`; returns the name of the result's tensor.
    `total`: sums of windows, not averages.
    """
    source = data.quantization
    window, counted = pool.window, pool.counted
    try:
        bias = average_bias(window.kernel[0] * window.kernel[1], source.stored_zero_point)
    except AccumulatorError as error:
        raise RoundingError(
            f"quantizes the result of '{to.pending.members[0]}', where {error}",
            "use smaller windows, or leave the pool float",
        ) from None
    plane = context.tensors[data.tensor].nchw[2:]
    divisors = average_divisors(plane, window, counted, any(counted))
    divisors = np.ones_like(divisors) if total else divisors
    scales = tuple(
        (int(count), average_pool_scale(source.scale, to.grid.scale, int(count)))
        for count in np.unique(divisors)
    )
    operator = Int8AveragePool(
        window=window,
        pad_value=source.stored_zero_point,
        bias=bias,
        divisors=divisors,
        scale_by_divisor=scales,
        post=to.post(),
    )
    return to.append(context, operator, (data.tensor,))


def round_maximum(context: ImportContext, maximum: Maximum, to: Rounding) -> str:
    """Adds an integer max-pool, which keeps the quantization of its input. Adds a rescaling if the result has another
    quantization. Returns the name of the result's tensor.
    """
    source = maximum.data.quantization
    same = same_integers(source, to.grid)
    pool = replace(to, grid=source, pending=replace(to.pending, members=to.pending.members[:1]))
    output = to.output if same else f"{to.output}.max"
    tensor = pool.append(context, Int8MaxPool(window=maximum.window), (maximum.data.tensor,), output=output)
    data = Real(tensor=tensor, shape=to.pending.shape, quantization=source)
    return rescale(context, data, to)
