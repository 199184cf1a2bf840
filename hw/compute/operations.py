"""The loop nest of GEMM, DEPTHWISE, TAPS and ALU: micro-op and offsets of the operation that issues in a cycle."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.alu import ALU_CODES
from vdla.isa.config import Config
from vdla.isa.timing import alu_cycles


def most_extra(config: Config) -> int:
    """Largest number of issue cycles that the arithmetic of an ALU operation adds."""
    return max(alu_cycles(config, opcode, True) for opcode in range(ALU_CODES)) - 1


def alu_extra(config: Config, opcode: Value) -> Value:
    """Number of issue cycles that the arithmetic of ALU operation `opcode` adds."""
    result: Value = Const(0, range(most_extra(config) + 1))
    for known in range(ALU_CODES):
        extra = alu_cycles(config, known, True) - 1
        if extra:
            result = Mux(opcode == known, extra, result)
    return result


def loop_layout(config: Config) -> data.StructLayout:
    """Layout of the loop fields of GEMM and ALU, named as in `isa.layout`; for ALU, the wgt factors mean nothing."""
    acc, inp, wgt = config.acc_index_bits, config.inp_index_bits, config.wgt_index_bits
    return data.StructLayout(
        {
            "uop_bgn": config.uop_index_bits,
            "uop_end": config.uop_index_bits + 1,
            "iter_out": 14,
            "iter_in": 14,
            "dst_factor_out": acc,
            "dst_factor_in": acc,
            "src_factor_out": inp,
            "src_factor_in": inp,
            "wgt_factor_out": wgt,
            "wgt_factor_in": wgt,
        }
    )


def wgt_row_bits(config: Config) -> int:
    """Width in bits of the index of a row of weights; DEPTHWISE and TAPS index rows of weights instead of tiles."""
    return config.wgt_index_bits + (config.tile_rows - 1).bit_length()


def src_bits(config: Config) -> int:
    """Width in bits of a source index: of input vectors for GEMM, of accumulators for ALU."""
    return max(config.acc_index_bits, config.inp_index_bits)


def offset_layout(config: Config) -> data.StructLayout:
    """Layout of the three offsets that an operation adds to indices dst, src and wgt of its micro-op. An offset is the
    base register plus factors times loop indices. For DEPTHWISE and TAPS, wgt counts rows of weights instead of tiles.
    """
    return data.StructLayout(
        {"dst": config.acc_index_bits, "src": src_bits(config), "wgt": wgt_row_bits(config)}
    )


class Operations(wiring.Component):
    """Steps through the loop nest of an instruction: y in iter_out, x in iter_in, and the micro-ops uop_bgn .. uop_end;
    each step is one operation.

    `start` in cycle b takes the loops of an instruction that has at least one operation. From b + 1 on an operation
    issues every `extra` + 1 cycles, or every `extra` + 2 cycles with `two`. The next `start` may come in the cycle of
    `last`, but not earlier.

    Members
    -------
    start : In
        Starts the instruction that the following inputs describe.
    alu, loops, base, two, extra : In
        Valid with `start` and in the cycle before. `alu`: the instruction is ALU. `loops`: its loop fields. `base`:
        offsets of its first operation. `two`: each operation has two accumulator operands, read one after the other.
        `extra`: additional issue cycles of each operation.
    busy : Out
        An operation is issuing in this cycle.
    source, destination : Out
        `source`: the operation reads its source accumulator in this cycle (only with `two`). `destination`: it reads
        its destination accumulator in this cycle.
    last, last_alu, last_matrix : Out
        This is the last cycle of an instruction's last operation (registered). `last`: of any instruction; `last_alu`:
        of an ALU instruction; `last_matrix`: of GEMM, DEPTHWISE or TAPS.
    takes : Out
        An instruction may start: not `busy`, or `last`. A separate register, since it enables many others.
    will_take : Out
        An instruction may start in the next cycle.
    uop, offset : Out
        Micro-op index and offsets of the operation, stable over its cycles.
    """

    def __init__(self, *, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "alu": In(1),
                "loops": In(loop_layout(config)),
                "base": In(offset_layout(config)),
                "two": In(1),
                "extra": In(range(most_extra(config) + 1)),
                "busy": Out(1),
                "source": Out(1),
                "destination": Out(1),
                "last": Out(1),
                "last_alu": Out(1),
                "last_matrix": Out(1),
                "takes": Out(1, init=1),
                "will_take": Out(1),
                "uop": Out(config.uop_index_bits),
                "offset": Out(offset_layout(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds counters for the three loops, and running sums for the offsets, so that no multiplier is needed."""
        m = Module()
        loops = Signal(loop_layout(self.config), reset_less=True)
        alu, two = Signal(), Signal()
        most = most_extra(self.config) + 1
        cycle, cycles = Signal(range(most + 1)), Signal(range(most + 1))
        before_last_uop = Signal.like(
            self.uop, reset_less=True
        )  # uop_end - 2: the micro-op after this one is the last
        columns_left, rows_left = (
            Signal(14, name=f"{name}_left", reset_less=True) for name in ("columns", "rows")
        )
        row_start = Signal(offset_layout(self.config), reset_less=True)  # offset of the row's first column
        step = Signal()

        # Whether the current cycle, micro-op, column and row are the last ones; `coming`: the same for the next cycle.
        names = ("cycle", "uop", "column", "row")
        last = {name: Signal(name=f"last_{name}") for name in names}
        coming = {name: Signal(name=f"coming_last_{name}") for name in names}
        # The complements of `coming` as registers: `last` drives many other registers.
        more = {name: Signal(name=f"more_{name}", init=1) for name in names}
        one_uop, one_column = Signal(), Signal()
        last_uop, last_column = Signal(), Signal()  # of a column, of a row, in its last cycle
        next_column, next_row = Signal(), Signal()
        m.d.comb += [
            step.eq(last["cycle"]),  # while no instruction executes, all registers are loaded below
            next_column.eq(step & last["uop"]),
            next_row.eq(next_column & last["column"]),
            self.source.eq(self.busy & two & (cycle == 0)),
            self.destination.eq(self.busy & (cycle == two)),
            last_uop.eq(~more["cycle"] & ~more["uop"]),
            last_column.eq(last_uop & ~more["column"]),
            coming["cycle"].eq(Mux(more["cycle"], cycle + 1 == cycles, cycles == 0)),
            coming["uop"].eq(
                Mux(more["cycle"], ~more["uop"], Mux(more["uop"], self.uop == before_last_uop, one_uop))
            ),
            coming["column"].eq(
                Mux(last_uop, Mux(more["column"], columns_left == 1, one_column), ~more["column"])
            ),
            coming["row"].eq(Mux(last_column, rows_left == 1, ~more["row"])),
        ]
        m.d.sync += cycle.eq(Mux(last["cycle"], 0, cycle + 1))
        with m.If(step):
            m.d.sync += self.uop.eq(self.uop + 1)
        with m.If(next_column):
            m.d.sync += [self.uop.eq(loops.uop_bgn), columns_left.eq(columns_left - 1)]
            for name in ("dst", "src", "wgt"):
                m.d.sync += self.offset[name].eq(self.offset[name] + loops[f"{name}_factor_in"])
        with m.If(next_row):
            m.d.sync += [columns_left.eq(loops.iter_in - 1), rows_left.eq(rows_left - 1)]
            for name in ("dst", "src", "wgt"):
                following = row_start[name] + loops[f"{name}_factor_out"]
                m.d.sync += [row_start[name].eq(following), self.offset[name].eq(following)]
        for name in names:
            m.d.sync += [last[name].eq(coming[name]), more[name].eq(~coming[name])]
        coming_last = Signal()
        m.d.comb += [coming_last.eq(Cat(coming.values()).all()), self.will_take.eq(self.last | coming_last)]
        m.d.sync += [
            self.last.eq(coming_last),
            self.takes.eq(coming_last),
            self.last_alu.eq(coming_last & alu),
            self.last_matrix.eq(coming_last & ~alu),
        ]
        # Values for the instruction that may start in the next cycle.
        only = {name: Signal(name=f"only_{name}") for name in names}
        only_one = Signal()
        single = {
            "cycle": (self.extra == 0) & ~self.two,
            "uop": self.loops.uop_bgn + 1 == self.loops.uop_end,
            "column": self.loops.iter_in == 1,
            "row": self.loops.iter_out == 1,
        }
        m.d.sync += [
            *(only[name].eq(single[name]) for name in names),
            only_one.eq(Cat(*single.values()).all()),
        ]
        # `start` must drive few registers: so the loops are loaded in each cycle in which an instruction could start,
        # and `start` only makes them valid.
        at_once = Signal()
        m.d.comb += at_once.eq(self.start & only_one)
        with m.If(self.takes):
            m.d.sync += [
                self.busy.eq(self.start),
                loops.eq(self.loops),
                before_last_uop.eq(self.loops.uop_end - 2),
                alu.eq(self.alu),
                two.eq(self.two),
                cycle.eq(0),
                cycles.eq(self.extra + self.two),
                *(last[name].eq(only[name]) for name in names),
                *(more[name].eq(~only[name]) for name in names),
                self.last.eq(at_once),
                self.last_alu.eq(at_once & self.alu),
                self.last_matrix.eq(at_once & ~self.alu),
                self.takes.eq(~self.start | only_one),
                self.uop.eq(self.loops.uop_bgn),
                one_uop.eq(only["uop"]),
                columns_left.eq(self.loops.iter_in - 1),
                one_column.eq(only["column"]),
                rows_left.eq(self.loops.iter_out - 1),
                row_start.eq(self.base),
                self.offset.eq(self.base),
            ]
        return m
