"""Operators of quantized models that move elements (join, split, slice, shuffle, pad), for every target.

The values are unchanged. Moves of whole channels of images become a node; all other moves become a view of a tensor.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from onnx import TensorProto

from ..te.blocks import Pair
from .onnx_axes import (
    blocks_of_space,
    expanded_shape,
    padded_ends,
    permutation,
    sliced_positions,
    split_sizes,
    taken_indices,
)
from .onnx_context import ImportContext, OnnxNode
from .onnx_emit import real_operand
from .onnx_strided_views import check_size, elements_of, is_line, rows_of, seen_as, settled
from .onnx_values import FloatInput, Integer, Joined, Pending, QuantizedConstant, Real


def _bind_channels(
    context: ImportContext,
    node: OnnxNode,
    parts: tuple[Real, ...],
    sources: tuple[Pair, ...],
    natural: tuple[int, ...],
    shape: tuple[int, ...],
    output: int,
) -> None:
    """Binds output `output` of the node to channels `sources` of `parts`."""
    name = node.outputs[output]
    operation = Joined(parts=parts, sources=sources)
    members = (node.name,)
    context.values[name] = Pending(
        name=name, members=members, operation=operation, natural=natural, shape=shape
    )


def import_slice(context: ImportContext, node: OnnxNode) -> bool:
    """Imports a Slice; False for a constant operand."""
    data = context.value(node, 0)
    if not isinstance(data, Real | Integer | Pending):
        return False
    positions = sliced_positions(context, node, data.shape)
    others = [p == range(s) for p, s in zip(positions, data.shape, strict=True)]
    taken = positions[min(1, len(positions) - 1)]
    if not _is_plain(context, data) or taken.step < 1 or not all((*others[:1], *others[2:])):
        elements = elements_of(context, data)[np.ix_(*positions)]
        context.bind(node, seen_as(context, data, elements))
        return True
    assert isinstance(data, Real)
    shape = (data.shape[0], len(taken), *data.shape[2:])
    _bind_channels(context, node, (data,), tuple([(0, channel) for channel in taken]), shape, shape, 0)
    return True


def _is_plain(context: ImportContext, data: Real | Integer | Pending) -> bool:
    """Whether a value is a whole tensor with its elements in their order."""
    return isinstance(data, Real) and data.view is None and data.shape == context.tensors[data.tensor].shape


def import_split(context: ImportContext, node: OnnxNode) -> bool:
    """Imports a Split; False for a constant operand."""
    data = context.value(node, 0)
    if not isinstance(data, Real | Integer | Pending):
        return False
    axis, sizes = split_sizes(context, node, data.shape)
    if axis != 1 or not _is_plain(context, data):
        ends = np.cumsum(sizes)[:-1].tolist()
        for name, part in zip(node.outputs, np.split(elements_of(context, data), ends, axis), strict=True):
            context.values[name] = seen_as(context, data, part)
        return True
    assert isinstance(data, Real)
    start = 0
    for output, size in enumerate(sizes):
        shape = (data.shape[0], size, *data.shape[2:])
        sources = tuple([(0, channel) for channel in range(start, start + size)])
        _bind_channels(context, node, (data,), sources, shape, shape, output)
        start += size
    return True


def import_shuffle(context: ImportContext, node: OnnxNode) -> bool:
    """Imports a Transpose of (N, groups, channels, H, W) that moves channels only; False for any other."""
    data = context.value(node, 0)
    if not isinstance(data, Real) or data.view is not None or node.integers("perm", ()) != (0, 2, 1, 3, 4):
        return False
    batch, groups, inside, *plane = data.shape
    stored = context.tensors[data.tensor].shape
    if stored != (batch, groups * inside, *plane):
        return False
    sources = tuple([(0, g * inside + i) for i in range(inside) for g in range(groups)])
    _bind_channels(context, node, (data,), sources, stored, (batch, inside, groups, *plane), 0)
    return True


def import_gather(context: ImportContext, node: OnnxNode) -> bool:
    """Imports a Gather with constant indices; False for constant data."""
    data = context.value(node, 0)
    if not isinstance(data, Real | Integer | Pending):
        return False
    axis, indices = taken_indices(context, node, data.shape)
    elements = np.take(elements_of(context, data), indices, axis)
    context.bind(node, seen_as(context, data, elements))
    return True


def import_expand(context: ImportContext, node: OnnxNode) -> bool:
    """Imports an Expand to a constant shape; False for constant data."""
    data = context.value(node, 0)
    if not isinstance(data, Real | Integer | Pending):
        return False
    shape = expanded_shape(context, node, data.shape)
    check_size(context, node, shape)
    context.bind(node, seen_as(context, data, np.broadcast_to(elements_of(context, data), shape)))
    return True


def import_cast(context: ImportContext, node: OnnxNode) -> bool:
    """Imports a Cast of a quantized tensor to float32, which changes nothing; False for any other."""
    data = context.value(node, 0)
    if not isinstance(data, Real | Pending) or node.integer("to", 0) != TensorProto.FLOAT:
        return False
    context.bind(node, data)
    return True


def import_blocks(context: ImportContext, node: OnnxNode) -> bool:
    """Imports DepthToSpace and SpaceToDepth; False for a constant operand."""
    data = context.value(node, 0)
    if not isinstance(data, Real | Integer | Pending):
        return False
    parts, axes, shape = blocks_of_space(context, node, data.shape)
    elements = elements_of(context, data).reshape(parts).transpose(axes).reshape(shape)
    context.bind(node, seen_as(context, data, elements))
    return True


def import_pad(context: ImportContext, node: OnnxNode) -> bool:
    """Imports a Pad with zeros or with elements of the tensor (reflect, edge ...); False for constant data."""
    data = context.value(node, 0)
    if not isinstance(data, Real | Pending):
        return False
    data = real_operand(context, node, 0, viewed=True)
    (pads, mode), value = padded_ends(context, node, data.shape), context.array(node, 2, "value")
    rank = len(data.shape)
    if mode == "constant" and value is not None and value.any():
        context.fail(node, "pads with other values than 0", "pad with zeros, or with what is there")
    if pads.min(initial=0) < 0:
        context.fail(node, "has no pads of 0 or more for each axis", "give it constant pads")
    check_size(
        context, node, [size + sum(ends) for size, ends in zip(data.shape, pads.tolist(), strict=True)]
    )
    if pads.any():
        filled: dict[str, Any] = {"constant_values": -1} if mode == "constant" else {}
        elements = np.pad(elements_of(context, data), pads, mode, **filled)
        plain = data.view is None
        rows = (rank == 3 and not is_line(context, data)) or (
            not plain and data.shape[-1] == context.tensors[data.tensor].nchw[1]
        )
        data = seen_as(context, data, elements)
        # Processors store the padded tensor: their operators read no views.
        if plain and not rows:
            data = settled(context, node, data)
        elif context.abilities.processor and mode == "constant":
            data = rows_of(context, node, data).data if rows else settled(context, node, data)
    context.bind(node, data)
    return True


def import_transpose(context: ImportContext, node: OnnxNode) -> None:
    """Imports a Transpose; it does not become a node."""
    value = context.first(node)
    order, is_view = permutation(context, node, value.shape)
    shape = tuple(value.shape[axis] for axis in order)
    match value:
        case QuantizedConstant(integers=integers, axis=axis):
            moved_axis = None if axis is None else order.index(axis)
            context.bind(node, replace(value, integers=integers.transpose(order), axis=moved_axis))
        case _ if is_view:
            context.bind_view(node, shape)
        case FloatInput(declared=declared, permutation=before) if value.shape == _permuted(declared, before):
            before = before or tuple(range(len(declared)))
            context.bind(node, replace(value, permutation=tuple(before[axis] for axis in order), shape=shape))
        case Real() | Integer() | Pending():
            # Elements move only when an operator needs them in this order.
            context.bind(node, seen_as(context, value, elements_of(context, value).transpose(order)))
        case _:
            context.fail(
                node,
                f"moves the dimensions {value.shape} to {shape} of what is not quantized",
                "quantize its input (QuantizeLinear, DequantizeLinear)",
            )


def _permuted(shape: tuple[int, ...], permutation: tuple[int, ...] | None) -> tuple[int, ...]:
    return shape if permutation is None else tuple(shape[axis] for axis in permutation)
