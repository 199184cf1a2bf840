"""Softmax of float32 tensors along an axis."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.expr import Buffer, Const, Expr, Var, minimum, select
from ...ir.stmt import Alloc, Assign, Program, Reduce, Stmt, nest, seq
from ...ir.types import DType
from ..blocks import ceil_div
from ..merge import Shape, around_axis
from ..rows import fold_row, row_loops, row_width
from ..scalars import divide, exp, log

LEAST = -87.0
"""Least argument of exp: for smaller arguments the result is set to 0.

The results for somewhat smaller arguments are subnormal, which makes exp and every product that reads them many times
slower on processors. Masks that add -100, as in shifted windows, lead to subnormal results. The error is below 2e-38 of
the greatest result.
"""


def softmax(shape: Shape, axis: int, *, width: int = 1, logarithm: bool = False) -> Program:
    """Y = exp(X - m) / sum of exp(X - m) along `axis`, with the axis's maximum m; with `logarithm`, the logarithm of
    this quotient.

    exp of arguments below `LEAST` is set to zero.

    Parameters: X and Y, both float32 [outer, size of the axis, inner], or [outer, size] if inner is 1. Loop "row"
    contains the statements "max", "exp" ("distance" with `logarithm`), "sum" and "scale" of one row after the other.
    If inner is 1, they compute `width` partial results (a power of two) of one row side by side; otherwise the results
    of `width` neighbouring columns (loop "column"). Raises ValueError for an axis that the shape does not have.
    """
    if not -len(shape) <= axis < len(shape):
        raise ValueError(f"shape {shape} has no axis {axis}")
    outer, size, inner = around_axis(shape, axis % len(shape))
    if inner == 1:
        x, y = (Buffer(name=n, shape=(outer, size), dtype=DType.FLOAT32) for n in "XY")
        body = _rows(x, y, row_width(size, width), logarithm)
    else:
        x, y = (Buffer(name=n, shape=(outer, size, inner), dtype=DType.FLOAT32) for n in "XY")
        body = _columns(x, y, row_width(inner, width), logarithm)
    return Program(name="softmax", parameters=(x, y), body=body)


def _rows(x: Buffer, y: Buffer, width: int, logarithm: bool) -> Stmt:
    outer, size = x.shape
    row = Var("row")
    greatest = fold_row("max", "max", size, width, lambda p: x[row, p])

    def stage(name: str, value: Callable[[Expr], Expr]) -> Stmt:
        position, loops = row_loops(name, size, width)
        return nest(loops, Assign.to(name, y[row, position], value(position)))

    if logarithm:
        distance = stage("distance", lambda p: x[row, p] - greatest.result)
        total = fold_row("sum", "add", size, width, lambda p: _power(y[row, p]))
        scale = stage("scale", lambda p: y[row, p] - log(total.result))
    else:
        distance = stage("exp", lambda p: _power(x[row, p] - greatest.result))
        total = fold_row("sum", "add", size, width, lambda p: y[row, p])
        scale = stage("scale", lambda p: divide(y[row, p], total.result))
    return nest([(row, outer)], greatest.around(seq(distance, total.around(scale))))


def _columns(x: Buffer, y: Buffer, width: int, logarithm: bool) -> Stmt:
    outer, size, inner = x.shape
    row, column = Var("row"), Var("column")
    extent = Const(width) if inner % width == 0 else minimum(width, inner - column * width)
    greatest, total = (
        Buffer(name=n, shape=(width,), dtype=DType.FLOAT32, scope="register") for n in ("greatest", "total")
    )

    def stage(name: str, make: Callable[[Expr, Expr, Expr], Stmt]) -> Stmt:
        k, lane = Var(f"{name}.k"), Var(f"{name}.l")
        return nest([(k, size), (lane, extent)], make(k, lane, column * width + lane))

    def start(buffer: Buffer, value: float) -> Stmt:
        lane = Var(f"{buffer.name}.l")
        begin = Assign.to(buffer.name, buffer[lane], Const(value, DType.FLOAT32))
        return nest([(lane, width)], begin)

    def assign(name: str, value: Callable[[Expr, Expr, Expr], Expr]) -> Stmt:
        return stage(name, lambda k, lane, j: Assign.to(name, y[row, k, j], value(k, lane, j)))

    largest = stage(
        "max",
        lambda k, lane, j: Reduce.into("max", "max", greatest[lane], x[row, k, j]),
    )
    adding = stage(
        "sum",
        lambda k, lane, j: Reduce.into(
            "sum", "add", total[lane], _power(y[row, k, j]) if logarithm else y[row, k, j]
        ),
    )
    if logarithm:
        distance = assign("distance", lambda k, lane, j: x[row, k, j] - greatest[lane])
        scale = assign("scale", lambda k, lane, j: y[row, k, j] - log(total[lane]))
    else:
        distance = assign("exp", lambda k, lane, j: _power(x[row, k, j] - greatest[lane]))
        scale = assign("scale", lambda k, lane, j: divide(y[row, k, j], total[lane]))
    body: Stmt = seq(start(greatest, float("-inf")), largest, distance, start(total, 0.0), adding, scale)
    for buffer in (total, greatest):
        body = Alloc(buffer=buffer, body=body)
    return nest([(row, outer), (column, ceil_div(inner, width))], body)


def _power(distance: Expr) -> Expr:
    """exp of an element minus the maximum, 0 below `LEAST`; NaN stays NaN."""
    return select(distance < LEAST, Const(0.0, DType.FLOAT32), exp(distance))
