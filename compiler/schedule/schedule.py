"""A program under transformation, and the trace of what was done to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from ..ir.stmt import LOOP_KINDS, IntrinsicDeclaration, LoopKind, Program
from . import compute_at as producers
from . import inline, loops, memory, reduction
from . import pack as layout
from . import peel as peeling
from . import tensorize as hardware
from .errors import LegalityError
from .tree import names_in

Argument: TypeAlias = str | int | float | tuple["Argument", ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One primitive with its arguments; an intrinsic stands there by its name."""

    primitive: str
    arguments: tuple[Argument, ...]


Trace: TypeAlias = tuple[Step, ...]


class Schedule:
    """Threads a program through the primitives of this package and records each in a trace.

    Every method is the function of its name in `loops`, `peel`, `pack`, `reduction`, `compute_at`, `inline`,
    `memory` or `tensorize`, which says
    what it does and when it is legal; all raise LegalityError and then leave the schedule as it was. Methods that make
    new names return them.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._steps: list[Step] = []

    @property
    def program(self) -> Program:
        """The program as it is now."""
        return self._program

    @property
    def trace(self) -> Trace:
        """What was done so far; `replay` does it again."""
        return tuple(self._steps)

    def split(self, loop: str, factor: int) -> tuple[str, str]:
        """See `loops.split`; returns the names of the outer and the inner loop."""
        self._apply(loops.split, "split", loop, factor)
        return f"{loop}.0", f"{loop}.1"

    def fuse(self, outer: str, inner: str) -> str:
        """See `loops.fuse`; returns the new loop's name."""
        self._apply(loops.fuse, "fuse", outer, inner)
        return f"{outer}_{inner}"

    def reorder(self, *names: str) -> None:
        """See `loops.reorder`."""
        self._apply(loops.reorder, "reorder", *names)

    def annotate(self, loop: str, kind: LoopKind) -> None:
        """See `loops.annotate`."""
        self._apply(loops.annotate, "annotate", loop, kind)

    def unroll(self, loop: str) -> None:
        """`annotate` with kind "unroll"."""
        self.annotate(loop, "unroll")

    def virtual_thread(self, loop: str) -> None:
        """`annotate` with kind "virtual_thread"."""
        self.annotate(loop, "virtual_thread")

    def vectorize(self, loop: str) -> None:
        """`annotate` with kind "vectorize"."""
        self.annotate(loop, "vectorize")

    def parallel(self, loop: str) -> None:
        """`annotate` with kind "parallel"."""
        self.annotate(loop, "parallel")

    def tile(self, y: str, x: str, rows: int, columns: int) -> tuple[str, str, str, str]:
        """Two directly nested loops as loops over tiles and loops in them: two splits and a reorder.

        Returns the names of the four loops, outermost first.
        """
        y_outer, y_inner = self.split(y, rows)
        x_outer, x_inner = self.split(x, columns)
        self.reorder(y_outer, x_outer, y_inner, x_inner)
        return y_outer, x_outer, y_inner, x_inner

    def peel(self, loop: str, end: str = peeling.LAST) -> str:
        """See `peel.peel`; returns what the names in the copy end with."""
        suffix = peeling.suffix_for(self._program, loop, end)
        self._apply(peeling.peel, "peel", loop, end)
        return suffix

    def expand_copy(self, name: str) -> None:
        """See `memory.expand_copy`; the loops are called `name`.0, `name`.1 and so on."""
        self._apply(memory.expand_copy, "expand_copy", name)

    def pack(self, buffer: str, tiles: layout.Tiles, order: layout.Order) -> None:
        """See `pack.pack`."""
        self._apply(layout.pack, "pack", buffer, tiles, order)

    def decompose_reduction(self, name: str, loop: str) -> None:
        """See `reduction.decompose_reduction`."""
        self._apply(reduction.decompose_reduction, "decompose_reduction", name, loop)

    def rfactor(self, name: str, loop: str) -> None:
        """See `reduction.rfactor`; the partial sums' statement is called `name`.rf."""
        self._apply(reduction.rfactor, "rfactor", name, loop)

    def compute_at(self, name: str, loop: str) -> None:
        """See `compute_at.compute_at`."""
        self._apply(producers.compute_at, "compute_at", name, loop)

    def compute_inline(self, name: str) -> None:
        """See `inline.compute_inline`."""
        self._apply(inline.compute_inline, "compute_inline", name)

    def set_scope(self, buffer: str, scope: str) -> None:
        """See `memory.set_scope`."""
        self._apply(memory.set_scope, "set_scope", buffer, scope)

    def cache_read(self, buffer: str, loop: str | None, scope: str) -> str:
        """See `memory.cache_read`; returns the name of the new buffer, which is the copy's too."""
        return self._new_name(memory.cache_read, "cache_read", buffer, loop, scope)

    def cache_write(self, buffer: str, loop: str | None, scope: str) -> str:
        """See `memory.cache_write`; returns the name of the new buffer, which is the copy's too."""
        return self._new_name(memory.cache_write, "cache_write", buffer, loop, scope)

    def tensorize(
        self, name: str, declaration: IntrinsicDeclaration, attributes: hardware.Attributes = ()
    ) -> None:
        """See `tensorize.tensorize`."""
        self._program = hardware.tensorize(self._program, name, declaration, attributes)
        self._steps.append(Step(primitive="tensorize", arguments=(name, declaration.name, attributes)))

    def _apply(self, function: Callable[..., Program], primitive: str, *arguments: Argument) -> None:
        self._program = function(self._program, *arguments)
        self._steps.append(Step(primitive=primitive, arguments=arguments))

    def _new_name(self, function: Callable[..., Program], primitive: str, *arguments: Argument) -> str:
        before = names_in(self._program)
        self._apply(function, primitive, *arguments)
        (name,) = names_in(self._program) - before
        return name


