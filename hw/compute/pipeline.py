"""From operations to accumulators: micro-op, addresses, operands, arithmetic, forwarding, write (section 7)."""

from __future__ import annotations

from itertools import pairwise

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from vdla.isa.config import Config
from vdla.isa.layout import uop_fields
from vdla.isa.timing import ALU_LATENCY, ALU_READ_STAGE, gemm_latency, gemm_read_stage

from ..interfaces import inp_read, scratchpad_read, scratchpad_write, wgt_read
from .array import MultiplyArray, array_latency
from .operations import offset_layout, src_bits, wgt_row_bits
from .vector_alu import VectorAlu, accumulator_layout, lanes

IMMEDIATE = signed(16)


def mode_layout() -> data.StructLayout:
    """How an instruction treats each of its operations: `alu` against the array, then the fields of `isa.layout`."""
    return data.StructLayout(
        {
            "alu": 1,
            "reset": 1,
            "overwrite": 1,
            "depthwise": 1,
            "alu_opcode": 3,
            "use_imm": 1,
            "imm": IMMEDIATE,
        }
    )


def uop_layout(config: Config) -> data.Layout:
    """A micro-op word, from the table of `isa.layout`."""
    return data.FlexibleLayout(
        32, {item.name: data.Field(item.width, item.low) for item in uop_fields(config)}
    )


