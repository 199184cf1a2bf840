"""The compute unit (hw/README.md section 7): control, pipeline, loader, and its memories."""

from __future__ import annotations

from functools import reduce
from operator import or_

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import connect, flipped

from vdla.isa.array_modes import MODES, modes_of
from vdla.isa.array_shape import ArrayShape
from vdla.isa.config import Config
from vdla.isa.layout import MemoryType, Opcode, Unit
from vdla.isa.registers import registers_of

from ..config_registers import config_registers
from ..interfaces import Activity, compute_members
from ..issue import Issue
from ..layouts import instruction_layout, register_layout, view
from ..memories import ANY_ON_COLLISION
from .accumulators import Accumulators
from .ends import Ends
from .loader import Loader
from .operations import Operations, alu_extra, loop_layout, wgt_row_bits
from .pipeline import Pipeline, mode_layout


class ComputeUnit(wiring.Component):
    """The compute unit: executes instructions of the array and the ALU, loads of micro-ops and accumulators, CONFIG and
    FINISH.

    Ports: `interfaces.compute_members`.
    """

    def __init__(self, *, config: Config) -> None:
        self.config = config
        super().__init__(compute_members(config))

    def elaborate(self, platform: object) -> Module:
        """Connects the parts of the unit. While an instruction executes, at least one of four signals is 1:
        `operations.busy` or `ends.busy` for an instruction of the array, `exclusive` for an ALU, LOAD or FINISH,
        `configuring` for a CONFIG.
        """
        m = Module()
        config = self.config
        m.submodules.issue = issue = Issue(config=config)
        m.submodules.operations = operations = Operations(config=config)
        m.submodules.pipeline = pipeline = Pipeline(config=config)
        m.submodules.ends = ends = Ends(config=config)
        m.submodules.loader = loader = Loader(config=config)
        self._memories(m, pipeline, loader)
        connect(m, flipped(self.commands), issue.commands)
        connect(m, flipped(self.pop_prev), issue.pop_prev)
        connect(m, flipped(self.pop_next), issue.pop_next)
        connect(m, flipped(self.read), loader.read)
        m.d.comb += [
            issue.room_prev.eq(self.push_prev.room),
            issue.room_next.eq(self.push_next.room),
            self.push_prev.reserve.eq(issue.reserve_prev),
            self.push_next.reserve.eq(issue.reserve_next),
            self.push_prev.push.eq(ends.now.push_prev),
            self.push_next.push.eq(ends.now.push_next),
        ]

        # The head instruction. GEMM, DEPTHWISE, TAPS and ALU have their loops and factors in the same places.
        bits = self.commands.payload
        head = view(instruction_layout(config, "GEMM"), bits)
        alu, setting = (view(instruction_layout(config, name), bits) for name in ("ALU", "CONFIG"))
        built = ArrayShape.of(config)
        modes = [mode for mode in MODES if mode.register is None and mode.positions <= built.positions]
        is_matrix = reduce(or_, [head.opcode == mode.opcode for mode in modes])
        is_depthwise = reduce(or_, [head.opcode == mode.opcode for mode in modes if mode.by_lane])
        is_taps = head.opcode == Opcode.TAPS
        is_alu = head.opcode == Opcode.ALU
        is_load = head.opcode == Opcode.LOAD
        is_config = head.opcode == Opcode.CONFIG
        is_finish = head.opcode == Opcode.FINISH
        pushes = head.push_prev | head.push_next
        # A head instruction that begins was visible a cycle earlier, so slow conditions on it can be registers.
        empty = Signal()
        m.d.sync += empty.eq((head.iter_out == 0) | (head.iter_in == 0) | (head.uop_end <= head.uop_bgn))
        begin = issue.begin

        # `exclusive`: an ALU, LOAD or FINISH is executing (begin < now <= end). `configuring`: a CONFIG is.
        exclusive, loading_uop, loading_acc = Signal(), Signal(), Signal()
        configuring, other, finishing = Signal(), Signal(), Signal()
        running_prev, running_next = Signal(), Signal()
        everything_ended, may_issue = Signal(), Signal()
        m.d.comb += [
            everything_ended.eq(~operations.busy & ~ends.busy & ~exclusive & ~configuring),
            may_issue.eq((~operations.busy | operations.will_take) & ~exclusive & ~configuring),
            self.idle.eq(everything_ended),
        ]
        with m.If(is_matrix):
            m.d.comb += issue.condition.eq(may_issue)
        with m.Elif(is_config & ~pushes):
            m.d.comb += issue.condition.eq(~exclusive)
        with m.Else():
            m.d.comb += issue.condition.eq(everything_ended & (~is_finish | self.others_idle))

        operates = begin & (is_matrix | is_alu) & ~empty
        m.d.sync += [
            configuring.eq(begin & is_config),
            other.eq(begin & ~operates),  # set for a load too, but the load activities come first
            finishing.eq(begin & is_finish),
        ]
        with m.If(ends.now.count != 0):
            m.d.sync += [exclusive.eq(0), loading_uop.eq(0), loading_acc.eq(0)]
        with m.If(begin & (is_alu | is_load | is_finish)):
            m.d.sync += [
                exclusive.eq(1),
                loading_uop.eq(is_load & (bits[7:10] == MemoryType.UOP)),
                loading_acc.eq(is_load & (bits[7:10] != MemoryType.UOP)),
            ]
        m.d.comb += self.finished.eq(finishing)

        # Operations and loads start; their push flags are stored until their end.
        mode = Signal(mode_layout(config))
        with m.If(operates):
            m.d.sync += mode.alu.eq(is_alu)
        # `begin` must drive few registers: so `mode` is loaded in each cycle in which operations could start. A GEMM
        # does not need the register after its last issue; an ALU instruction needs it until its end, when others may
        # begin.
        takes = operations.takes & ~exclusive & ~configuring
        with m.If(takes):
            m.d.sync += [
                mode.reset.eq(head.reset),
                mode.overwrite.eq(head.overwrite),
                mode.depthwise.eq(is_depthwise),
                mode.alu_opcode.eq(alu.alu_opcode),
                mode.use_imm.eq(alu.use_imm),
                mode.imm.eq(alu.imm),
                running_prev.eq(head.push_prev),
                running_next.eq(head.push_next),
            ]
        if built.positions > 1:
            with m.If(takes):
                m.d.sync += mode.taps.eq(is_taps)
        names = tuple(item.name for item in registers_of(config) if item.unit == Unit.COMPUTE)
        registers = config_registers(m, names, configuring, setting)
        base = view(register_layout("BASE"), registers["BASE"])
        if built.zero_points:
            zero = view(register_layout("ZERO"), registers["ZERO"])
            with m.If(takes):
                m.d.sync += [mode.zeros.inp_zero.eq(zero.inp_zero), mode.zeros.wgt_zero.eq(zero.wgt_zero)]
        for own in modes_of(config):
            if own.register is not None:
                on = register_layout(own.register)["on"]
                selected = (head.opcode == own.opcode) & registers[own.register][on.offset]
                with m.If(takes):
                    m.d.sync += mode[own.name].eq(selected)
        if built.fold_levels:
            shape = register_layout("FOLD")["shape"]  # an attribute name that a view already has
            with m.If(takes):
                m.d.sync += mode.fold.eq(registers["FOLD"][shape.offset : shape.offset + shape.width])
        row_bits = wgt_row_bits(config) - config.wgt_index_bits
        m.d.comb += [
            operations.start.eq(operates),
            operations.alu.eq(is_alu),
            operations.two.eq(is_alu & ~alu.use_imm),
            operations.extra.eq(Mux(is_alu, alu_extra(config, alu.alu_opcode), 0)),
            operations.base.dst.eq(base.acc_base),
            operations.base.src.eq(Mux(is_alu, base.acc_base, base.inp_base)),
            operations.base.wgt.eq(Mux(is_depthwise, base.wgt_base << row_bits, base.wgt_base)),
            *(operations.loops[name].eq(head[name]) for name in loop_layout(config).members),
            pipeline.issue.eq(operations.busy),
            pipeline.source.eq(operations.source),
            pipeline.destination.eq(operations.destination),
            pipeline.uop.eq(operations.uop),
            pipeline.offset.eq(operations.offset),
            pipeline.mode.eq(mode),
            loader.start.eq(begin & is_load),
            loader.instruction.eq(bits),
            loader.pad_value.eq(view(register_layout("COMPUTE_PAD"), registers["COMPUTE_PAD"]).pad_value),
        ]

        # Ends. A CONFIG ends separately: it may end before an earlier GEMM, but has no pushes then.
        at_once = begin & (is_config | is_finish | (is_alu & empty))
        m.d.comb += [
            ends.issued.eq(operations.last_matrix),
            ends.issued_alu.eq(operations.last_alu),
            ends.issued_prev.eq(running_prev),
            ends.issued_next.eq(running_next),
            ends.joins.eq(begin & is_matrix & empty),
            ends.joins_prev.eq(ends.joins & head.push_prev),
            ends.joins_next.eq(ends.joins & head.push_next),
            ends.next.count.eq(loader.last | (at_once & ~is_config)),
            ends.next.push_prev.eq(Mux(loader.last, running_prev, at_once & head.push_prev)),
            ends.next.push_next.eq(Mux(loader.last, running_next, at_once & head.push_next)),
            self.trace.begin.eq(begin),
            self.trace.end.eq(ends.now.count),
            self.trace.end_config.eq(configuring),
        ]

        # Activity: the first condition that applies.
        with m.If(operations.busy):
            m.d.comb += self.activity.eq(Mux(mode.alu, Activity.ALU, Activity.GEMM))
        with m.Elif(loading_uop):
            m.d.comb += self.activity.eq(Activity.LOAD_UOP)
        with m.Elif(loading_acc):
            m.d.comb += self.activity.eq(Activity.LOAD_ACC)
        with m.Elif(other):
            m.d.comb += self.activity.eq(Activity.OTHER)
        with m.Elif(ends.busy):
            m.d.comb += self.activity.eq(Activity.DRAIN)
        with m.Else():
            m.d.comb += self.activity.eq(issue.stall)
        return m

    def _memories(self, m: Module, pipeline: Pipeline, loader: Loader) -> None:
        """Adds the memories of the unit (micro-op scratchpad and accumulators), and connects them to the pipeline, to
        the loader and to the store unit's read port.
        """
        config = self.config
        m.submodules.uops = uops = memory.Memory(
            shape=8 * config.uop_bytes, depth=config.uop_depth, init=[], attrs=ANY_ON_COLLISION
        )
        uop_read, uop_write = uops.read_port(), uops.write_port()
        m.submodules.accumulators = accumulators = Accumulators(config=config)
        connect(m, flipped(self.inp), pipeline.inp)
        connect(m, flipped(self.wgt), pipeline.wgt)
        if config.chain_buffer_bytes:
            connect(m, flipped(self.chain), pipeline.chain)
        connect(m, flipped(self.accumulators), accumulators.store)
        connect(m, pipeline.acc_read, accumulators.read)
        m.d.comb += [
            uop_read.en.eq(pipeline.uop_memory.enable),
            uop_read.addr.eq(pipeline.uop_memory.address),
            pipeline.uop_memory.data.eq(uop_read.data),
            uop_write.en.eq(loader.uop_write.enable),
            uop_write.addr.eq(loader.uop_write.address),
            uop_write.data.eq(loader.uop_write.data),
        ]
        # Pipeline and loader never write in the same cycle: a load begins after the last operation's write, and its own
        # last write is in the cycle of its end.
        computed = pipeline.acc_write
        chosen = Mux(computed.enable.any(), computed.address, loader.acc_write.address)
        m.d.comb += [
            accumulators.write.enable.eq(computed.enable | loader.acc_write.enable),
            accumulators.write.address.eq(chosen),
            accumulators.write.data.eq(Mux(computed.enable.any(), computed.data, loader.acc_write.data)),
        ]
