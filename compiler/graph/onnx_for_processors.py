"""Operators of quantized models beside those of `onnx_import.OPERATORS`.

Channels move as they are, on every target. On processors functions of one tensor become tables, and transposed
convolutions become convolutions.
"""

from __future__ import annotations

import numpy as np
from vdla.isa.arithmetic import dequantize

from ..te.blocks import Pair
from .floating.onnx_pointwise import UNARY
from .onnx_axes import joined_shape, sliced_positions, split_sizes
from .onnx_constants import evaluate_node
from .onnx_context import ImportContext, OnnxNode
from .onnx_emit import plane_operand, real_operand
from .onnx_products import bias_operand, weight_operand
from .onnx_values import (
    Constant,
    Function,
    Joined,
    Pending,
    Product,
    QuantizedConstant,
    Real,
    Same,
    Transposed,
)
from .onnx_window_attributes import transposed_window

STORED = np.arange(-128, 128, dtype=np.int16).astype(np.int8)
CHAINED = frozenset(("Add", "Mul", "Relu", "Clip"))
"""Operators with nodes of their own, which are functions of one tensor behind one of those."""
FUNCTIONS = UNARY - CHAINED | frozenset(
    (
        *("Ceil", "Cos", "Floor", "Round", "Sign", "Sin", "ThresholdedRelu"),
        *("Sub", "Div", "Pow", "Max", "Min"),
    )
)
"""Operators that are functions of one tensor where all other operands are numbers: those of float models, and what only
a table of 256 values can give."""


def import_channels(context: ImportContext, node: OnnxNode) -> bool:
    """Binds a node's outputs if it moves whole channels; whether it does. Raises ModelError as the others do."""
    match node.op_type:
        case "Concat":
            _import_concat(context, node)
        case "Slice":
            return _import_slice(context, node)
        case "Split":
            return _import_split(context, node)
        case "Transpose":
            return _import_shuffle(context, node)
        case _:
            return False
    return True


def import_for_processors(context: ImportContext, node: OnnxNode) -> bool:
    """Binds a node's outputs if only processors compute it on integers; whether it was. Raises ModelError."""
    match node.op_type:
        case "ConvTranspose":
            _import_transposed(context, node)
        case name if name in FUNCTIONS:
            return _import_function(context, node)
        case name if name in CHAINED:
            values = [context.value(node, index) for index in range(len(node.inputs))]
            chained = any(isinstance(v, Pending) and isinstance(v.operation, Function) for v in values)
            return chained and _import_function(context, node)
        case _:
            return False
    return True


def _import_function(context: ImportContext, node: OnnxNode) -> bool:
    """A function of one tensor, beside numbers."""
    feeds: dict[str, np.ndarray | None] = {}
    data: Real | None = None
    members: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    for index, name in enumerate(node.inputs):
        value = context.value(node, index)
        match value:
            case None:
                continue
            case Constant() | QuantizedConstant():
                array = value.real() if isinstance(value, QuantizedConstant) else value.array
                if array.size != 1:
                    return False
                feeds[name] = array.reshape(())
                continue
            case Real():
                read, values = value, _real_values(value)
            case Pending(operation=Same(data=read), low=low, high=high):
                values = np.clip(_real_values(read), low, high)
            case Pending(operation=Function(data=read, values=values), low=low, high=high):
                values = np.clip(values, low, high)
            case _:
                return False
        if data is not None and (data.tensor, data.quantization) != (read.tensor, read.quantization):
            return False
        data, feeds[name] = read, values.astype(np.float32)
        shape = value.shape
        members = value.members if isinstance(value, Pending) else ()
    if data is None:
        return False
    with np.errstate(all="ignore"):
        result = evaluate_node(context, node, feeds, context.opset)[node.outputs[0]]
    if result.shape != STORED.shape or np.isnan(result).any():
        return False
    pending = Pending(
        name=node.outputs[0],
        members=(*members, node.name),
        operation=Function(data=data, values=result.astype(np.float32)),
        natural=context.tensors[data.tensor].shape,
        shape=shape,
    )
    context.bind(node, pending)
    return True


def _real_values(data: Real) -> np.ndarray:
    """What the stored values of a tensor stand for, float32 (256,)."""
    return dequantize(STORED, data.quantization.scale, data.quantization.stored_zero_point)


def _import_concat(context: ImportContext, node: OnnxNode) -> None:
    """Concat of channels."""
    parts = tuple([real_operand(context, node, index) for index in range(len(node.inputs))])
    axis, shape = joined_shape(context, node, [part.shape for part in parts])
    whole = all(part.shape == context.tensors[part.tensor].shape for part in parts)
    if not whole or len(shape) not in (2, 4) or axis != 1:
        shapes = ", ".join(str(part.shape) for part in parts)
        context.fail(node, f"joins {shapes} along axis {axis}", "only channels are joined as integers")
    sources = [(i, channel) for i, part in enumerate(parts) for channel in range(part.shape[1])]
    _bind_channels(context, node, parts, tuple(sources), shape, shape, 0)


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


def _import_transposed(context: ImportContext, node: OnnxNode) -> None:
    """ConvTranspose of one group without dilation."""
    weight, scale = weight_operand(context, node, context.value(node, 1), channel_axis=1)
    data = real_operand(context, node, 0)
    plane_operand(context, node, data)
    window, groups, _, shape = transposed_window(context, node, data.shape, weight.shape)
    if groups != 1 or window.dilations != (1, 1):
        context.fail(node, "has groups or dilations", "only plain ones are computed on integers")
    product = Product(
        data=data,
        weight=weight.swapaxes(0, 1),
        weight_scale=scale,
        bias=bias_operand(context, node, 2),
        window=window,
    )
    context.bind(
        node,
        Pending(
            name=node.outputs[0],
            members=(node.name,),
            operation=Transposed(product=product),
            natural=shape,
            shape=shape,
        ),
    )
