"""Emits statements as LLVM IR: loops by their kind, allocations, updates, and uses of hardware instructions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ...ir.expr import Binary, Buffer, Load, Select
from ...ir.printer import summarize
from ...ir.stmt import AXES, Alloc, Assign, Barrier, Commit, Copy, For, Intrinsic, Reduce, Seq, Stmt, Wait
from ...ir.types import DType
from .errors import LoweringError
from .expressions import ExpressionEmitter, VectorLoop
from .half_floats import HALF_FLOATS, narrow, widen
from .intrinsics import emission_of
from .machine import CpuTarget
from .memory import ALIGNMENT, Storage, buffer_bytes, lies_on_stack, row_major, stack_layout
from .text import Block, Value, constant, first_lanes, memory_type
from .transposed_moves import transposed_move

MAXIMUM_LANES = 128
"""Largest number of iterations of a vectorized loop. More iterations would make too much code: split the loop first."""


@dataclass(slots=True)
class Workspace:
    """Allocator of offsets in a kernel's workspace, the memory for its large allocations."""

    used: int = 0
    greatest: int = 0

    def take(self, size: int) -> int:
        """Reserves `size` bytes and returns their offset, a multiple of ALIGNMENT bytes."""
        offset = self.used
        self.used = -(-(offset + size) // ALIGNMENT) * ALIGNMENT
        self.greatest = max(self.greatest, self.used)
        return offset


@dataclass(slots=True)
class Functions:
    """Parts of a module besides its main function: the functions with the bodies of parallel loops, and the memory
    layout of the workspace of one worker thread.
    """

    lines: list[str] = field(default_factory=list)
    scratch: Workspace = field(default_factory=Workspace)
    count: int = 0


@dataclass(slots=True)
class StatementEmitter:
    """Emits statements into one function. `in_parallel`: whether the function is the body of a parallel loop."""

    block: Block
    target: CpuTarget
    workspace: Workspace
    workspace_pointer: str
    functions: Functions
    in_parallel: bool = False
    values: ExpressionEmitter = field(init=False)

    def __post_init__(self) -> None:
        self.values = ExpressionEmitter(self.block, self.target)

    def statement(self, statement: Stmt) -> None:
        """Emits one statement, with the statements nested in it."""
        match statement:
            case Seq(statements=statements):
                for inner in statements:
                    self.statement(inner)
            case For():
                self.loop(statement)
            case Alloc(buffer=buffer, body=body):
                self.allocate(buffer, body, statement)
            case Assign(buffer=buffer, indices=indices, value=value):
                self.values.store(buffer, indices, self.values.expr(value))
            case Reduce():
                self.reduce(statement)
            case Intrinsic():
                if self.values.vector is not None:
                    raise LoweringError(
                        f"`{summarize(statement)}` cannot be inside a vectorized loop; make this loop serial"
                    )
                self.block.slots.save()
                emission_of(statement.declaration)(self.values, statement)
                self.block.written()
            case Copy():
                raise LoweringError(f"`{summarize(statement)}`: expand this copy to loops first")
            case Commit() | Wait():
                raise LoweringError("processors have no asynchronous copies; make the copies synchronous")
            case Barrier():
                raise LoweringError("a barrier is for the threads of a GPU's block; processors have none")

    # Loops

    def loop(self, loop: For) -> None:
        """Emits a loop by its kind; for a loop of one iteration only the body."""
        if loop.kind in AXES:
            raise LoweringError(
                f"`{summarize(loop)}` is an axis of a GPU's grid; on processors make it parallel or serial"
            )
        if loop.kind == "virtual_thread":
            raise LoweringError(
                f"`{summarize(loop)}`: virtual threads are for accelerators; on a processor make it parallel or serial"
            )
        count = self.values.known(loop.extent)
        if count is not None and count <= 0:
            return
        if isinstance(count, int) and loop.kind == "unroll" and self.transposed(loop, count):
            return
        if isinstance(count, int) and (count == 1 or loop.kind == "unroll"):
            for i in range(count):
                self.iteration(loop, i)
            return
        if isinstance(count, int) and loop.kind == "vectorize" and self.values.vector is None:
            self.vectorized(loop, count)
            return
        if loop.kind == "parallel" and not self.in_parallel and self.values.vector is None:
            self.parallel(loop)
            return
        self.serial(loop, count)

    def parallel(self, loop: For) -> None:
        """Emits the body of a parallel loop as a function of the iteration. A closure passes the values of the
        surrounding function that the body uses.
        """
        number = self.functions.count
        self.functions.count += 1
        block, values = self.block, self.values
        inner = StatementEmitter(
            Block(block.declarations),
            self.target,
            self.functions.scratch,
            "%scratch",
            self.functions,
            in_parallel=True,
        )
        captured: list[tuple[str, str]] = []
        for name, storage in values.storages.items():
            pointer = f"%s{len(captured)}"
            captured.append(("ptr", storage.pointer))
            inner.values.storages[name] = replace(storage, pointer=pointer)
        for name, held in values.variables.items():
            if isinstance(held, Value):
                captured.append(("i64", held.text))
                held = Value(f"%s{len(captured) - 1}", DType.INT64)
            inner.values.variables[name] = held
        inner.iteration(loop, Value("%chunk", DType.INT64))
        inner.block.end()
        formal = ", ".join(
            f"{kind}{' noalias' * (kind == 'ptr')} %s{i}" for i, (kind, _) in enumerate(captured)
        )
        lines = self.functions.lines
        lines.append(
            f"define internal void @vdla.parallel{number}(i64 %chunk, ptr noalias %scratch, {formal}) #0 {{"
        )
        lines += ["entry:", *inner.block.allocas, *inner.block.lines, "}"]
        lines.append(f"define internal void @vdla.task{number}(ptr %closure, i64 %chunk, i64 %worker) #0 {{")
        for i, (kind, _) in enumerate(captured):
            lines.append(f"  %a{i} = getelementptr inbounds i64, ptr %closure, i64 {i}")
            lines.append(f"  %s{i} = load {kind}, ptr %a{i}, align 8")
        lines += [
            f"  %base = getelementptr inbounds i64, ptr %closure, i64 {len(captured)}",
            "  %first = load ptr, ptr %base, align 8",
            "  %size = load i64, ptr @vdla.scratch_bytes, align 8",
            "  %offset = mul i64 %worker, %size",
            "  %scratch = getelementptr inbounds i8, ptr %first, i64 %offset",
        ]
        actual = ", ".join(f"{kind} %s{i}" for i, (kind, _) in enumerate(captured))
        lines.append(f"  call void @vdla.parallel{number}(i64 %chunk, ptr %scratch, {actual})")
        lines += ["  ret void", "}"]

        closure = f"%{block.name('closure')}"
        captured.append(("ptr", "%scratch"))
        block.allocas.append(f"  {closure} = alloca [{len(captured)} x i64], align 8")
        for i, (kind, text) in enumerate(captured):
            slot = block.assign(f"getelementptr inbounds i64, ptr {closure}, i64 {i}")
            block.do(f"store {kind} {text}, ptr {slot}, align 8")
        extent = values.expr(loop.extent)
        fork, here, done = block.name("L"), block.name("L"), block.name("L")
        alone = block.define("icmp eq ptr %launch, null", DType.BOOL)
        block.branch(alone, here, fork)
        scope = block.scope()
        block.begin(fork, scope)
        block.do(f"call void %launch(ptr %pool, ptr @vdla.task{number}, ptr {closure}, {extent.typed})")
        block.jump(done)
        block.begin(here, scope)
        chunks = For(var=loop.var, extent=loop.extent, body=Seq(statements=()))
        self.serial(
            chunks,
            self.values.known(loop.extent),
            lambda chunk: block.do(f"call void @vdla.task{number}(ptr {closure}, {chunk.typed}, i64 0)"),
        )
        block.jump(done)
        block.begin(done, scope)

    def transposed(self, loop: For, count: int) -> bool:
        """If the body of an unrolled loop of `count` iterations transposes a tile, emits the loop as a transposition
        (vector loads, shuffles, vector stores) and returns True. Otherwise emits nothing and returns False.
        """
        match loop.body:
            case For(kind="vectorize", body=Assign(value=Load() | Select()) as move) as inner:
                return transposed_move(self.values, loop, inner, move, count)
        return False

    def iteration(self, loop: For, value: int | Value) -> None:
        """Emits the loop's body with its variable set to `value`."""
        self.values.variables[loop.name] = value
        self.statement(loop.body)
        del self.values.variables[loop.name]

    def serial(
        self, loop: For, count: int | float | None, each: Callable[[Value], None] | None = None
    ) -> None:
        """Emits a counted loop. `count`: iterations, if known. `each(counter)` emits an iteration (None: the body)."""
        block = self.block
        body, done = block.name("L"), block.name("L")
        extent = self.values.expr(loop.extent)
        if extent.lanes > 1:
            raise LoweringError(
                f"the extent of loop {loop.name} differs between lanes; make the vectorized loop around it serial"
            )
        if count is None:
            block.branch(block.binary("icmp sgt", extent, constant(0, DType.INT64), DType.BOOL), body, done)
        else:
            block.jump(body)
        before, scope = block.label, block.scope()
        block.begin(body, scope)
        # The phi needs the last block of the body, which is known only after the body.
        place = len(block.lines)
        block.lines.append("")
        variable = Value(f"%{block.name('i')}", DType.INT64)
        if each is None:
            self.iteration(loop, variable)
        else:
            each(variable)
        following = block.binary("add nuw nsw", variable, constant(1, DType.INT64))
        block.lines[place] = (
            f"  {variable.text} = phi i64 [ 0, %{before} ], [ {following.text}, %{block.label} ]"
        )
        block.branch(block.binary("icmp slt", following, extent, DType.BOOL), body, done)
        block.begin(done, scope)

    def vectorized(self, loop: For, count: int) -> None:
        """Emits all iterations of a vectorized loop at once, one in each lane."""
        if count > MAXIMUM_LANES:
            raise LoweringError(
                f"vectorized loop {loop.name} has {count} iterations, more than {MAXIMUM_LANES}; split it first"
            )
        values = self.values
        lanes = 1 << (count - 1).bit_length()
        values.vector = VectorLoop(name=loop.name, count=count, lanes=lanes)
        if count < lanes:
            values.mask = first_lanes(count, lanes)
        self.statement(loop.body)
        values.vector, values.mask = None, None

    # Memory

    def allocate(self, buffer: Buffer, body: Stmt, where: Alloc) -> None:
        """Emits `body` with a stack slot or a place in the workspace for `buffer`. `where`: the Alloc, for errors."""
        if self.values.vector is not None:
            raise LoweringError(
                f"`{summarize(where)}` cannot be inside a vectorized loop; make this loop serial"
            )
        if lies_on_stack(buffer):
            strides, elements = stack_layout(buffer, self.target.lanes(buffer.dtype))
            pointer = f"%{self.block.name('slot')}"
            self.block.allocas.append(
                f"  {pointer} = alloca [{elements} x {memory_type(buffer.dtype)}], align {ALIGNMENT}"
            )
            self.values.storages[buffer.name] = Storage(buffer, pointer, strides, ALIGNMENT, on_stack=True)
            self.statement(body)
            self.block.slots.forget(pointer)
            del self.values.storages[buffer.name]
            return
        before = self.workspace.used
        offset = self.workspace.take(buffer_bytes(buffer))
        pointer = self.block.assign(f"getelementptr inbounds i8, ptr {self.workspace_pointer}, i64 {offset}")
        self.values.storages[buffer.name] = Storage(buffer, pointer, row_major(buffer.shape), ALIGNMENT)
        self.statement(body)
        del self.values.storages[buffer.name]
        self.workspace.used = before

    def reduce(self, reduce: Reduce) -> None:
        """Emits the update of a sum or maximum by one more value or, for the first value, the store of this value."""
        values, block = self.values, self.block
        buffer, indices = reduce.buffer, reduce.indices
        first = False if reduce.first is None else values.known(reduce.first)
        if first:
            values.store(buffer, indices, values.expr(reduce.value))
            return
        starts = None if reduce.first is None or first is not None else values.expr(reduce.first)
        storage = values.storages[buffer.name]
        address = values.address_of(storage, indices)
        total = self.combine(reduce, values.load_from(storage, address))
        if starts is not None:
            total = block.select(starts, values.expr(reduce.value), total)
        values.store_at(storage, address, total)

    def combine(self, reduce: Reduce, current: Value) -> Value:
        """The sum, or the maximum, of `current` and the value that `reduce` adds."""
        values, block = self.values, self.block
        if reduce.buffer.dtype in HALF_FLOATS:
            a, b = widen(block, current), widen(block, values.expr(reduce.value))
            total = block.extremum("max", a, b) if reduce.op == "max" else block.binary("fadd", a, b)
            return narrow(block, total, reduce.buffer.dtype)
        if reduce.op == "max":
            return block.extremum("max", current, values.expr(reduce.value))
        if not reduce.buffer.dtype.is_float:
            return block.binary("add", current, values.expr(reduce.value))
        match reduce.value:
            case Binary(op="*", a=a, b=b):
                # "contract" lets LLVM fuse both where the processor can, and only there.
                product = block.binary("fmul contract", values.expr(a), values.expr(b))
            case value:
                product = values.expr(value)
        return block.binary("fadd contract", current, product)
