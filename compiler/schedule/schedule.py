"""A schedule: a program under transformation, and the trace of its steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from vdla.util.errors import UserError
from vdla.util.notebook_tables import html_text

from ..ir.printer import format_node
from ..ir.stmt import AXES, IntrinsicDeclaration, LoopKind, Program
from . import annotate as annotations
from . import box_copy as boxes
from . import cache_write as writes
from . import compute_at as producers
from . import compute_early as early
from . import expand_copy as expansion
from . import fuse as fusing
from . import guard as guarding
from . import in_place as updates
from . import inline, loops, memory, reduction
from . import pack as layout
from . import pad as padding
from . import peel as peeling
from . import pipeline as pipelining
from . import prefetch as hints
from . import reverse_compute_at as consumers
from . import rfactor as partial_sums
from . import share_copy as sharing
from . import skip_pads as skipping
from . import split_copy as pieces
from . import tensorize as hardware
from .errors import LegalityError
from .trace import Argument, Step, Trace, step_obstacle


class Schedule:
    """Applies the primitives of this package to a program and records each in a trace.

    Most methods apply a function of the same name, whose docstring has its rewrite and legality; those named after
    kinds of loops apply `annotate`. All raise LegalityError and then leave the schedule unchanged. Some return new
    names."""

    def __init__(self, program: Program) -> None:
        if not isinstance(program, Program):
            raise UserError(
                f"a schedule needs a Program (`program_of` makes one), not {type(program).__name__}"
            )
        self._program = program
        self._steps: list[Step] = []

    @property
    def program(self) -> Program:
        """The program after all steps so far."""
        return self._program

    @property
    def trace(self) -> Trace:
        """The steps so far; `replay` applies them again."""
        return tuple(self._steps)

    def __repr__(self) -> str:
        steps = "1 step" if len(self._steps) == 1 else f"{len(self._steps)} steps"
        return f"<Schedule of {self._program.name}: {steps}>"

    def _repr_html_(self) -> str:
        return html_text(f"{self!r}\n\n{format_node(self._program)}")

    def split(self, loop: str, factor: int) -> tuple[str, str]:
        """Cuts a loop into pieces of `factor` iterations (`loops.split`); returns names of the outer and inner loop."""
        self._apply(loops.split, "split", loop, factor)
        return f"{loop}.0", f"{loop}.1"

    def fuse(self, outer: str, inner: str) -> str:
        """Makes one loop of two directly nested ones (`fuse.fuse`); returns the new loop's name."""
        self._apply(fusing.fuse, "fuse", outer, inner)
        return f"{outer}_{inner}"

    def reorder(self, *names: str) -> None:
        """Nests loops in the given order, outermost first (`loops.reorder`)."""
        self._apply(loops.reorder, "reorder", *names)

    def annotate(self, loop: str, kind: LoopKind) -> None:
        """Sets the kind of a loop, which says how its iterations may run (`annotate.annotate`)."""
        self._apply(annotations.annotate, "annotate", loop, kind)

    def unroll(self, loop: str) -> None:
        """Unrolls a loop: `annotate` with kind "unroll"."""
        self.annotate(loop, "unroll")

    def virtual_thread(self, loop: str) -> None:
        """Overlaps a loop's iterations, each with its own buffers: `annotate` with kind "virtual_thread"."""
        self.annotate(loop, "virtual_thread")

    def vectorize(self, loop: str) -> None:
        """Computes all iterations of a loop at once, one in each vector lane: `annotate` with kind "vectorize"."""
        self.annotate(loop, "vectorize")

    def parallel(self, loop: str) -> None:
        """Distributes the iterations of a loop to the threads of a processor: `annotate` with kind "parallel"."""
        self.annotate(loop, "parallel")

    def bind(self, loop: str, axis: LoopKind) -> None:
        """Binds a loop to an axis of a GPU's grid, "block.x" … "thread.z": `annotate` with this kind."""
        if axis not in AXES:
            reason = f"cannot bind {loop} to {axis!r}; the axes of a grid are {', '.join(AXES)}"
            raise LegalityError(reason, self._program, loop)
        self.annotate(loop, axis)

    def tile(self, y: str, x: str, rows: int, columns: int) -> tuple[str, str, str, str]:
        """Cuts loops `y`, `x` into tiles of `rows` x `columns` (`loops.tile`); returns four names, outermost first."""
        self._apply(loops.tile, "tile", y, x, rows, columns)
        return f"{y}.0", f"{x}.0", f"{y}.1", f"{x}.1"

    def pipeline(self, loop: str, stages: int, ahead: int | None = None) -> None:
        """Issues copies at a loop body's head `ahead` iterations early, into `stages` slots (`pipeline.pipeline`)."""
        given = () if ahead is None else (ahead,)
        self._apply(pipelining.pipeline, "pipeline", loop, stages, *given)

    def peel(self, loop: str, end: str = peeling.LAST) -> str:
        """Peels a loop's `end` ("last", "first") iteration into a copy (`peel.peel`); returns the copy's suffix."""
        before = self._program
        self._apply(peeling.peel, "peel", loop, end)
        return peeling.suffix_for(before, loop, end)

    def expand_copy(self, name: str) -> None:
        """Turns a copy into loops `name`.0, `name`.1 and so on around an assignment (`expand_copy.expand_copy`)."""
        self._apply(expansion.expand_copy, "expand_copy", name)

    def box_copy(self, name: str) -> None:
        """Turns the loops around the one-element copy `name` into one copy of a rectangle (`box_copy.box_copy`)."""
        self._apply(boxes.box_copy, "box_copy", name)

    def split_copy(self, name: str, dimension: int, size: int) -> str:
        """Splits copy `name` along `dimension` by `size` (`split_copy.split_copy`); returns the new loop's name."""
        self._apply(pieces.split_copy, "split_copy", name, dimension, size)
        return f"{name}.{dimension}"

    def share_copy(self, name: str, axes: sharing.Axes, width: int) -> None:
        """Distributes a copy over a block's threads, which copy `width` adjacent elements at a time. `axes`: (name,
        size) of each thread axis. The loops are `name`.x, `name`.step, `name`.in and so on (`share_copy.share_copy`).
        """
        self._apply(sharing.share_copy, "share_copy", name, axes, width)

    def guard(self, loop: str, multiple: int) -> str:
        """Rounds the extent of a loop up to a multiple, and guards its body by a loop of at most one iteration
        (`guard.guard`). Returns the name of the guarding loop, which does not exist if the extent is a multiple
        already.
        """
        self._apply(guarding.guard, "guard", loop, multiple)
        return f"{loop}.in"

    def pad(self, loop: str, multiple: int) -> None:
        """Rounds a sum's loop extent up to a multiple; operand copies fill new elements with zeros (`pad.pad`)."""
        self._apply(padding.pad, "pad", loop, multiple)

    def skip_pads(self, loop: str) -> None:
        """Skips iterations of a sum's loop in which all products are zero because of a copy's padding
        (`skip_pads.skip_pads`). The loop around the skipped body is called `loop`.in.
        """
        self._apply(skipping.skip_pads, "skip_pads", loop)

    def pack(self, buffer: str, tiles: layout.Tiles, order: layout.Order) -> None:
        """Stores a buffer in tiles and another order of dimensions (`pack.pack`)."""
        self._apply(layout.pack, "pack", buffer, tiles, order)

    def prefetch(self, loop: str, buffer: str, ahead: int) -> None:
        """Prefetches, in every iteration of a loop, the memory `ahead` bytes after the part of `buffer` that the
        iteration reads (`prefetch.prefetch`).
        """
        self._apply(hints.prefetch, "prefetch", loop, buffer, ahead)

    def decompose_reduction(self, name: str, loop: str) -> None:
        """Initializes the sum `name` in a separate loop nest before `loop` (`reduction.decompose_reduction`)."""
        self._apply(reduction.decompose_reduction, "decompose_reduction", name, loop)

    def rfactor(self, name: str, loop: str) -> None:
        """Makes a partial sum for each iteration of a reduction loop of the sum `name`, then adds the partial sums
        (`rfactor.rfactor`). The statement of the partial sums is called `name`.rf.
        """
        self._apply(partial_sums.rfactor, "rfactor", name, loop)

    def compute_at(self, name: str, loop: str) -> None:
        """Moves all producers of the buffer that `name` writes into the consumers' `loop` (`compute_at.compute_at`)."""
        self._apply(producers.compute_at, "compute_at", name, loop)

    def reverse_compute_at(self, name: str, loop: str) -> None:
        """Moves the statement `name` to the end of each iteration of `loop`, for the elements that the iteration
        produces (`reverse_compute_at.reverse_compute_at`).
        """
        self._apply(consumers.reverse_compute_at, "reverse_compute_at", name, loop)

    def compute_inline(self, name: str) -> None:
        """Replaces reads of the buffer that `name` writes by its value; removes `name` (`inline.compute_inline`)."""
        self._apply(inline.compute_inline, "compute_inline", name)

    def update_in_place(self, name: str, operand: str) -> None:
        """Lets the element-wise statement `name` overwrite the buffer `operand`, which it reads
        (`in_place.update_in_place`).
        """
        self._apply(updates.update_in_place, "update_in_place", name, operand)

    def compute_early(self, name: str, *function: str) -> None:
        """Moves a scalar function from the readers of a buffer to the statement `name`, which writes the buffer. With
        `function`, moves it from the readers of the parameter `name` to the caller (`compute_early.compute_early`).
        """
        self._apply(early.compute_early, "compute_early", name, *function)

    def set_scope(self, buffer: str, scope: str) -> None:
        """Puts an allocated buffer into another memory (`annotate.set_scope`)."""
        self._apply(annotations.set_scope, "set_scope", buffer, scope)

    def widen(self, buffer: str, dimension: int, size: int) -> None:
        """Enlarges an allocation in a dimension, which shifts the addresses of later elements (`pack.widen`)."""
        self._apply(layout.widen, "widen", buffer, dimension, size)

    def cache_read(self, buffer: str, loop: str | None, scope: str) -> str:
        """Copies the part of a buffer that is read under `loop` (None: in the whole program) into a new buffer in
        `scope` (`memory.cache_read`). Returns the name of the new buffer, which is also the name of the copy statement.
        """
        before = self._program
        self._apply(memory.cache_read, "cache_read", buffer, loop, scope)
        return memory.cache_name(before, buffer, scope)

    def cache_write(self, buffer: str, loop: str | None, scope: str) -> str:
        """Redirects writes to a buffer under `loop` (None: in the whole program) to a new buffer in `scope`, which is
        copied back at the end (`cache_write.cache_write`). Returns the name of the new buffer, which is also the name
        of the copy statement.
        """
        before = self._program
        self._apply(writes.cache_write, "cache_write", buffer, loop, scope)
        return memory.cache_name(before, buffer, scope)

    def tensorize(
        self, name: str, declaration: IntrinsicDeclaration, attributes: hardware.Attributes = ()
    ) -> None:
        """Replaces loop, statement or allocation `name` by a hardware operation; code emission gets `attributes`."""
        if not isinstance(declaration, IntrinsicDeclaration):
            reason = f"tensorize takes an intrinsic's declaration, not {declaration!r}"
            raise LegalityError(reason, self._program, "")
        self._record(
            partial(hardware.tensorize, self._program, name, declaration, attributes),
            Step(primitive="tensorize", arguments=(name, declaration.name, attributes)),
        )

    def _apply(self, function: Callable[..., Program], primitive: str, *arguments: Argument) -> None:
        self._record(
            partial(function, self._program, *arguments), Step(primitive=primitive, arguments=arguments)
        )

    def _record(self, rewrite: Callable[[], Program], step: Step) -> None:
        """Applies `rewrite` and records `step`.

        An argument of a wrong type raises LegalityError, even if the primitive raises another exception, or accepts
        the argument.
        """
        try:
            program = rewrite()
        except LegalityError:
            raise
        except Exception:
            self._check(step)
            raise
        self._check(step)
        self._program = program
        self._steps.append(step)

    def _check(self, step: Step) -> None:
        if (reason := step_obstacle(step)) is not None:
            raise LegalityError(reason, self._program, "")
