"""The pipeline of compute operations: micro-op, addresses, operands, arithmetic, forwarding, write (hw/README.md,
section 7).
"""

from __future__ import annotations

from functools import partial, reduce
from itertools import pairwise
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.alu import ALU_OPCODE_BITS, AluOpcode, custom_codes
from vdla.isa.array_modes import SWEEP_MODE, TAPS, modes_of
from vdla.isa.array_shape import ArrayShape
from vdla.isa.config import Config
from vdla.isa.layout import uop_fields
from vdla.isa.timing import alu_cycles, alu_latency, alu_read_stage, gemm_latency, gemm_read_stage

from ..copies import copies
from ..interfaces import chain_read, inp_read, scratchpad_read, scratchpad_write, wgt_read
from ..lanes import ACCUMULATOR_LANE
from ..shared_modules import place
from .accumulators import lanes
from .alu import LANE
from .array import MultiplyArray, array_latency
from .columns import sum_bits
from .lane import CYCLES, IMMEDIATE, RESULTS, AccumulatorLane, lane_controls
from .operations import alu_extra, most_extra, offset_layout, src_bits, wgt_row_bits

ZEROS = data.StructLayout({"inp_zero": 8, "wgt_zero": 8})
"""Layout of register ZERO: zero points of inputs and weights, int8."""


def mode_layout(config: Config) -> data.StructLayout:
    """Layout of an instruction's mode, which is the same for all its operations: `alu` (else the array), some fields of
    the instruction, named as in `isa.layout`, and the values of registers ZERO and FOLD if the machine has them.
    `depthwise` is set for TAPS, too.
    """
    built = ArrayShape.of(config)
    return data.StructLayout(
        {
            **({"zeros": ZEROS} if built.zero_points else {}),
            "alu": 1,
            "reset": 1,
            "overwrite": 1,
            "depthwise": 1,
            **({"taps": 1} if built.positions > 1 else {}),
            **{mode.name: 1 for mode in modes_of(config) if mode.register is not None},
            **({"fold": built.fold_levels.bit_length()} if built.fold_levels else {}),
            "alu_opcode": ALU_OPCODE_BITS,
            "use_imm": 1,
            "imm": IMMEDIATE,
        }
    )


def uop_layout(config: Config) -> data.Layout:
    """Layout of a micro-op, from the table of `isa.layout`."""
    return data.FlexibleLayout(
        8 * config.uop_bytes, {item.name: data.Field(item.width, item.low) for item in uop_fields(config)}
    )


