"""Views through which values of an ONNX model read stored tensors: Transpose, Slice, Pad ... change the view and move
no elements.

A view is an int64 array in the value's shape. It has the row-major index of each element in the tensor (N, C, H, W), or
-1 for a zero. (In stored integers, a zero is the tensor's zero point.) A value without view has the tensor's elements
in their order. Elements are moved only for an operator that cannot read through a view: `contiguous` copies them to a
tensor in the value's order, and `rows_of` copies them to a tensor whose channels are the value's last axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeVar

import numpy as np

from ...graph.budgets import SMALLER
from ...graph.geometry import permutation_of
from ...graph.int8_convolution import Quantization
from ...graph.int8_operators import Channels, Int8Operator, Positions, Swap
from ...ir.limits import MOST_CONSTANT_BYTES
from ...te.blocks import Pair
from .attributes import OnnxNode
from .emit import append
from .integer_context import ImportContext
from .values import Integer, Pending, Real, reshaped

Natural = tuple[int, int, int, int]
MOST_CHOICES = 4
"""Limit for nodes that select channels. If a new tensor takes all its elements from one position (pixel), each
different selection of channels needs a node. If there are more selections than the limit, a single node exchanges
channels and positions instead.
"""


def natural_of(shape: tuple[int, ...]) -> Natural:
    """The shape (N, C, H, W) in which a tensor of rank 2, 3 or 4 is stored. A tensor of rank 3 is (N, S, C): channels
    are its last axis. Raises ValueError for other ranks.
    """
    match shape:
        case (batch, channels):
            return batch, channels, 1, 1
        case (batch, length, channels):
            return batch, channels, length, 1
        case (batch, channels, height, width):
            return batch, channels, height, width
        case _:
            raise ValueError(f"a tensor stored as images or rows has 2, 3 or 4 dimensions, not {len(shape)}")


def check_size(context: ImportContext, node: OnnxNode, shape: Sequence[int]) -> None:
    """Raises NodeError for a result of `shape` whose view would have more bytes than a constant may have."""
    size, most = prod(shape), MOST_CONSTANT_BYTES // np.dtype(np.int64).itemsize
    if size > most:
        context.fail(node, f"reorders {size:,} elements, more than {most:,}", SMALLER)


ValueT = TypeVar("ValueT", bound=Real | Integer | Pending)


def elements_of(context: ImportContext, value: Real | Integer | Pending) -> np.ndarray:
    """The view of a value: row-major indices of its elements in its tensor. For a value without a view, all indices in
    order.
    """
    if value.view is not None:
        return value.view
    size = prod(value.natural if isinstance(value, Pending) else context.tensors[value.tensor].shape)
    return np.arange(size).reshape(value.shape)


def transposed_view(shape: tuple[int, ...], order: Sequence[int]) -> np.ndarray:
    """Row-major indices for a value of `shape` that a tensor stores with its axes in the order `order`: for each
    element of the value, its index in the tensor.
    """
    sizes = [shape[axis] for axis in order]
    return np.arange(prod(shape)).reshape(sizes).transpose(np.argsort(order))


def with_view(context: ImportContext, value: ValueT, elements: np.ndarray) -> ValueT:
    """The value with another view of its tensor: `elements` gives the row-major index in the tensor for each element of
    the value.
    """
    size = prod(value.natural if isinstance(value, Pending) else context.tensors[value.tensor].shape)
    plain = elements.size == size and np.array_equal(elements.reshape(-1), np.arange(size))
    return replace(value, shape=elements.shape, view=None if plain else elements)


def same_view(a: Real | Pending, b: Real | Pending) -> bool:
    """Whether two values have equal views and shapes."""
    if a.view is None or b.view is None:
        return a.view is b.view and a.shape == b.shape
    return np.array_equal(a.view, b.view)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """A value in the form of rows of channels: all axes but the last enumerate pixels of a stored tensor, and the last
    axis is the tensor's channels. `places`: for each row, the number of its pixel in the tensor, counted row by row
    over all images. Each pixel occurs once.
    """

    data: Real
    places: np.ndarray

    def view(self, natural: Natural) -> np.ndarray:
        """For each element of the value, its row-major index in the tensor. `natural`: the tensor's shape."""
        return rows_view(self.places, natural)


