"""Moves of elements in integer graphs: Permute, Remap, Gather and Concatenate of quantized values.

The values are unchanged. Moves of whole channels of images become a node; all other moves become a view of a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
from onnx import TensorProto

from ....graph.graph import Shape
from ....graph.int8_operators import Channels, Positions
from ....graph.operators import Concatenate, Gather, Permute, Remap
from ....te.blocks import Pair
from ....te.ops.movement import Runs
from ..attributes import OnnxNode
from ..emit import Rounding, real_operand
from ..integer_context import Edges, ImportContext, pending_result
from ..known_values import QuantizedConstant
from ..operations import Opaque
from ..own_grids import common
from ..rescaling import rescale_all
from ..strided_views import (
    arranged,
    check_size,
    contiguous,
    elements_of,
    is_line,
    natural_of,
    with_view,
    without_pads,
)
from ..values import FloatInput, Integer, Pending, Real, Value
from .quantized_constants import stored_constant

SHUFFLE = (0, 2, 1, 3, 4)
"""The permutation of (N, groups, channels, H, W) that moves only whole channels."""

Movable = Real | Integer | Pending


def permuted(context: ImportContext, node: OnnxNode, operator: Permute, edges: Edges) -> Value:
    """The value `edges.inputs[0]` with its axes in the order of `operator`. The result is a view: elements are moved
    only if a later operator needs them in this order. The permutation `SHUFFLE` of whole channels becomes a node
    instead.
    """
    value, axes = context.values[edges.inputs[0]], operator.axes
    match value:
        case QuantizedConstant(integers=integers, axis=axis):
            moved = None if axis is None else axes.index(axis)
            return replace(value, integers=integers.transpose(axes), axis=moved)
        case FloatInput() if (order := _host_order(value, axes)) is not None:
            return replace(value, permutation=order, shape=_permuted(value.shape, axes))
        case Real(view=None) if axes == SHUFFLE:
            batch, groups, inside, *plane = value.shape
            stored = context.tensors[value.tensor].shape
            if stored == (batch, groups * inside, *plane):
                sources = tuple([(0, g * inside + i) for i in range(inside) for g in range(groups)])
                return _of_channels(
                    node, value, sources, stored, (batch, inside, groups, *plane), edges.output
                )
    movable = _movable(context, node, edges.inputs[0])
    return with_view(context, movable, elements_of(context, movable).transpose(axes))


def _host_order(value: FloatInput, axes: Sequence[int]) -> tuple[int, ...] | None:
    """The order of axes in which the host can pass the model input `value`, so that the model's Transpose by `axes`
    needs no node. Returns None if the model reshapes the input before the Transpose. (Added and removed axes of size 1
    do not count as a reshape.)
    """
    before = value.permutation or tuple(range(len(value.declared)))
    if value.shape == _permuted(value.declared, before):
        return tuple([before[axis] for axis in axes])
    long = [axis for axis in before if value.declared[axis] != 1]
    own = [axis for axis, size in enumerate(value.shape) if size != 1]
    if [value.declared[axis] for axis in long] != [value.shape[axis] for axis in own]:
        return None
    moved = [long[own.index(axis)] for axis in axes if axis in own]
    return (*[axis for axis in before if axis not in long], *moved)


def _permuted(shape: tuple[int, ...], permutation: tuple[int, ...] | None) -> tuple[int, ...]:
    return shape if permutation is None else tuple([shape[axis] for axis in permutation])


def remapped(context: ImportContext, node: OnnxNode, operator: Remap, edges: Edges) -> Value:
    """The result, of shape `edges.shape`, of a Remap of a value: slices, parts, repeats and pads along each axis."""
    if node.op_type == "Pad":
        return _padded(context, node, operator, edges.shape)
    data = _movable(context, node, edges.inputs[0])
    positions = [_positions(runs) for runs in operator.runs]
    if not prod(edges.shape):
        context.fail(
            node,
            f"its output is empty: it takes no element of its input of shape {data.shape}",
            "remove the node",
        )
    whole = _unmoved_axes(positions, data.shape)
    if all(whole):
        return data
    if (
        isinstance(data, Real)
        and _is_plain(context, data)
        and all((*whole[:1], *whole[2:]))
        and (np.diff(positions[1]) > 0).all()
    ):
        sources = tuple([(0, channel) for channel in positions[1].tolist()])
        return _of_channels(node, data, sources, edges.shape, edges.shape, edges.output)
    check_size(context, node, edges.shape)
    return with_view(context, data, elements_of(context, data)[np.ix_(*positions)])


def _positions(runs: Runs) -> np.ndarray:
    """The source index of each output element along one axis of a Remap; -1 for a fill value. `runs`: the axis's runs
    of equally spaced indices.
    """
    parts = [
        np.full(run.count, -1) if run.first is None else run.first + run.step * np.arange(run.count)
        for run in runs
    ]
    return np.concatenate([np.empty(0, np.int64), *parts])


def _unmoved_axes(positions: Sequence[np.ndarray], shape: tuple[int, ...]) -> list[bool]:
    """For each axis, whether no element moves along it. This is so if its `positions` (source index of each output
    index) are 0, 1, 2 ... up to the last index of the axis.
    """
    return [np.array_equal(places, np.arange(size)) for places, size in zip(positions, shape, strict=True)]


def _padded(context: ImportContext, node: OnnxNode, operator: Remap, shape: Shape) -> Real | Pending:
    """The result, of shape `shape`, of a Pad; pads are zeros, another constant, or elements of the tensor."""
    data = real_operand(context, node, 0, viewed=True)
    positions = [_positions(runs) for runs in operator.runs]
    zeros = any((places < 0).any() for places in positions)
    if zeros and operator.fill:
        from .filled_pads import filled

        return filled(context, node, data, positions, operator.fill)
    if not prod(shape):
        context.fail(
            node,
            f"its output is empty: its pads leave no element of its input of shape {data.shape}",
            "remove the node",
        )
    check_size(context, node, shape)
    if all(_unmoved_axes(positions, data.shape)):
        return data
    elements = elements_of(context, data)[np.ix_(*positions)]
    for axis, places in enumerate(positions):
        np.moveaxis(elements, axis, 0)[places < 0] = -1
    plain = data.view is None and (len(shape) != 3 or is_line(context, data))
    data = with_view(context, data, elements)
    if plain:
        return contiguous(context, node, data)
    # Operators of processors read no views, and zeros of a view are integers of the tensor's own zero point.
    zero = context.tensors[data.tensor].grid.stored_zero_point
    if zeros and (context.abilities.processor or zero != data.quantization.stored_zero_point):
        return without_pads(context, node, data)
    return data


def gathered(context: ImportContext, node: OnnxNode, operator: Gather, edges: Edges) -> Value:
    """The elements of the value `edges.inputs[0]` at constant indices along an axis, in the shape `edges.shape`."""
    data, axis = _movable(context, node, edges.inputs[0]), operator.axis
    indices = np.array(operator.indices, np.int64)
    elements = np.take(elements_of(context, data), indices, axis)
    return with_view(context, data, elements.reshape(edges.shape))


def import_cast(context: ImportContext, node: OnnxNode) -> bool:
    """Imports a Cast of a quantized tensor to float32, which changes nothing; returns False for any other Cast."""
    data = context.value(node, 0)
    if not isinstance(data, Real | Pending) or node.integer("to", 0) != TensorProto.FLOAT:
        return False
    context.bind(node, data)
    return True


def _movable(context: ImportContext, node: OnnxNode, name: str) -> Movable:
    """The value called `name`, whose elements can be moved; raises ModelError for other values."""
    value = context.values[name]
    if not isinstance(value, Real | Integer | Pending):
        context.refuse_float(node, 0, value)
    return value


def _is_plain(context: ImportContext, data: Real) -> bool:
    """Whether a value consists of all elements of its tensor in their order."""
    return data.view is None and data.shape == context.tensors[data.tensor].shape


def _of_channels(
    node: OnnxNode,
    data: Real,
    sources: tuple[Pair, ...],
    natural: tuple[int, ...],
    shape: tuple[int, ...],
    output: str,
) -> Pending:
    """Selects channels of the tensor `data`. Returns a pending result, which the next QuantizeLinear rounds.

    Entry c of `sources` is (0, channel of `data`) for channel c of the result. `natural`: (N, C, H, W) of the new
    tensor; `shape`: shape of the node's output in the model, to which the new tensor is reshaped.
    """
    operation = joined((data,), sources)
    return Pending(name=output, members=(node.name,), operation=operation, natural=natural, shape=shape)


def concatenated(
    context: ImportContext, node: OnnxNode, operator: Concatenate, edges: Edges
) -> Real | Pending:
    """Imports a Concat along any axis. If all inputs are parts of one stored tensor, the result is a view of this
    tensor; else the result is a new tensor. `edges`: names of the inputs, and name and shape of the output.
    """
    parts = tuple([_concat_operand(context, node, node.inputs.index(name)) for name in edges.inputs])
    axis, first = operator.axis, parts[0]
    whole = all(part.view is None and part.shape == context.tensors[part.tensor].shape for part in parts)
    if whole and len(edges.shape) in (2, 4) and axis == 1:
        sources = [(i, channel) for i, part in enumerate(parts) for channel in range(part.shape[1])]
        return pending_result(node, joined(parts, tuple(sources)), edges.shape)
    if all((part.tensor, part.quantization) == (first.tensor, first.quantization) for part in parts):
        elements = np.concatenate([elements_of(context, part) for part in parts], axis)
        return with_view(context, first, elements)
    return _joined(context, node, parts, axis, edges.shape)


def _joined(
    context: ImportContext, node: OnnxNode, parts: tuple[Real, ...], axis: int, shape: tuple[int, ...]
) -> Pending:
    """Imports a Concat of the tensors `parts`, which are stored separately, along `axis`; the result has `shape`. The
    Concat becomes a move of whole channels or of whole positions (pixels). Returns a pending result, which the next
    QuantizeLinear rounds.
    """
    channels = channel_axes(context, parts, len(shape))
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


def channel_axes(context: ImportContext, parts: tuple[Real, ...], rank: int) -> list[int]:
    """The axes of the values `parts` along which neighbouring elements are in different channels of the stored tensors.
    `rank`: number of axes of each value.

    In three cases only the last axis is returned: no axis reads different channels, the batch axis reads different
    channels, or one of the found axes also reads different pixels. For vectors (rank 1) there are no such axes, since
    each element is an image.
    """
    if rank == 1:
        return []
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
    """Returns a tensor that stores the value `part`, and the indices of the tensor's channels that hold it.

    In this tensor the axes `order[:cut]` of `part` are the image and the channels, and the axes `order[cut:]` are the
    positions (pixels). The tensor that already stores `part` is returned if `part` consists of whole channels there.
    Otherwise the elements of `part` are copied to a new tensor.
    """
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
    """Returns a tensor that holds only the value `part`, with the axes `order[:cut]` as image and channels and the axes
    `order[cut:]` as positions (pixels). If the tensor that stores `part` does not have this layout, the elements are
    copied to a new tensor.
    """
    elements = elements_of(context, part).transpose(order)
    shape = elements.shape
    wanted = (shape[0], prod(shape[1:cut]), prod(shape[cut:]), 1)
    if np.array_equal(elements.reshape(-1), np.arange(context.tensors[part.tensor].size)):
        _, channels, height, width = context.tensors[part.tensor].nchw
        if (channels, height * width) == wanted[1:3]:
            return part
    return arranged(context, node, part, elements.reshape(wanted))


def _concat_operand(context: ImportContext, node: OnnxNode, index: int) -> Real:
    """Input `index` of a Concat as a quantized tensor; a constant is first stored as a tensor."""
    value = context.value(node, index)
    if not isinstance(value, QuantizedConstant):
        return real_operand(context, node, index, viewed=True)
    stored, grid = stored_constant(context, node, value)
    if len(value.shape) not in (2, 3, 4):
        context.fail(
            node,
            f"a constant of shape {value.shape} is not supported",
            "reshape the tensors to two, three or four dimensions",
        )
    natural, view = natural_of(value.shape), None
    if len(value.shape) == 3:
        batch, channels, length, _ = natural
        view = np.arange(stored.size).reshape(batch, channels, length).swapaxes(1, 2)
        stored = stored.swapaxes(1, 2)
    tensor = context.store_constant(f"{node.name}.constant", stored.reshape(natural), grid)
    return Real(tensor=tensor, shape=value.shape, quantization=grid, view=view)


def joined(parts: tuple[Real, ...], sources: tuple[Pair, ...]) -> Opaque:
    """Makes the pending operation (rounded by the next QuantizeLinear) that joins channels of the tensors `parts`.
    Entry c of `sources` tells where channel c of the result comes from: (index of the part, channel of the part). The
    parts are first rescaled to the quantization of the result.
    """

    def added(context: ImportContext, to: Rounding) -> str:
        return to.append(context, Channels(sources=sources), rescale_all(context, parts, to))

    return Opaque(round=added, bounds=common(parts))


def moved_to(parts: tuple[Real, ...], index: np.ndarray) -> Opaque:
    """Makes the pending operation (rounded by the next QuantizeLinear) that moves positions (pixels) of the tensors
    `parts`. `index`: for each output position the input position, or -1 for zero (`int8_operators.Positions`). The
    parts, not the result, are rescaled to the result's quantization, since they have fewer elements than the result.
    """

    def added(context: ImportContext, to: Rounding) -> str:
        operator = Positions(index=index, fill=to.grid.stored_zero_point)
        return to.append(context, operator, rescale_all(context, parts, to))

    return Opaque(round=added, bounds=common(parts))
