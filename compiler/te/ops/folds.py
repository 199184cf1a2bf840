"""Reductions that combine the elements along axes one after the other, for types and operators that `reduction.py`
lacks: product, running sums, index of the extreme element, top k.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ...ir.expr import Buffer, Const, Expr, Var, binary, equal, maximum, minimum, select, wrap
from ...ir.stmt import Alloc, Assign, Program, Reduce, Stmt, each, nest, seq
from ...ir.types import DType
from ..merge import Shape, around_axis, merge_axes

FoldKind = Literal["sum", "product", "max", "min"]


def fold(shape: Shape, axes: Sequence[int], kind: FoldKind, *, dtype: DType = DType.FLOAT32) -> Program:
    """Y = the sum, product, maximum or minimum of X over `axes`; integers wrap, and any NaN makes the result NaN.

    Parameters X and Y of `dtype`: X has the shape of `te.merge.merge_axes(shape, axes)`, Y the axes that are not
    reduced ([1] if there are none). Statement "begin" initializes Y in loops d0, d1, …; statement "fold" then combines
    elements in loops fold.d0, … over Y and, inside, fold.r0, … over the reduced axes. Raises ValueError for an invalid
    axis.
    """
    merged = merge_axes(shape, axes) or ((1, False),)
    sizes = [size for size, _ in merged]
    kept = [d for d, (_, reduced) in enumerate(merged) if not reduced]
    x = Buffer(name="X", shape=tuple(sizes), dtype=dtype)
    y = Buffer(name="Y", shape=tuple([sizes[d] for d in kept]) or (1,), dtype=dtype)

    def positions(prefix: str) -> tuple[list[tuple[Var, int]], tuple[Expr, ...]]:
        loops = [(Var(f"{prefix}d{d}"), sizes[d]) for d in kept]
        return loops, tuple([var for var, _ in loops]) or (Const(0),)

    loops, at = positions("")
    begin = nest(loops, Assign.to("begin", y[at], _neutral(kind, dtype)))
    loops, at = positions("fold.")
    inner = [(Var(f"fold.r{d}"), sizes[d]) for d in range(len(sizes)) if d not in kept]
    names = {var.name.rpartition(".")[2][1:]: var for var, _ in [*loops, *inner]}
    element = x[tuple([names[str(d)] for d in range(len(sizes))])]
    more = Assign.to("fold", y[at], _folded(kind, y[at], element))
    return Program(name="fold", parameters=(x, y), body=seq(begin, nest([*loops, *inner], more)))


def running_product(
    shape: Shape,
    axis: int,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    product: bool = True,
    dtype: DType = DType.FLOAT32,
    name: str = "running_product",
) -> Program:
    """Y[n, k, i] = the product (with `product` False: the sum) of X[n, m, i] over all m <= k, in any type.

    With `exclusive` X[n, k, i] itself is not included; with `reverse` the product begins at the end of the axis.
    Parameters of type `dtype`: X and Y [outer, size of axis, inner]. Statement "first" (loops n, i) stores the first
    element along the axis, statement "next" (loops n.next, i.next, k) each further one. Rounding errors grow with k,
    since elements are combined in this order. Raises ValueError for an axis that the shape does not have.
    """
    outer, size, inner = around_axis(shape, axis)
    x, y = (Buffer(name=n, shape=(outer, size, inner), dtype=dtype) for n in ("X", "Y"))

    def at(step: Expr) -> Expr:
        """The index along the axis of element number `step`, counted from the end at which the product begins."""
        return size - 1 - step if reverse else step

    n, i, kind = Var("n"), Var("i"), "product" if product else "sum"
    value: Expr = _neutral(kind, dtype) if exclusive else x[n, at(Const(0)), i]
    begin = Assign.to("first", y[n, at(Const(0)), i], value)
    stages: list[Stmt] = [nest([(n, outer), (i, inner)], begin)]
    if size > 1:
        n, k, i = Var("n.next"), Var("k"), Var("i.next")
        total = _folded(kind, y[n, at(k), i], x[n, at(k if exclusive else k + 1), i])
        more = Assign.to("next", y[n, at(k + 1), i], total)
        stages.append(nest([(n, outer), (i, inner), (k, size - 1)], more))
    return Program(name=name, parameters=(x, y), body=seq(*stages))


def extreme_index(
    shape: Shape, axis: int, *, least: bool = False, last: bool = False, dtype: DType = DType.FLOAT32
) -> Program:
    """Y = the index of the greatest element along `axis`, or with `least` of the smallest element. If several elements
    are equal, the first one counts or, with `last`, the last one.

    Parameters: X [outer, size of the axis, inner] of `dtype`; Y int64 [outer, inner]. The buffer `best` holds the
    greatest element so far. Statements "first" and "best.first" begin with the element at index 0; "index" and "best"
    then visit the other elements. Raises ValueError for an axis that the shape does not have.
    """
    outer, size, inner = around_axis(shape, axis)
    x = Buffer(name="X", shape=(outer, size, inner), dtype=dtype)
    y = Buffer(name="Y", shape=(outer, inner), dtype=DType.INT64)
    best = Buffer(name="best", shape=(outer, inner), dtype=dtype)
    n, i = Var("n"), Var("i")
    first = seq(Assign.to("first", y[n, i], Const(0)), Assign.to("best.first", best[n, i], x[n, 0, i]))
    stages: list[Stmt] = [nest([(n, outer), (i, inner)], first)]
    if size > 1:
        n, i, k = Var("n.next"), Var("i.next"), Var("k")
        element, held = x[n, k + 1, i], best[n, i]
        a, b = (element, held) if least else (held, element)
        better = a <= b if last else a < b
        update = seq(
            Assign.to("index", y[n, i], select(better, k + 1, y[n, i])),
            Assign.to("best", best[n, i], select(better, element, held)),
        )
        stages.append(nest([(n, outer), (k, size - 1), (i, inner)], update))
    return Program(name="extreme_index", parameters=(x, y), body=Alloc(buffer=best, body=seq(*stages)))


def top_k(
    shape: Shape, axis: int, count: int, *, least: bool = False, dtype: DType = DType.FLOAT32
) -> Program:
    """The `count` greatest elements along `axis` (with `least` the smallest), sorted, and their indices. Of equal
    elements the one with the smaller index comes first.

    Parameters: X [outer, size of the axis, inner] of `dtype`; the elements Y [outer, count, inner] of `dtype`; their
    indices I int64, shaped like Y. The rank of an element is the number of elements that come before it. Statements
    "begin" and "rank" compute the ranks of a row in the int64 buffer `rank` (size * size comparisons); "value" and
    "index" store the elements with ranks below `count` in Y and I, at their ranks. Raises ValueError if the shape does
    not have this axis, or if `count` is greater than its size.
    """
    if not 0 <= axis < len(shape):
        raise ValueError(f"shape {shape} has no axis {axis}")
    if not 1 <= count <= shape[axis]:
        raise ValueError(
            f"axis {axis} of shape {shape} has {shape[axis]} elements; cannot select {count} of them"
        )
    outer, size, inner = around_axis(shape, axis)
    x = Buffer(name="X", shape=(outer, size, inner), dtype=dtype)
    y, index = (
        Buffer(name=n, shape=(outer, count, inner), dtype=t) for n, t in (("Y", dtype), ("I", DType.INT64))
    )
    rank = Buffer(name="rank", shape=(size, inner), dtype=DType.INT64)
    n = Var("n")
    begin = each("begin", rank[Var("begin.k"), Var("begin.i")], Const(0))
    k, j, i = Var("rank.k"), Var("rank.j"), Var("rank.i")
    mine, other = x[n, k, i], x[n, j, i]
    ahead = other < mine if least else mine < other
    tie = select(equal(mine, other), select(j < k, Const(1), Const(0)), Const(0))
    counted = Reduce.into("rank", "add", rank[k, i], select(ahead, Const(1), tie))
    ranks = nest([(k, size), (j, size), (i, inner)], counted)
    p, k, i = Var("p"), Var("k"), Var("i")
    here = equal(rank[k, i], p)
    place = Assign.to("index", index[n, p, i], select(here, k, select(equal(k, 0), 0, index[n, p, i])))
    value = Assign.to(
        "value", y[n, p, i], select(here, x[n, k, i], select(equal(k, 0), wrap(0, dtype), y[n, p, i]))
    )
    chosen = nest([(p, count), (k, size), (i, inner)], seq(place, value))
    body = nest([(n, outer)], Alloc(buffer=rank, body=seq(begin, ranks, chosen)))
    return Program(name="top_k", parameters=(x, y, index), body=body)


def _neutral(kind: FoldKind, dtype: DType) -> Expr:
    match kind:
        case "sum":
            return wrap(0, dtype) if dtype is not DType.BOOL else Const(False, dtype)
        case "product":
            return wrap(1, dtype)
        case "max" | "min":
            if dtype.is_float:
                return Const(float("-inf") if kind == "max" else float("inf"), dtype)
            return Const(dtype.limits[0 if kind == "max" else 1], dtype)


def _folded(kind: FoldKind, total: Expr, element: Expr) -> Expr:
    match kind:
        case "sum":
            return total + element
        case "product":
            return binary("*", total, element)
        case "max":
            return maximum(total, element)
        case "min":
            return minimum(total, element)
