"""Concat of quantized tensors along channels or positions."""

from __future__ import annotations

from math import prod

import numpy as np

from ..te.blocks import Pair
from .graph import Shape
from .int8_operators import Channels, Positions, Quantization
from .onnx_attributes import OnnxNode
from .onnx_emit import Rounding, real_operand, rescale_all
from .onnx_integer_context import ImportContext, pending_result
from .onnx_rounding import activation_type
from .onnx_strided_views import arranged, elements_of, natural_of, seen_as
from .onnx_values import Pending, QuantizedConstant, Real, Waiting
from .operators import Concatenate


def concatenated(
    context: ImportContext,
    node: OnnxNode,
    operator: Concatenate,
    inputs: tuple[str, ...],
    _: str,
    shape: Shape,
) -> Real | Pending:
    """Tensors joined along any axis. Parts of one tensor are a view of the tensor."""
    parts = tuple([_part(context, node, node.inputs.index(name)) for name in inputs])
    axis, first = operator.axis, parts[0]
    whole = all(part.view is None and part.shape == context.tensors[part.tensor].shape for part in parts)
    if whole and len(shape) in (2, 4) and axis == 1:
        sources = [(i, channel) for i, part in enumerate(parts) for channel in range(part.shape[1])]
        return pending_result(node, joined(parts, tuple(sources)), shape)
    if all((part.tensor, part.quantization) == (first.tensor, first.quantization) for part in parts):
        elements = np.concatenate([elements_of(context, part) for part in parts], axis)
        return seen_as(context, first, elements)
    return _joined(context, node, parts, axis, shape)


