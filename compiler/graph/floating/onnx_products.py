"""MatMul and BatchNormalization of a float model."""

from __future__ import annotations

import numpy as np

from ...ir.types import DType
from ...te.merge import broadcast
from ...te.ops.plain_windows import plain_product
from ..graph import Shape, Tensor
from ..onnx_attributes import OnnxNode
from ..onnx_batch_norm import batch_norm_factors
from ..onnx_context import GraphContext
from ..operators import BatchNormalization, Computed, Dense, MatrixProduct


def import_matmul(context: GraphContext, node: OnnxNode) -> None:
    """Imports MatMul. By a constant matrix it is a Dense node, with all dimensions of the data but the last as rows."""
    if context.tensor(node, 0).dtype is not DType.FLOAT32:
        _import_plain_product(context, node)
        return
    data, weight = context.operand(node, 0), context.operand(node, 1)
    if len(data.shape) == 1 or not context.is_constant(node, 1) or len(weight.shape) != 2:
        _import_matrix_product(context, node, data, weight)
        return
    if not data.shape or data.shape[-1] != weight.shape[0]:
        context.refuse(node, f"multiplies {data.shape} by {weight.shape}")
    *outer, depth = data.shape
    columns = weight.shape[1]
    rows = int(np.prod(outer, dtype=np.int64))
    if len(data.shape) == 2:
        context.add(node, Dense(), (data.name, weight.name), (rows, columns))
        return
    flat = context.view(node, data, (rows, depth), output=context.temporary(node, "rows"))
    product = context.temporary(node, "product")
    context.add(node, Dense(), (flat, weight.name), (rows, columns), output=product)
    context.view(node, context.tensors[product], (*outer, columns))


def _import_plain_product(context: GraphContext, node: OnnxNode) -> None:
    """Imports MatMul of integers or float64, which no template has."""
    a, b = context.tensor(node, 0), context.tensor(node, 1)
    if a.dtype is not b.dtype or a.dtype is DType.BOOL or a.dtype.is_code:
        context.refuse(node, f"multiplies {a.dtype} by {b.dtype}")
    left, right, _, shape = _factors(context, node, a.shape, b.shape)
    program = plain_product(left[:-2], right[:-2], left[-2], left[-1], right[-1], a.dtype)
    context.add(node, Computed(program=program), (a.name, b.name), shape, dtype=a.dtype)


def _import_matrix_product(context: GraphContext, node: OnnxNode, a: Tensor, b: Tensor) -> None:
    left, right, whole, shape = _factors(context, node, a.shape, b.shape)
    factors = (_viewed(context, node, a, left, "row"), _viewed(context, node, b, right, "column"))
    if whole == shape:
        context.add(node, MatrixProduct(), factors, shape)
        return
    product = context.add(node, MatrixProduct(), factors, whole, output=context.temporary(node, "product"))
    context.view(node, context.tensors[product], shape)


def _factors(context: GraphContext, node: OnnxNode, a: Shape, b: Shape) -> tuple[Shape, Shape, Shape, Shape]:
    """The shapes of two factors as matrices (a vector is a row on the left, a column on the right), of their product,
    and of the result, which lacks the dimensions of vectors."""
    if not a or not b or a[-1] != b[0 if len(b) == 1 else -2]:
        context.refuse(node, f"multiplies {a} by {b}")
    left, right = (1, *a) if len(a) == 1 else a, (*b, 1) if len(b) == 1 else b
    try:
        batch = broadcast([left[:-2], right[:-2]])
    except ValueError as error:
        context.refuse(node, str(error))
    kept = (*(left[-2:-1] if left is a else ()), *(right[-1:] if right is b else ()))
    return left, right, (*batch, left[-2], right[-1]), (*batch, *kept)


def _viewed(context: GraphContext, node: OnnxNode, tensor: Tensor, shape: Shape, what: str) -> str:
    if tensor.shape == shape:
        return tensor.name
    if context.resolve(tensor.name) in context.constants:
        return context.store(tensor.name, context.constants[context.resolve(tensor.name)].reshape(shape))
    return context.view(node, tensor, shape, output=context.temporary(node, what))


def import_batch_normalization(context: GraphContext, node: OnnxNode) -> None:
    """Imports BatchNormalization in inference form: a scale and a shift per channel, from stored mean and variance."""
    data = context.operand(node, 0)
    if len(data.shape) < 2:
        context.fail(node, f"has data of shape {data.shape}", "give it at least (N, C)")
    factor, shift = batch_norm_factors(context, node, data.shape[1])
    inputs = (
        data.name,
        context.store(f"{node.outputs[0]}.scale", factor),
        context.store(f"{node.outputs[0]}.shift", shift),
    )
    context.add(node, BatchNormalization(), inputs, data.shape)