class Pipeline(wiring.Component):
    """Executes an operation a cycle, in these stages after its issue in cycle t:

    ====================  ===================================================================================
    t, t + 1              the micro-op memory is addressed; the micro-op arrives
    t + 2                 the offsets are added to the micro-op
    t + 3                 input and weight memories are addressed; for an ALU operation this is r
    r = t + read stage    the accumulators are addressed (GEMM: `gemm_read_stage`)
    r + 1, r + 2          the accumulators arrive; newer results, not yet in memory, replace them
    x = r + 3             execution, on the result of the previous operation if it wrote the same accumulator
    x + 1                 write; the instruction ends here if the operation is its last
    ====================  ===================================================================================

    An ALU operation with two accumulators reads its source, then its destination; its stages count from the read of the
    destination. A shift executes in x .. x + 2, a multiplication in x .. x + 4; consecutive ones issue far enough apart
    that each finds the result of the previous one. GEMM and ALU operations are never in the pipeline at the same time.

    MIN and MAX do not need the result of the operation just before. With an immediate, that operation did the same to
    the same accumulator (min(min(a, i), i) = min(a, i)). Without an immediate, operations are two cycles apart, so the
    previous result was written a cycle earlier.

    Members
    -------
    issue, source, destination, uop, offset : In
        An operation (`operations.Operations`).
    mode : In
        Mode of the operation's instruction; does not change while an ALU instruction executes.
    uop_memory, inp, wgt, chain, acc_read : Out
        Read ports; data of accumulators come two cycles after their address. `chain` exists on machines with a chain
        memory (on-chip buffer between layers): the upper bits of a source index select it instead of `inp`.
    acc_write : Out
        Write port, all lanes of a vector at once; with the extension `fold`, only the lanes of the operation's part.
    """

    def __init__(self, *, config: Config) -> None:
        self.config, self.built = config, ArrayShape.of(config)
        self.sweeps = SWEEP_MODE in modes_of(config)
        acc_width = 8 * config.acc_bytes
        super().__init__(
            {
                "issue": In(1),
                "source": In(1),
                "destination": In(1),
                "uop": In(config.uop_index_bits),
                "offset": In(offset_layout(config)),
                "mode": In(mode_layout(config)),
                "uop_memory": Out(scratchpad_read(depth=config.uop_depth, width=8 * config.uop_bytes)),
                "inp": Out(inp_read(config)),
                "wgt": Out(wgt_read(config)),
                **({"chain": Out(chain_read(config))} if config.chain_buffer_bytes else {}),
                "acc_read": Out(scratchpad_read(depth=config.acc_depth, width=acc_width)),
                "acc_write": Out(
                    scratchpad_write(depth=config.acc_depth, width=acc_width, lanes=lanes(config))
                ),
            }
        )
        # The stages below have these latencies; a change of isa/timing.py needs a change here.
        assert gemm_read_stage(config) == 1 + array_latency(config) == gemm_latency(config) - 4
        assert (alu_read_stage(config), alu_latency(config)) == (3, 7)
        assert all(alu_cycles(config, opcode, True) == CYCLES.get(opcode, 1) for opcode in AluOpcode)

    def _slot(self) -> data.StructLayout:
        """Layout of the record of an operation between issue and accumulators. `writes`: whether it writes its
        accumulator, a bit for each part of the lanes (one bit without `fold`). `source`: the record only reads the
        source accumulator, for the operation in the next record. `alu`: the operation belongs to an ALU instruction.
        `read`: it reads its accumulator. `sum`: it adds the array's sum. `address`: index of its accumulator.
        """
        return data.StructLayout(
            {
                "writes": self.config.tile_parts,
                "source": 1,
                "alu": 1,
                "read": 1,
                "sum": 1,
                "address": self.config.acc_index_bits,
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds the address stages, the array (in parallel to a shift register of destinations), and the accumulator
        stages.
        """
        m = Module()
        config = self.config
        m.submodules.array = array = MultiplyArray(config=config)
        slot = self._addresses(m, array)
        self._accumulate(m, platform, slot, array)
        return m

    def _addresses(self, m: Module, array: MultiplyArray) -> data.View:
        """Builds the stages from issue to the accumulator read; returns the record (`_slot`) of the operation whose
        accumulator is addressed in this cycle.
        """
        config = self.config
        m.d.comb += [self.uop_memory.enable.eq(self.issue), self.uop_memory.address.eq(self.uop)]
        issued = data.StructLayout({"mode": mode_layout(config), "offset": offset_layout(config)})
        kinds = data.StructLayout({"gemm": 1, "source": 1, "destination": 1})
        first, second = (
            Signal(issued, name=name, reset_less=True) for name in ("first", "second")
        )  # t + 1, t + 2
        first_kind, second_kind = Signal(kinds), Signal(kinds)
        uop_word = Signal(8 * config.uop_bytes, reset_less=True)
        m.d.sync += [
            first_kind.gemm.eq(self.issue & ~self.mode.alu),
            first_kind.source.eq(self.source & self.mode.alu),
            first_kind.destination.eq(self.destination & self.mode.alu),
            first.mode.eq(self.mode),
            first.offset.eq(self.offset),
            second.eq(first),
            second_kind.eq(first_kind),
            uop_word.eq(self.uop_memory.data),
        ]
        uop = data.View(uop_layout(config), uop_word)
        mode, offset = second.mode, second.offset
        dst, src = Signal(config.acc_index_bits), Signal(src_bits(config))
        row = Signal(wgt_row_bits(config))
        m.d.comb += [
            dst.eq(uop.dst + offset.dst),
            src.eq(uop.src + offset.src),
            row.eq(uop.wgt + offset.wgt),
        ]

        # t + 3: the memories of the operands. Then a shift register delays the operation until its accumulator read.
        inp_address, wgt_row = (
            Signal(config.inp_index_bits, reset_less=True),
            Signal.like(row, reset_less=True),
        )
        multiplies, depthwise = Signal(), Signal()
        array_row, array_depthwise = Signal.like(array.row, reset_less=True), Signal()
        row_bits = wgt_row_bits(config) - config.wgt_index_bits
        m.d.sync += [
            inp_address.eq(src),
            wgt_row.eq(row),
            multiplies.eq(second_kind.gemm & ~mode.reset),
            depthwise.eq(mode.depthwise),
            array_depthwise.eq(depthwise),
            array_row.eq(wgt_row[:row_bits]),
        ]
        if self.built.zero_points:
            zeros, array_zeros = Signal(ZEROS, reset_less=True), Signal(ZEROS, reset_less=True)
            m.d.sync += [zeros.eq(mode.zeros), array_zeros.eq(zeros)]
            m.d.comb += [array.inp_zero.eq(array_zeros.inp_zero), array.wgt_zero.eq(array_zeros.wgt_zero)]
        vector: Value = self.inp.data
        from_inp: Value = multiplies
        if config.chain_buffer_bytes:
            vector, from_inp = self._chain(m, multiplies, inp_address, uop.src, first.offset.src)
        if self.built.positions > 1:
            taps, array_taps, array_first = Signal(), Signal(), Signal.like(array.first, reset_less=True)
            part_bits = config.position_inputs.bit_length() - 1
            m.d.sync += [
                taps.eq(mode.taps),
                array_taps.eq(taps),
                array_first.eq(inp_address >> part_bits),
            ]
            if part_bits:
                array_part = Signal.like(array.part, reset_less=True)
                m.d.sync += array_part.eq(inp_address)
                m.d.comb += array.part.eq(array_part)
            whole: Value = taps  # The operation takes a whole group of rows, from its first row on.
            if self.sweeps:
                sweep, array_sweep = Signal(), Signal()
                m.d.sync += [sweep.eq(mode.sweep), array_sweep.eq(sweep & multiplies)]
                m.d.comb += array.sweep.eq(array_sweep)
                whole = taps & ~sweep
            with m.If(whole):
                m.d.sync += array_row.bit_select(array.tap_bits, len(array_first)).eq(0)
            m.d.comb += [array.taps.eq(array_taps), array.first.eq(array_first)]
            reads = (from_inp, multiplies & ~from_inp)
            self._banks(m, reads, taps, inp_address, uop.src, first.offset.src)
        else:
            m.d.comb += [self.inp.enable.eq(from_inp), self.inp.address.eq(inp_address)]
        m.d.comb += [
            self.wgt.enable.eq(multiplies),
            self.wgt.address.eq(Mux(depthwise, wgt_row >> row_bits, wgt_row)),
            array.vector.eq(vector),
            array.tile.eq(self.wgt.data),
            array.depthwise.eq(array_depthwise),
            array.row.eq(array_row),
        ]
        stages = [Signal(self._slot(), name=f"slot_{k}") for k in range(3, gemm_read_stage(config))]
        writes: Value = second_kind.gemm
        if self.sweeps:  # An operation that only holds its positions writes nothing.
            writes = writes & ~(mode.sweep & ~mode.reset & row[SWEEP_MODE.group(config).bit_length() - 2])
        m.d.sync += [
            stages[0].writes.eq(writes.replicate(config.tile_parts)),
            stages[0].read.eq(second_kind.gemm & ~mode.reset & ~mode.overwrite),
            stages[0].sum.eq(~mode.reset),
            stages[0].address.eq(dst),
            *(later.eq(earlier) for earlier, later in pairwise(stages)),
        ]
        if self.built.fold_levels:
            self._fold(m, array, mode, multiplies & ~depthwise, wgt_row, stages)
        slot = Signal(self._slot(), name="slot_read")
        m.d.sync += slot.eq(stages[-1])
        with m.If(second_kind.source | second_kind.destination):
            m.d.sync += [
                slot.writes.eq(second_kind.destination.replicate(config.tile_parts)),
                slot.source.eq(second_kind.source),
                slot.alu.eq(1),
                slot.read.eq(1),
                slot.sum.eq(0),
                slot.address.eq(Mux(second_kind.source, src, dst)),
            ]
        m.d.comb += [self.acc_read.enable.eq(slot.read), self.acc_read.address.eq(slot.address)]
        return slot

    def _fold(
        self,
        m: Module,
        array: MultiplyArray,
        mode: data.View,
        folds: Value,
        tile: Signal,
        stages: list[data.View],
    ) -> None:
        """Drives the array's shape and tile part (extension `fold`), and restricts a GEMM operation to its part of the
        lanes.

        `tile`: index of the operation's weight tile; its low bits number the `tile_parts` tiles that together have the
        weights [block_out][block_in]. `folds`: the operation in the first of `stages` is a GEMM that multiplies; it
        writes only the lanes of its part. With `overwrite`, only an operation on the first part of the input vector
        overwrites; an operation on another part adds.
        """
        config, levels = self.config, self.built.fold_levels
        shape, array_shape = (Signal(range(levels + 1), name=name) for name in ("shape", "array_shape"))
        part, array_part = Signal(levels, name="tile_part"), Signal.like(array.tile_part, reset_less=True)
        first, written = Signal(), Signal(config.tile_parts)
        m.d.comb += [part.eq(tile), first.eq(1), written.eq(~0)]
        for groups in range(1, levels + 1):
            # The low bits number the part of the inputs, the others the part of the lanes.
            with m.If(shape == groups):
                m.d.comb += first.eq(part[:groups] == 0)
        for k in range(config.tile_parts):
            same = [part[groups:] == k >> groups for groups in range(levels + 1)]
            for groups in range(levels + 1):
                with m.If(shape == groups):
                    m.d.comb += written[k].eq(same[groups])
        m.d.sync += [shape.eq(mode.fold), array_shape.eq(shape), array_part.eq(part)]
        m.d.comb += [array.shape.eq(array_shape), array.tile_part.eq(array_part)]
        with m.If(folds):
            m.d.sync += [
                stages[1].writes.eq(stages[0].writes & written),
                stages[1].read.eq(stages[0].read | ~first),
            ]

    def _chain(
        self, m: Module, multiplies: Value, index: Signal, src: Value, next_offset: Value
    ) -> tuple[Value, Value]:
        """Reads the chain memory (on-chip buffer between layers) for an operation that `multiplies`, if its source
        `index` is in this memory.

        Returns (the array's input vector in the next cycle, from the chain memory or the input scratchpad; whether the
        input scratchpad is read in this cycle).

        The address must be ready early, so it is computed for the operation one pipeline stage behind: `src` is the
        source index in the micro-op of that operation. `next_offset`: offset of the operation two stages behind.
        """
        config = self.config
        base_bits = config.chain_base.bit_length() - 1
        chained, arriving = index[base_bits:].any(), Signal(name="chain_arriving")
        vector: Value = self.chain.data
        with m.If(multiplies):
            m.d.sync += arriving.eq(chained)
        if self.built.positions > 1:
            # `_banks` addresses the memory, and the array selects its vector of the position.
            return Mux(arriving, vector, self.inp.data), multiplies & ~chained
        place = Signal(range(config.chain_depth), name="chain_place", reset_less=True)
        if config.chain_depth <= config.chain_base:
            m.d.comb += place.eq(index)
        else:
            # From twice chain_base on, the lower bits are not enough; the offset gives the bit above, a cycle earlier.
            offset = Signal.like(place, name="chain_offset", reset_less=True)
            m.d.sync += [offset.eq(next_offset - config.chain_base), place.eq(src + offset)]
        part_bits = (config.chain_word_bytes // config.inp_bytes).bit_length() - 1
        if part_bits:
            part = Signal(part_bits, name="chain_part", reset_less=True)
            with m.If(multiplies):
                m.d.sync += part.eq(place)
            vector = vector.word_select(part, 8 * config.inp_bytes)
        m.d.comb += [
            self.chain.enable.eq(multiplies & chained),
            self.chain.address.eq(place >> part_bits),
        ]
        return Mux(arriving, vector, self.inp.data), multiplies & ~chained

    def _banks(
        self,
        m: Module,
        reads: tuple[Value, Value],
        taps: Value,
        index: Signal,
        src: Value,
        next_offset: Value,
    ) -> None:
        """Addresses the banks of the input scratchpad or of the chain memory (on-chip buffer between layers). `reads`:
        whether each of these two memories is read. Vector `index` belongs to a position (the input vectors of one
        pixel). Without `taps`, the bank of this position is read; with `taps`, all banks are, for this position and the
        following ones.

        Bank b is read at address (position + TAPS - 1 - b) div TAPS, computed early as the sum of `src` and
        `next_offset` without its low bits. `src`: source index in the micro-op of the operation one pipeline stage
        behind. `next_offset`: offset of the operation two stages behind.
        """
        config = self.config
        bank_bits, vectors = TAPS.bit_length() - 1, config.position_inputs
        part_bits = vectors.bit_length() - 1
        origin = config.chain_base if config.chain_depth > config.chain_base else 0
        wanted = Cat(taps | (index[part_bits : part_bits + bank_bits] == bank) for bank in range(TAPS))
        places: dict[int, list[Value]] = {}
        for start in sorted({0, origin}):
            for bank in range(TAPS):
                offset = Signal(config.inp_index_bits, name=f"bank_offset_{start}_{bank}", reset_less=True)
                place = Signal(config.inp_index_bits, name=f"bank_place_{start}_{bank}", reset_less=True)
                ahead = (TAPS - 1 - bank) * vectors - start
                m.d.sync += [offset.eq(next_offset + ahead), place.eq(src + offset)]
                places.setdefault(start, []).append(place[part_bits + bank_bits :])

        ports = [(self.inp, 0), *([(self.chain, origin)] if config.chain_buffer_bytes else [])]
        for (port, start), read in zip(ports, reads, strict=False):
            width = len(port.address) // TAPS
            m.d.comb += [
                port.enable.eq(read.replicate(TAPS) & wanted),
                port.address.eq(Cat(place[:width] for place in places[start])),
            ]

    def _control(self, name: str, codes: tuple[int, ...]) -> Value:
        """The control input `name` of the lanes: 1 if the ALU operation is one of `codes`. The input `adds` is also 1
        for operations of the array.
        """
        opcode = self.mode.alu_opcode
        chosen = reduce(or_, [opcode == code for code in codes])
        return ~self.mode.alu | chosen if name == "adds" else chosen

    def _accumulate(self, m: Module, platform: object, slot: data.View, array: MultiplyArray) -> None:
        """Builds the stages from the accumulator read to the write: forwarding, arithmetic and write. `slot`: the
        operation whose accumulator is addressed in this cycle.
        """
        config = self.config
        arriving, choosing, executing = (
            Signal(self._slot(), name=name) for name in ("arriving", "choosing", "executing")
        )
        m.d.sync += [arriving.eq(slot), choosing.eq(arriving), executing.eq(choosing)]
        target = data.StructLayout({"valid": config.tile_parts, "address": config.acc_index_bits})
        written = [Signal(target, name=name) for name in RESULTS]

        # Results that are ready in this cycle, and results that replace an operand; both are known a cycle before use.
        # `start`: an operation of several cycles (a shift, a multiplication, a custom instruction) begins to execute.
        slow, start = Signal(), Signal()
        extra = Signal(most_extra(config))  # bit k: such an operation began to execute k + 1 cycles ago
        slow_address = Signal(config.acc_index_bits)
        m.d.sync += [
            slow.eq(self.mode.alu & (alu_extra(self.config, self.mode.alu_opcode) != 0)),
            extra.eq((extra << 1) | start),
            start.eq(choosing.writes[0] & slow),
        ]
        with m.If(executing.writes):
            m.d.sync += slow_address.eq(executing.address)
        is_shift = Signal()
        m.d.sync += is_shift.eq(self.mode.alu_opcode == AluOpcode.SHR)
        ready: Value = Mux(is_shift, extra[1], extra[3])
        for number, (code, item) in enumerate(custom_codes(config).items()):
            if item.cycles > 1:
                selected = Signal(name=f"is_custom_{number}")
                m.d.sync += selected.eq(self.mode.alu_opcode == code)
                ready = Mux(selected, extra[item.cycles - 2], ready)
        finish, finish_address = Signal(config.tile_parts), Signal(config.acc_index_bits)
        m.d.comb += [
            finish.eq(Mux(slow, ready.replicate(len(finish)), executing.writes)),
            finish_address.eq(Mux(slow, slow_address, executing.address)),
        ]
        younger = [(finish, finish_address), *((item.valid, item.address) for item in written[:2])]
        count, several = lanes(config), config.tile_parts > 1
        replace, just_before = [], []
        for k in range(config.tile_parts):
            name = f"replace_{k}" if several else "replace"
            chosen = Signal(range(len(RESULTS) + 1), name=name)
            m.d.sync += chosen.eq(0)
            for number, (valid, address) in reversed(list(enumerate(younger, 1))):
                with m.If(valid[k] & (address == arriving.address)):
                    m.d.sync += chosen.eq(number)
            replace.append(chosen)
            matches = finish[k] & choosing.read & (finish_address == choosing.address)
            name = f"just_before_{k}" if several else "just_before"
            just_before.append(copies(m, matches, count, name))

        # Execute.
        keeps = copies(m, choosing.read, count, "keeps")
        adds_sum = copies(m, choosing.sum & ~choosing.alu, count, "adds_sum")
        adds_right = copies(m, choosing.alu, count, "adds_right")
        controls = {
            name: copies(m, self._control(name, codes), count, name)
            for name, codes in sorted(lane_controls(config).items())
        }
        for number in range(count):
            part = number % config.block_out // config.columns
            lane = place(
                m,
                platform,
                f"lane_{number}",
                ACCUMULATOR_LANE,
                partial(AccumulatorLane, config=config),
                read=self.acc_read.data.word_select(number, LANE.width),
                replace=replace[part],
                array_sum=array.sums.word_select(number, sum_bits(config)),
                just_before=just_before[part][number],
                keeps=keeps[number],
                adds_sum=adds_sum[number],
                adds_right=adds_right[number],
                takes_right=executing.source,
                use_immediate=self.mode.use_imm,
                immediate=self.mode.imm,
                **{name: wires[number] for name, wires in controls.items()},
                start=start,
                since=extra[:2],
            )
            m.d.comb += self.acc_write.data.word_select(number, LANE.width).eq(lane.result)

        # Write.
        writing = written[0]
        m.d.sync += [
            writing.valid.eq(finish),
            writing.address.eq(finish_address),
            *(later.eq(earlier) for earlier, later in pairwise(written)),
        ]
        m.d.comb += [
            self.acc_write.enable.eq(
                Cat(part.replicate(config.columns) for part in writing.valid).replicate(config.batch)
            ),
            self.acc_write.address.eq(writing.address),
        ]
