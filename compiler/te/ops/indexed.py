"""ONNX's GatherElements with an index tensor: each output element is selected by one index."""

from __future__ import annotations

from ...ir.expr import Buffer, Expr, Var, maximum, minimum, select
from ...ir.stmt import Assign, Program, nest
from ...ir.types import DType
from ..merge import Shape


def gather_elements(
    shape: Shape, indices: Shape, axis: int, *, dtype: DType = DType.FLOAT32, name: str = "gather_elements"
) -> Program:
    """Y[..., k, ...] = X[..., I[..., k, ...], ...], where the index replaces position k of `axis`.

    Parameters X of `shape`, I int64 and Y, both of shape `indices`, which is at most X's in every dimension but `axis`.
    A negative index counts from the end; an index outside the axis reads the element at the nearer end. Loops d0, d1, …
    around "move". Raises ValueError for shapes that do not match.
    """
    if len(shape) != len(indices) or not 0 <= axis < len(shape):
        raise ValueError(f"shape {shape} has no elements {indices} along axis {axis}")
    if any(i > n for d, (i, n) in enumerate(zip(indices, shape, strict=True)) if d != axis):
        raise ValueError(f"indices of {indices} are longer than their data of {shape}")
    x = Buffer(name="X", shape=shape, dtype=dtype)
    chosen = Buffer(name="I", shape=indices, dtype=DType.INT64)
    y = Buffer(name="Y", shape=indices, dtype=dtype)
    loops = [Var(f"d{d}") for d in range(len(indices))]
    index = chosen[tuple(loops)]
    size = shape[axis]
    places: list[Expr] = list(loops)
    places[axis] = minimum(maximum(select(index < 0, index + size, index), 0), size - 1)
    move = Assign.to("move", y[tuple(loops)], x[tuple(places)])
    return Program(
        name=name, parameters=(x, chosen, y), body=nest(list(zip(loops, indices, strict=True)), move)
    )
