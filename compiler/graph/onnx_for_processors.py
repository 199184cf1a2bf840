"""Operators of quantized models that processors compute on integers, and the accelerator does not.

Functions of one tensor become tables, transposed convolutions become convolutions.
"""

from __future__ import annotations

import numpy as np
from vdla.isa.arithmetic import dequantize

from .abilities import needs
from .floating.onnx_pointwise import UNARY
from .onnx_constants import evaluate_node
from .onnx_context import ImportContext, OnnxNode
from .onnx_emit import plane_operand, real_operand
from .onnx_products import bias_operand, weight_operand
from .onnx_values import (
    Constant,
    Function,
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
"""Operators with nodes of their own, which are functions of one tensor behind one of those, and only then come here."""
FUNCTIONS = UNARY - CHAINED | frozenset(
    (
        *("Ceil", "Cos", "Floor", "Round", "Sign", "Sin", "ThresholdedRelu"),
        *("Sub", "Div", "Pow", "Max", "Min"),
    )
)
"""Operators that are functions of one tensor where all other operands are numbers: those of float models, and what only
a table of 256 values can give."""


def import_for_processors(context: ImportContext, node: OnnxNode) -> bool:
    """Binds a node's outputs if it is one of these; whether it was. Raises ModelError as the others do."""
    match node.op_type:
        case "ConvTranspose" if context.abilities.processor:
            _import_transposed(context, node)
        case name if name in FUNCTIONS | CHAINED:
            return _import_function(context, node)
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
    if not context.abilities.tables:
        context.fail(node, *needs("table"))
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
