"""Elements read or written at indices known only at run time: GatherElements, GatherND, ScatterElements, ScatterND."""

from __future__ import annotations

from math import prod
from typing import Literal

from ...ir.expr import Buffer, Const, Expr, Var, maximum, minimum, select
from ...ir.stmt import Assign, Program, Stmt, each, nest, seq
from ...ir.types import DType
from ..merge import Shape
from .movement import inside

Combination = Literal["none", "add", "mul", "max", "min"]


def gather_elements(shape: Shape, indices: Shape, axis: int, *, dtype: DType = DType.FLOAT32) -> Program:
    """Y[..., k, ...] = X[..., I[..., k, ...], ...], where the index replaces position k of `axis`.

    Parameters: X of `dtype` and `shape`; I int64 of the shape `indices`; Y of `dtype` and the shape `indices`, which
    may exceed the shape of X along `axis` only. A negative index counts from the end; an index outside the axis reads
    the element at the nearer end. Loops d0, d1, … contain the statement "move". Raises ValueError for shapes that do
    not match.
    """
    _check_elements(shape, indices, axis)
    x = Buffer(name="X", shape=shape, dtype=dtype)
    chosen = Buffer(name="I", shape=indices, dtype=DType.INT64)
    y = Buffer(name="Y", shape=indices, dtype=dtype)
    loops, places = _indexed_element("", chosen, shape, axis)
    return Program(name="gather_elements", parameters=(x, chosen, y), body=each("move", y[loops], x[places]))


def _check_elements(shape: Shape, indices: Shape, axis: int) -> None:
    """Raises ValueError unless indices of this shape can replace positions along `axis`."""
    if not 0 <= axis < len(shape):
        raise ValueError(f"shape {shape} has no axis {axis}")
    if len(shape) != len(indices):
        raise ValueError(
            f"indices of shape {indices} and data of shape {shape} must have the same number of dimensions"
        )
    if any(i > n for d, (i, n) in enumerate(zip(indices, shape, strict=True)) if d != axis):
        raise ValueError(
            f"indices of shape {indices} may exceed data of shape {shape} only along axis {axis}"
        )


def _indexed_element(
    prefix: str, chosen: Buffer, shape: Shape, axis: int
) -> tuple[tuple[Var, ...], tuple[Expr, ...]]:
    """Returns (loops; position). The loops run over all elements of `chosen`, an array of indices along `axis`. The
    position, in a tensor of `shape`, is the element that an index selects: along `axis` it is the value from `chosen`,
    along other axes the loop variable. Names of loops begin with `prefix`.
    """
    loops = tuple([Var(f"{prefix}d{d}") for d in range(len(shape))])
    places: list[Expr] = list(loops)
    places[axis] = inside(chosen[loops], shape[axis])
    return loops, tuple(places)


def gather_nd(shape: Shape, indices: Shape, batch: int, *, dtype: DType = DType.FLOAT32) -> Program:
    """ONNX's GatherND: Y[b, j, …] = X[b, I[b, j, 0], I[b, j, 1], …, …]. The first `batch` dimensions of X and I are
    batch dimensions b; I's last dimension lists indices of the next axes of X; Y has all remaining axes of X.

    Parameters: X [batch, indexed axes, rest] of `dtype`, which is X of `shape` with the batch dimensions merged into
    one and the remaining axes merged into one; I int64 [batch, rows, depth]; Y [batch, rows, rest] of `dtype`. Negative
    indices count from the end; an index outside an axis reads the element at the nearer end. Raises ValueError for
    shapes that do not match.
    """
    depth = indices[-1]
    where, most = f"indices of shape {indices} with {batch} batch dimensions", len(shape) - batch
    if batch >= len(indices):
        raise ValueError(f"{where} must have {batch + 1} or more dimensions, not {len(indices)}")
    if shape[:batch] != indices[:batch]:
        raise ValueError(f"{where} must begin with the same sizes as data of shape {shape}")
    if depth > most:
        raise ValueError(f"{where} select by {depth} indices, but data of shape {shape} allow at most {most}")
    outer, named = prod(shape[:batch]), shape[batch : batch + depth]
    rows, rest = prod(indices[batch:-1]), prod(shape[batch + depth :])
    x = Buffer(name="X", shape=(outer, *named, rest), dtype=dtype)
    chosen = Buffer(name="I", shape=(outer, rows, depth), dtype=DType.INT64)
    y = Buffer(name="Y", shape=(outer, rows, rest), dtype=dtype)
    b, j, r = Var("b"), Var("j"), Var("r")
    at = [inside(chosen[b, j, d], size) for d, size in enumerate(named)]
    return Program(name="gather_nd", parameters=(x, chosen, y), body=each("move", y[b, j, r], x[(b, *at, r)]))


