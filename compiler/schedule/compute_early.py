"""compute_early: moves a scalar function that all readers apply to a buffer's elements into the buffer's producer, or
from a parameter's readers out of the program.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..ir.expr import Call, Expr, Load
from ..ir.stmt import Alloc, Assign, Copy, Intrinsic, Node, Program, Stmt
from ..ir.visit import expressions, loads_in, map_all_expressions, map_expr, walk, walk_expr
from .errors import LegalityError
from .legality import touches
from .tree import locate, locate_alloc, rebuild


def compute_early(program: Program, name: str, function: str = "") -> Program:
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

    With `function`, the name of f, `name` is a parameter. The program then expects f of the parameter's elements: the
    caller must compute f of the array, as `pack.pack_arrays` does. Legal if every read of the parameter is the argument
    of f. Buffers that hold only copies of the parameter's elements, and pads p with p = f(p), count as the parameter.
    """
    if function:
        return _compute_ahead(program, name, function)
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
    found = next(iter(functions), None)
    if len(functions) != 1 or found is None or found[1] is not buffer.dtype:
        reason = f"{where}the reads of {buffer.name} are not all arguments of the same function"
        raise LegalityError(reason, program, name)
    value = Call(found[0], (statement.value,), buffer.dtype)
    after = rebuild(path, Alloc(buffer=buffer, body=_bare(alloc.body, {buffer.name})))
    written = locate(after, name)
    return rebuild(written, replace(statement, value=value))


def _compute_ahead(program: Program, parameter: str, function: str) -> Program:
    """The program without `function` of the parameter's elements (`compute_early`)."""
    from ..te.functions import FUNCTIONS

    where = f"cannot compute {function} of {parameter} ahead: "
    if function not in FUNCTIONS or all(p.name != parameter for p in program.parameters):
        reason = f"{where}it is no parameter, or the function does not exist"
        raise LegalityError(reason, program, parameter)
    copies = [n for n in walk(program.body) if isinstance(n, Copy)]
    held, uses = {parameter}, touches(program.body)
    for copy in copies:  # A buffer is copied in front of the copies that read it.
        if copy.source.buffer.name in held:
            held.add(copy.destination.buffer.name)
            pad = np.float32(0) if copy.pad is None else copy.pad.value
            if FUNCTIONS[function](np.float32(pad)) != pad:
                reason = f"{where}{copy.name} pads with {pad}, which {function} would change"
                raise LegalityError(reason, program, copy.name)
    for buffer in sorted(held):
        for use in uses.get(buffer, []):
            of = use.by.source.buffer.name if isinstance(use.by, Copy) else ""
            if isinstance(use.by, Intrinsic) or (use.write and of not in held):
                reason = f"{where}{use.by.name} accesses {buffer} other than by reading or copying elements"
                raise LegalityError(reason, program, use.by.name)
        if {found and found[0] for found in _functions(program.body, buffer)} - {function}:
            reason = f"{where}a read of {buffer} is not its argument"
            raise LegalityError(reason, program, parameter)
    return replace(program, body=_bare(program.body, held))


def _bare(body: Stmt, buffers: set[str]) -> Stmt:
    """The statement with each function of one element of `buffers` replaced by the element."""

    def read(e: Expr) -> Expr:
        match e:
            case Call(arguments=(Load(buffer=held) as load,)) if held.name in buffers:
                return load
        return e

    return map_all_expressions(body, lambda e: map_expr(e, read))


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
