"""Matrix products of plain row-major tensors, as processors compute them."""

from __future__ import annotations

from ...ir.expr import Buffer, Var, cast, equal
from ...ir.stmt import Alloc, Assign, Program, Reduce, nest, seq
from ...ir.types import DType
from ..epilogue import Epilogue
from .common import parameters_of


def dense(
    *,
    rows: int,
    depth: int,
    columns: int,
    epilogue: Epilogue | None = None,
    name: str = "dense",
) -> Program:
    """Y = epilogue(X @ W) in float32.

    Parameters X [rows, depth], W [depth, columns], B [columns] with a bias, R like Y with an operand,
    Y [rows, columns]. Intermediate: `sum` like Y (statement "dense", loops dense.i, dense.j, dense.k); loops i, j
    around "post" follow.
    """
    epilogue = epilogue or Epilogue()
    x = Buffer(name="X", shape=(rows, depth), dtype=DType.FLOAT32)
    w = Buffer(name="W", shape=(depth, columns), dtype=DType.FLOAT32)
    y = Buffer(name="Y", shape=(rows, columns), dtype=DType.FLOAT32)
    bias = Buffer(name="B", shape=(columns,), dtype=DType.FLOAT32) if epilogue.bias else None
    operand = Buffer(name="R", shape=(rows, columns), dtype=DType.FLOAT32) if epilogue.operand else None
    total = Buffer(name="sum", shape=(rows, columns), dtype=DType.FLOAT32)
    si, sj, sk = Var("dense.i"), Var("dense.j"), Var("dense.k")
    summed = Reduce(
        name="dense",
        op="add",
        buffer=total,
        indices=(si, sj),
        value=x[si, sk] * w[sk, sj],
        first=equal(sk, 0),
    )
    i, j = Var("i"), Var("j")
    value = epilogue.value(
        total[i, j], None if bias is None else bias[j], None if operand is None else operand[i, j]
    )
    post = Assign(name="post", buffer=y, indices=(i, j), value=value)
    body = seq(nest([(si, rows), (sj, columns), (sk, depth)], summed), nest([(i, rows), (j, columns)], post))
    return Program(
        name=name, parameters=parameters_of(x, w, bias, operand, y), body=Alloc(buffer=total, body=body)
    )


def dense_int8(*, rows: int, depth: int, columns: int, name: str = "dense_int8") -> Program:
    """Y = X @ W, exact, int32 (which wraps).

    Parameters X uint8[rows, depth], W int8[depth, columns], Y int32[rows, columns]; the rest as `dense`.
    """
    x = Buffer(name="X", shape=(rows, depth), dtype=DType.UINT8)
    w = Buffer(name="W", shape=(depth, columns), dtype=DType.INT8)
    y = Buffer(name="Y", shape=(rows, columns), dtype=DType.INT32)
    total = Buffer(name="sum", shape=(rows, columns), dtype=DType.INT32)
    si, sj, sk = Var("dense.i"), Var("dense.j"), Var("dense.k")
    product = cast(x[si, sk], DType.INT32) * cast(w[sk, sj], DType.INT32)
    summed = Reduce(name="dense", op="add", buffer=total, indices=(si, sj), value=product, first=equal(sk, 0))
    i, j = Var("i"), Var("j")
    post = Assign(name="post", buffer=y, indices=(i, j), value=total[i, j])
    body = seq(nest([(si, rows), (sj, columns), (sk, depth)], summed), nest([(i, rows), (j, columns)], post))
    return Program(name=name, parameters=(x, w, y), body=Alloc(buffer=total, body=body))
