"""The pipeline of STORE.POST: window reduction and bias, then stages A and B of `vdla.isa.arithmetic` in every lane."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from vdla.isa.config import Config
from vdla.isa.timing import post_latency

from ..layouts import register_layout, view
from .combine import COMBINE_STAGES, Combine
from .constants import Constants
from .pipeline import delay, register
from .requantize import REQUANTIZE_STAGES, Requantize

SETTINGS = ("REQUANTIZE", "RATIO", "COMBINE")
"""Configuration registers that the pipeline reads."""

_BEFORE = 3  # capture, reduction, bias
_LATENCY = _BEFORE + REQUANTIZE_STAGES + COMBINE_STAGES + 1
_OPERANDS_IN_FLIGHT = 32  # a power of two above the cycles from an operand's pop to its use


def flags_layout() -> data.StructLayout:
    """Flags of the instruction, and register WINDOW's choice of sum or maximum."""
    return data.StructLayout(dict.fromkeys(("combine", "operand", "multiply", "swap", "unsigned", "sum"), 1))


class PostPipeline(wiring.Component):
    """A window's read every cycle, a vector for each window.

    Members: `read` in cycle r, with `first` and `last` of its window; `data` the accumulators, in r + 1. `operand` is
    the vector that belongs to the window, taken with its first read if the flag `operand` is set. `parameters` is the
    entry of the table; it, `flags` and the registers (by lower-case name) hold still until all vectors have left. `put`
    with `vector`: post_latency - 1 cycles after a window's last read (the writer takes one more).
    """

    def __init__(self, *, config: Config) -> None:
        """`config` gives the lanes, [batch][block_out]."""
        self._config = config
        if post_latency(config) != _LATENCY + 1:
            raise ValueError(f"the pipeline cannot have {post_latency(config)} stages")
        super().__init__(
            {
                "read": In(1),
                "first": In(1),
                "last": In(1),
                "data": In(8 * config.acc_bytes),
                "operand": In(8 * config.out_bytes),
                "parameters": In(8 * config.par_bytes),
                "flags": In(flags_layout()),
                **{name.lower(): In(64) for name in SETTINGS},
                "put": Out(1),
                "vector": Out(8 * config.out_bytes),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Lanes side by side; the operand waits for stage B in a ring."""
        m = Module()
        config, flags = self._config, self.flags
        stages = _BEFORE + REQUANTIZE_STAGES + 1  # stage B begins this many cycles after the read
        valid = Signal(_LATENCY)  # bit k: a window's last read was k + 1 cycles ago
        read_2, first_2 = Signal(2), Signal(2)
        m.d.sync += [
            valid.eq(Cat(self.read & self.last, valid)),
            read_2.eq(Cat(self.read, read_2)),
            first_2.eq(Cat(self.first, first_2)),
        ]
        # Memories answer late in the cycle.
        data_2 = register(m, self.data, "data_2")
        parameters = register(m, self.parameters, "parameters_late")
        m.d.comb += self.put.eq(valid[-1])

        first = view(register_layout("REQUANTIZE"), self.requantize)
        ratio = view(register_layout("RATIO"), self.ratio)
        last = view(register_layout("COMBINE"), self.combine)
        m.submodules.constants = constants = Constants()
        multiply = Signal()
        m.d.comb += [
            multiply.eq(flags.multiply | ~flags.operand),
            constants.ratio_self.eq(ratio["ratio_self"]),
            constants.ratio_operand.eq(ratio["ratio_operand"]),
            constants.offset.eq(last["offset"]),
            constants.zero_point.eq(last["zero_point"]),
            constants.multiply.eq(multiply),
            constants.operand_used.eq(flags.operand),
            constants.swap.eq(flags.swap),
            constants.unsigned.eq(flags.unsigned),
        ]
        operand = register(m, self._operands(m, valid[stages - 2]), "operand_late")

        for lane in range(config.batch * config.block_out):
            column = lane % config.block_out
            value = data_2.word_select(lane, 32).as_signed()
            reduced = Signal(signed(32), name=f"reduced_{lane}", reset_less=True)
            larger = Mux(value > reduced, value, reduced)
            with m.If(read_2[-1]):
                m.d.sync += reduced.eq(Mux(first_2[-1], value, Mux(flags.sum, reduced + value, larger)))
            total = register(
                m, (reduced + parameters.word_select(column, 32))[:32].as_signed(), f"total_{lane}"
            )

            stage_a, stage_b = Requantize(), Combine()
            m.submodules[f"requantize_{lane}"] = stage_a
            m.submodules[f"combine_{lane}"] = stage_b
            m.d.comb += [
                stage_a.total.eq(total),
                stage_a.scale.eq(parameters.word_select(config.block_out + column, 32)),
                *(getattr(stage_a, name).eq(first[name]) for name in ("zero_point", "low", "high")),
                stage_b.value.eq(stage_a.result),
                stage_b.operand.eq(operand.word_select(lane, 8)),
                stage_b.multiply.eq(multiply),
                stage_b.operand_used.eq(flags.operand),
                stage_b.swap.eq(flags.swap),
                stage_b.unsigned.eq(flags.unsigned),
                stage_b.zero_point.eq(first["zero_point"]),
                stage_b.operand_zero_point.eq(first["operand_zero_point"]),
                stage_b.low.eq(last["low"]),
                stage_b.high.eq(last["high"]),
                stage_b.constants.eq(constants.constants),
            ]
            late = delay(m, stage_a.result, COMBINE_STAGES, f"late_{lane}")
            m.d.comb += self.vector.word_select(lane, 8).eq(Mux(flags.combine, stage_b.result, late))
        return m

    def _operands(self, m: Module, used: Signal) -> Signal:
        """Operands between the first read of their window and stage B; the oldest."""
        m.submodules.operands = ring = memory.Memory(
            shape=8 * self._config.out_bytes, depth=_OPERANDS_IN_FLIGHT, init=[]
        )
        write, read = ring.write_port(), ring.read_port(domain="comb")
        newest, oldest = Signal(range(_OPERANDS_IN_FLIGHT)), Signal(range(_OPERANDS_IN_FLIGHT))
        taken = self.read & self.first & self.flags.operand
        m.d.comb += [
            write.addr.eq(newest),
            write.data.eq(self.operand),
            write.en.eq(taken),
            read.addr.eq(oldest),
        ]
        m.d.sync += [newest.eq(newest + taken), oldest.eq(oldest + (used & self.flags.operand))]
        return read.data
