"""Add, Mul, Relu and Clip, in QDQ and QOperator form."""

from __future__ import annotations

import numpy as np

from .abilities import needs
from .graph import Tensor
from .onnx_context import ImportContext, OnnxNode
from .onnx_emit import on_input_grid, real_operand
from .onnx_products import finish_integer, integer_operand, quantized_constant, with_bias
from .onnx_values import Constant, Integer, Maximum, Pairwise, Pending, QuantizedConstant, Real, Same
from .quantization import Quantization

BROADCAST = "give both operands the same shape; only constants may be broadcast"


def import_pairwise(context: ImportContext, node: OnnxNode, kind: str) -> None:
    """Add or Mul between DequantizeLinear and QuantizeLinear; a constant added to a product becomes its
    bias."""
    first, second = context.value(node, 0), context.value(node, 1)
    if kind == "add":
        for pending, constant in ((first, second), (second, first)):
            if isinstance(pending, Pending) and isinstance(constant, Constant | QuantizedConstant):
                biased = with_bias(pending, node, constant)
                if biased is not None:
                    context.bind(node, biased)
                    return
    operands = [first, second]
    for index, value in enumerate(operands):
        if not isinstance(value, QuantizedConstant):
            operands[index] = real_operand(context, node, index)
    a, b = (_stored(context, node, index, operands) for index in range(2))
    context.bind(node, pairwise(context, node, kind, a, b))


def import_qlinear_pairwise(context: ImportContext, node: OnnxNode, kind: str) -> None:
    """com.microsoft QLinearAdd, QLinearMul: a, scale, zero point; b, scale, zero point; c scale, zero
    point."""
    operands: list[object] = []
    for index in (0, 3):
        value = context.value(node, index)
        if isinstance(value, Constant):
            scale, zero_point = (
                context.array(node, index + 1, "scale"),
                context.array(node, index + 2, "zero point"),
            )
            if scale is None:
                context.refuse(node, "has no scale", "export the model again")
            operands.append(quantized_constant(context, node, value.array, scale, zero_point, 0))
        else:
            operands.append(integer_operand(context, node, index))
    a, b = (_stored(context, node, index, operands) for index in range(2))
    finish_integer(context, node, pairwise(context, node, kind, a, b), scale_index=6)


def pairwise(context: ImportContext, node: OnnxNode, kind: str, a: Real, b: Real) -> Pending:
    """The pending sum or product of two tensors of equal shape."""
    first, second = context.tensors[a.tensor], context.tensors[b.tensor]
    same = a.shape == b.shape and first.nchw == second.nchw
    if not same and not _one_for_each_channel(a, first, b, second):
        context.fail(node, f"its operands have shapes {a.shape} and {b.shape}", BROADCAST)
    if not same and not context.abilities.planes:
        context.fail(node, *needs("broadcast"))
    operation = Pairwise(kind=kind, a=a, b=b)
    whole, natural = (a, first) if first.size >= second.size else (b, second)
    return Pending(
        name=node.outputs[0],
        members=(node.name,),
        operation=operation,
        natural=natural.shape,
        shape=whole.shape,
    )


def _one_for_each_channel(a: Real, first: Tensor, b: Real, second: Tensor) -> bool:
    """Whether one of two tensors has a single value for each plane of the other."""
    return (
        a.shape == first.nchw
        and b.shape == second.nchw
        and a.shape[:2] == b.shape[:2]
        and (1, 1) in (a.shape[2:], b.shape[2:])
    )


def _stored(context: ImportContext, node: OnnxNode, index: int, operands: list) -> Real:
    """Operand `index`; a constant is broadcast to the other operand's shape and stored as a tensor."""
    value, other = operands[index], operands[1 - index]
    if isinstance(value, Real):
        return value
    if not isinstance(value, QuantizedConstant) or not isinstance(other, Real):
        context.fail(
            node, "has no operand that depends on the model's input", "fold it when exporting the model"
        )
    if value.axis is not None:
        context.fail(node, "its constant operand has one scale per channel", "quantize it per tensor")
    dtype = context.activation_type(node, value.integers.dtype.name)
    quantization = Quantization(scale=np.float32(value.scale), zero_point=int(value.zero_point), dtype=dtype)
    try:
        wide = np.broadcast_to(value.integers, other.shape)
    except ValueError:
        context.fail(
            node, f"its constant of shape {value.shape} does not broadcast to {other.shape}", BROADCAST
        )
    stored = (wide.astype(np.int16) - quantization.offset).astype(np.int8)
    name = f"{node.name}.constant"
    tensor = context.store_constant(name, stored.reshape(context.tensors[other.tensor].shape), quantization)
    return Real(tensor=tensor, shape=other.shape, quantization=quantization)


def import_clamp(context: ImportContext, node: OnnxNode) -> None:
    """Relu, or Clip with constant bounds, after any operation or on a dequantized tensor."""
    low, high = _bounds(context, node)
    if low > high:
        context.fail(node, f"clips to {low} .. {high}", "give a lower bound below the upper one")
    value = context.value(node, 0)
    if isinstance(value, Pending) and isinstance(value.operation, Maximum):
        # A maximum has no clamp of its own; it lies on its input's grid and becomes a tensor first.
        value = on_input_grid(context, node, value) or value
    if isinstance(value, Pending) and not isinstance(value.operation, Maximum):
        members, operation, natural, shape = value.members, value.operation, value.natural, value.shape
        low, high = (min(max(bound, low), high) for bound in (value.low, value.high))
    elif isinstance(value, Real):
        members, operation = (), Same(data=value)
        natural, shape = context.tensors[value.tensor].shape, value.shape
    elif isinstance(value, Integer):
        context.fail(node, "works on an integer tensor", "put it between DequantizeLinear and QuantizeLinear")
    else:
        context.refuse_float(node, 0, value)
    context.bind(
        node,
        Pending(
            name=node.outputs[0],
            members=(*members, node.name),
            operation=operation,
            natural=natural,
            shape=shape,
            low=low,
            high=high,
        ),
    )


def _bounds(context: ImportContext, node: OnnxNode) -> tuple[float, float]:
    if node.op_type == "Relu":
        return 0.0, np.inf
    low, high = context.array(node, 1, "lower bound"), context.array(node, 2, "upper bound")
    return (
        -np.inf if low is None else float(low.reshape(-1)[0]),
        np.inf if high is None else float(high.reshape(-1)[0]),
    )