def rows_view(places: np.ndarray, natural: Natural) -> np.ndarray:
    """The row-major indices of all channels at the positions (pixels) `places`, in a tensor of shape `natural`. The
    result has the shape of `places`, and the channels as an additional last axis.
    """
    _, channels, height, width = natural
    plane = height * width
    first = places // plane * (channels * plane) + places % plane
    return first[..., None] + np.arange(channels) * plane


def rows_of(context: ImportContext, node: OnnxNode, data: Real, *, in_order: bool = False) -> Rows:
    """Returns the value `data` as rows of channels: all axes but the last enumerate pixels of a stored tensor, and the
    last axis is the tensor's channels. A scalar is a row of one channel.

    If the stored tensor of `data` does not have this form, the elements are copied to a new tensor. With `in_order`,
    they are also copied if the pixels are not in the tensor's order.
    """
    natural = context.tensors[data.tensor].nchw
    batch, channels, height, width = natural
    positions = batch * height * width
    *lead, last = data.shape or (1,)
    if last == channels and prod(lead) == positions:
        elements, plane = elements_of(context, data).reshape(*lead, last), height * width
        first = elements[..., 0]
        places = first // (channels * plane) * plane + first % plane
        if (
            (first >= 0).all()
            and (not in_order or np.array_equal(places.reshape(-1), np.arange(positions)))
            and np.array_equal(elements, rows_view(places, natural))
            and (np.bincount(places.reshape(-1), minlength=positions) == 1).all()
        ):
            return Rows(data=data, places=places)
    return _moved_rows(context, node, data)


