"""Schedules any tensor expression on a CPU: outermost loops on threads and innermost loops in vectors, where that is
legal.

For operators without a schedule of their own; for most of them `sketch` also makes a space of knobs.
"""

from __future__ import annotations

from ...codegen.cpu.machine import CpuTarget
from ...ir.expr import Const
from ...ir.stmt import Alloc, For, Program, Seq, Stmt
from ...ir.visit import loops, path_to, walk
from ...schedule import LegalityError, Schedule
from .loops import parallel_grains, vectorize_loop


def schedule(target: CpuTarget, program: Program, *, parallel: bool = False) -> Schedule:
    """Schedules any program. `parallel`: outermost loops run on the threads of the kernel's pool, where there is enough
    work.
    """
    s = Schedule(program)
    for nested in _outermost(program.body):
        if parallel and isinstance(nested.extent, Const) and _may(s, "parallel", nested):
            parallel_grains(s, [(nested.name, int(nested.extent.value))], _runs(nested.body))
        for loop in _innermost(nested):
            vector = loop if _may(s, "vectorize", loop) else _moved_inside(s, loop)
            if vector is not None and isinstance(vector.extent, Const):
                vectorize_loop(s, target, vector.name, int(vector.extent.value))
    return s


def _moved_inside(s: Schedule, innermost_loop: For) -> For | None:
    """Exchanges an innermost loop that cannot be vectorized with the loop around it, if that one can be.

    Returns the loop that is innermost then; None, without a change, if the exchange is illegal or does not help.
    """
    path = [node for node in path_to(s.program, innermost_loop.name) if isinstance(node, For)]
    if len(path) < 2 or path[-2].body is not path[-1]:
        return None
    around = path[-2]
    trial = Schedule(s.program)
    try:
        trial.reorder(innermost_loop.name, around.name)
        trial.vectorize(around.name)
    except LegalityError:
        return None
    s.reorder(innermost_loop.name, around.name)
    return around


def _outermost(statement: Stmt) -> list[For]:
    match statement:
        case Seq(statements=statements):
            return [loop for inner in statements for loop in _outermost(inner)]
        case Alloc(body=body):
            return _outermost(body)
        case For():
            return [statement]
    return []


def _innermost(nested: For) -> list[For]:
    """The loops that contain neither loops nor allocations."""
    return [
        loop for loop in loops(nested) if not any(isinstance(node, For | Alloc) for node in walk(loop.body))
    ]


def _runs(statement: Stmt) -> int:
    """The number of statement executions in `statement`; loops of unknown extent count as one iteration."""
    match statement:
        case Seq(statements=statements):
            return sum(map(_runs, statements))
        case Alloc(body=body):
            return _runs(body)
        case For(extent=extent, body=body):
            return (int(extent.value) if isinstance(extent, Const) else 1) * _runs(body)
    return 1


def _may(s: Schedule, kind: str, loop: For) -> bool:
    """Whether it is legal to make a loop `kind`: "parallel" or "vectorize"."""
    trial = Schedule(s.program)
    try:
        trial.parallel(loop.name) if kind == "parallel" else trial.vectorize(loop.name)
    except LegalityError:
        return False
    return True