class Pipeline(wiring.Component):
    """Executes one operation a cycle, counted from its issue in cycle t:

    ====================  ====================================================================
    t                     micro-op memory is addressed
    t + 1                 the micro-op plus offsets; an ALU operation addresses the accumulators
    t + 2, t + 3          input and weight memories are addressed; operands arrive
    t + gemm_read_stage   GEMM addresses the accumulators, its sum follows in the next cycle
    read + 1              execute, on accumulators forwarded from the two operations before
    read + 2              write: the last cycle of the instruction if the operation is its last
    ====================  ====================================================================

    An ALU operation with two accumulators takes two cycles and reads its source, then its destination. GEMM and
    ALU operations are never in the pipeline together.

    Members
    -------
    issue, second, uop, offset : In
        An operation (`operations.Operations`).
    mode : In
        The instruction of the operation; stays while an ALU instruction executes.
    uop_memory, inp, wgt, acc_read : Out
        Read ports.
    acc_write : Out
        Write port, all lanes of a vector at once.
    """

    def __init__(self, *, config: Config) -> None:
        self.config = config
        acc_width = 8 * config.acc_bytes
        super().__init__(
            {
                "issue": In(1),
                "second": In(1),
                "uop": In(config.uop_index_bits),
                "offset": In(offset_layout(config)),
                "mode": In(mode_layout()),
                "uop_memory": Out(scratchpad_read(depth=config.uop_depth, width=32)),
                "inp": Out(inp_read(config)),
                "wgt": Out(wgt_read(config)),
                "acc_read": Out(scratchpad_read(depth=config.acc_depth, width=acc_width)),
                "acc_write": Out(
                    scratchpad_write(depth=config.acc_depth, width=acc_width, lanes=lanes(config))
                ),
            }
        )
        # The stages below are built so; a change of isa/timing.py needs a change here.
        assert gemm_read_stage(config) == 2 + array_latency(config) == gemm_latency(config) - 2
        assert (ALU_READ_STAGE, ALU_LATENCY) == (1, 3)

    def elaborate(self, platform: object) -> Module:
        """Addresses, then the array beside a shift register of destinations, then the accumulator stages."""
        m = Module()
        config = self.config
        m.d.comb += [
            self.uop_memory.enable.eq(self.issue & ~self.second),
            self.uop_memory.address.eq(self.uop),
        ]

        # t + 1: addresses.
        valid, second = Signal(), Signal()
        mode, offset = Signal(mode_layout()), Signal(offset_layout(config))
        m.d.sync += [valid.eq(self.issue), second.eq(self.second), mode.eq(self.mode), offset.eq(self.offset)]
        uop = data.View(uop_layout(config), self.uop_memory.data)
        dst, src = Signal(config.acc_index_bits), Signal(src_bits(config))
        row = Signal(wgt_row_bits(config))
        m.d.comb += [
            dst.eq(uop.dst + offset.dst),
            src.eq(uop.src + offset.src),
            row.eq(uop.wgt + offset.wgt),
        ]

        # t + 2 .. t + gemm_read_stage: the matrix array.
        operation = data.StructLayout({"valid": 1, "dst": config.acc_index_bits, "reset": 1, "overwrite": 1})
        stages = [Signal(operation, name=f"operation_{k}") for k in range(2, gemm_read_stage(config) + 1)]
        m.d.sync += [
            stages[0].valid.eq(valid & ~mode.alu),
            stages[0].dst.eq(dst),
            stages[0].reset.eq(mode.reset),
            stages[0].overwrite.eq(mode.overwrite),
        ]
        m.d.sync += [later.eq(earlier) for earlier, later in pairwise(stages)]
        m.submodules.array = array = MultiplyArray(config=config)
        inp_address, wgt_row = Signal(config.inp_index_bits), Signal.like(row)
        depthwise = Signal()
        row_bits = wgt_row_bits(config) - config.wgt_index_bits
        m.d.sync += [
            inp_address.eq(src),
            wgt_row.eq(row),
            depthwise.eq(mode.depthwise),
            array.depthwise.eq(depthwise),
            array.row.eq(wgt_row[:row_bits]),
        ]
        m.d.comb += [
            self.inp.enable.eq(stages[0].valid & ~stages[0].reset),
            self.inp.address.eq(inp_address),
            self.wgt.enable.eq(stages[0].valid & ~stages[0].reset),
            self.wgt.address.eq(Mux(depthwise, wgt_row >> row_bits, wgt_row)),
            array.vector.eq(self.inp.data),
            array.tile.eq(self.wgt.data),
        ]

        # Read.
        last = stages[-1]
        add = last.valid & ~last.reset & ~last.overwrite
        alu = valid & mode.alu
        from_source = alu & ~second & ~mode.use_imm
        m.d.comb += [
            self.acc_read.enable.eq(add | alu),
            self.acc_read.address.eq(Mux(alu, Mux(from_source, src, dst), last.dst)),
        ]

        # Execute.
        execute, execute_alu, execute_add, execute_sum = Signal(), Signal(), Signal(), Signal()
        address = Signal(config.acc_index_bits)
        m.d.sync += [
            execute.eq(last.valid | (alu & ~from_source)),
            execute_alu.eq(alu),
            execute_add.eq(add),
            execute_sum.eq(~last.reset),
            address.eq(Mux(alu, self.acc_read.address, last.dst)),
        ]
        layout = accumulator_layout(config)
        written = [
            Signal(
                data.StructLayout({"valid": 1, "address": config.acc_index_bits, "data": layout}), name=name
            )
            for name in ("writing", "written")
        ]
        operand = Signal(layout)
        m.d.comb += operand.eq(self.acc_read.data)
        for item in reversed(written):  # the younger result wins
            with m.If(item.valid & (item.address == address)):
                m.d.comb += operand.eq(item.data)
        m.submodules.alu = vector_alu = VectorAlu(config=config)
        source = Signal(layout)
        m.d.sync += source.eq(operand)
        m.d.comb += [
            vector_alu.opcode.eq(self.mode.alu_opcode),
            vector_alu.left.eq(operand),
            vector_alu.right.eq(source),
        ]
        with m.If(self.mode.use_imm):
            m.d.comb += [vector_alu.right[lane].eq(self.mode.imm) for lane in range(lanes(config))]
        result = Signal(layout)
        for lane in range(lanes(config)):
            before = Mux(execute_add, operand[lane], 0)
            m.d.comb += result[lane].eq(before + Mux(execute_sum, array.sums[lane], 0))
        with m.If(execute_alu):
            m.d.comb += result.eq(vector_alu.result)

        # Write.
        writing = written[0]
        m.d.sync += [
            writing.valid.eq(execute),
            writing.address.eq(address),
            writing.data.eq(result),
            written[1].eq(writing),
        ]
        m.d.comb += [
            self.acc_write.enable.eq(writing.valid.replicate(lanes(config))),
            self.acc_write.address.eq(writing.address),
            self.acc_write.data.eq(writing.data),
        ]
        return m
