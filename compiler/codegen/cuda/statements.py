"""Emits the body of a kernel as text.

A body has two levels. At block level, all threads execute the same loops together; barriers, commits and waits are at
this level. A phase is code that each thread executes by itself. The phase begins with loops over thread axes, and each
thread executes one iteration of the loops. Threads beyond a loop's extent skip the phase. If the phase has no loop over
a thread axis, only the first thread along that axis executes the phase. An exception are instructions of several
threads: all of these threads execute the instruction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from ...ir.expr import Buffer
from ...ir.grid import FRAGMENT, distribution
from ...ir.kernels import Kernel, accesses, is_thread_loop, phase_at
from ...ir.printer import format_buffer, summarize
from ...ir.simplify import simplify
from ...ir.stmt import (
    Alloc,
    Assign,
    Barrier,
    Commit,
    Copy,
    For,
    Intrinsic,
    Reduce,
    Seq,
    Stmt,
    Wait,
)
from ...ir.types import DType
from ...ir.visit import walk
from .accumulate import accumulate
from .architectures import LOCAL_BYTES
from .bulk_copies import TensorMap, emit_bulk_copy, has_thread_copies, swizzled_buffers
from .errors import LoweringError
from .expressions import ExpressionEmitter
from .intrinsics import emission_of, lanes_of
from .launch_shape import AXES, Shape, missing_axes
from .leaves import emit_leaf
from .loops import below, emit_loop, emit_where
from .machine import GpuTarget
from .mma_emit import fragment_storage
from .mma_fragments import Fragment
from .overlap import overlapping_loops
from .shared_memory import SharedPlan
from .storage import Storage, in_memory, in_registers
from .text import EQUALITY, Names, Source, Text, conjunction
from .vectorize import vectorized
from .wgmma_emit import has_products, only_products, overlapped, products, wait_products

THREAD = {f"thread.{axis}": f"t{axis}" for axis in AXES}
"""The C variable that contains a thread's coordinate along an axis, by name of the axis."""
LONG_NAME = 20
"""Largest length of a loop name that becomes the name of a C variable for a block's coordinate. If the name of the loop
over blocks is longer, the variable is called "bx", "by" or "bz".
"""


