"""Any tensor expression on a GPU: a kernel for every loop nest, a thread for every iteration that others do not need.

The safety net of the other templates: right for everything, fast where there is much to do at once and little reuse.
"""

from __future__ import annotations

from ...ir.expr import Const
from ...ir.stmt import Alloc, Copy, For, Program, Seq, Stmt
from ...ir.visit import find_loop, loops, walk
from ...schedule import LegalityError, Schedule
from ...target.cuda.machine import CudaTarget
from .digits import size_of
from .flat import THREADS, bind_alone, bind_nest, perfect_nest


def schedule(target: CudaTarget, program: Program, knobs: None = None) -> Schedule:
    """Puts a program, `flat.flattened` before, into kernel form.

    Of a nest of loops those whose iterations may run at once go outside and become the grid. A loop of which no
    iterations may, and which holds nests of others, launches these once an iteration; any else is a kernel of one
    thread. Intermediates between kernels lie in global memory, those inside one in each thread's own.
    """
    s = Schedule(program)
    for node in walk(program):
        if isinstance(node, Copy):
            s.expand_copy(node.name)
    _host(s, s.program.body)
    return s


def _host(s: Schedule, statement: Stmt) -> None:
    """Makes kernels of what stands outside of any, by the names in `statement`, which other kernels leave alone."""
    match statement:
        case Seq(statements=statements):
            for inner in statements:
                _host(s, inner)
        case Alloc(buffer=buffer, body=body):
            if buffer.scope != "dram":
                s.set_scope(buffer.name, "dram")
            _host(s, body)
        case For():
            _nest(s, statement)
        case _:
            raise TypeError(f"a {type(statement).__name__} stands in no loop; see flat.flattened")


def _nest(s: Schedule, outermost: For) -> None:
    chain = perfect_nest(outermost)
    at_once = [loop.name for loop in chain if isinstance(loop.extent, Const) and _concurrent(s, loop.name)]
    others = [loop.name for loop in chain if loop.name not in at_once]
    if at_once and others:
        try:
            s.reorder(*at_once, *others)
        except LegalityError:
            # Those that are outside as they are.
            kept = [loop.name for loop in chain]
            at_once = [name for i, name in enumerate(at_once) if kept[i] == name]
    if at_once:
        _own_memory(s, at_once[-1])
        bind_nest(s, [(name, size_of(find_loop(s.program, name))) for name in at_once], THREADS)
        return
    inner = chain[-1].body
    if len(chain) == 1 and isinstance(inner, Seq | Alloc) and _holds_concurrent(s, inner):
        _host(s, inner)
        return
    _own_memory(s, outermost.name)
    bind_alone(s, outermost.name, size_of(outermost))


def _concurrent(s: Schedule, name: str) -> bool:
    """Makes the iterations of a loop concurrent, if they may be."""
    try:
        s.parallel(name)
    except LegalityError:
        return False
    return True


def _holds_concurrent(s: Schedule, statement: Stmt) -> bool:
    """Whether any loop within a statement has several iterations that may run at once."""
    trial = Schedule(s.program)
    return any(
        size_of(loop) > 1 and _concurrent(trial, loop.name)
        for loop in loops(statement)
        if isinstance(loop.extent, Const)
    )


def _own_memory(s: Schedule, loop: str) -> None:
    """Gives every thread its own memory for what is allocated in a loop."""
    for node in walk(find_loop(s.program, loop)):
        if isinstance(node, Alloc) and node.buffer.scope != "local":
            s.set_scope(node.buffer.name, "local")
