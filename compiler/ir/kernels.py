"""Kernels: the parts of a program that run on a GPU, and the phases in which the threads of a block work.

A kernel is an outermost nest of loops over blocks. At block level it holds allocations, sequences, loops that all
threads run together, barriers, commits, waits, and phases: nests that begin with loops over threads, in which each
thread works by itself. An asynchronous copy in no loop over threads is issued by a block as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .bounds import interval, loop_ranges
from .expr import Buffer, Const, Expr
from .grid import distribution_obstacle, exchanging_lanes, owners
from .printer import summarize
from .regions import operand_access
from .stmt import Alloc, Assign, Barrier, Commit, Copy, For, Intrinsic, Program, Reduce, Stmt, Wait
from .visit import children, expressions, loads_in, walk

THREAD_AXES = ("thread.x", "thread.y", "thread.z")
BLOCK_AXES = ("block.x", "block.y", "block.z")
WARP = 32
"""Number of threads that execute one instruction of a warp together (CUDA C++ Programming Guide, "SIMT
Architecture").
"""
WARPGROUP, WARPGROUP_FRAGMENT = 4 * WARP, "fragment.d"
"""Number of threads of the four warps that execute some instructions together, and the scope of the accumulators of
these instructions.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One kernel: the loops around it, which run on the host; the loops over its blocks; and the body of a block."""

    host: tuple[For, ...]
    blocks: tuple[For, ...]
    body: Stmt

    @property
    def name(self) -> str:
        """The name of the kernel's outermost loop over blocks."""
        return self.blocks[0].name

    @property
    def around(self) -> tuple[For, ...]:
        """The loops around the kernel's body, outermost first."""
        return (*self.host, *self.blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Work of a block's threads side by side: loops over threads around a body."""

    threads: tuple[For, ...]
    body: Stmt

    @property
    def collective(self) -> bool:
        """Whether warps, not threads, execute the phase's statements: the phase has an intrinsic and no loop over
        thread.x.
        """
        if any(loop.kind == "thread.x" for loop in self.threads):
            return False
        return any(isinstance(n, Intrinsic) for n in walk(self.body))

    @property
    def lanes(self) -> int:
        """Number of neighbouring threads along x that must execute the phase's statements together: the lanes that
        exchange data, a warp, or a warpgroup; 1 if each thread runs on its own.
        """
        uses = [n for n in walk(self.body) if isinstance(n, Intrinsic)] if self.collective else []
        if uses and (lanes := min(exchanging_lanes(use.declaration) for use in uses)) > 0:
            return lanes
        group = any(r.buffer.scope == WARPGROUP_FRAGMENT for use in uses for r in use.operands)
        return WARPGROUP if group else WARP if uses else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A box (rectangle of elements) of a buffer that a statement touches; its bounds are in terms of `loops`, the loops
    around the statement, outermost first.
    """

    buffer: Buffer
    starts: tuple[Expr, ...]
    extents: tuple[Expr, ...]
    write: bool
    statement: str
    loops: tuple[For, ...]
    asynchronous: bool = False


def is_block_loop(node: object) -> bool:
    """Whether a node is a loop over blocks."""
    return isinstance(node, For) and node.kind in BLOCK_AXES


def is_thread_loop(node: object) -> bool:
    """Whether a node is a loop over threads."""
    return isinstance(node, For) and node.kind in THREAD_AXES


def is_work(node: object) -> bool:
    """Whether a node at block level does work: it is a phase (a nest of loops over threads) or, in blocks of a single
    thread, a statement that computes or copies outside of such loops.
    """
    return is_thread_loop(node) or isinstance(node, Assign | Reduce | Copy | Intrinsic)


def kernels(program: Program) -> tuple[Kernel, ...]:
    """All kernels of a program in order."""
    return tuple(_kernels(program.body, ()))


def _kernels(node: Stmt, host: tuple[For, ...]) -> Iterator[Kernel]:
    if isinstance(node, For) and is_block_loop(node):
        yield kernel_at(node, host)
        return
    around = (*host, node) if isinstance(node, For) else host
    for child in children(node):
        yield from _kernels(child, around)


def kernel_at(loop: For, host: tuple[For, ...] = ()) -> Kernel:
    """The kernel whose outermost loop over blocks is `loop`. `host`: the loops around `loop`, outermost first."""
    blocks: list[For] = []
    node: Stmt = loop
    while isinstance(node, For) and is_block_loop(node):
        blocks.append(node)
        node = node.body
    return Kernel(host=host, blocks=tuple(blocks), body=node)


def phase_at(loop: For) -> Phase:
    """The phase (work of a block's threads) whose outermost loop over threads is `loop`."""
    threads: list[For] = []
    node: Stmt = loop
    while isinstance(node, For) and is_thread_loop(node):
        threads.append(node)
        node = node.body
    return Phase(threads=tuple(threads), body=node)


def phases(kernel: Kernel) -> tuple[tuple[tuple[For, ...], Phase], ...]:
    """All phases of a kernel in order, each with the loops around it. A phase is a nest that begins with loops over
    threads.
    """
    return tuple(_phases(kernel.body, kernel.around))


def _phases(node: Stmt, around: tuple[For, ...]) -> Iterator[tuple[tuple[For, ...], Phase]]:
    if isinstance(node, For):
        if is_thread_loop(node):
            yield around, phase_at(node)
            return
        around = (*around, node)
    for child in children(node):
        yield from _phases(child, around)


def threads_of(kernel: Kernel) -> dict[str, int]:
    """Number of threads of a block along each axis: the largest number over the kernel's phases (nests of loops over
    threads).
    """
    most: dict[str, int] = dict.fromkeys(THREAD_AXES, 1)
    for around, phase in phases(kernel):
        loops = around
        for loop in phase.threads:
            high = interval(loop.extent, loop_ranges(loops)).high
            most[loop.kind] = max(most[loop.kind], 1 if high is None else high)
            loops = (*loops, loop)
        most["thread.x"] = max(most["thread.x"], phase.lanes)
    return most


def successive(kernel: Kernel) -> frozenset[tuple[str, str]]:
    """Pairs of buffers in shared memory, by name. Neither buffer of a pair is allocated within the other, so the two
    are never alive at the same time and may have the same addresses.
    """
    found: set[tuple[str, str]] = set()

    def visit(node: Stmt, outer: tuple[str, ...], seen: list[str]) -> None:
        if isinstance(node, Alloc) and node.buffer.scope == "shared":
            name = node.buffer.name
            for other in seen:
                if other not in outer:
                    found.update({(name, other), (other, name)})
            seen.append(name)
            outer = (*outer, name)
        for child in children(node):
            visit(child, outer, seen)

    visit(kernel.body, (), [])
    return frozenset(found)


def shared_between_threads(buffer: Buffer) -> bool:
    """Whether the threads of a block access the same elements of a buffer: it is in shared or global memory."""
    return "thread" not in owners(buffer.scope)


def accesses(node: Stmt, around: tuple[For, ...]) -> tuple[Access, ...]:
    """Every access of a statement to memory that threads share; `around` are the loops around the statement."""
    return tuple(a for a in _accesses(node, around) if shared_between_threads(a.buffer))


_ONE = Const(1)


def _accesses(node: Stmt, loops: tuple[For, ...]) -> Iterator[Access]:
    name = ""
    match node:
        case For(name=name):
            pass
        case (
            Assign(name=name, buffer=buffer, indices=indices)
            | Reduce(name=name, buffer=buffer, indices=indices)
        ):
            yield _element(buffer, indices, True, name, loops)
        case Copy(name=name, destination=to, source=of, asynchronous=late):
            for box, write in ((of, False), (to, True)):
                yield Access(
                    buffer=box.buffer,
                    starts=box.starts,
                    extents=box.extents,
                    write=write,
                    statement=name,
                    loops=loops,
                    asynchronous=late,
                )
        case Intrinsic(name=name, declaration=declaration, operands=operands):
            for (reads, writes), box in zip(operand_access(declaration), operands, strict=True):
                for write, done in ((False, reads), (True, writes)):
                    if done:
                        yield Access(
                            buffer=box.buffer,
                            starts=box.starts,
                            extents=box.extents,
                            write=write,
                            statement=name,
                            loops=loops,
                        )
    for top in expressions(node):
        for load in loads_in(top):
            yield _element(load.buffer, load.indices, False, name, loops)
    if isinstance(node, For):
        loops = (*loops, node)
    for child in children(node):
        yield from _accesses(child, loops)


def _element(
    buffer: Buffer, indices: tuple[Expr, ...], write: bool, name: str, loops: tuple[For, ...]
) -> Access:
    return Access(
        buffer=buffer,
        starts=indices,
        extents=(_ONE,) * len(indices),
        write=write,
        statement=name,
        loops=loops,
    )


def kernel_obstacle(program: Program) -> str | None:
    """The reason why a program is not in kernel form; None if it is.

    In kernel form, all statements that compute are in kernels. Loops over blocks are nested directly, and so are loops
    over threads. A phase is a nest of loops over threads. Barriers, commits and waits are not in phases; every thread
    of the block executes them. All other statements of a kernel are in phases, with two exceptions: an asynchronous
    copy may be outside, since the block can issue it as a whole; and in a kernel whose blocks have a single thread, any
    statement may be outside. No thread uses another thread's part of a buffer that is distributed over threads.
    """
    return _host_obstacle(program.body)


def _host_obstacle(node: Stmt) -> str | None:
    match node:
        case For() if is_block_loop(node):
            kernel = kernel_at(node)
            return _block_obstacle(kernel.body, alone=all(n == 1 for n in threads_of(kernel).values()))
        case For(kind=kind) if kind not in ("serial", "unroll"):
            return f"`{summarize(node)}` contains the kernels and must be serial; bind it to an axis of blocks instead"
        case Assign() | Reduce() | Copy() | Intrinsic() | Barrier() | Commit() | Wait():
            return f"`{summarize(node)}` is not inside a loop over blocks; bind a loop around it to block.x"
        case Alloc(buffer=buffer) if owners(buffer.scope):
            return (
                f"{buffer.name} is {buffer.scope} memory, but allocated outside of all kernels; allocate it "
                "inside the loop over blocks"
            )
    return next((found for child in children(node) if (found := _host_obstacle(child)) is not None), None)


def _block_obstacle(node: Stmt, *, alone: bool) -> str | None:
    match node:
        case For() if is_thread_loop(node):
            return _phase_obstacle(phase_at(node).body)
        case For() if is_block_loop(node):
            return f"`{summarize(node)}` is an axis of blocks, but not nested directly in the other axes; reorder them"
        case For(kind=kind) if kind not in ("serial", "unroll"):
            return f"`{summarize(node)}` is in a kernel around loops over threads; loops there are serial or unrolled"
        case Copy(asynchronous=True):
            return None
        case Assign() | Reduce() | Copy() | Intrinsic() if not alone:
            return f"`{summarize(node)}` is not inside a loop over threads; bind a loop around it to thread.x"
        case Alloc(buffer=buffer) if not owners(buffer.scope):
            return (
                f"{buffer.name} is {buffer.scope} memory, but allocated inside a kernel; give it a scope that "
                "exists in each block"
            )
        case Alloc(buffer=buffer) if not shared_between_threads(buffer):
            if (reason := distribution_obstacle(node)) is not None:
                return reason
    return next(
        (found for child in children(node) if (found := _block_obstacle(child, alone=alone)) is not None),
        None,
    )


def _phase_obstacle(node: Stmt) -> str | None:
    match node:
        case For() if is_thread_loop(node):
            return f"`{summarize(node)}` is an axis of threads, but not nested directly in the other axes; reorder them"
        case For(kind="parallel"):
            return f"`{summarize(node)}` is in a loop over threads, and parallel; bind it to an axis, or make it serial"
        case Barrier() | Commit() | Wait():
            return (
                f"`{summarize(node)}` is inside a loop over threads, but all threads of a block must run it "
                "together; move it out of the loop"
            )
        case Alloc(buffer=buffer) if "thread" not in owners(buffer.scope):
            return f"{buffer.name} is {buffer.scope} memory, allocated in a loop over threads; move it around this loop"
    return next((found for child in children(node) if (found := _phase_obstacle(child)) is not None), None)
