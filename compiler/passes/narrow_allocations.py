"""narrow_allocations: shrinks each allocation to the statements from its buffer's first use to its last."""

from __future__ import annotations

from ..ir.grid import owners
from ..ir.regions import read_buffers, write_buffers
from ..ir.stmt import Alloc, Copy, Program, Seq, Stmt, seq
from ..ir.visit import map_children, walk


def narrow_allocations(program: Program) -> Program:
    """Moves allocations inwards, past statements before and after their buffer's uses, but not into loops.

    rewrite:
        alloc S                      f(A)
        alloc T                      alloc T
        f(A)                             g(T)
        g(T)                   ->        alloc S
        h(S, T)                              h(S, T)

    Buffers that are not live at the same time may then share memory. Allocations are nested, so if two lifetimes
    overlap in part, one is lengthened to contain the other: preferably the lifetime of registers, which the target's
    own compiler shortens again. Allocations filled by asynchronous copies stay, because a wait after the last use may
    belong to their copies.
    """
    return map_children(program, _narrowed)


def _narrowed(statement: Stmt) -> Stmt:
    statement = map_children(statement, _narrowed)
    if not isinstance(statement, Alloc) or _filled_asynchronously(statement):
        return statement
    return _placed(statement, statement.body)


def _placed(alloc: Alloc, body: Stmt) -> Stmt:
    """`body` with the allocation around the shortest sequence of statements that contains all uses of the buffer."""
    match body:
        case Alloc():
            return Alloc(buffer=body.buffer, body=_placed(alloc, body.body))
        case Seq(statements=statements):
            used = [i for i, s in enumerate(statements) if _uses(s, alloc.buffer.name)]
            if used:
                first, last = used[0], used[-1]
                head = statements[first]
                if (
                    last > first
                    and isinstance(head, Alloc)
                    and owners(head.buffer.scope) == owners("register")
                ):
                    outside = seq(*statements[:first], head.body, *statements[first + 1 :])
                    return Alloc(buffer=head.buffer, body=_placed(alloc, outside))
                inner = seq(*statements[first : last + 1])
                held = Alloc(buffer=alloc.buffer, body=inner) if last > first else _placed(alloc, inner)
                return seq(*statements[:first], held, *statements[last + 1 :])
    return Alloc(buffer=alloc.buffer, body=body)


def _uses(statement: Stmt, buffer: str) -> bool:
    touched = read_buffers(statement) | write_buffers(statement)
    return any(held.name == buffer for held in touched)


def _filled_asynchronously(alloc: Alloc) -> bool:
    name = alloc.buffer.name
    return any(
        isinstance(s, Copy) and s.asynchronous and s.destination.buffer.name == name for s in walk(alloc.body)
    )