def _joined(
    context: ImportContext, node: OnnxNode, parts: tuple[Real, ...], axis: int, shape: tuple[int, ...]
) -> Pending:
    """A Concat of different tensors: it joins whole channels or whole positions."""
    channels = _channel_axes(context, parts, len(shape))
    order = [0, *channels, *[i for i in range(1, len(shape)) if i not in channels]]
    cut = 1 + len(channels)
    sizes = [shape[i] for i in order]
    natural = (sizes[0], prod(sizes[1:cut]), prod(sizes[cut:]), 1)
    placed = np.arange(prod(shape)).reshape(sizes).transpose(np.argsort(order))
    ends = np.cumsum([part.shape[axis] for part in parts])[:-1].tolist()
    if axis in channels:
        source = np.empty(natural[1], np.int64)
        of_part = np.empty(natural[1], np.int64)
        taken = [_channels_of(context, node, part, order, cut) for part in parts]
        for number, (piece, (_, own)) in enumerate(zip(np.split(placed, ends, axis), taken, strict=True)):
            there = piece.transpose(order)[0].reshape(-1, natural[2])[:, 0] // natural[2]
            source[there], of_part[there] = own, number
        sources = tuple(zip(of_part.tolist(), source.tolist(), strict=True))
        operation = joined(tuple([data for data, _ in taken]), sources)
    else:
        moved = tuple([_own_tensor(context, node, part, order, cut) for part in parts])
        index, start = np.empty((natural[0], natural[2]), np.int64), 0
        for piece, data in zip(np.split(placed, ends, axis), moved, strict=True):
            images, _, height, width = context.tensors[data.tensor].nchw
            positions = height * width
            own = piece.transpose(order).reshape(images, -1, positions)[:, 0]
            here = start + np.arange(images * positions).reshape(images, positions)
            index[own // (natural[1] * natural[2]), own % natural[2]] = here
            start += images * positions
        operation = moved_to(moved, index[..., None])
    view = None if np.array_equal(placed.reshape(-1), np.arange(placed.size)) else placed
    return pending_result(node, operation, natural, shape=shape, view=view)


def _channel_axes(context: ImportContext, parts: tuple[Real, ...], rank: int) -> list[int]:
    """Axes of the parts along which the channel changes, if each axis changes only the channel or only the position;
    else the last axis."""
    of_channels: set[int] = set()
    of_places: set[int] = set()
    for part in parts:
        _, channels, height, width = context.tensors[part.tensor].nchw
        elements, plane = elements_of(context, part), height * width
        channel, place = (
            elements // plane % channels,
            elements // (channels * plane) * plane + elements % plane,
        )
        for axis in range(rank):
            if (channel != np.take(channel, [0], axis)).any():
                of_channels.add(axis)
            if (place != np.take(place, [0], axis)).any():
                of_places.add(axis)
    if 0 in of_channels or of_channels & of_places or not of_channels:
        return [rank - 1]
    return sorted(of_channels)


def _channels_of(
    context: ImportContext, node: OnnxNode, part: Real, order: list[int], cut: int
) -> tuple[Real, np.ndarray]:
    """(tensor, channels in it) of a part that is whole channels with all positions in their order: the part's own
    tensor if possible, else a new one."""
    elements = elements_of(context, part).transpose(order)
    images, channels, height, width = context.tensors[part.tensor].nchw
    plane = height * width
    rows = elements.reshape(elements.shape[0], prod(elements.shape[1:cut]), -1)
    own = rows[0, :, 0] // plane
    first = np.arange(images)[:, None, None] * channels * plane
    wanted = first + own[:, None] * plane + np.arange(plane)
    if rows.shape == wanted.shape and np.array_equal(rows, wanted):
        return part, own
    moved = _own_tensor(context, node, part, order, cut)
    return moved, np.arange(context.tensors[moved.tensor].nchw[1])


def _own_tensor(context: ImportContext, node: OnnxNode, part: Real, order: list[int], cut: int) -> Real:
    """A part as a tensor with channels and positions from the axes `order[:cut]` and `order[cut:]`: the part's own
    tensor if it has this form, else a new one."""
    elements = elements_of(context, part).transpose(order)
    shape = elements.shape
    wanted = (shape[0], prod(shape[1:cut]), prod(shape[cut:]), 1)
    if np.array_equal(elements.reshape(-1), np.arange(context.tensors[part.tensor].size)):
        _, channels, height, width = context.tensors[part.tensor].nchw
        if (channels, height * width) == wanted[1:3]:
            return part
    return arranged(context, node, part, elements.reshape(wanted))


def _part(context: ImportContext, node: OnnxNode, index: int) -> Real:
    """An operand of Concat as a quantized tensor; a constant is stored as one."""
    value = context.value(node, index)
    if not isinstance(value, QuantizedConstant):
        return real_operand(context, node, index, viewed=True)
    if value.axis is not None or len(value.shape) not in (2, 3, 4):
        context.fail(node, "joins a constant with one scale per channel", "quantize it per tensor")
    dtype = activation_type(context, node, value.integers.dtype)
    grid = Quantization(scale=np.float32(value.scale), zero_point=int(value.zero_point), dtype=dtype)
    stored = (value.integers.astype(np.int16) - grid.offset).astype(np.int8)
    natural, view = natural_of(value.shape), None
    if len(value.shape) == 3:
        batch, channels, length, _ = natural
        view = np.arange(stored.size).reshape(batch, channels, length).swapaxes(1, 2)
        stored = stored.swapaxes(1, 2)
    tensor = context.store_constant(f"{node.name}.constant", stored.reshape(natural), grid)
    return Real(tensor=tensor, shape=value.shape, quantization=grid, view=view)


def joined(parts: tuple[Real, ...], sources: tuple[Pair, ...]) -> Waiting:
    """Joined channels of tensors: channel c is `sources`[c] = (part, channel). The parts are rescaled to the result's
    grid first."""

    def added(context: ImportContext, to: Rounding) -> str:
        return to.append(context, Channels(sources=sources), rescale_all(context, parts, to))

    return Waiting(round=added)


def moved_to(parts: tuple[Real, ...], index: np.ndarray) -> Waiting:
    """Moved positions of tensors, see `int8_operators.Positions`; `index` -1 is 0. The parts are rescaled to the
    result's grid first: they have fewer elements than the result."""

    def added(context: ImportContext, to: Rounding) -> str:
        operator = Positions(index=index, fill=to.grid.stored_zero_point)
        return to.append(context, operator, rescale_all(context, parts, to))

    return Waiting(round=added)
