"""Schedules any tensor expression on a GPU: a kernel for every nest of loops, a thread for every independent iteration.

This template is the fallback of the other templates: correct for every program, fast for programs with much parallel
work and little reuse.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...codegen.cuda.machine import GpuTarget
from ...ir.expr import Const
from ...ir.named_nodes import find_loop
from ...ir.stmt import Alloc, Copy, For, Program, Seq, Stmt
from ...ir.visit import loops, walk
from ...schedule import LegalityError, Schedule
from ..columns import Columns
from ..space import Axis, CostEstimates
from .flat import THREADS, bind_alone, bind_nest, nests, perfect_nest
from .split_axes import size_of
from .traffic import moved_bytes, moving_account, moving_seconds
from .tuned import Tuned, by_name, fields_of, own_program

AXES = (Axis(name="threads", values=(32, 64, 128, 256, 512, 1024)),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """The knob of the generic template: blocks have `threads` threads."""

    threads: int = THREADS


def schedule(target: GpuTarget, program: Program, knobs: Knobs | None = None) -> Schedule:
    """Puts a program, after `flat.flattened` (arrays flattened to one dimension), into kernel form: all work is inside
    loops over GPU blocks.

    In each nest, loops with independent iterations move outside and become the grid. If a loop without independent
    iterations contains nests, each iteration of the loop launches the nests as kernels; otherwise the loop is a kernel
    of one thread. Buffers that several kernels use are in global memory; other buffers are in each thread's local
    memory.
    """
    s = Schedule(program)
    bind(s, knobs or Knobs())
    return s


def bind(s: Schedule, knobs: Knobs) -> None:
    """Changes the schedule `s` so that its program is in kernel form: all work is inside loops over GPU blocks. The
    rules are those of `schedule`.
    """
    for node in walk(s.program):
        if isinstance(node, Copy):
            s.expand_copy(node.name)
    _host(s, s.program.body, knobs.threads)


def _host(s: Schedule, statement: Stmt, threads: int) -> None:
    """Makes a kernel, with blocks of `threads` threads, of each loop nest in `statement` that is not in a kernel yet.
    Loops and statements are addressed by their names, which are unique. Raises TypeError for a statement outside loops.
    """
    match statement:
        case Seq(statements=statements):
            for inner in statements:
                _host(s, inner, threads)
        case Alloc(buffer=buffer, body=body):
            if buffer.scope != "dram":
                s.set_scope(buffer.name, "dram")
            _host(s, body, threads)
        case For():
            _nest(s, statement, threads)
        case _:
            raise TypeError(
                f"a {type(statement).__name__} is not inside a loop; call flat.flattened, which puts each statement "
                "into a loop"
            )


def _nest(s: Schedule, outermost: For, threads: int) -> None:
    chain = perfect_nest(outermost)
    at_once = [loop.name for loop in chain if isinstance(loop.extent, Const) and _concurrent(s, loop.name)]
    others = [loop.name for loop in chain if loop.name not in at_once]
    if at_once and others:
        try:
            s.reorder(*at_once, *others)
        except LegalityError:
            # Keep the order: only the outermost loops, as far as their iterations are independent, become the
            # grid.
            kept = [loop.name for loop in chain]
            inside, at_once = at_once, [name for i, name in enumerate(at_once) if kept[i] == name]
            for name in inside[len(at_once) :]:
                s.annotate(name, "serial")
    if at_once:
        _own_memory(s, at_once[-1])
        bind_nest(s, [(name, size_of(find_loop(s.program, name))) for name in at_once], threads)
        return
    inner = chain[-1].body
    if len(chain) == 1 and isinstance(inner, Seq | Alloc) and _holds_concurrent(s, inner):
        _host(s, inner, threads)
        return
    _own_memory(s, outermost.name)
    bind_alone(s, outermost.name, size_of(outermost))


def _concurrent(s: Schedule, name: str) -> bool:
    """Makes a loop parallel if its iterations are independent; returns whether they are."""
    try:
        s.parallel(name)
    except LegalityError:
        return False
    return True


def _holds_concurrent(s: Schedule, statement: Stmt) -> bool:
    """Whether a loop within a statement has several independent iterations."""
    trial = Schedule(s.program)
    return any(
        size_of(loop) > 1 and _concurrent(trial, loop.name)
        for loop in loops(statement)
        if isinstance(loop.extent, Const)
    )


def _own_memory(s: Schedule, loop: str) -> None:
    """Moves each buffer that is allocated in `loop` to local memory, of which each thread has its own."""
    for node in walk(find_loop(s.program, loop)):
        if isinstance(node, Alloc) and node.buffer.scope != "local":
            s.set_scope(node.buffer.name, "local")


def _cost(target: GpuTarget, program: Program, points: Columns) -> CostEstimates:
    """The cost model's results for any program (flattened by `flat.flattened`) at many points (settings of
    the knobs).
    """
    moved, threads = moved_bytes(program), points["threads"]
    elements = max([size_of(loop) for nest in nests(program) for loop in perfect_nest(nest)])
    blocks = -(-elements // threads)
    seconds = moving_seconds(target, moved, blocks, threads, np.full(threads.shape, 4.0))
    return moving_account(target, moved, seconds, {"blocks": blocks, "threads": threads}, dict(points))


TUNED = Tuned(
    name="generic_cuda",
    sizes=own_program,
    axes=lambda _: AXES,
    cost=_cost,
    choose=lambda target, program: Knobs(),
    knobs=by_name(Knobs),
    values=fields_of(AXES),
    schedule=lambda target, workload, knobs: schedule(target, workload.expression, knobs),
)
