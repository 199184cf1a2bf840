"""Products of batches of matrices, both of them known only at run time."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.expr import Buffer, Expr, Var, equal
from ...ir.stmt import Alloc, Assign, Program, Reduce, nest, seq
from ...ir.types import DType
from ..epilogue import Epilogue
from ..merge import Shape, merge_broadcast
from .common import parameters_of


def matmul(
    *,
    batch_x: Shape,
    batch_w: Shape,
    rows: int,
    depth: int,
    columns: int,
    transposed: bool = False,
    epilogue: Epilogue | None = None,
    beside: Sequence[Shape] = (),
    name: str = "matmul",
) -> Program:
    """Y = epilogue(X @ W) in float32 for every matrix of a batch; batch dimensions broadcast as numpy's matmul has it.

    Parameters X [*BX, rows, depth], W [*BW, depth, columns], with `transposed` [*BW, columns, depth], B [columns] with
    a bias, R like Y with an operand, Y [*BY, rows, columns]; BY, (BX, BW, …) = `te.merge.merge_broadcast` of the
    batches' shapes and of those `beside` them, which broadcast against the result's. A W that all matrices share is
    better a `dense` of batch * rows rows. Intermediate: `sum` like Y (statement "dense", loops dense.b0, …, dense.i,
    dense.j, dense.k); loops b0, …, i, j around "post" follow. ValueError where the batches do not broadcast.
    """
    epilogue = epilogue or Epilogue()
    batch, (of_x, of_w, *_) = merge_broadcast([batch_x, batch_w, *beside])
    x = Buffer(name="X", shape=(*of_x, rows, depth), dtype=DType.FLOAT32)
    matrix = (columns, depth) if transposed else (depth, columns)
    w = Buffer(name="W", shape=(*of_w, *matrix), dtype=DType.FLOAT32)
    y = Buffer(name="Y", shape=(*batch, rows, columns), dtype=DType.FLOAT32)
    bias = Buffer(name="B", shape=(columns,), dtype=DType.FLOAT32) if epilogue.bias else None
    operand = Buffer(name="R", shape=y.shape, dtype=DType.FLOAT32) if epilogue.operand else None
    total = Buffer(name="sum", shape=y.shape, dtype=DType.FLOAT32)

    def at(shape: Shape, loops: list[Var]) -> list[Expr | int]:
        return [0 if size == 1 else loop for size, loop in zip(shape, loops, strict=True)]

    b = [Var(f"dense.b{d}") for d in range(len(batch))]
    i, j, k = Var("dense.i"), Var("dense.j"), Var("dense.k")
    weight = w[*at(of_w, b), j, k] if transposed else w[*at(of_w, b), k, j]
    summed = Reduce(
        name="dense",
        op="add",
        buffer=total,
        indices=(*b, i, j),
        value=x[*at(of_x, b), i, k] * weight,
        first=equal(k, 0),
    )
    product = nest([*zip(b, batch, strict=True), (i, rows), (j, columns), (k, depth)], summed)
    b = [Var(f"b{d}") for d in range(len(batch))]
    i, j = Var("i"), Var("j")
    value = epilogue.value(
        total[*b, i, j], None if bias is None else bias[j], None if operand is None else operand[*b, i, j]
    )
    post = Assign(name="post", buffer=y, indices=(*b, i, j), value=value)
    finish = nest([*zip(b, batch, strict=True), (i, rows), (j, columns)], post)
    body = Alloc(buffer=total, body=seq(product, finish))
    return Program(name=name, parameters=parameters_of(x, w, bias, operand, y), body=body)
