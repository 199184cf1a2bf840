"""Cumulative sums along an axis."""

from __future__ import annotations

from math import prod

from ...ir.expr import Buffer, Const, Expr, Var
from ...ir.stmt import Assign, Program, Stmt, nest, seq
from ...ir.types import DType
from ..merge import Shape


def cumulative_sum(
    shape: Shape, axis: int, *, exclusive: bool = False, reverse: bool = False, name: str = "cumulative_sum"
) -> Program:
    """Y[n, k, i] = the sum of X[n, m, i] for m up to k, in float32; ONNX's CumSum.

    With `exclusive` X[n, k, i] itself is not included; `reverse` sums from the end. Parameters X and Y [outer, size of
    axis, inner]. Loops n, i around "first", then n.next, i.next, k around "next". Rounding errors grow with k, since
    sums are added in this order. Raises ValueError for an axis that the shape does not have.
    """
    if not 0 <= axis < len(shape):
        raise ValueError(f"shape {shape} has no axis {axis}")
    outer, size, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    x, y = (Buffer(name=n, shape=(outer, size, inner), dtype=DType.FLOAT32) for n in ("X", "Y"))

    def at(step: Expr) -> Expr:
        """The index of the element `step` steps behind the first one summed."""
        return size - 1 - step if reverse else step

    n, i = Var("n"), Var("i")
    begin = at(Const(0))
    value: Expr = Const(0.0, DType.FLOAT32) if exclusive else x[n, begin, i]
    first = nest([(n, outer), (i, inner)], Assign.to("first", y[n, begin, i], value))
    stages: list[Stmt] = [first]
    if size > 1:
        n, k, i = Var("n.next"), Var("k"), Var("i.next")
        total = y[n, at(k), i] + x[n, at(k if exclusive else k + 1), i]
        more = Assign.to("next", y[n, at(k + 1), i], total)
        stages.append(nest([(n, outer), (i, inner), (k, size - 1)], more))
    return Program(name=name, parameters=(x, y), body=seq(*stages))
