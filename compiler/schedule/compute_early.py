"""compute_early: moves a scalar function that all readers apply to a buffer's elements into the buffer's producer."""

from __future__ import annotations

from dataclasses import replace

from ..ir.expr import Call, Expr, Load
from ..ir.stmt import Alloc, Assign, Copy, Intrinsic, Node, Program
from ..ir.visit import expressions, loads_in, map_all_expressions, map_expr, walk, walk_expr
from .errors import LegalityError
from .legality import touches
from .tree import locate, locate_alloc, rebuild


def compute_early(program: Program, name: str) -> Program:
    """Moves the computation of a function f from the places where a buffer is read to the Assign `name`, which writes
    the buffer.

    rewrite:
        alloc T[n]                             alloc T[n]
        for a in range(n):                     for a in range(n):
            T[a] = v(a)                 ->         T[a] = f(v(a))
        for i in range(m):                     for i in range(m):
            C[i] = f(T[i]) + f(T[i + 1])           C[i] = T[i] + T[i + 1]
    f is a scalar function of one argument (a Call); afterwards it is computed once for each element, not once for each
    use. Legal if the buffer is allocated in the program, only `name` writes it, every read of it is the argument of f,
    and f returns the type of the buffer.
    """
    statement = locate(program, name)[-1]
    where = f"cannot compute {name} early: "
    if not isinstance(statement, Assign):
        raise LegalityError(f"{where}it is not an assignment", program, name)
    buffer = statement.buffer
    path = locate_alloc(program, buffer.name)
    if path is None:
        raise LegalityError(f"{where}{buffer.name} is a parameter of the program", program, name)
    alloc = path[-1]
    assert isinstance(alloc, Alloc)
    for use in touches(alloc.body, buffer.name).get(buffer.name, []):
        if isinstance(use.by, Copy | Intrinsic) or (use.write and use.by is not statement):
            reason = f"{where}{use.by.name} accesses {buffer.name} other than by reading single elements"
            raise LegalityError(reason, program, use.by.name)
    functions = _functions(alloc.body, buffer.name)
    function = next(iter(functions), None)
    if len(functions) != 1 or function is None or function[1] is not buffer.dtype:
        reason = f"{where}the reads of {buffer.name} are not all arguments of the same function"
        raise LegalityError(reason, program, name)

    def read(e: Expr) -> Expr:
        match e:
            case Call(arguments=(Load(buffer=held) as load,)) if held.name == buffer.name:
                return load
        return e

    value = Call(function[0], (statement.value,), buffer.dtype)
    body = map_all_expressions(alloc.body, lambda e: map_expr(e, read))
    after = rebuild(path, Alloc(buffer=buffer, body=body))
    written = locate(after, name)
    return rebuild(written, replace(statement, value=value))


def _functions(node: Node, buffer: str) -> set[tuple[str, object] | None]:
    """How a tree reads a buffer: the set of (name, type) of all functions that are applied to single elements of the
    buffer. The set also contains None if an element is read in any other way.
    """
    found: set[tuple[str, object] | None] = set()
    for top in (e for n in walk(node) for e in expressions(n)):
        held: list[Load] = []
        for e in walk_expr(top):
            match e:
                case Call(function=name, arguments=(Load(buffer=read) as load,), dtype=dtype) if (
                    read.name == buffer
                ):
                    found.add((name, dtype))
                    held.append(load)
        if sum(load.buffer.name == buffer for load in loads_in(top)) > len(held):
            found.add(None)
    return found
