"""Abstract execution of a thread block from beginning to end: phases (code that each thread runs by itself) in order,
split at barriers, and the asynchronous copies in flight.

Loops that all threads execute together run here with their actual numbers of iterations, but no values are computed.
Groups of asynchronous copies are counted as in hardware (PTX ISA, "cp.async.wait_group"): a copy belongs to the group
of the next commit, and a wait leaves at most a given number of the newest groups in flight.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ...ir.affine import LinearForm, form_to_expr, linear_form
from ...ir.expr import Expr, Var
from ...ir.kernels import Access, Kernel, accesses, is_thread_loop, is_work, phase_at
from ...ir.stmt import Alloc, Assign, Barrier, Commit, Copy, For, Intrinsic, Reduce, Seq, Stmt, Wait
from ...ir.visit import children, free_vars
from .addresses import evaluate
from .errors import LoweringError

MOST_STEPS = 200_000
"""Largest number of phases (pieces of code that each thread runs by itself) that a block may execute."""


class RaceError(LoweringError):
    """Raised for a data race. Either threads or blocks of a kernel access one element without synchronization, or a
    kernel does not wait for an asynchronous copy, or the kernel does not order the copy with other accesses.
    """


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A phase (code that each thread runs by itself) or a copy by the whole block (`collective`), with its accesses to
    the checked buffers.

    `uniform`: expressions of the enclosing loops' variables that determine which elements the task touches.
    """

    number: int
    accesses: tuple[Access, ...]
    collective: bool
    uniform: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a task (code between barriers, or a copy by the whole block).

    `values`: values of the variables of the enclosing loops. `uniform`: values, in this run, of the expressions
    `task.uniform`, which determine the elements that the task touches. Runs of one task with equal `uniform` therefore
    touch the same elements, and compare equal.
    """

    task: Task
    uniform: tuple[int, ...]
    values: Mapping[str, int] = field(compare=False)


@dataclass(slots=True)
class Flight:
    """The part of a span (a block's execution between two barriers) in which a group of asynchronous copies may be in
    flight.

    `run`: the execution of the statement that starts the copies. `start`: position of `run` in the span; None if the
    copies were started in an earlier span. `end`: position of the first execution that follows the wait for the copies;
    None if the span contains no wait for the copies.
    """

    run: Run
    start: int | None
    end: int | None = None


@dataclass(slots=True)
class Span:
    """The execution of a block between two barriers: the runs of its tasks (pieces of code) in order, and the
    asynchronous copies that are in flight meanwhile.
    """

    runs: list[Run] = field(default_factory=list)
    flights: list[Flight] = field(default_factory=list)

    @property
    def key(self) -> object:
        """A key for comparing spans. Spans have equal keys if their tasks touch the same elements in the same order
        (equal runs), and the same copies are in flight.
        """
        return tuple(self.runs), tuple([(f.run, f.start, f.end) for f in self.flights])


def spans(kernel: Kernel, values: Mapping[str, int], tasks: Mapping[int, Task]) -> list[Span]:
    """The execution of a block, split at barriers. `values`: values of the loops around the kernel's body. `tasks`: the
    result of `tasks_of` for the kernel.

    Raises RaceError if a copy is still in flight at the end, or if a copy belongs to no group. Raises LoweringError if
    a block executes more than `MOST_STEPS` phases or copies.
    """
    walk = _Walk(kernel.name, tasks)
    walk.statement(kernel.body, dict(values))
    return walk.finish()


def tasks_of(kernel: Kernel, buffers: Collection[str]) -> dict[int, Task]:
    """The phases (code that each thread runs by itself) and the whole-block copies of a kernel, with their accesses to
    `buffers`. Keys: `id` of the phase's or copy's statement.
    """
    found: dict[int, Task] = {}

    def visit(node: Stmt, around: tuple[For, ...]) -> None:
        if is_work(node):
            held = tuple([a for a in accesses(node, around) if a.buffer.name in buffers])
            outer = frozenset(loop.name for loop in around)
            parts: dict[Expr, None] = {}
            for access in held:
                inner = access.loops[len(around) :]
                for expr in (*access.starts, *access.extents, *(loop.extent for loop in inner)):
                    parts.update(dict.fromkeys(parts_of(expr, outer)))
            collective = isinstance(node, Copy) or (isinstance(node, For) and phase_at(node).collective)
            found[id(node)] = Task(len(found), held, collective, tuple(parts))
            return
        if isinstance(node, For):
            around = (*around, node)
        for child in children(node):
            visit(child, around)

    visit(kernel.body, kernel.around)
    return found


def parts_of(expr: Expr, names: Collection[str]) -> list[Expr]:
    """Splits off the part of `expr` that depends on the variables in `names`. Returns expressions that contain only
    these variables. The values of the expressions and of all other variables determine the value of `expr`. For
    example, 4 * i + 2 * j + t with the names i and j gives [4 * i + 2 * j].
    """
    whole: dict[Expr, int] = {}
    parts: list[Expr] = []
    for atom, coefficient in linear_form(expr).terms.items():
        used = free_vars(atom)
        if used <= set(names):
            whole[atom] = coefficient
        else:
            parts += [Var(name) for name in sorted(used & set(names))]
    if whole:
        parts.append(form_to_expr(LinearForm(whole, 0)))
    return parts


class _Walk:
    def __init__(self, kernel: str, tasks: Mapping[int, Task]) -> None:
        self.kernel = kernel
        self.tasks = tasks
        self.done: list[Span] = []
        self.span = Span()
        self.open: list[Flight] = []
        self.groups: list[list[Flight]] = []
        self.steps = 0

    def statement(self, node: Stmt, values: dict[str, int]) -> None:
        match node:
            case Seq(statements=statements):
                for inner in statements:
                    self.statement(inner, values)
            case Alloc(body=body):
                self.statement(body, values)
            case Barrier():
                self.barrier()
            case Commit():
                self.groups.append(self.open)
                self.open = []
            case Wait(pending=pending):
                while len(self.groups) > pending:
                    for flight in self.groups.pop(0):
                        flight.end = len(self.span.runs)
            case For() if not is_thread_loop(node):
                for i in range(evaluate(node.extent, values)):
                    values[node.name] = i
                    self.statement(node.body, values)
                values.pop(node.name, None)
            case For() | Copy() | Assign() | Reduce() | Intrinsic():
                self.task(self.tasks[id(node)], values)

    def task(self, task: Task, values: Mapping[str, int]) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise LoweringError(
                f"{self.kernel}: a block executes more than {MOST_STEPS} phases, too many to look for races"
            )
        run = Run(task, tuple([int(evaluate(e, values)) for e in task.uniform]), dict(values))
        self.span.runs.append(run)
        if any(a.asynchronous for a in task.accesses):
            flight = Flight(run, len(self.span.runs) - 1)
            self.span.flights.append(flight)
            self.open.append(flight)

    def barrier(self) -> None:
        self.done.append(self.span)
        ongoing = [f for group in (*self.groups, self.open) for f in group]
        fresh = [Flight(f.run, None) for f in ongoing]
        renewed = dict(zip(map(id, ongoing), fresh, strict=True))
        self.span = Span(flights=fresh)
        self.groups = [[renewed[id(f)] for f in group] for group in self.groups]
        self.open = [renewed[id(f)] for f in self.open]

    def finish(self) -> list[Span]:
        self.done.append(self.span)
        for flight in self.open:
            raise RaceError(
                f"{self.kernel}: the asynchronous copy {_names(flight)} belongs to no group: no commit follows it"
            )
        for group in self.groups:
            for flight in group:
                raise RaceError(
                    f"{self.kernel}: the asynchronous copy {_names(flight)} is still under way at the kernel's end; "
                    "a wait 0 must follow it"
                )
        return self.done


def _names(flight: Flight) -> str:
    return ", ".join(dict.fromkeys(a.statement for a in flight.run.task.accesses if a.asynchronous))
