"""Emission: run a layer's scheduled loops and write down the instructions they stand for.

Loops around allocations are executed; a chain of loops that ends in a hardware intrinsic or a copy folds into as few
instructions as its fields allow (`emit_compute`, `emit_memory`). The result is in program order, without tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vdla.isa.config import Config

from ...ir.expr import Buffer, Const, Expr
from ...ir.stmt import Alloc, Assign, Copy, For, Intrinsic, Program, Region, Seq, Stmt
from ...ir.visit import free_vars, loops
from ...passes.split_copies import ELEMENT_DIMENSIONS
from .access import Access
from .evaluate import Evaluator, compile_index
from .machine import DRAM, MachineOp, Span
from .micro_ops import MicroOpMemory
from .placement import DramBuffer, Scratchpads
from .registers import RegisterFile


class EmissionError(Exception):
    """A scheduled program that the instruction set cannot express: a bug of the schedule that made it."""


@dataclass(slots=True)
class Emission:
    """The program being written: operations so far and the state that carries over from layer to layer.

    `activations` is the byte range of DRAM that stores write; `granule` the bytes of one unit of its span space.
    """

    config: Config
    micro_ops: MicroOpMemory
    scratchpads: Scratchpads
    registers: RegisterFile
    activations: tuple[int, int]
    granule: int
    operations: list[MachineOp] = field(default_factory=list)

    uop_address: int = 0
    _page_operations: list[int] = field(default_factory=list)

    def load_page(self, group: int) -> None:
        """Append the LOAD.UOP of the current micro-op page; `finish` fills in its size."""
        self._page_operations.append(len(self.operations))
        self.operations.append(MachineOp("LOAD.UOP", {}, group=group))

    def finish(self, group: int) -> None:
        """Complete the micro-op loads and append FINISH."""
        address = self.uop_address
        for number, index in enumerate(self._page_operations):
            count = len(self.micro_ops.contents(number))
            fields = {"dram_base": address // 4, "y_size": 1, "x_size": count, "x_stride": count}
            self.operations[index] = MachineOp("LOAD.UOP", fields, group=self.operations[index].group)
            address += 4 * count
        self.operations.append(MachineOp("FINISH", {}, group=group))

    def dram_span(self, address: int, size: int) -> tuple[Span, ...]:
        """The span of `size` bytes at `address`: empty for constants, which nothing writes."""
        low, high = self.activations
        if address + size <= low or address >= high:
            return ()
        return ((DRAM, (address - low) // self.granule, -(-(address + size - low) // self.granule)),)


@dataclass(frozen=True, slots=True)
class Chain:
    """Loops that fold into instructions: (variable, extent) outermost first, and the statement inside."""

    loops: tuple[tuple[str, Evaluator], ...]
    leaf: Intrinsic | Copy | Assign


class LayerEmitter:
    """Emits one layer into an `Emission`."""

    def __init__(
        self, emission: Emission, program: Program, addresses: Mapping[str, DramBuffer], group: int
    ) -> None:
        self.emission = emission
        self.config = emission.config
        self.program = program
        self.addresses = addresses
        self.group = group
        buffers, self._body = _hoisted(program.body)
        self.slots = emission.scratchpads.place(buffers, {})
        self._accesses: dict[int, Access] = {}
        self._chains: dict[int, Chain | None] = {}
        self._extents: dict[int, Evaluator] = {}
        self.plans: dict[int, object] = {}
        self._varying = {loop.name for loop in loops(program) if not isinstance(loop.extent, Const)}
        for loop in loops(program):
            if loop.kind not in ("serial", "unroll"):
                reason = f"the accelerator cannot make loop {loop.name} {loop.kind}; leave it serial"
                raise EmissionError(f"{program.name}: {reason}")

    def run(self) -> None:
        """Emit the whole layer."""
        self._execute(self._body, {})

    def add(
        self, name: str, reads: tuple[Span, ...] = (), writes: tuple[Span, ...] = (), **fields: int
    ) -> None:
        """Append one instruction of this layer."""
        self.emission.operations.append(MachineOp(name, fields, reads, writes, self.group))

    def set_register(self, name: str, **fields: int) -> None:
        """Append a CONFIG if register `name` does not hold these fields yet."""
        self.emission.operations.extend(self.emission.registers.set(name, self.group, **fields))

    def access(self, region: Region, element_dimensions: int = ELEMENT_DIMENSIONS, least: int = 1) -> Access:
        """The compiled form of an operand, made once: an operand is always counted in one kind of element."""
        found = self._accesses.get(id(region))
        if found is None:
            found = self._accesses[id(region)] = Access(region, self.slots, element_dimensions, least)
        return found

    def varying(self, name: str) -> bool:
        """Whether the extent of loop `name` differs from iteration to iteration of the loops around it."""
        return name in self._varying

    def evaluator(self, expr: Expr) -> Evaluator:
        """The compiled form of an index expression, made once."""
        found = self._extents.get(id(expr))
        if found is None:
            found = self._extents[id(expr)] = compile_index(expr)
        return found

    def dram(self, buffer: Buffer) -> DramBuffer:
        """Where a parameter of the layer lies."""
        return self.addresses[buffer.name]

    def _execute(self, statement: Stmt, environment: dict[str, int]) -> None:
        chain = self._chain(statement)
        if chain is not None:
            self._emit(chain, environment)
            return
        match statement:
            case Seq(statements=statements):
                for item in statements:
                    self._execute(item, environment)
            case For(var=var, extent=extent, body=body):
                for value in range(self.evaluator(extent)(environment)):
                    environment[var.name] = value
                    self._execute(body, environment)
                environment.pop(var.name, None)
            case _:
                raise EmissionError(f"{self.program.name}: no instruction does a {type(statement).__name__}")

    def _chain(self, statement: Stmt) -> Chain | None:
        key = id(statement)
        if key not in self._chains:
            self._chains[key] = self._find_chain(statement)
        return self._chains[key]

    def _find_chain(self, statement: Stmt) -> Chain | None:
        loops: list[tuple[str, Evaluator]] = []
        while isinstance(statement, For):
            # A loop that decides how long one inside of it is cannot be folded with it.
            if free_vars(statement.extent) & {name for name, _ in loops}:
                return None
            loops.append((statement.var.name, self.evaluator(statement.extent)))
            statement = statement.body
        if isinstance(statement, Intrinsic | Copy | Assign):
            return Chain(tuple(loops), statement)
        return None

    def _emit(self, chain: Chain, environment: dict[str, int]) -> None:
        from . import emit_compute, emit_memory

        leaf = chain.leaf
        if isinstance(leaf, Copy):
            emit_memory.emit_copy(self, chain, leaf, environment)
            return
        if isinstance(leaf, Assign):
            emit_memory.emit_fill(self, chain, leaf, environment)
            return
        match leaf.declaration.name:
            case "gemm" | "depthwise":
                emit_compute.emit_matrix(self, chain, leaf, environment)
            case "post" | "post_rows":
                emit_memory.emit_post(self, chain, leaf, environment)
            case "patch":
                emit_memory.emit_patch(self, chain, leaf, environment)
            case name:
                raise EmissionError(f"{self.program.name}: no instruction for intrinsic {name}")


def _hoisted(statement: Stmt) -> tuple[list[Buffer], Stmt]:
    """The scratchpad buffers allocated at the root of a program, and what is inside."""
    buffers: list[Buffer] = []
    while isinstance(statement, Alloc):
        buffers.append(statement.buffer)
        statement = statement.body
    return buffers, statement
