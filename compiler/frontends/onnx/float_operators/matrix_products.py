"""MatMul and Gemm of a float model: a dense layer if the second factor is constant, else a product of two computed
tensors."""

from __future__ import annotations

from math import prod

import numpy as np

from ....graph.graph import Shape, Tensor
from ....graph.operators import Computed, Dense, Elementwise, MatrixProduct, Permute
from ....ir.expr import Expr
from ....ir.types import DType
from ....te.merge import broadcast
from ....te.ops.plain_windows import plain_product
from ....te.ops.sums import Epilogue
from ....te.scalars import argument
from ..attributes import OnnxNode
from ..context import GraphContext


def import_matmul(context: GraphContext, node: OnnxNode) -> None:
    """Imports MatMul. A product with a constant matrix becomes a Dense node; before it, all axes of the data except the
    last are flattened to one axis of rows.
    """
    if context.tensor(node, 0).dtype is not DType.FLOAT32:
        _import_plain_product(context, node)
        return
    data, weight = context.operand(node, 0), context.operand(node, 1)
    if len(data.shape) == 1 or not context.is_constant(node, 1) or len(weight.shape) != 2:
        _import_matrix_product(context, node, data, weight)
        return
    shape = _factors(context, node, data.shape, weight.shape)[-1]
    if len(data.shape) == 2:
        context.add(node, Dense(), (data.name, weight.name), shape)
        return
    rows, (depth, columns) = prod(shape[:-1]), weight.shape
    flat = context.view(node, data, (rows, depth), output=context.temporary(node, "rows"))
    product = context.temporary(node, "product")
    context.add(node, Dense(), (flat, weight.name), (rows, columns), output=product)
    context.view(node, context.tensors[product], shape)


def _import_plain_product(context: GraphContext, node: OnnxNode) -> None:
    """Imports a MatMul of integers or float64, for which there is no kernel template."""
    a, b = context.tensor(node, 0), context.tensor(node, 1)
    if a.dtype is not b.dtype or a.dtype is DType.BOOL or a.dtype.is_code:
        context.refuse(node, f"its factors must be numbers of one type, not {a.dtype} and {b.dtype}")
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
    """Returns four shapes for inputs of the shapes `a` and `b`. The first two are the factors as matrices; a vector
    becomes a row on the left, a column on the right. The third is their product. The fourth is MatMul's result, without
    the dimensions that were added for vectors. Raises InvalidNodeError if `a` and `b` do not match.
    """
    if not a or not b or a[-1] != b[0 if len(b) == 1 else -2]:
        context.refuse(
            node,
            f"its factors of shapes {a} and {b} do not match: the first must have as many columns as the second has "
            "rows",
        )
    left, right = (1, *a) if len(a) == 1 else a, (*b, 1) if len(b) == 1 else b
    try:
        batch = broadcast([left[:-2], right[:-2]])
    except ValueError as error:
        context.refuse(node, str(error))
    outer = (*(left[-2:-1] if left is a else ()), *(right[-1:] if right is b else ()))
    return left, right, (*batch, left[-2], right[-1]), (*batch, *outer)


def _viewed(context: GraphContext, node: OnnxNode, tensor: Tensor, shape: Shape, description: str) -> str:
    if tensor.shape == shape:
        return tensor.name
    if context.resolve(tensor.name) in context.constants:
        return context.store(tensor.name, context.constants[context.resolve(tensor.name)].reshape(shape))
    return context.view(node, tensor, shape, output=context.temporary(node, description))