def _moved_rows(context: ImportContext, node: OnnxNode, data: Real) -> Rows:
    """Copies the value `data` to a new tensor whose channels are the value's last axis. If the value has more than two
    axes, its first axis is the new tensor's batch axis.
    """
    *lead, last = data.shape or (1,)
    images = lead[0] if len(lead) > 1 else 1
    wanted = (images, last, prod(lead) // images, 1)
    elements = elements_of(context, data).reshape(images, -1, last).transpose(0, 2, 1)
    moved = arranged(context, node, data, elements.reshape(wanted))
    places = np.arange(prod(lead)).reshape(lead)
    return Rows(
        data=replace(moved, shape=data.shape, view=rows_view(places, wanted).reshape(data.shape)),
        places=places,
    )


def without_pads(context: ImportContext, node: OnnxNode, data: Real) -> Real:
    """The value `data` without padding zeros that exist only in its view. If there are such zeros, the value is copied
    to a new tensor that stores them. The new tensor's channels are the value's last axis if each row lies in the
    channels of one pixel, else the value's second axis.
    """
    if data.view is None or (data.view >= 0).all():
        return data
    rank, (_, channels, height, width) = data.view.ndim, context.tensors[data.tensor].nchw
    stored = np.ma.masked_less(data.view, 0)
    channel = stored // (height * width) % channels
    pixel = stored - channel * (height * width)
    across = [axis for axis in range(rank) if np.ma.ptp(channel, axis).any()]
    image = across not in ([], [rank - 1]) or np.ma.ptp(pixel, rank - 1).any()
    if image and rank in (2, 3, 4):
        return contiguous(context, node, data)
    return rows_of(context, node, data).data


def with_pads_for(context: ImportContext, node: OnnxNode, value: Integer, read: Quantization) -> Integer:
    """The integers `value`, prepared for a DequantizeLinear with the quantization `read`. Padding zeros that exist only
    in the view of `value` are integers equal to the zero point of the stored tensor. If `read` has another zero point,
    the value is copied to a new tensor that stores the padding integers.
    """
    grid = context.tensors[value.tensor].grid
    if grid.stored_zero_point == read.stored_zero_point or value.view is None or (value.view >= 0).all():
        return value
    stored = without_pads(context, node, context.as_real(value, grid))
    return replace(value, tensor=stored.tensor, view=stored.view)


def contiguous(context: ImportContext, node: OnnxNode, data: Real) -> Real:
    """The value `data` as a whole tensor. If `data` is a view, its elements are copied in their order to a new tensor.
    A line (N, C, L) is stored as (N, C, L, 1). Raises NodeError for a view of fewer than 2 or more than 4 dimensions.
    """
    if context.is_contiguous(data):
        return data
    if len(data.shape) not in (2, 3, 4):
        context.fail(
            node,
            f"reads a tensor of shape {data.shape} whose elements are not stored in row-major order, which is not "
            "supported",
            "reshape the tensor to (N, C, H, W), (N, C, L) or (N, K) first",
        )
    shape = (*data.shape, 1) if len(data.shape) == 3 else natural_of(data.shape)
    moved = arranged(context, node, data, elements_of(context, data).reshape(shape))
    return replace(moved, shape=data.shape, view=None)


def is_line(context: ImportContext, data: Real) -> bool:
    """Whether a value is a line (N, C, L) stored as (N, C, L, 1)."""
    return data.view is None and context.tensors[data.tensor].nchw == (*data.shape, 1)


def line_of(context: ImportContext, node: OnnxNode, data: Real) -> Real:
    """The image (N, C, L, 1) of a line (N, C, L). If the line's tensor does not hold its elements in this shape and
    order, they are copied to a new tensor.
    """
    return contiguous(context, node, reshaped(data, (*data.shape, 1)))


def is_whole(context: ImportContext, value: Real) -> bool:
    """Whether a value contains each element of its tensor exactly once."""
    if value.view is None:
        return True
    size = prod(context.tensors[value.tensor].shape)
    places = value.view.reshape(-1)
    return (
        places.size == size and places.min() >= 0 and bool((np.bincount(places, minlength=size) == 1).all())
    )


def lying_like(context: ImportContext, node: OnnxNode, value: Real, other: Real) -> Real:
    """`value` in a tensor with the memory layout of the tensor of `other`. Both values have the same shape; `other`
    contains each element of its tensor exactly once (`is_whole`).
    """
    natural, theirs = context.tensors[other.tensor].nchw, elements_of(context, other)
    elements = elements_of(context, value)
    if natural == context.tensors[value.tensor].nchw and np.array_equal(theirs, elements):
        return replace(value, view=other.view)
    there = np.empty(theirs.size, np.int64)
    there[theirs.reshape(-1)] = elements.reshape(-1)
    moved = arranged(context, node, value, there.reshape(natural))
    return replace(moved, shape=other.shape, view=other.view)


def readable(context: ImportContext, node: OnnxNode, value: Real | Integer) -> Real | Integer:
    """Prepares `value`, an output of the model, for the host, which reads it. On processors a node converts the output;
    this node supports only transpositions of whole tensors, so an output with another view is first copied to a tensor
    of its own.
    """
    view, size = value.view, prod(context.tensors[value.tensor].shape)
    whole = view is None or (view.size == size and permutation_of(view) is not None)
    if whole or not context.abilities.processor:
        return value
    real = value if isinstance(value, Real) else context.as_real(value, context.tensors[value.tensor].grid)
    images = len(value.shape) in (2, 4)
    moved = contiguous(context, node, real) if images else rows_of(context, node, real).data
    if moved.view is not None and permutation_of(moved.view) is None:
        # An axis spans images and positions: the rows of one image follow those of another.
        moved = _moved_rows(context, node, real).data
    return replace(value, tensor=moved.tensor, view=moved.view)


def arranged(
    context: ImportContext, node: OnnxNode, data: Real, elements: np.ndarray, *, again: bool = True
) -> Real:
    """Makes a tensor of shape (N, C, H, W) from elements of the tensor that stores `data`. `elements`, int64 (N, C, H,
    W): for each element of the new tensor, its row-major index in the stored tensor (-1: zero).

    Adds nodes that move whole positions (pixels) and channels. If these moves are not enough and `again` is True, adds
    an exchange of channels and positions before them. Raises NodeError if the moves still do not suffice.
    """
    zero = data.quantization.stored_zero_point
    key = (data.tensor, (*elements.shape, zero), elements.tobytes())
    if key in context.moved:
        return Real(tensor=context.moved[key], shape=elements.shape, quantization=data.quantization)
    _, channels, height, width = context.tensors[data.tensor].nchw
    plane, shape = height * width, elements.shape
    flat = elements.reshape(shape[0], shape[1], -1).transpose(1, 0, 2).reshape(shape[1], -1)
    image, channel, place = flat // (channels * plane), flat // plane % channels, flat % plane
    filled = flat < 0
    source = np.where(filled, -1, channel).max(axis=1)
    if not (filled | (channel == source[:, None])).all():
        places = np.where(filled, -1, image * plane + place)
        # Channels of one place become places by an exchange, without a node for each.
        exchanged = (
            again and (place == place[0, 0]).all() and np.unique(channel, axis=1).shape[1] > MOST_CHOICES
        )
        if (places == places[:1]).all() and not exchanged:
            tensor = context.moved[key] = _gathered(
                context, node, data, np.where(filled, 0, channel), places[0], shape
            )
            return Real(tensor=tensor, shape=shape, quantization=data.quantization)
        if not again:
            context.fail(
                node,
                f"its input reorders a tensor of shape {context.tensors[data.tensor].shape} in a way that is not "
                "supported: neither channels nor positions stay together",
                "export the model in (N, C, H, W) layout",
            )
        # Element (n, c, p) becomes (n, p, c). Accelerators exchange only the blocks of channels in use, processors
        # all.
        block = context.abilities.block
        first = int(channel[~filled].min()) // block * block
        count = min(-(-(int(channel[~filled].max()) + 1 - first) // block) * block, channels - first)
        if 2 * count > channels or context.abilities.processor:
            first, count = 0, channels
        there = np.where(filled, -1, (image * plane + place) * count + channel - first)
        there = there.reshape(shape[1], shape[0], -1).transpose(1, 0, 2).reshape(shape)
        positions = shape[2:] if shape[2] * shape[3] == count else (count, 1)
        exchange = swapped(context, node, data, height * width, positions, (first, count))
        exchanged = replace(data, tensor=exchange, shape=context.tensors[exchange].shape, view=None)
        return arranged(context, node, exchanged, there, again=False)
    places = np.where(filled, -1, image * plane + place)
    groups: dict[bytes, int] = {}
    parts: list[str] = []
    sources: list[tuple[int, int]] = []
    for of, line in zip(source.tolist(), places, strict=True):
        if (same := line.tobytes()) not in groups:
            groups[same] = len(parts)
            parts.append(moved_positions(context, node, data, line.reshape(shape[0], *shape[2:])))
        sources.append((groups[same], max(of, 0)))
    tensor = parts[0]
    if len(parts) > 1 or sources != [(0, channel) for channel in range(channels)]:
        joined = Channels(sources=tuple(sources))
        tensor = _append(context, node, data, joined, tuple(parts), shape)
    context.moved[key] = tensor
    return Real(tensor=tensor, shape=shape, quantization=data.quantization)


def _gathered(
    context: ImportContext,
    node: OnnxNode,
    data: Real,
    channel: np.ndarray,
    places: np.ndarray,
    shape: Natural,
) -> str:
    """Adds nodes that compute a tensor of shape `shape` from the tensor of `data`; returns the new tensor's name.
    Position (pixel) p of the new tensor consists of the channels `channel`[:, p] of the old position `places`[p].

    The nodes are a Channels for each different selection of channels in `channel`, and then one Positions.
    """
    batch, _, height, width = context.tensors[data.tensor].nchw
    parts: dict[bytes, str] = {}
    which = np.empty_like(places)
    for position, column in enumerate(channel.T):
        if (same := column.tobytes()) not in parts:
            taken = Channels(sources=tuple([(0, of) for of in column.tolist()]))
            natural = (batch, shape[1], height, width)
            parts[same] = _append(context, node, data, taken, (data.tensor,), natural)
        which[position] = list(parts).index(same)
    index = np.where(places < 0, -1, which * (batch * height * width) + places)
    operator = Positions(index=index.reshape(shape[0], *shape[2:]), fill=data.quantization.stored_zero_point)
    return _append(context, node, data, operator, tuple(parts.values()), shape)


def moved_positions(
    context: ImportContext,
    node: OnnxNode,
    data: Real,
    index: np.ndarray,
    taken: Pair | None = None,
    *,
    filled: bool = True,
) -> str:
    """Adds a tensor that is made of pixels of `data`'s tensor; returns its name, or the name of `data`'s tensor if
    nothing moves.

    `index` (N, H, W): for each pixel of the new tensor, the number of its source pixel, counted row by row over all
    images. -1 stands for zeros or, if `filled` is false, for arbitrary values. `taken` (first, count): the channels
    that the new tensor has; None takes all.
    """
    batch, channels, height, width = context.tensors[data.tensor].nchw
    first, count = taken or (0, channels)
    alike = index.shape == (batch, height, width) and count == channels
    if alike and np.array_equal(index.reshape(-1), np.arange(index.size)):
        return data.tensor
    shape = (index.shape[0], count, index.shape[1], index.shape[2])
    some = None if count == channels else (first, count)
    fill = data.quantization.stored_zero_point if filled else None
    operator = Positions(index=index, fill=fill, channels=some)
    key = (data.tensor, (*shape, first, fill), index.tobytes())
    return _moved_once(context, node, data, operator, shape, key)


def swapped(
    context: ImportContext,
    node: OnnxNode,
    data: Real,
    positions: int,
    plane: tuple[int, int],
    taken: Pair | None = None,
) -> str:
    """Adds a new tensor in which the channels and the positions (pixels) of `data`'s tensor are exchanged; returns its
    name. `positions`: the first `positions` old positions become channels. `taken` (first channel, number of channels):
    the old channels that become positions; None takes all channels. `plane`: rows and columns of the new positions.
    """
    batch, channels, _, _ = context.tensors[data.tensor].nchw
    shape, some = (batch, positions, *plane), None if taken == (0, channels) else taken
    operator, key = Swap(positions=positions, channels=some), (data.tensor, (*shape, *(some or ())), b"")
    return _moved_once(context, node, data, operator, shape, key)


def _moved_once(
    context: ImportContext,
    node: OnnxNode,
    data: Real,
    operator: Int8Operator,
    shape: tuple[int, int, int, int],
    key: tuple[str, tuple[int | None, ...], bytes],
) -> str:
    """Applies `operator` to the tensor of `data`; returns the name of the result, which has `shape`. The result of an
    earlier node with the same `key` is reused.
    """
    if key not in context.moved:
        context.moved[key] = _append(context, node, data, operator, (data.tensor,), shape)
    return context.moved[key]


def _append(
    context: ImportContext,
    node: OnnxNode,
    data: Real,
    operator: Int8Operator,
    inputs: tuple[str, ...],
    shape: tuple[int, ...],
) -> str:
    kind = type(operator).__name__.lower()
    tensor = context.declare(f"{node.name}.{kind}", shape, data.quantization)
    return append(context, (node.name,), f"{node.name}.{kind}", operator, inputs, tensor)
