"""Matrix products whose operands are staged, as GPUs compute them: tiles of the stages go through shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.expr import Buffer, Expr, Var, equal
from ...ir.stmt import Alloc, Assign, Copy, Program, Reduce, Region, Stmt, nest, region, seq, whole
from ...ir.types import DType
from ..epilogue import Epilogue
from ..merge import Shape, merge_broadcast
from .common import parameters_of


def gemm(
    *,
    rows: int,
    depth: int,
    columns: int,
    batch_x: Shape = (),
    batch_w: Shape = (),
    transposed_x: bool = False,
    transposed_w: bool = False,
    epilogue: Epilogue | None = None,
    beside: Sequence[Shape] = (),
    name: str = "gemm",
) -> Program:
    """Y = epilogue(X @ W) in float32 for every matrix of a batch; batch dimensions broadcast as numpy's matmul has it.

    Parameters X [*BX, rows, depth], with `transposed_x` [*BX, depth, rows], W [*BW, depth, columns], with
    `transposed_w` [*BW, columns, depth], B [columns] with a bias, R like Y with an operand, Y [*BY, rows, columns]. BY,
    (BX, BW, …) = `te.merge.merge_broadcast` of the batches' shapes and of those `beside` them, which broadcast against
    the result's; without any batch there are no such dimensions. Stages: copies `a` of X, as it lies, and `b` of W,
    [*BW, depth, columns] in any case (of a transposed one in loops b.b0, …, b.j, b.k), `sum` like Y (statement "gemm",
    loops gemm.b0, …, gemm.i, gemm.j, gemm.k); loops b0, …, i, j around "post" follow. The sizes are the true ones:
    `schedule.pad` makes them multiples of tiles. ValueError where the batches do not broadcast.
    """
    epilogue = epilogue or Epilogue()
    batch, of_x, of_w = (), (), ()
    if batch_x or batch_w or any(beside):
        batch, (of_x, of_w, *_) = merge_broadcast([batch_x, batch_w, *beside])
    left = (depth, rows) if transposed_x else (rows, depth)
    right = (columns, depth) if transposed_w else (depth, columns)
    x, a = (Buffer(name=n, shape=(*of_x, *left), dtype=DType.FLOAT32) for n in ("X", "a"))
    w = Buffer(name="W", shape=(*of_w, *right), dtype=DType.FLOAT32)
    b = Buffer(name="b", shape=(*of_w, depth, columns), dtype=DType.FLOAT32)
    y, total = (Buffer(name=n, shape=(*batch, rows, columns), dtype=DType.FLOAT32) for n in ("Y", "sum"))
    bias = Buffer(name="B", shape=(columns,), dtype=DType.FLOAT32) if epilogue.bias else None
    operand = Buffer(name="R", shape=y.shape, dtype=DType.FLOAT32) if epilogue.operand else None

    def at(shape: Shape, loops: Sequence[Var]) -> list[Expr | int]:
        return [0 if size == 1 else loop for size, loop in zip(shape, loops, strict=True)]

    matrices = [Var(f"gemm.b{d}") for d in range(len(batch))]
    i, j, k = Var("gemm.i"), Var("gemm.j"), Var("gemm.k")
    value = a[*at(of_x, matrices), *((k, i) if transposed_x else (i, k))] * b[*at(of_w, matrices), k, j]
    summed = Reduce(
        name="gemm", op="add", buffer=total, indices=(*matrices, i, j), value=value, first=equal(k, 0)
    )
    product = nest([*zip(matrices, batch, strict=True), (i, rows), (j, columns), (k, depth)], summed)
    matrices = [Var(f"b{d}") for d in range(len(batch))]
    i, j = Var("i"), Var("j")
    value = epilogue.value(
        total[*matrices, i, j],
        None if bias is None else bias[j],
        None if operand is None else operand[*matrices, i, j],
    )
    post = Assign(name="post", buffer=y, indices=(*matrices, i, j), value=value)
    finish = nest([*zip(matrices, batch, strict=True), (i, rows), (j, columns)], post)
    body = seq(_stage(a, x), _transposed(b, w) if transposed_w else _stage(b, w), product, finish)
    for buffer in (total, b, a):
        body = Alloc(buffer=buffer, body=body)
    return Program(name=name, parameters=parameters_of(x, w, bias, operand, y), body=body)


def _stage(to: Buffer, of: Buffer) -> Stmt:
    return Copy(name=to.name, destination=whole(to), source=whole(of))


def _transposed(to: Buffer, of: Buffer) -> Stmt:
    """Element by element, neighbours of the source one after the other."""
    *batch, columns, depth = of.shape
    b = [Var(f"{to.name}.b{d}") for d in range(len(batch))]
    j, k = Var(f"{to.name}.j"), Var(f"{to.name}.k")

    def element(buffer: Buffer, *at: Var) -> Region:
        return region(buffer, *[(index, 1) for index in (*b, *at)])

    copy = Copy(name=to.name, destination=element(to, k, j), source=element(of, j, k))
    return nest([*zip(b, batch, strict=True), (j, columns), (k, depth)], copy)
