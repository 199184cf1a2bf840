"""Moves of elements in integer graphs: what Permute, Remap, Gather and Concatenate become there.

The values are unchanged. Moves of whole channels of images become a node; all other moves become a view of a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
from onnx import TensorProto

from ..te.blocks import Pair
from ..te.ops.movement import Runs
from .graph import Shape
from .onnx_attributes import OnnxNode
from .onnx_emit import real_operand
from .onnx_integer_context import ImportContext
from .onnx_joins import joined
from .onnx_strided_views import check_size, elements_of, is_line, rows_of, seen_as, settled
from .onnx_values import FloatInput, Integer, Pending, QuantizedConstant, Real, Value
from .operators import Gather, Permute, Remap

SHUFFLE = (0, 2, 1, 3, 4)
"""The permutation of (N, groups, channels, H, W) that moves channels only."""
Movable = Real | Integer | Pending


def permuted(
    context: ImportContext, node: OnnxNode, operator: Permute, inputs: tuple[str, ...], output: str, _: Shape
) -> Value:
    """A value with its axes in another order. Elements move only when an operator needs them in this order."""
    value, axes = context.values[inputs[0]], operator.axes
    match value:
        case QuantizedConstant(integers=integers, axis=axis):
            moved = None if axis is None else axes.index(axis)
            return replace(value, integers=integers.transpose(axes), axis=moved)
        case FloatInput(declared=declared, permutation=before) if value.shape == _permuted(declared, before):
            before = before or tuple(range(len(declared)))
            order = tuple([before[axis] for axis in axes])
            return replace(value, permutation=order, shape=_permuted(value.shape, axes))
        case Real(view=None) if axes == SHUFFLE:
            batch, groups, inside, *plane = value.shape
            stored = context.tensors[value.tensor].shape
            if stored == (batch, groups * inside, *plane):
                sources = tuple([(0, g * inside + i) for i in range(inside) for g in range(groups)])
                return _of_channels(node, value, sources, stored, (batch, inside, groups, *plane), output)
    movable = _movable(context, node, inputs[0])
    return seen_as(context, movable, elements_of(context, movable).transpose(axes))


def _permuted(shape: tuple[int, ...], permutation: tuple[int, ...] | None) -> tuple[int, ...]:
    return shape if permutation is None else tuple([shape[axis] for axis in permutation])


def remapped(
    context: ImportContext,
    node: OnnxNode,
    operator: Remap,
    inputs: tuple[str, ...],
    output: str,
    shape: Shape,
) -> Value:
    """Slices, parts, repeated elements and pads of a value."""
    if node.op_type == "Pad":
        return _padded(context, node, operator, shape)
    data = _movable(context, node, inputs[0])
    positions = [_positions(runs) for runs in operator.runs]
    if not prod(shape):
        context.fail(node, f"takes nothing of {data.shape}", "remove it")
    whole = _whole(positions, data.shape)
    if all(whole):
        return data
    if (
        isinstance(data, Real)
        and _is_plain(context, data)
        and all((*whole[:1], *whole[2:]))
        and (np.diff(positions[1]) > 0).all()
    ):
        sources = tuple([(0, channel) for channel in positions[1].tolist()])
        return _of_channels(node, data, sources, shape, shape, output)
    check_size(context, node, shape)
    return seen_as(context, data, elements_of(context, data)[np.ix_(*positions)])


def _positions(runs: Runs) -> np.ndarray:
    """The index of each element of the runs, -1 for a fill value."""
    parts = [
        np.full(run.count, -1) if run.first is None else run.first + run.step * np.arange(run.count)
        for run in runs
    ]
    return np.concatenate([np.empty(0, np.int64), *parts])


def _whole(positions: Sequence[np.ndarray], shape: tuple[int, ...]) -> list[bool]:
    """For each axis, whether its elements stay where they are."""
    return [np.array_equal(places, np.arange(size)) for places, size in zip(positions, shape, strict=True)]


def _padded(context: ImportContext, node: OnnxNode, operator: Remap, shape: Shape) -> Real:
    """A tensor with pads: zeros, or elements of the tensor (reflect, edge ...)."""
    data = real_operand(context, node, 0, viewed=True)
    positions = [_positions(runs) for runs in operator.runs]
    zeros = any((places < 0).any() for places in positions)
    if zeros and operator.fill:
        context.fail(node, "pads with other values than 0", "pad with zeros, or with what is there")
    if not prod(shape):
        context.fail(node, f"takes nothing of {data.shape}", "remove it")
    check_size(context, node, shape)
    if all(_whole(positions, data.shape)):
        return data
    elements = elements_of(context, data)[np.ix_(*positions)]
    for axis, places in enumerate(positions):
        np.moveaxis(elements, axis, 0)[places < 0] = -1
    plain = data.view is None
    rows = (len(shape) == 3 and not is_line(context, data)) or (
        not plain and data.shape[-1] == context.tensors[data.tensor].nchw[1]
    )
    data = seen_as(context, data, elements)
    # Processors store the padded tensor: their operators read no views.
    if plain and not rows:
        return settled(context, node, data)
    if context.abilities.processor and zeros:
        return rows_of(context, node, data).data if rows else settled(context, node, data)
    return data


def gathered(
    context: ImportContext, node: OnnxNode, operator: Gather, inputs: tuple[str, ...], _: str, shape: Shape
) -> Value:
    """Elements at constant indices along an axis."""
    data, axis = _movable(context, node, inputs[0]), operator.axis
    indices = np.array(operator.indices, np.int64)
    elements = np.take(elements_of(context, data), indices, axis)
    return seen_as(context, data, elements.reshape(shape))


def import_cast(context: ImportContext, node: OnnxNode) -> bool:
    """Imports a Cast of a quantized tensor to float32, which changes nothing; False for any other."""
    data = context.value(node, 0)
    if not isinstance(data, Real | Pending) or node.integer("to", 0) != TensorProto.FLOAT:
        return False
    context.bind(node, data)
    return True


def _movable(context: ImportContext, node: OnnxNode, name: str) -> Movable:
    """A value whose elements can be moved; fails on others."""
    value = context.values[name]
    if not isinstance(value, Real | Integer | Pending):
        context.refuse_float(node, 0, value)
    return value


def _is_plain(context: ImportContext, data: Real) -> bool:
    """Whether a value is a whole tensor with its elements in their order."""
    return data.view is None and data.shape == context.tensors[data.tensor].shape


def _of_channels(
    node: OnnxNode,
    data: Real,
    sources: tuple[Pair, ...],
    natural: tuple[int, ...],
    shape: tuple[int, ...],
    output: str,
) -> Pending:
    """Channels `sources` of a tensor, which wait for their QuantizeLinear."""
    operation = joined((data,), sources)
    return Pending(name=output, members=(node.name,), operation=operation, natural=natural, shape=shape)
