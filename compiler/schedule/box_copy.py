"""box_copy: turns loops around the copy of one element into one copy of a box (a rectangle of elements,
`ir.stmt.Region`).
"""

from __future__ import annotations

from ..ir.affine import LinearForm, form_to_expr
from ..ir.bounds import loop_ranges
from ..ir.expr import Const, Load, Var
from ..ir.simplify import simplify_form
from ..ir.stmt import Assign, Copy, For, Program, Region
from ..ir.visit import free_vars
from .errors import LegalityError
from .tree import locate, rebuild

_ONE = Const(1)


def box_copy(program: Program, name: str) -> Program:
    """Replaces the statement `name`, which copies an element, and loops directly around it by one copy of a box
    (rectangle of elements): inverse of `expand_copy`.

    rewrite:
        for T.0 in range(4):                             ->   T: copy T[0:4, 0:n] = A[i, 2:6, 0:n]
            for T.1 in range(n):
                T: T[T.0, T.1] = A[i, T.0 + 2, T.1]
    Legal if `name` assigns or copies one element of another buffer of the same type. Loops are replaced from the
    innermost outwards, as long as a loop is serial and its variable is a term of exactly one index of each buffer. No
    two of these loops may index the same dimension, they must index the dimensions of both buffers in the same order,
    and their extents must not depend on one another."""
    path = locate(program, name)
    where = f"cannot copy a box at {name}: "
    elements = _elements(path[-1])
    if elements is None:
        reason = f"{where}it does not copy one element of another buffer, unchanged and of the same type"
        raise LegalityError(reason, program, name)
    to, of, pad = elements
    ranges = loop_ranges(node for node in path if isinstance(node, For))
    forms = [[simplify_form(index, ranges) for index in load.indices] for load in (to, of)]
    at = len(path) - 1
    loops: dict[str, For] = {}
    dimensions: list[list[int]] = [[], []]
    while at and isinstance(loop := path[at - 1], For) and loop.kind == "serial":
        found = [_dimension(indices, loop.var) for indices in forms]
        if None in found:
            break
        loops[loop.name] = loop
        for held, d in zip(dimensions, found, strict=True):
            held.insert(0, d or 0)
        at -= 1
    if not loops:
        reason = f"{where}no serial loop directly around it is an index of both source and destination"
        raise LegalityError(reason, program, name)
    if any(free_vars(loop.extent) & loops.keys() for loop in loops.values()):
        reason = f"{where}the extent of a loop around it depends on another of these loops"
        raise LegalityError(reason, program, name)
    orders = [sorted(range(len(held)), key=held.__getitem__) for held in dimensions]
    if orders[0] != orders[1] or any(len(set(held)) != len(held) for held in dimensions):
        reason = f"{where}its loops must index different dimensions, in one order in source and destination"
        raise LegalityError(reason, program, name)

    def region(load: Load, indices: list[LinearForm], held: list[int]) -> Region:
        own = dict(zip(held, reversed(loops.values()), strict=True))
        starts = [
            form_to_expr(_without(form, own[d].var) if d in own else form) for d, form in enumerate(indices)
        ]
        extents = [own[d].extent if d in own else _ONE for d in range(len(starts))]
        return Region(buffer=load.buffer, starts=tuple(starts), extents=tuple(extents))

    copy = Copy(
        name=name,
        destination=region(to, forms[0], dimensions[0]),
        source=region(of, forms[1], dimensions[1]),
        pad=pad,
    )
    return rebuild(path[: at + 1], copy)


def _elements(statement: object) -> tuple[Load, Load, Const | None] | None:
    """(element written, element read, pad) of a statement that only copies one element; None for other statements."""
    match statement:
        case Assign(buffer=buffer, indices=indices, value=Load() as value):
            to, pad = Load(buffer, indices), None
        case Copy(destination=to_region, source=of_region, pad=pad, asynchronous=False) if all(
            e == _ONE for e in (*to_region.extents, *of_region.extents)
        ):
            to = Load(to_region.buffer, to_region.starts)
            value = Load(of_region.buffer, of_region.starts)
        case _:
            return None
    alike = to.buffer.dtype is value.buffer.dtype and to.buffer.name != value.buffer.name
    return (to, value, pad) if alike else None


def _dimension(indices: list[LinearForm], var: Var) -> int | None:
    """The dimension whose index is `var` plus terms without `var`, if no other index uses `var`; else None."""
    users = [d for d, form in enumerate(indices) if any(var.name in free_vars(atom) for atom in form.terms)]
    if len(users) != 1 or indices[users[0]].terms.get(var) != 1:
        return None
    rest = _without(indices[users[0]], var)
    return None if any(var.name in free_vars(atom) for atom in rest.terms) else users[0]


def _without(form: LinearForm, var: Var) -> LinearForm:
    return LinearForm({atom: c for atom, c in form.terms.items() if atom != var}, form.constant)