def import_gemm(context: GraphContext, node: OnnxNode) -> None:
    """Imports Gemm, alpha * A @ B + beta * C. If B is constant, B is multiplied by alpha and a constant C by beta at
    import. Otherwise an element-wise node after the product multiplies by alpha and beta. If A or a computed B is
    transposed, the transposition becomes a node before the product.
    """
    a, b = context.operand(node, 0), context.operand(node, 1)
    if len(a.shape) != 2 or len(b.shape) != 2:
        context.fail(
            node,
            f"its factors must have two dimensions, not the shapes {a.shape} and {b.shape}",
            "multiply two matrices",
        )
    if node.integer("transA", 0):
        a = _transposed(context, node, a, "A")
    if not context.is_constant(node, 1) and node.integer("transB", 0):
        b = _transposed(context, node, b, "B")
    matrix = None
    if context.is_constant(node, 1):
        weight = context.constants[b.name]
        matrix = weight.T if node.integer("transB", 0) else weight
    rows, columns = _factors(context, node, a.shape, b.shape if matrix is None else matrix.shape)[-1]
    shape = (rows, columns)
    if len(node.inputs) > 2 and node.inputs[2]:
        _check_addend(context, node, context.operand(node, 2), shape)
    if matrix is None:
        _add(context, node, MatrixProduct(), (a.name, b.name), shape, _number(node, "alpha"))
        return
    alpha = _number(node, "alpha")
    stored = matrix if alpha == 1 else (matrix.astype(np.float64) * alpha).astype(np.float32)
    name = b.name if stored is context.constants[b.name] else context.store(b.name, stored)
    if context.is_constant(node, 2):
        _add_constant(context, node, (a.name, name), shape)
    else:
        _add(context, node, Dense(), (a.name, name), shape, 1.0)


def _add_constant(
    context: GraphContext, node: OnnxNode, factors: tuple[str, str], shape: tuple[int, int]
) -> None:
    """Adds a Gemm with a constant C as a dense layer; `factors` are names, and `shape` is the shape of the result. If
    all rows of C are equal, C becomes the bias of the layer, else a second operand with the output's shape.
    """
    addend = context.constants[context.operand(node, 2).name]
    addend = np.broadcast_to(addend.astype(np.float64) * _number(node, "beta"), shape)
    if np.array_equal(addend, np.broadcast_to(addend[:1], shape), equal_nan=True):
        epilogue, addend = Epilogue(bias=True), addend[0]
    else:
        # Different rows: an operand of the output's shape.
        epilogue = Epilogue(operand=True)
    stored = context.store(node.inputs[2], addend.astype(np.float32))
    context.add(node, Dense(epilogue=epilogue), (*factors, stored), shape)


def _add(
    context: GraphContext,
    node: OnnxNode,
    operator: Dense | MatrixProduct,
    factors: tuple[str, str],
    shape: tuple[int, int],
    alpha: float,
) -> None:
    """Adds the product `operator` of `factors` (names); the product has the shape `shape`. If alpha is not 1 or there
    is a C, an element-wise node then computes alpha * product + beta * C.
    """
    beta = _number(node, "beta")
    names: list[str] = []
    body: Expr = argument(0) if alpha == 1 else argument(0) * alpha
    if len(node.inputs) > 2 and node.inputs[2]:
        names = [context.operand(node, 2).name]
        body = body + (argument(1) if beta == 1 else argument(1) * beta)
    if alpha == 1 and not names:
        context.add(node, operator, factors, shape)
        return
    product = context.add(node, operator, factors, shape, output=context.temporary(node, "product"))
    context.add(node, Elementwise(body=body), (product, *names), shape)


def _transposed(context: GraphContext, node: OnnxNode, matrix: Tensor, which: str) -> Tensor:
    name = context.temporary(node, f"{which}.transposed")
    if context.resolve(matrix.name) in context.constants:
        return context.tensors[context.store(name, context.constants[matrix.name].T)]
    rows, columns = matrix.shape
    if 1 in matrix.shape:
        return context.tensors[context.view(node, matrix, (columns, rows), output=name)]
    context.add(node, Permute(axes=(1, 0)), (matrix.name,), (columns, rows), output=name)
    return context.tensors[name]


def _check_addend(context: GraphContext, node: OnnxNode, addend: Tensor, shape: tuple[int, int]) -> None:
    fits = len(addend.shape) <= 2
    try:
        fits = fits and broadcast([addend.shape, shape]) == shape
    except ValueError:
        fits = False
    if not fits:
        context.refuse(
            node, f"its C of shape {addend.shape} does not broadcast to its product of shape {shape}"
        )


def _number(node: OnnxNode, name: str) -> float:
    """The value of the attribute `name` (alpha or beta) of a Gemm; default 1."""
    return float(node.attributes.get(name, 1.0))
