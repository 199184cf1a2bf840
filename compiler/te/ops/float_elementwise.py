"""Element-wise operators on any number of tensors, broadcast as numpy does."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.expr import Buffer, Expr, Var, dtype_of
from ...ir.stmt import Program, each
from ...ir.types import DType
from ...ir.visit import substitute_expr, walk_expr
from ..merge import Shape, merge_broadcast
from ..scalars import argument


def float_elementwise(shapes: Sequence[Shape], body: Expr, *, name: str = "elementwise") -> Program:
    """Y = body, element by element, in which `te.scalars.argument(i)` stands for the element of input i.

    Parameters: the inputs X0, X1, … in the dtypes of the body's arguments (float32 for inputs that the body does not
    use), and Y in the body's dtype. `te.merge.merge_broadcast(shapes)` determines their shapes: broadcast as by numpy,
    with as few dimensions as possible, and the data in the same order. Loops d0, d1, … contain the statement "map".
    Raises ValueError if the shapes do not broadcast against each other, or the body uses an input that does not exist.
    """
    result, inputs = merge_broadcast(shapes)
    used = {e.name: e.dtype for e in walk_expr(body) if isinstance(e, Var)}
    known = [argument(position).name for position in range(len(shapes))]
    if missing := sorted(used.keys() - set(known)):
        raise ValueError(f"the body uses {missing[0]}, but there are only {len(shapes)} inputs")
    y = Buffer(name="Y", shape=result, dtype=dtype_of(body))
    loops = [Var(f"d{d}") for d in range(len(result))]
    values: dict[str, Expr] = {}
    parameters: list[Buffer] = []
    for position, (formal, shape) in enumerate(zip(known, inputs, strict=True)):
        x = Buffer(name=f"X{position}", shape=shape, dtype=used.get(formal, DType.FLOAT32))
        parameters.append(x)
        values[formal] = x[tuple([0 if size == 1 else loop for size, loop in zip(shape, loops, strict=True)])]
    apply = each("map", y[tuple(loops)], substitute_expr(body, values))
    return Program(name=name, parameters=(*parameters, y), body=apply)
