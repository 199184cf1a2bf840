"""Operators of quantized models that move whole channels: joined, split, sliced, shuffled; on every target.

The values stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ..te.blocks import Pair
from .onnx_axes import joined_shape, sliced_positions, split_sizes
from .onnx_context import ImportContext, OnnxNode
from .onnx_emit import real_operand
from .onnx_values import Joined, Pending, Real


def _import_concat(context: ImportContext, node: OnnxNode) -> bool:
    """Concat of channels; ModelError for any other."""
    parts = tuple([real_operand(context, node, index) for index in range(len(node.inputs))])
    axis, shape = joined_shape(context, node, [part.shape for part in parts])
    whole = all(part.shape == context.tensors[part.tensor].shape for part in parts)
    if not whole or len(shape) not in (2, 4) or axis != 1:
        shapes = ", ".join(str(part.shape) for part in parts)
        context.fail(node, f"joins {shapes} along axis {axis}", "only channels are joined as integers")
    sources = [(i, channel) for i, part in enumerate(parts) for channel in range(part.shape[1])]
    _bind_channels(context, node, parts, tuple(sources), shape, shape, 0)
    return True


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
    """Slice of channels; False for any other."""
    data = context.value(node, 0)
    if not isinstance(data, Real) or data.shape != context.tensors[data.tensor].shape:
        return False
    positions = sliced_positions(context, node, data.shape)
    taken = positions[1]
    if taken.step < 1 or any(
        p != range(s) for p, s in zip(positions, data.shape, strict=True) if p is not taken
    ):
        return False
    shape = (data.shape[0], len(taken), *data.shape[2:])
    _bind_channels(context, node, (data,), tuple([(0, channel) for channel in taken]), shape, shape, 0)
    return True


def _import_split(context: ImportContext, node: OnnxNode) -> bool:
    """Split of channels; False for any other."""
    data = context.value(node, 0)
    if not isinstance(data, Real) or data.shape != context.tensors[data.tensor].shape:
        return False
    axis, sizes = split_sizes(context, node, data.shape)
    if axis != 1:
        return False
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
    if not isinstance(data, Real) or node.integers("perm", ()) != (0, 2, 1, 3, 4):
        return False
    batch, groups, inside, *plane = data.shape
    stored = context.tensors[data.tensor].shape
    if stored != (batch, groups * inside, *plane):
        return False
    sources = tuple([(0, g * inside + i) for i in range(inside) for g in range(groups)])
    _bind_channels(context, node, (data,), sources, stored, (batch, inside, groups, *plane), 0)
    return True


CHANNELS: Mapping[str, Callable[[ImportContext, OnnxNode], bool]] = MappingProxyType(
    {
        "Concat": _import_concat,
        "Split": _import_split,
        "Slice": _import_slice,
        "Transpose": _import_shuffle,
    }
)
"""What binds a node's outputs if it moves whole channels, and says whether it does; a Transpose may do something else.
Raises ModelError."""
