"""Emission: from a layer's scheduled loops to instructions.

A chain of loops that ends in a hardware intrinsic or a copy becomes as few instructions as their fields allow
(`emit_compute`, `emit_copies`, `emit_loads`, `emit_stores`). The loops around chains are not run iteration by
iteration: every chain is emitted once for all iterations, in columns, and the result is sorted by the iterations'
positions in program order. So emission of a layer takes a few hundred array operations, however small the layer's tiles
are. The result has no dependence tokens (signals between units) yet.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vdla.isa.config import Config
from vdla.isa.registers import register, register_values

from ...ir.bounds import Interval, interval, loop_range
from ...ir.expr import Buffer, Const, Expr
from ...ir.stmt import Alloc, Assign, Copy, For, Intrinsic, Program, Region, Seq, Stmt
from ...ir.visit import free_vars, loops
from ...passes.split_copies import ELEMENT_DIMENSIONS
from .alu_intrinsics import vector_opcode
from .columns import KERNEL, Access, Column, Environment, Evaluator, Iterations, Rows, evaluator
from .errors import EmissionError
from .folds import FoldedWeights
from .machine import DRAM, Batch, Span
from .pads_ahead import Padded, padded_outputs
from .placement import (
    ChainBuffer,
    ChainPads,
    DramBuffer,
    MicroOpMemory,
    Place,
    RegisterFile,
    Scratchpads,
    StoreTables,
)
from .program_order import Draft, Drafts, EmissionCache, put_in_order


@dataclass(slots=True)
class Emission:
    """The program under construction: its instructions so far, and the state that carries over from layer to layer.

    `activations`: (first, end) byte of the DRAM that stores write. `granule`: unit, in bytes, in which accesses to DRAM
    are compared for dependences. `uop_address`: DRAM byte address of the micro-ops. `count`: instructions so far.
    """

    config: Config
    micro_ops: MicroOpMemory
    scratchpads: Scratchpads
    registers: RegisterFile
    tables: StoreTables
    pads: ChainPads
    activations: tuple[int, int]
    granule: int
    uop_address: int = 0
    batches: list[Batch] = field(default_factory=list)
    count: int = 0
    _pages: list[tuple[int, int]] = field(default_factory=list)

    def start(self, group: int) -> None:
        """Reserves the next instruction, a load of the first page of micro-ops; it belongs to layer number `group`."""
        self.load_page(group, self.count)
        self.count += 1

    def load_page(self, group: int, number: int) -> None:
        """Reserves instruction `number` of the program, in layer `group`, as the load of the next page (part) of
        micro-ops; `finish` fills in the instruction's fields.
        """
        self._pages.append((number, group))

    def finish(self, group: int) -> None:
        """Appends FINISH, in layer `group`, and fills in the reserved loads of micro-op pages."""
        address, size = self.uop_address, self.config.uop_bytes
        for page, (number, owner) in enumerate(self._pages):
            count = len(self.micro_ops.contents(page))
            fields = {"dram_base": address // size, "y_size": 1, "x_size": count, "x_stride": count}
            self.batches.append(
                Batch(name="LOAD.UOP", numbers=np.array([number]), fields=fields, group=owner)
            )
            address += size * count
        self.batches.append(Batch(name="FINISH", numbers=np.array([self.count]), fields={}, group=group))
        self.count += 1

    def dram_span(self, address: Column, size: Column) -> tuple[Span, ...]:
        """The part of `activations` that an access to `size` bytes at `address` touches, if any, in granules."""
        low, high = self.activations
        first = (address - low) // self.granule
        last = -(-(address + size - low) // self.granule)
        outside = (address + size <= low) | (address >= high) | (size <= 0)
        if isinstance(outside, np.ndarray):
            return (Span(DRAM, first, np.where(outside, first, last)),)
        return () if outside else (Span(DRAM, first, last),)


@dataclass(frozen=True, slots=True)
class Chain:
    """A nest of loops (variable and extent of each, outermost first) around the statement `leaf`; the nest becomes few
    instructions. `positions`: for each loop, the difference in position between two neighbouring iterations. A position
    is the number of an iteration in program order, among all iterations of the layer.
    """

    loops: tuple[tuple[str, Evaluator], ...]
    positions: tuple[int, ...]
    leaf: Intrinsic | Copy | Assign

    @property
    def names(self) -> list[str]:
        """The loops' variables."""
        return [name for name, _ in self.loops]

    def iterations(self, around: Iterations, folded: frozenset[str] = frozenset()) -> Iterations:
        """Repeats each iteration in `around` for all iterations of the chain's loops. Loops in `folded` are not
        repeated, because they become loop counts of instructions: their variables stay at 0.
        """
        inner = around
        for (name, extent), positions in zip(self.loops, self.positions, strict=True):
            if name in folded:
                inner = inner.fixed((name,))
            else:
                inner = inner.expanded(name, extent(inner.values), positions)
        return inner

    def of_constant_steps(self, accesses: Sequence[Access], around: Iterations) -> tuple[Chain, Iterations]:
        """The chain and `around`; outer loops move to `around` until each loop moves `accesses` by constant steps."""
        if all(access.slope(name) is not None for access in accesses for name in self.names):
            return self, around
        from .constant_steps import with_constant_steps

        return with_constant_steps(self, accesses, around)