def scatter_elements(
    shape: Shape, indices: Shape, axis: int, combine: Combination = "none", *, dtype: DType = DType.FLOAT32
) -> Program:
    """ONNX's ScatterElements: copies X to Y, then writes each element of U to Y. The element of I at the same indices
    gives the place: Y[..., I[..., k, ...], ...] = U[..., k, ...], where the index from I replaces the index along
    `axis`. With `combine`, the new value is the combination (a sum, for example) of the old value and U's.

    Parameters, in this order: X of `dtype` and `shape`; I int64 and U of `dtype`, both of the shape `indices`; Y like
    X. A negative index counts from the end; an index outside the axis writes the element at the nearer end. Statement
    "copy" copies X, statement "write" visits the elements of U in order. Raises ValueError for shapes that do not
    match."""
    _check_elements(shape, indices, axis)
    x, y = (Buffer(name=n, shape=shape, dtype=dtype) for n in "XY")
    chosen = Buffer(name="I", shape=indices, dtype=DType.INT64)
    updates = Buffer(name="U", shape=indices, dtype=dtype)
    loops, places = _indexed_element("write.", chosen, shape, axis)
    value = _combined(combine, y[places], updates[loops])
    write = nest(list(zip(loops, indices, strict=True)), Assign.to("write", y[places], value))
    return Program(name="scatter_elements", parameters=(x, chosen, updates, y), body=seq(_copy(y, x), write))


def scatter_nd(
    shape: Shape, indices: Shape, combine: Combination = "none", *, dtype: DType = DType.FLOAT32
) -> Program:
    """ONNX's ScatterND: Y = X, then for each j in order, element Y[I[j, 0], I[j, 1], …, …] becomes U[j, …] or, with
    `combine`, the combination of its old value and U[j, …].

    Parameters: X of `dtype` and `shape`, with the axes that have no index merged into one; I int64 [rows, depth], which
    is I of the shape `indices` with all dimensions but the last merged; U of `dtype` [rows, rest]; Y like X. A negative
    index counts from the end; an index outside its axis writes the element at the nearer end. Statement "copy" copies
    X, statement "write" stores the elements of U. Raises ValueError if the last dimension of `indices` is 0 or more
    than the number of dimensions of X."""
    depth = indices[-1] if indices else 0
    if not 1 <= depth <= len(shape):
        raise ValueError(
            f"the last size of indices of shape {indices} must be 1 to {len(shape)}, the number of dimensions of "
            f"data of shape {shape}"
        )
    named, rest, rows = shape[:depth], prod(shape[depth:]), prod(indices[:-1])
    x, y = (Buffer(name=n, shape=(*named, rest), dtype=dtype) for n in "XY")
    chosen = Buffer(name="I", shape=(rows, depth), dtype=DType.INT64)
    updates = Buffer(name="U", shape=(rows, rest), dtype=dtype)
    j, r = Var("j"), Var("r")
    places = (*[inside(chosen[j, d], size) for d, size in enumerate(named)], r)
    write = Assign.to("write", y[places], _combined(combine, y[places], updates[j, r]))
    body = seq(_copy(y, x), nest([(j, rows), (r, rest)], write))
    return Program(name="scatter_nd", parameters=(x, chosen, updates, y), body=body)


def one_hot(indices: Shape, axis: int, depth: int, *, dtype: DType = DType.FLOAT32) -> Program:
    """ONNX's OneHot: along a new `axis` (its index in ONNX's output, from 0 on) of `depth` elements, Y = V[1] at the
    index and V[0] elsewhere.

    Parameters: I int64 [outer, inner], the indices, of the shape `indices`, with the dimensions before and behind the
    new axis merged; V [2] of `dtype`; Y [outer, depth, inner] of `dtype`. Negative indices count from the end; for an
    index outside the axis all elements along the axis are V[0].
    """
    outer, inner = prod(indices[:axis]), prod(indices[axis:])
    chosen = Buffer(name="I", shape=(outer, inner), dtype=DType.INT64)
    values = Buffer(name="V", shape=(2,), dtype=dtype)
    y = Buffer(name="Y", shape=(outer, depth, inner), dtype=dtype)
    n, k, i = Var("n"), Var("k"), Var("i")
    index = chosen[n, i]
    at = select(index < 0, index + depth, index)
    here = select(at <= k, k <= at, Const(False, DType.BOOL))
    hot = each("hot", y[n, k, i], select(here, values[1], values[0]))
    return Program(name="one_hot", parameters=(chosen, values, y), body=hot)


def _copy(y: Buffer, x: Buffer) -> Stmt:
    loops = tuple([Var(f"d{d}") for d in range(len(x.shape))])
    return each("copy", y[loops], x[loops])


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