class KernelEmitter:
    """Emits the body of one kernel into `source`. `shape`: the kernel's launch shape. `shared`: the places of its
    buffers in shared memory. `names` makes C identifiers.
    """

    def __init__(
        self,
        target: GpuTarget,
        kernel: Kernel,
        shape: Shape,
        shared: SharedPlan,
        names: Names,
        source: Source,
    ) -> None:
        self.kernel = kernel
        self.shape = shape
        self.shared = shared
        self.names = names
        self.source = source
        self.values = ExpressionEmitter(target.dialect)
        # Copies that threads issue and wait for later; without this capability they are executed at once.
        dialect = target.dialect
        shares = {b for b in shape.reads & shape.writes if b.scope == "dram"}
        self._barrier = (dialect.device_barrier if shares else "") or dialect.barrier
        self.asynchronous = target.has("asynchronous copies")
        self.extents: dict[str, int] = dict(zip(AXES, shape.block, strict=True))
        self.threads_used: set[str] = set()
        self.aligned: set[str] = set()
        self._declared: list[tuple[int, str]] = []
        # Axes whose first thread alone runs an ordinary statement, in phases that hold instructions of several
        # threads.
        self._alone: tuple[str, ...] = ()
        self._fresh = 0
        # Whether products of warpgroups are in flight, or may be from one iteration to the next; and whether threads
        # have accessed shared memory since the last proxy fence, which makes it visible to products and bulk copies.
        self.products_begun = self.overlapping = False
        self._overlapping = overlapping_loops(kernel)
        self._shows = has_products(kernel.body) or shared.groups > 0
        self._hidden = False
        # For copies issued by the whole block: buffers read in swizzled rows, the state of the groups, the names of the
        # tensor maps.
        self.swizzled = swizzled_buffers(kernel.body)
        self.groups = names.make("groups") if shared.groups else ""
        # The parameter with a launch's first block along x, of a kernel that needs several launches; "" for others.
        self.first_block = names.make("first_block") if shape.grid[0] > dialect.blocks_along_x else ""
        self.tensor_maps: dict[tuple[str, TensorMap], str] = {}
        self._thread_copies = self.asynchronous and (has_thread_copies(kernel.body) or not shared.groups)

    def finish(self) -> None:
        """Adds alignment to the declarations of the register arrays that are accessed as vectors."""
        for line, name in self._declared:
            if name in self.aligned:
                text = self.source.lines[line]
                indent = len(text) - len(text.lstrip())
                self.source.lines[line] = f"{text[:indent]}{self.values.dialect.aligned} {text[indent:]}"

    def unroll(self) -> None:
        """Emits the line that makes the compiler unroll the next loop."""
        if self.values.dialect.unroll:
            self.source.line(self.values.dialect.unroll)

    def fresh(self, name: str) -> str:
        """A buffer name, based on `name`, that no buffer of the program has."""
        self._fresh += 1
        return f"{name}'{self._fresh}"

    # Block level

    def blocks(self) -> list[str]:
        """Emits the whole body. Returns the lines that declare the block's coordinates; they belong before the body."""
        values, lines = self.values, []
        conditions: list[Text] = []
        grid: dict[str, int] = dict(zip(AXES, self.shape.grid, strict=True))
        for loop in self.kernel.blocks:
            axis = loop.kind[-1]
            extent = simplify(loop.extent, values.ranges)
            values.variables[loop.name] = "0"
            if grid[axis] > 1:
                # Names of fused loops are too long to read.
                long = len(loop.name) > LONG_NAME
                name = values.variables[loop.name] = self.names.make(f"b{axis}" if long else loop.name)
                comment = f"  // {_printable(loop.name)}" if long else ""
                at = values.dialect.coordinate(values.dialect.block, axis)
                if axis == "x" and self.first_block:
                    at = f"{at} + {self.first_block}"
                lines.append(values.dialect.defined(DType.INT32, name, at) + comment)
            conditions += below(self, loop.name, extent, grid[axis])
        emit_where(self, conditions, self.kernel.body, self.block_level)
        return lines

    def opening(self) -> list[str]:
        """The lines at the beginning of a kernel that prepare shared memory (such as mbarriers) for the body; they
        access no other memory.
        """
        if not self.shared.groups:
            return []
        self.values.used.add("Groups")
        first = [self.first_along(axis).text for axis in AXES if self.extents[axis] > 1]
        begin = f"begin_groups<{self.shared.groups}>({self.shared.arrived}, {' && '.join(first) or 'true'})"
        return [f"Groups {self.groups} = {begin};"]

    def tensor_map(self, buffer: Buffer, tensor: TensorMap) -> str:
        """The name of the kernel parameter that is the tensor map of a buffer."""
        key = buffer.name, tensor
        if key not in self.tensor_maps:
            self.tensor_maps[key] = self.names.make(f"{buffer.name}.map")
        return self.tensor_maps[key]

    def block_level(self, statement: Stmt) -> None:
        """Emits a statement at block level, which all threads of the block reach."""
        match statement:
            case Seq(statements=statements):
                for inner in statements:
                    self.block_level(inner)
            case For() if is_thread_loop(statement):
                self._hidden |= not only_products(statement) and _touches_shared(statement)
                self.phase(statement)
            case For() if statement.name in self._overlapping:
                with overlapped(self, statement):
                    self.block_loop(statement)
            case For():
                self.block_loop(statement)
            case Alloc(buffer=buffer):
                if buffer.scope == "shared":
                    self.allocate_shared(statement)
                else:
                    self.allocate(statement)
                self.block_level(statement.body)
                del self.values.storages[buffer.name]
            case Barrier():
                if self.overlapping:
                    wait_products(self, 1)
                if self._shows and self._hidden:
                    self.values.used.add("show_to_products")
                    self.source.line("show_to_products();")
                self._hidden = False
                self.source.line(self._barrier)
            case Commit():
                if self._thread_copies:
                    self.values.used.add("commit_async")
                    self.source.line("commit_async();")
                if self.groups:
                    self.source.line(f"commit_bulk<{self.shared.groups}>({self.groups});")
            case Wait(pending=pending):
                if self._thread_copies:
                    self.values.used.add("wait_async")
                    self.source.line(f"wait_async<{pending}>();")
                if self.groups:
                    self.source.line(f"wait_bulk<{self.shared.groups}, {pending}>({self.groups});")
            case Copy(asynchronous=True):
                self.source.line(f"// {_title(statement)}")
                emit_bulk_copy(self, statement)
            case Assign() | Reduce() | Copy() | Intrinsic():
                raise LoweringError(
                    f"`{summarize(statement)}` is not inside a loop over threads; bind a loop around it to thread.x"
                )

    def block_loop(self, loop: For) -> None:
        """Emits a loop that all threads run together; the loop may have no iteration."""
        hidden = self._hidden
        self._hidden |= any(
            is_thread_loop(n) and not only_products(n) and _touches_shared(n)
            for n in walk(loop.body)
            if isinstance(n, For)
        )
        emit_loop(self, loop, self.block_level)
        self._hidden |= hidden

    def allocate_shared(self, alloc: Alloc) -> None:
        """Records the place of a buffer in the block's shared memory: the bytes that the shared-memory plan
        (`SharedPlan`) assigns to it. The record is valid in the body of the buffer's allocation.
        """
        name = self.shared.places[alloc.buffer.name].name
        self.values.storages[alloc.buffer.name] = in_memory(alloc.buffer, name, "shared")

    def phase(self, loop: For) -> None:
        """Emits a phase (nest of loops that each thread runs by itself); its loops over threads become the threads of
        the block.
        """
        phase = phase_at(loop)
        alone = [axis for axis in missing_axes(loop) if self.extents[axis] > 1]
        together = any(isinstance(s, Intrinsic) and lanes_of(s.declaration) > 1 for s in walk(phase.body))
        self.source.line(f"// {_title(phase.body)}")
        with self.scope():
            conditions = [c for thread in phase.threads for c in self.thread_loop(thread)]
            if together:
                self._alone = tuple(alone)
            else:
                conditions += [self.first_along(axis) for axis in alone]
            test = f"if ({conjunction(conditions)})" if conditions else ""
            with self.source.block(test), products(self, phase.body):
                self.thread_level(phase.body)
            self._alone = ()

    def first_along(self, axis: str) -> Text:
        """The condition that a thread is the first one along `axis` ("x", "y" or "z")."""
        return Text(f"{self.thread(axis)} == 0", EQUALITY)

    def thread(self, axis: str) -> str:
        """The variable with a thread's coordinate along `axis` ("x", "y" or "z"), which the kernel then declares."""
        self.threads_used.add(axis)
        return THREAD[f"thread.{axis}"]

    def thread_loop(self, loop: For) -> list[Text]:
        """Replaces the variable of a loop over threads by the thread's coordinate. Returns the conditions under which a
        thread executes an iteration of the loop.
        """
        axis = loop.kind[-1]
        extent = simplify(loop.extent, self.values.ranges)
        launched = self.extents[axis]
        self.values.variables[loop.name] = self.thread(axis) if launched > 1 else "0"
        return below(self, loop.name, extent, launched)

    # Thread level

    def thread_level(self, statement: Stmt) -> None:
        """Emits a statement of one thread."""
        match statement:
            case Seq(statements=statements):
                for inner in statements:
                    self.thread_level(inner)
            case For():
                rewritten = accumulate(statement, self.values.ranges, self.values.storages, self.fresh)
                if not isinstance(rewritten, For):
                    self.thread_level(rewritten)
                elif rewritten.kind != "vectorize" or not vectorized(self, rewritten):
                    emit_loop(self, rewritten, self.thread_level)
            case Alloc(buffer=buffer):
                self.allocate(statement)
                self.thread_level(statement.body)
                del self.values.storages[buffer.name]
            case Intrinsic() if lanes_of(statement.declaration) > 1:
                emission_of(statement.declaration)(self, statement)
            case Assign() | Reduce() | Copy() | Intrinsic():
                if self._alone:
                    with self.source.block(f"if ({conjunction([self.first_along(a) for a in self._alone])})"):
                        emit_leaf(self, statement)
                else:
                    emit_leaf(self, statement)
            case Barrier() | Commit() | Wait():
                raise LoweringError(
                    f"`{summarize(statement)}` is inside a loop over threads, but all threads must run it together; "
                    "move it out of the loop"
                )

    def allocate(self, alloc: Alloc) -> None:
        """Declares the registers of a buffer of each thread."""
        buffer = alloc.buffer
        name = self.names.make(buffer.name)
        if buffer.scope.startswith(FRAGMENT):
            storage = fragment_storage(buffer, name, distribution(alloc))
            self.values.storages[buffer.name] = storage
            self.source.line(f"{Fragment.of(buffer).c_type} {storage.name}[{storage.elements}];")
            return
        self.declare(in_registers(buffer, name, distribution(alloc)))

    def declare(self, storage: Storage) -> None:
        """Declares an array in a thread's registers."""
        self.values.storages[storage.buffer.name] = storage
        if storage.elements * storage.buffer.dtype.bits // 8 > LOCAL_BYTES:
            raise LoweringError(
                f"{format_buffer(storage.buffer)} takes more than a thread's {LOCAL_BYTES // 1024} KiB; "
                "allocate it around the kernel, or make its tile smaller"
            )
        if storage.buffer.dtype in (DType.FLOAT16, DType.BFLOAT16):
            self.values.used.add(storage.buffer.dtype.value)
        self._declared.append((len(self.source.lines), storage.buffer.name))
        elements = None if storage.scalar else storage.elements
        self.source.line(self.values.dialect.declared(storage.buffer.dtype, storage.name, elements))

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A `with` context that restores loop ranges and C variables at its end."""
        saved = dict(self.values.ranges), dict(self.values.variables)
        try:
            yield
        finally:
            self.values.ranges, self.values.variables = saved


def _touches_shared(phase: Stmt) -> bool:
    """Whether a phase (code that each thread runs by itself) reads or writes shared memory."""
    return any(access.buffer.scope == "shared" for access in accesses(phase, ()))


def _title(body: Stmt) -> str:
    """Names of the statements in a phase (code that each thread runs by itself), in program order, for a comment."""
    named = [s.name for s in walk(body) if isinstance(s, Assign | Reduce | Copy | Intrinsic)]
    return _printable(", ".join(dict.fromkeys(named))) or "nothing"


def _printable(names: str) -> str:
    """Names made safe for a C comment, in which a backslash at the end would continue the comment on the next line."""
    return re.sub(r"[^\w.,' -]", "_", names)