class LayerEmitter:
    """Emits kernels that all run `program`, one after the other, into an `Emission`. `group`: number of their layer.

    `addresses`: for each kernel the memory locations of its parameters; the kernels differ in DRAM addresses only.
    `weights`: on a machine that multiplies a tile in several parts (extension `fold`), the parts of weight tiles that
    contain weights. Missing pads of an output tensor in the chain memory (on-chip memory between layers) are stored
    after the layer's first store. `ahead`: tensors that the next layer writes to the chain memory; their pads are
    stored between this layer's stores.
    """

    def __init__(
        self,
        emission: Emission,
        program: Program,
        addresses: Sequence[Mapping[str, Place]],
        group: int,
        ahead: Sequence[Padded] = (),
        weights: FoldedWeights | None = None,
    ) -> None:
        self.emission = emission
        self.config = emission.config
        self.program = program
        self.addresses = addresses
        self.group = group
        self.weights = weights
        buffers, self._body = _hoisted(program.body)
        placed = [emission.scratchpads.place(buffers) for _ in addresses]
        self.slots = {name: tuple([slots[name] for slots in placed]) for name in placed[0]}
        self._drafts: list[Draft] = []
        self._sequences: list[np.ndarray] = []
        self._spans: dict[int, int] = {}
        self._varying: set[str] = set()
        chained = self.config.chain_depth > 0
        self.padded = self._pads_to_write(padded_outputs(program, addresses[0])) if chained else ()
        self.ahead = self._pads_to_write(ahead)
        self.tables_loaded: set[str] = set()

    def run(self, emission_cache: EmissionCache | None = None, key: Hashable | None = None) -> None:
        """Emits all kernels. `emission_cache`: cache of emitted instructions, used if `key` (program and machine) is
        given. The method adds addresses and scratchpad slots to the key.
        """
        if emission_cache is None or key is None:
            found = self._write()
        else:
            key = (key, self._cache_key())
            found = emission_cache.find(key)
            if found is None:
                found = self._write()
                emission_cache.keep(key, found)
        put_in_order(self.emission, self.program.name, found.drafts, found.sequences, self.group)

    def _cache_key(self) -> Hashable:
        """The key of this layer in the emission cache, apart from program and machine. It consists of scratchpad slots,
        parameters' addresses, activations' range, granule, used parts of weight tiles, and pads.
        """
        return (
            tuple(sorted(self.slots.items())),
            tuple([tuple(sorted(places.items(), key=lambda item: item[0])) for places in self.addresses]),
            self.emission.activations,
            self.emission.granule,
            None if self.weights is None else self.weights.key,
            *(
                tuple([(place, buffer.shape) for buffer, place in tensors])
                for tensors in (self.padded, self.ahead)
            ),
        )

    def _pads_to_write(self, tensors: Iterable[Padded]) -> tuple[Padded, ...]:
        """The tensors in `tensors` whose pads are not yet in the chain memory (on-chip memory between layers). Records
        that the pads of all `tensors` are now there.
        """
        return tuple(
            [(buffer, place) for buffer, place in tensors if not self.emission.pads.write(place, buffer)]
        )

    def _write(self) -> Drafts:
        for loop in loops(self.program):
            if not isinstance(loop.extent, Const):
                self._varying.add(loop.name)
            if loop.kind not in ("serial", "unroll"):
                reason = f"the accelerator cannot run loop {loop.name} as {loop.kind}; make it serial"
                raise EmissionError(f"{self.program.name}: {reason}")
        span, count = self._count_positions(self._body, {}), len(self.addresses)
        number = np.arange(count)
        around = Iterations({KERNEL: number if count > 1 else 0}, number * span)
        self._visit(self._body, around)
        return Drafts(self._drafts, self._sequences)

    def add(
        self,
        name: str,
        positions: Rows,
        fields: dict[str, Column],
        reads: tuple[Span, ...] = (),
        writes: tuple[Span, ...] = (),
        sequence: Rows | None = None,
    ) -> None:
        """Adds an instruction `name` at each of `positions` (ascending numbers of iterations in program order; a number
        may repeat). `reads`, `writes`: the memory that each accesses. `sequence`: numbers of the micro-op sequences.
        """
        self._drafts.append(Draft(name, positions, fields, reads, writes, sequence=sequence))

    def set_register(self, name: str, positions: Rows, fields: dict[str, Column]) -> None:
        """Adds a CONFIG that sets register `name` to the values `fields`, at each of `positions` (numbers of iterations
        in program order) at which the register does not hold these values yet.
        """
        target = register(name)
        value = register_values(name, fields)
        common: dict[str, Column] = {"unit": int(target.unit), "register": target.index, "value": value}
        self._drafts.append(Draft("CONFIG", positions, common, register=name))

    def sequence(self, words: np.ndarray) -> int:
        """Adds the micro-op sequence `words` (`layout.uop_dtype`) and returns its number in this layer."""
        self._sequences.append(words)
        return len(self._sequences) - 1

    def access(
        self, region: Region, element_dimensions: int = ELEMENT_DIMENSIONS, least: tuple[int, ...] = ()
    ) -> Access:
        """The addresses of the operand `region`, in a scratchpad, DRAM or chain memory (on-chip memory between layers).
        An element consists of the last `element_dimensions` dimensions. `least`: least sizes for the strides (see
        `Access`).
        """
        place, config = self.chained(region.buffer), self.config
        start = 0 if place is None else config.chain_base + place.address // config.inp_bytes
        return Access(region, self.slots, element_dimensions, least, start)

    def varying(self, name: str) -> bool:
        """Whether the extent of loop `name` varies with the iterations of the enclosing loops."""
        return name in self._varying

    def dram(self, buffer: Buffer, environment: Environment) -> Column:
        """The DRAM byte address of a parameter: an int or, if it differs between kernels, one for each iteration."""
        found: list[int] = []
        for places in self.addresses:
            place = places[buffer.name]
            assert isinstance(place, DramBuffer)
            found.append(place.address)
        same = len(set(found)) == 1
        return found[0] if same else np.array(found, dtype=np.int64)[environment[KERNEL]]

    def chained(self, buffer: Buffer) -> ChainBuffer | None:
        """The location of a parameter in the chain memory (on-chip memory between layers); None if it is elsewhere."""
        place = self.addresses[0].get(buffer.name)
        return place if isinstance(place, ChainBuffer) else None

    # --- the loops around chains --------------------------------------------------------------------

    def _count_positions(self, statement: Stmt, ranges: dict[str, Interval | Expr]) -> int:
        """Number of positions in program order that the executions of a statement take; each loop counts with its
        largest extent. `ranges`: values of the variables of enclosing loops.
        """
        match statement:
            case Seq(statements=statements):
                count = sum(self._count_positions(item, ranges) for item in statements)
            case For(var=var, extent=extent, body=body):
                most = interval(extent, ranges).high
                if most is None:
                    raise EmissionError(
                        f"{self.program.name}: the extent of loop {var.name} must have a bound"
                    )
                inner = {**ranges, var.name: loop_range(extent)}
                count = max(most, 1) * self._count_positions(body, inner)
            case _:
                count = 1
        self._spans[id(statement)] = count
        return count

    def _visit(self, statement: Stmt, around: Iterations) -> None:
        chain = self._chain(statement)
        if chain is not None:
            if len(around):
                self._emit(chain, around)
            return
        match statement:
            case Seq(statements=statements):
                for item in statements:
                    self._visit(item, around)
                    around = around.shifted(self._spans[id(item)])
            case For(var=var, extent=extent, body=body):
                count = evaluator(extent)(around.values)
                self._visit(body, around.expanded(var.name, count, self._spans[id(body)]))
            case _:
                raise EmissionError(
                    f"{self.program.name}: no instruction of the accelerator computes a {type(statement).__name__}"
                )

    def _chain(self, statement: Stmt) -> Chain | None:
        found: list[For] = []
        while isinstance(statement, For):
            # A loop cannot be counted together with an inner loop whose extent depends on its variable.
            if not isinstance(statement.extent, Const):
                inner = free_vars(statement.extent)
                if any(loop.var.name in inner for loop in found):
                    return None
            found.append(statement)
            statement = statement.body
        if not isinstance(statement, Intrinsic | Copy | Assign):
            return None
        return Chain(
            loops=tuple([(loop.var.name, evaluator(loop.extent)) for loop in found]),
            positions=tuple([self._spans[id(loop.body)] for loop in found]),
            leaf=statement,
        )

    def _emit(self, chain: Chain, around: Iterations) -> None:
        from . import emit_compute, emit_copies, emit_loads, emit_rows, emit_stores, emit_vectors

        leaf = chain.leaf
        if isinstance(leaf, Copy):
            emit_copies.emit_copy(self, chain, leaf, around)
            return
        if isinstance(leaf, Assign):
            emit_loads.emit_fill(self, chain, leaf, around)
            return
        match leaf.declaration.name:
            case "gemm" | "depthwise" | "taps":
                emit_compute.emit_matrix(self, chain, leaf, around)
            case "post":
                emit_stores.emit_post(self, chain, leaf, around)
            case "rows":
                emit_rows.emit_rows(self, chain, leaf, around)
            case "patch":
                emit_loads.emit_patch(self, chain, leaf, around)
            case name if vector_opcode(self.config, name) is not None:
                emit_vectors.emit_vector(self, chain, leaf, around)
            case _ if leaf.declaration.code:
                emit_vectors.emit_sequence(self, chain, leaf, around)
            case name:
                raise EmissionError(
                    f"{self.program.name}: the accelerator has no instruction for the intrinsic {name}"
                )


def _hoisted(statement: Stmt) -> tuple[list[Buffer], Stmt]:
    """The scratchpad buffers allocated at the root of a program, and the statement inside their allocations."""
    buffers: list[Buffer] = []
    while isinstance(statement, Alloc):
        buffers.append(statement.buffer)
        statement = statement.body
    return buffers, statement
