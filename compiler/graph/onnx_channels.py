"""Operators of quantized models that move elements: joined, split, sliced, shuffled, padded; on every target.

The values stay as they are. Where whole channels of images move, a node says so; all else is another view of a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from ..te.blocks import Pair
from .onnx_axes import joined_shape, one_axis, sliced_positions, split_sizes
from .onnx_context import ImportContext, OnnxNode
from .onnx_emit import real_operand
from .onnx_values import Integer, Joined, Moved, Pending, QuantizedConstant, Real
from .onnx_views import check_size, elements_of, natural_of, rows_of, rows_view, seen_as, settled
from .quantization import Quantization


def _import_concat(context: ImportContext, node: OnnxNode) -> bool:
    """Concat of channels, of parts of one tensor, or of rows; ModelError for any other."""
    parts = tuple([_part(context, node, index) for index in range(len(node.inputs))])
    axis, shape = joined_shape(context, node, [part.shape for part in parts])
    whole = all(part.view is None and part.shape == context.tensors[part.tensor].shape for part in parts)
    if whole and len(shape) in (2, 4) and axis == 1:
        sources = [(i, channel) for i, part in enumerate(parts) for channel in range(part.shape[1])]
        _bind_channels(context, node, parts, tuple(sources), shape, shape, 0)
        return True
    first = parts[0]
    if all((part.tensor, part.quantization) == (first.tensor, first.quantization) for part in parts):
        elements = np.concatenate([elements_of(context, part) for part in parts], axis)
        context.bind(node, seen_as(context, first, elements))
        return True
    if axis == len(shape) - 1:
        shapes = ", ".join(str(part.shape) for part in parts)
        context.fail(
            node,
            f"joins {shapes} along axis {axis}",
            "only rows, or channels of images, are joined as integers",
        )
    _bind_rows(context, node, parts, axis)
    return True


def _part(context: ImportContext, node: OnnxNode, index: int) -> Real:
    """An operand of Concat: a quantized tensor, or a constant as one."""
    value = context.value(node, index)
    if not isinstance(value, QuantizedConstant):
        return real_operand(context, node, index, viewed=True)
    if value.axis is not None or len(value.shape) not in (2, 3, 4):
        context.fail(node, "joins a constant with one scale per channel", "quantize it per tensor")
    dtype = context.activation_type(node, value.integers.dtype.name)
    grid = Quantization(scale=np.float32(value.scale), zero_point=int(value.zero_point), dtype=dtype)
    stored = (value.integers.astype(np.int16) - grid.offset).astype(np.int8)
    natural, view = natural_of(value.shape), None
    if len(value.shape) == 3:
        batch, channels, length, _ = natural
        view = np.arange(stored.size).reshape(batch, channels, length).swapaxes(1, 2)
        stored = stored.swapaxes(1, 2)
    tensor = context.store_constant(f"{node.name}.constant", stored.reshape(natural), grid)
    return Real(tensor=tensor, shape=value.shape, quantization=grid, view=view)


def _bind_rows(context: ImportContext, node: OnnxNode, parts: tuple[Real, ...], axis: int) -> None:
    """Names a Concat of rows of channels along another axis than theirs."""
    rows = [rows_of(context, node, part) for part in parts]
    starts = np.cumsum([0, *[item.places.size for item in rows]])
    index = np.concatenate(
        [item.places + start for item, start in zip(rows, starts[:-1].tolist(), strict=True)], axis
    )
    lead = index.shape
    images = lead[0] if len(lead) > 1 else 1
    natural = (images, parts[0].shape[-1], index.size // images, 1)
    places = np.arange(index.size).reshape(lead)
    operation = Moved(parts=tuple([item.data for item in rows]), index=index.reshape(images, -1, 1))
    view = rows_view(places, natural)
    context.bind(
        node,
        Pending(
            name=node.outputs[0],
            members=(node.name,),
            operation=operation,
            natural=natural,
            shape=view.shape,
            view=view,
        ),
    )


def _bind_channels(
    context: ImportContext,
    node: OnnxNode,
    parts: tuple[Real, ...],
    sources: tuple[Pair, ...],
    natural: tuple[int, ...],
    shape: tuple[int, ...],
    output: int,
) -> None:
    """Names an output of the node after channels of `parts`."""
    name = node.outputs[output]
    operation = Joined(parts=parts, sources=sources)
    members = (node.name,)
    context.values[name] = Pending(
        name=name, members=members, operation=operation, natural=natural, shape=shape
    )


def _import_slice(context: ImportContext, node: OnnxNode) -> bool:
    """Slice; False for that of a constant."""
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
    """Whether a value is a tensor, with its elements in their order."""
    return isinstance(data, Real) and data.view is None and data.shape == context.tensors[data.tensor].shape


def _import_split(context: ImportContext, node: OnnxNode) -> bool:
    """Split; False for that of a constant."""
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


def _import_shuffle(context: ImportContext, node: OnnxNode) -> bool:
    """Transpose of (N, groups, channels, H, W), which moves channels only; False for any other."""
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


def _import_gather(context: ImportContext, node: OnnxNode) -> bool:
    """Gather of what a constant names; False for that from a constant."""
    data = context.value(node, 0)
    if not isinstance(data, Real | Integer | Pending):
        return False
    indices, axis = context.array(node, 1, "indices"), one_axis(context, node, data.shape)
    size = data.shape[axis]
    if indices is None or indices.size == 0 or indices.min() < -size or indices.max() >= size:
        context.refuse(node, f"takes what {data.shape} does not have", "export the model again")
    elements = np.take(elements_of(context, data), indices.astype(np.int64) % size, axis)
    context.bind(node, seen_as(context, data, elements))
    return True


def _import_pad(context: ImportContext, node: OnnxNode) -> bool:
    """Pad with zeros; False for that of a constant."""
    data = context.value(node, 0)
    if not isinstance(data, Real | Pending):
        return False
    data = real_operand(context, node, 0, viewed=True)
    amounts, value = context.array(node, 1, "pads"), context.array(node, 2, "value")
    axes = context.array(node, 3, "axes")
    rank = len(data.shape)
    of = np.arange(rank) if axes is None else axes.reshape(-1) % rank
    if node.text("mode", "constant") != "constant" or (value is not None and value.any()):
        context.fail(node, "pads with other values than 0", "pad with zeros")
    if amounts is None or amounts.size != 2 * len(of) or amounts.min() < 0:
        context.fail(node, "has no pads of 0 or more for each axis", "give it constant pads")
    pads = np.zeros((rank, 2), np.int64)
    pads[of] = amounts.reshape(2, -1).T
    check_size(
        context, node, [size + sum(ends) for size, ends in zip(data.shape, pads.tolist(), strict=True)]
    )
    if pads.any():
        elements = np.pad(elements_of(context, data), pads, constant_values=-1)
        images = data.view is None and rank != 3
        data = seen_as(context, data, elements)
        if images:
            data = settled(context, node, data)
        elif context.abilities.processor:
            data = rows_of(context, node, data).data
    context.bind(node, data)
    return True


CHANNELS: Mapping[str, Callable[[ImportContext, OnnxNode], bool]] = MappingProxyType(
    {
        "Concat": _import_concat,
        "Split": _import_split,
        "Slice": _import_slice,
        "Transpose": _import_shuffle,
        "Gather": _import_gather,
        "Pad": _import_pad,
    }
)
"""What binds a node's outputs if it moves elements of an activation, and says whether it does; a Transpose may do
something else. Raises ModelError."""
