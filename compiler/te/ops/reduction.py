"""Reductions of float32 tensors over any axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Literal

from ...ir.expr import Buffer, Const, Expr, Var, all_of, equal
from ...ir.stmt import Alloc, Assign, Program, Reduce, nest, seq
from ...ir.types import DType
from ..merge import Shape, merge_axes
from ..rows import Operator, fold_row, row_width
from ..scalars import absolute, divide, negative, sqrt

Kind = Literal["sum", "mean", "max", "min", "sum_square", "l1", "l2"]


def reduction(
    shape: Shape, axes: Sequence[int], kind: Kind, *, width: int = 1, beside: Sequence[Shape] = ()
) -> Program:
    """Y = the reduction of X over `axes`; `kind` names the reduction (sum, mean, …). A NaN makes a maximum or minimum
    NaN.

    Parameters: X and Y, both float32. `te.merge.merge_axes(shape, axes, beside)` determines their shapes: neighbouring
    axes are merged if both are reduced or both kept; Y has the kept axes, or one axis of size 1. `beside`: shapes of
    further tensors, which must still broadcast against X after merging.

    If the last axis is reduced, there are `width` (a power of two) partial results, and successive elements of the axis
    go to successive partial results: loops d0, d1, … over the kept axes contain the reduction "reduce"
    (`te.rows.fold_row`) and the statement "post". If the last axis is kept, loops reduce.d0, … over all axes contain
    the statement "reduce", which reduces into the buffer `sum`, and then loops d0, … contain the statement "post".
    Raises ValueError for an invalid axis.
    """
    merged = merge_axes(shape, axes, beside) or ((1, False),)
    sizes = [size for size, _ in merged]
    kept = [d for d, (_, reduced) in enumerate(merged) if not reduced]
    count = prod(size for size, reduced in merged if reduced)
    x = Buffer(name="X", shape=tuple(sizes), dtype=DType.FLOAT32)
    y = Buffer(name="Y", shape=tuple([sizes[d] for d in kept]) or (1,), dtype=DType.FLOAT32)
    op: Operator = "max" if kind in ("max", "min") else "add"
    outer = [(Var(f"d{d}"), sizes[d]) for d in kept]
    at = tuple([var for var, _ in outer]) or (Const(0),)
    if merged[-1][1]:
        own = [(Var(f"reduce.d{d}"), Const(sizes[d])) for d in range(len(sizes) - 1) if d not in kept]
        names = {var.name.rpartition("d")[2]: var for var, _ in [*outer, *own]}
        before = [names[str(d)] for d in range(len(sizes) - 1)]
        folded = fold_row(
            "reduce",
            op,
            sizes[-1],
            row_width(sizes[-1], width),
            lambda position: reduced_value(kind, x[*before, position]),
            own,
        )
        post = Assign.to("post", y[at], reduction_result(kind, folded.result, count))
        return Program(name="reduction", parameters=(x, y), body=nest(outer, folded.around(post)))
    total = Buffer(name="sum", shape=y.shape, dtype=DType.FLOAT32)
    loops = [Var(f"reduce.d{d}") for d in range(len(sizes))]
    reduce = Reduce.into(
        "reduce",
        op,
        total[tuple([loops[d] for d in kept])],
        reduced_value(kind, x[tuple(loops)]),
        all_of(*[equal(loops[d], 0) for d in range(len(sizes)) if d not in kept]),
    )
    order = [*kept, *(d for d in range(len(sizes)) if d not in kept)]
    summed = nest([(loops[d], sizes[d]) for d in order], reduce)
    post = Assign.to("post", y[at], reduction_result(kind, total[at], count))
    body = Alloc(buffer=total, body=seq(summed, nest(outer, post)))
    return Program(name="reduction", parameters=(x, y), body=body)


def reduced_value(kind: Kind, element: Expr) -> Expr:
    """The term that a reduction of `kind` adds up, or takes the maximum of, for one `element`: its square, its absolute
    value, its negative (for a minimum) or the element itself.
    """
    match kind:
        case "min":
            return negative(element)
        case "sum_square" | "l2":
            return element * element
        case "l1":
            return absolute(element)
    return element


def reduction_result(kind: Kind, total: Expr, count: int) -> Expr:
    """The result of a reduction of `kind` from `total`, the sum or maximum of the terms of `count` elements."""
    match kind:
        case "mean":
            return divide(total, float(count))
        case "min":
            return negative(total)
        case "l2":
            return sqrt(total)
    return total
