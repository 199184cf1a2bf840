"""Schedules for programs without reuse between threads: buffers are flattened to one dimension, and nests of loops are
bound to blocks and threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ...ir.affine import form_to_expr
from ...ir.expr import Buffer, Const, Expr, Load, Var
from ...ir.simplify import simplify_form
from ...ir.stmt import Alloc, Assign, Copy, For, Intrinsic, Program, Reduce, Stmt
from ...ir.verify import VerifyError, verify
from ...ir.visit import children, expressions, loads_in, map_all_expressions, map_children, map_expr, walk
from ...schedule import Schedule
from ...schedule.legality import written

THREADS = 256
"""Threads of a block whose threads share no data. A multiprocessor holds 2048 threads, which are 8 such blocks, or 1536
threads on desktop cards (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
"""
ONE = Const(1)


def flattened(program: Program, *, intermediates: bool = True) -> Program:
    """The program with the arrays in global memory flattened to one dimension, in the same order of elements.

        rewrite:
        Y[i, j] = X[i, j] + B[j]        ->        Y[i * 4 + j] = X[i * 4 + j] + B[j]

    An array is flattened if it is allocated or written, or if all its reads have only loop variables and constants as
    indices. Other arrays keep their dimensions, since conditions on single dimensions may guard their indices. Sources
    and destinations of copies of boxes (rectangles of elements) stay unchanged; allocated arrays are flattened only if
    `intermediates`. If the bounds of a flat index cannot be proven, all arrays keep their dimensions. Assignments and
    sums outside of loops get a loop of one iteration.
    """
    boxed: set[str] = set()
    computed: set[str] = set()
    for node in walk(program):
        match node:
            case Copy(source=source, destination=destination):
                boxed |= {source.buffer.name, destination.buffer.name}
            case Intrinsic(operands=operands):
                boxed |= {region.buffer.name for region in operands}
        for top in expressions(node):
            for load in loads_in(top):
                if not all(isinstance(i, Var | Const) for i in load.indices):
                    computed.add(load.buffer.name)
    writes = written(program.body)
    allocated = [node.buffer for node in walk(program) if isinstance(node, Alloc)]
    arrays = (*program.parameters, *allocated) if intermediates else program.parameters
    found = [b for b in arrays if b.scope == "dram" and len(b.shape) > 1]
    chosen = [
        b
        for b in found
        if b.name not in boxed and (b.name in writes or b not in program.parameters or b.name not in computed)
    ]
    flat = _looped(_in_one_dimension(program, chosen))
    try:
        verify(flat)
    except VerifyError:
        # Bounds of a flat index may be impossible to prove although the bounds of the original indices are
        # proven.
        return _looped(program)
    return flat


def _in_one_dimension(program: Program, buffers: Sequence[Buffer]) -> Program:
    flat = {
        b.name: Buffer(name=b.name, shape=(prod(b.shape),), dtype=b.dtype, scope=b.scope) for b in buffers
    }
    strides = {b.name: [prod(b.shape[d + 1 :]) for d in range(len(b.shape))] for b in buffers}

    def place(buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        total: Expr = Const(0)
        for index, stride in zip(indices, strides[buffer.name], strict=True):
            total = total + index * stride
        return (form_to_expr(simplify_form(total)),)

    def expand(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer.name in flat:
            return Load(flat[e.buffer.name], place(e.buffer, e.indices))
        return e

    def visit(s: Stmt) -> Stmt:
        match s:
            case Alloc(buffer=buffer, body=body):
                return Alloc(buffer=flat.get(buffer.name, buffer), body=visit(body))
            case Assign(buffer=buffer) | Reduce(buffer=buffer) if buffer.name in flat:
                return replace(s, buffer=flat[buffer.name], indices=place(buffer, s.indices))
        return map_children(s, visit)

    body = visit(map_all_expressions(program.body, lambda e: map_expr(e, expand)))
    parameters = tuple([flat.get(p.name, p) for p in program.parameters])
    return Program(name=program.name, parameters=parameters, body=body)


def _looped(program: Program) -> Program:
    """The program with a loop of one iteration around each assignment or sum outside of loops; copy statements stay as
    they are.
    """

    def visit(s: Stmt) -> Stmt:
        match s:
            case Assign() | Reduce():
                return For(var=Var(f"{s.name}.once"), extent=ONE, body=s)
            case For():
                return s
        return map_children(s, visit)

    return Program(name=program.name, parameters=program.parameters, body=visit(program.body))


def nests(node: Stmt | Program) -> list[For]:
    """The outermost loops of a program or statement, in order."""
    if isinstance(node, For):
        return [node]
    return [loop for child in children(node) for loop in nests(child)]


def perfect_nest(loop: For) -> list[For]:
    """The chain of perfectly nested loops from `loop` inwards."""
    chain = [loop]
    while isinstance(chain[-1].body, For):
        chain.append(chain[-1].body)
    return chain


def bind_nest(
    s: Schedule,
    loops: Sequence[tuple[str, int]],
    threads: int = THREADS,
    items: int = 1,
    inner: Sequence[str] = (),
) -> None:
    """Binds the iterations of perfectly nested loops, in order, to blocks of `threads` threads.

    `loops`: (name, iterations), outermost first; all iterations must be independent. Adjacent threads run adjacent
    iterations of the innermost loop. A thread runs `items` iterations, which are `threads` iterations apart, if the
    total number of iterations is a multiple of `threads` * `items`; otherwise one iteration. `inner`: loops inside of
    `loops` that are not divided among threads.
    """
    for name, _ in loops:
        s.parallel(name)
    fused, total = loops[0]
    for name, size in loops[1:]:
        fused = s.fuse(fused, name)
        total *= size
    threads = min(threads, total)
    if items > 1 and total % (threads * items) == 0:
        block, rest = s.split(fused, threads * items)
        item, thread = s.split(rest, threads)
        s.reorder(thread, item, *inner)
        s.unroll(item)
    else:
        block, thread = s.split(fused, threads)
    s.bind(block, "block.x")
    s.bind(thread, "thread.x")


def bind_alone(s: Schedule, loop: str, size: int) -> None:
    """Makes a loop of `size` iterations a kernel of one thread."""
    block, rest = s.split(loop, size)
    thread, _ = s.split(rest, size)
    s.bind(block, "block.x")
    s.bind(thread, "thread.x")