def replay(
    program: Program, trace: Iterable[Step], intrinsics: Mapping[str, IntrinsicDeclaration] | None = None
) -> Schedule:
    """Applies a trace to a program; `intrinsics` by name are those that its tensorize steps use.

    LegalityError where a step is not legal here, is unknown, or an intrinsic is missing.
    """
    schedule = Schedule(program)
    for step in trace:
        match step.primitive, *step.arguments:
            case "split", str(loop), int(factor):
                schedule.split(loop, factor)
            case "fuse", str(outer), str(inner):
                schedule.fuse(outer, inner)
            case "reorder", *names:
                schedule.reorder(*map(str, names))
            case "annotate", str(loop), str(kind) if kind in LOOP_KINDS:
                schedule.annotate(loop, cast(LoopKind, kind))
            case "peel", str(loop), str(end):
                schedule.peel(loop, end)
            case "expand_copy", str(name):
                schedule.expand_copy(name)
            case "pack", str(buffer), tuple(tiles), tuple(order):
                schedule.pack(buffer, cast(layout.Tiles, tiles), cast(layout.Order, order))
            case "decompose_reduction", str(name), str(loop):
                schedule.decompose_reduction(name, loop)
            case "rfactor", str(name), str(loop):
                schedule.rfactor(name, loop)
            case "compute_at", str(name), str(loop):
                schedule.compute_at(name, loop)
            case "compute_inline", str(name):
                schedule.compute_inline(name)
            case "set_scope", str(buffer), str(scope):
                schedule.set_scope(buffer, scope)
            case "cache_read", str(buffer), (str() | None) as loop, str(scope):
                schedule.cache_read(buffer, loop, scope)
            case "cache_write", str(buffer), (str() | None) as loop, str(scope):
                schedule.cache_write(buffer, loop, scope)
            case "tensorize", str(name), str(intrinsic), tuple() as attributes:
                declaration = (intrinsics or {}).get(intrinsic)
                if declaration is None:
                    reason = f"the trace uses the intrinsic {intrinsic}, which was not given"
                    raise LegalityError(reason, schedule.program, name)
                schedule.tensorize(name, declaration, cast(hardware.Attributes, attributes))
            case _:
                raise LegalityError(f"the trace has a step that is none: {step}", schedule.program, "")
    return schedule


def trace_to_lists(trace: Iterable[Step]) -> list[list[Any]]:
    """A trace as lists of JSON values, [primitive, arguments …] each."""
    return [[step.primitive, *_to_list(step.arguments)] for step in trace]


def trace_from_lists(lists: Iterable[Sequence[Any]]) -> Trace:
    """The trace that `trace_to_lists` made lists of."""
    return tuple(Step(primitive=str(head), arguments=_to_tuple(rest)) for head, *rest in lists)


def _to_list(arguments: tuple[Any, ...]) -> list[Any]:
    return [_to_list(a) if isinstance(a, tuple) else a for a in arguments]


def _to_tuple(arguments: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(_to_tuple(a) if isinstance(a, list) else a for a in arguments)
