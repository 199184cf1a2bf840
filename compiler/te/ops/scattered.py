"""Elements read or written at indices that are known at run time only: GatherND, ScatterElements, ScatterND."""

from __future__ import annotations

from math import prod
from typing import Literal

from ...ir.expr import Buffer, Const, Expr, Var, maximum, minimum, select
from ...ir.stmt import Assign, Program, nest, seq
from ...ir.types import DType
from ..merge import Shape

Combination = Literal["none", "add", "mul", "max", "min"]


def gather_nd(
    shape: Shape, indices: Shape, batch: int, *, dtype: DType = DType.FLOAT32, name: str = "gather_nd"
) -> Program:
    """Y[b, j, …] = X[b, I[b, j, 0], I[b, j, 1], …, …] with `batch` dimensions b; ONNX's GatherND.

    Parameters X of `shape`, with its batch dimensions merged into one, and also its axes that have no index; I int64
    [batch, rows, depth], Y [batch, rows, rest]. Negative indices count from the end; an index outside an axis reads the
    element at the nearer end. Raises ValueError for shapes that do not match.
    """
    depth = indices[-1]
    if batch + depth > len(shape) or shape[:batch] != indices[:batch] or batch >= len(indices):
        raise ValueError(f"indices of {indices} do not choose from {shape}")
    outer, named = prod(shape[:batch]), shape[batch : batch + depth]
    rows, rest = prod(indices[batch:-1]), prod(shape[batch + depth :])
    x = Buffer(name="X", shape=(outer, *named, rest), dtype=dtype)
    chosen = Buffer(name="I", shape=(outer, rows, depth), dtype=DType.INT64)
    y = Buffer(name="Y", shape=(outer, rows, rest), dtype=dtype)
    b, j, r = Var("b"), Var("j"), Var("r")
    at = [_inside(chosen[b, j, d], size) for d, size in enumerate(named)]
    move = Assign.to("move", y[b, j, r], x[(b, *at, r)])
    body = nest([(b, outer), (j, rows), (r, rest)], move)
    return Program(name=name, parameters=(x, chosen, y), body=body)


def scatter_elements(
    shape: Shape,
    indices: Shape,
    axis: int,
    combine: Combination = "none",
    *,
    dtype: DType = DType.FLOAT32,
    name: str = "scatter_elements",
) -> Program:
    """Y = X, then Y[..., I[..., k, ...], ...] = U[..., k, ...] in the order of U, or combined; ONNX's ScatterElements.

    Parameters X of `shape`, I int64 and U of the shape `indices`, Y like X. Statements "copy" and "write". Raises
    ValueError for shapes that do not match.
    """
    if len(shape) != len(indices) or not 0 <= axis < len(shape):
        raise ValueError(f"shape {shape} has no elements {indices} along axis {axis}")
    if any(i > n for d, (i, n) in enumerate(zip(indices, shape, strict=True)) if d != axis):
        raise ValueError(f"indices of {indices} are longer than their data of {shape}")
    x, y = (Buffer(name=n, shape=shape, dtype=dtype) for n in "XY")
    chosen = Buffer(name="I", shape=indices, dtype=DType.INT64)
    updates = Buffer(name="U", shape=indices, dtype=dtype)
    loops = [Var(f"d{d}") for d in range(len(shape))]
    copy = nest(
        list(zip(loops, shape, strict=True)),
        Assign.to("copy", y[tuple(loops)], x[tuple(loops)]),
    )
    loops = [Var(f"write.d{d}") for d in range(len(shape))]
    places: list[Expr] = list(loops)
    places[axis] = _inside(chosen[tuple(loops)], shape[axis])
    value = _combined(combine, y[tuple(places)], updates[tuple(loops)])
    write = Assign.to("write", y[tuple(places)], value)
    body = seq(copy, nest(list(zip(loops, indices, strict=True)), write))
    return Program(name=name, parameters=(x, chosen, updates, y), body=body)


def scatter_nd(
    shape: Shape,
    indices: Shape,
    combine: Combination = "none",
    *,
    dtype: DType = DType.FLOAT32,
    name: str = "scatter_nd",
) -> Program:
    """Y = X, then Y[I[j, 0], I[j, 1], …, …] = U[j, …] in the order of j, or combined; ONNX's ScatterND.

    Parameters X of `shape` with the axes that have no index merged into one, I int64 [rows, depth], U [rows, rest], Y
    like X. Statements "copy" and "write". Raises ValueError for indices of more dimensions than X has.
    """
    depth = indices[-1]
    if not 1 <= depth <= len(shape):
        raise ValueError(f"indices of {indices} do not choose from {shape}")
    named, rest, rows = shape[:depth], prod(shape[depth:]), prod(indices[:-1])
    x, y = (Buffer(name=n, shape=(*named, rest), dtype=dtype) for n in "XY")
    chosen = Buffer(name="I", shape=(rows, depth), dtype=DType.INT64)
    updates = Buffer(name="U", shape=(rows, rest), dtype=dtype)
    loops = [Var(f"d{d}") for d in range(depth + 1)]
    copy = nest(
        list(zip(loops, x.shape, strict=True)),
        Assign.to("copy", y[tuple(loops)], x[tuple(loops)]),
    )
    j, r = Var("j"), Var("r")
    places = (*[_inside(chosen[j, d], size) for d, size in enumerate(named)], r)
    write = Assign.to("write", y[places], _combined(combine, y[places], updates[j, r]))
    body = seq(copy, nest([(j, rows), (r, rest)], write))
    return Program(name=name, parameters=(x, chosen, updates, y), body=body)


def one_hot(
    indices: Shape, axis: int, depth: int, *, dtype: DType = DType.FLOAT32, name: str = "one_hot"
) -> Program:
    """Y = V[1] at the index along a new `axis` of `depth`, V[0] elsewhere; ONNX's OneHot.

    Parameters I int64 [outer, inner], V [2], Y [outer, depth, inner]. Negative indices count from the end; an index
    outside the axis sets nothing to V[1].
    """
    outer, inner = prod(indices[:axis]), prod(indices[axis:])
    chosen = Buffer(name="I", shape=(outer, inner), dtype=DType.INT64)
    values = Buffer(name="V", shape=(2,), dtype=dtype)
    y = Buffer(name="Y", shape=(outer, depth, inner), dtype=dtype)
    n, k, i = Var("n"), Var("k"), Var("i")
    index = chosen[n, i]
    at = select(index < 0, index + depth, index)
    here = select(at <= k, k <= at, Const(False, DType.BOOL))
    hot = Assign.to("hot", y[n, k, i], select(here, values[1], values[0]))
    body = nest([(n, outer), (k, depth), (i, inner)], hot)
    return Program(name=name, parameters=(chosen, values, y), body=body)


def _inside(index: Expr, size: int) -> Expr:
    return minimum(maximum(select(index < 0, index + size, index), 0), size - 1)


def _combined(combine: Combination, held: Expr, update: Expr) -> Expr:
    match combine:
        case "none":
            return update
        case "add":
            return held + update
        case "mul":
            return held * update
        case "max":
            return maximum(held, update)
        case "min":
            return minimum(held, update)
