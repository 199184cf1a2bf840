"""box_copy: turns loops around the copy of one element into one copy of a box (a rectangle of elements,
`ir.stmt.Region`).
"""

from __future__ import annotations

from ..ir.expr import Const, Expr, Load, Var
from ..ir.stmt import Assign, Copy, For, Program, Region
from ..ir.visit import free_vars
from .errors import LegalityError
from .tree import locate, rebuild

_ZERO, _ONE = Const(0), Const(1)


def box_copy(program: Program, name: str) -> Program:
    """Replaces the loops right around `name`, which copies an element, by one copy of a box (rectangle of elements):
    inverse of `expand_copy`.

    rewrite:
        for T.0 in range(4):                             ->   T: copy T[0:4, 0:n] = A[i, 0:4, 0:n]
            for T.1 in range(n):
                T: T[T.0, T.1] = A[i, T.0, T.1]
    Legal if `name` assigns or copies one element of another buffer of the same type, and the indices of both buffers
    either are the variables of these loops, each once and in the same order, or do not depend on these loops.
    """
    path = locate(program, name)
    where = f"cannot copy a box at {name}: "
    elements = _elements(path[-1])
    if elements is None:
        raise LegalityError(f"{where}it is not the plain copy of an element", program, name)
    at = len(path) - 1
    loops: dict[str, For] = {}
    while at and isinstance(loop := path[at - 1], For) and loop.kind == "serial":
        if not all(loop.var in load.indices for load in elements):
            break
        loops[loop.name] = loop
        at -= 1
    if not loops:
        raise LegalityError(
            f"{where}no serial loop around it is an index of both source and destination", program, name
        )
    if any(free_vars(loop.extent) & loops.keys() for loop in loops.values()):
        raise LegalityError(f"{where}its loops depend on one another", program, name)
    order = [_variables(load, loops) for load in elements]
    if order[0] != order[1] or len(set(order[0])) != len(order[0]):
        raise LegalityError(
            f"{where}its loops index the dimensions of source and destination in different orders",
            program,
            name,
        )

    def region(load: Load) -> Region:
        starts: list[Expr] = []
        extents: list[Expr] = []
        for e in load.indices:
            loop = loops.get(e.name) if isinstance(e, Var) else None
            starts.append(e if loop is None else _ZERO)
            extents.append(_ONE if loop is None else loop.extent)
        return Region(buffer=load.buffer, starts=tuple(starts), extents=tuple(extents))

    to, of = elements
    copy = Copy(name=name, destination=region(to), source=region(of))
    return rebuild(path[: at + 1], copy)


def _elements(statement: object) -> tuple[Load, Load] | None:
    """(element written, element read) of a statement that only copies one element; None for other statements."""
    match statement:
        case Assign(buffer=buffer, indices=indices, value=Load() as value):
            to = Load(buffer, indices)
        case Copy(destination=to_region, source=of_region, pad=None, asynchronous=False) if all(
            e == _ONE for e in (*to_region.extents, *of_region.extents)
        ):
            to = Load(to_region.buffer, to_region.starts)
            value = Load(of_region.buffer, of_region.starts)
        case _:
            return None
    alike = to.buffer.dtype is value.buffer.dtype and to.buffer.name != value.buffer.name
    return (to, value) if alike else None


def _variables(load: Load, loops: dict[str, For]) -> list[str]:
    return [e.name for e in load.indices if isinstance(e, Var) and e.name in loops]
