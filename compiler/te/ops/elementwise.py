"""Element-wise operators on any number of float32 tensors, broadcast as numpy does."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.expr import Buffer, Expr, Var
from ...ir.stmt import Assign, Program, nest
from ...ir.types import DType
from ...ir.visit import substitute_expr
from ..merge import Shape, merge_broadcast


def elementwise(shapes: Sequence[Shape], body: Expr, *, name: str = "elementwise") -> Program:
    """Y = body, element by element, in which `te.scalars.argument(i)` stands for the element of input i.

    Parameters X0, X1, … and Y, float32, in the shapes that `te.merge.merge_broadcast(shapes)` gives: those of numpy's
    broadcasting with as few dimensions as possible, which hold the same data in the same order. Loops d0, d1, … around
    "map". ValueError where the shapes do not broadcast against each other, or the body asks for other inputs.
    """
    result, inputs = merge_broadcast(shapes)
    y = Buffer(name="Y", shape=result, dtype=DType.FLOAT32)
    loops = [Var(f"d{d}") for d in range(len(result))]
    values: dict[str, Expr] = {}
    parameters: list[Buffer] = []
    for position, shape in enumerate(inputs):
        x = Buffer(name=f"X{position}", shape=shape, dtype=DType.FLOAT32)
        parameters.append(x)
        at = [0 if size == 1 else loop for size, loop in zip(shape, loops, strict=True)]
        values[f"argument{position}"] = x[tuple(at)]
    value = substitute_expr(body, values)
    apply = Assign(name="map", buffer=y, indices=tuple(loops), value=value)
    body_loops = nest(list(zip(loops, result, strict=True)), apply)
    return Program(name=name, parameters=(*parameters, y), body=body_loops)
