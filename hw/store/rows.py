"""Hardware of the extension `rows` (softmax and normalizations) that all lanes share. It adds up the terms of a row
over lanes and vectors, computes the row's statistics from the sum, and stores these in a memory with an entry for each
row. The arithmetic is specified in `vdla.isa.rows`.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.config import Config
from vdla.isa.rows import DIFFERENCE_BITS, ENTRY_BITS, FACTOR_BITS, SHIFT_BITS, SUM_BITS, VALUE_BITS
from vdla.isa.timing import ROW_FACTOR_CYCLES, ROW_VALUE_CYCLES, post_latency

from ..layouts import register_layout, view
from ..memories import ANY_ON_COLLISION
from .pipeline import delay, register
from .row_factors import RowFactors
from .row_lanes import ELEMENT_BITS, FACTOR_STAGE, OFFSET_STAGE, SHIFT_STAGE

ROW_BEFORE = 3
"""Cycles between two events: the number of a vector's row becomes valid (one cycle after the vector's last read), and
the vector's first pass is in the lanes.
"""


def row_flags() -> data.StructLayout:
    """Flags of an instruction that uses the statistics of rows (softmax, normalizations). `shares`: it is a STORE.POST
    that scales values by their row's factor. `counts`: it is a ROWS, which computes statistics. `maximum`: this ROWS
    computes the rows' maxima.
    """
    return data.StructLayout({"shares": 1, "counts": 1, "maximum": 1})


class Rows(wiring.Component):
    """Computes and stores the statistics of rows for softmax and normalizations, one entry for each row. A vector goes
    through the lanes in one pass or in several passes; cycle t is that of a vector's first pass.

    Members:

    - `flags`, `setting` (register ROWS): must not change while vectors are in the pipeline.
    - `row`: number of the row that a vector belongs to, valid from the cycle after the vector's last read until the
      last read of the next vector. `row_first`, `row_last`: the vector is the first or the last one of its row.
    - `pass_valid`: a pass is in the lanes. `pass_first`: it is the vector's first pass, ROW_BEFORE cycles after `row`
      becomes valid. `pass_last`: it is the vector's last pass.
    - Outputs to the lanes: `subtrahend` in t; `offset`, `factor` and `shift` in t plus the stages of row_lanes.py;
      `last_soon`, in t - 1: the vector is the last one of its row.
    - Inputs from the lanes: `differences` in t + 1, `elements` in t + ROW_VALUE_CYCLES.
    """

    def __init__(self, *, config: Config) -> None:
        """`config` determines the number of rows whose statistics are stored, and the number of lanes. A vector that is
        longer than the lanes goes through them in several passes.
        """
        self._config = config
        self._lanes = config.block_out // config.post_passes
        # The next instruction waits until the pipeline is empty; by then the last factor is written.
        assert (
            ROW_BEFORE + 2 + ROW_VALUE_CYCLES + self._lanes.bit_length() + ROW_FACTOR_CYCLES
            < post_latency(config)
        )
        super().__init__(
            {
                "flags": In(row_flags()),
                "setting": In(64),
                "row": In(range(config.row_depth)),
                "row_first": In(1),
                "row_last": In(1),
                "pass_valid": In(1),
                "pass_first": In(1),
                "pass_last": In(1),
                "differences": In(DIFFERENCE_BITS * self._lanes),
                "elements": In(ELEMENT_BITS * self._lanes),
                "last_soon": Out(1),
                "subtrahend": Out(signed(DIFFERENCE_BITS)),
                "offset": Out(signed(VALUE_BITS)),
                "factor": Out(FACTOR_BITS),
                "shift": Out(SHIFT_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds adder trees that sum over the lanes, accumulators that sum over the passes and vectors of a row, and
        the computation of factors. Memories hold the value, the factor and the partial sum of each row.
        """
        m = Module()
        depth, flags = self._config.row_depth, self.flags
        setting = view(register_layout("ROWS"), self.setting)
        look_up = setting["look_up"]
        levels = self._lanes.bit_length() - 1
        # Cycle A: the sum over the lanes of a pass is added to that of earlier passes.
        late = ROW_VALUE_CYCLES + levels
        row_a = delay(m, self.row, ROW_BEFORE + late, "row_a")
        before_a = delay(m, self.row, ROW_BEFORE + late - 1, "row_before_a")
        row_first = delay(m, self.row_first, ROW_BEFORE + late, "row_first_a")
        row_last = delay(m, self.row_last, ROW_BEFORE + late, "row_last_a")
        starts = row_first & delay(m, self.pass_first, late, "pass_first_a")
        ends = row_last & delay(m, self.pass_last, late, "pass_last_a")
        # Write enables have a reset: no write from before a reset happens after it.
        valid = _steady(m, self.pass_valid, late, "valid_a")
        narrow = delay(m, self._reduce_differences(m), ROW_VALUE_CYCLES - 1, "narrow_a")
        wide = self._sum_elements(m)

        keeps_value = Signal()
        m.d.comb += keeps_value.eq(flags.counts & (flags.maximum | ~look_up))
        values, factors, sums = (
            memory.Memory(shape=width, depth=depth, init=[], attrs=ANY_ON_COLLISION)
            for width in (VALUE_BITS, FACTOR_BITS + SHIFT_BITS, SUM_BITS)
        )
        m.submodules.row_values, m.submodules.row_factors, m.submodules.row_sums = values, factors, sums
        value_write, value_read = values.write_port(), values.read_port()
        sum_write, sum_read = sums.write_port(), sums.read_port()
        early = delay(m, self.row, ROW_BEFORE - 1, "row_early")
        m.d.comb += [
            value_read.addr.eq(Mux(keeps_value, before_a, early)),
            sum_read.addr.eq(before_a),
        ]
        # A write of the previous cycle is not visible to this read.
        row_z, again = register(m, row_a, "row_z"), Signal()
        written_z = Signal()
        m.d.sync += written_z.eq(valid)
        m.d.comb += again.eq(written_z & (row_z == row_a))
        value_z, sum_z = (
            Signal(signed(VALUE_BITS), reset_less=True, name="value_z"),
            Signal(SUM_BITS, reset_less=True, name="sum_z"),
        )
        old_value, old_sum = Signal(signed(VALUE_BITS)), Signal(SUM_BITS)
        value, total = Signal(signed(VALUE_BITS)), Signal(SUM_BITS)
        m.d.comb += [
            old_value.eq(Mux(again, value_z, value_read.data.as_signed())),
            old_sum.eq(Mux(again, sum_z, sum_read.data)),
            value.eq(
                Mux(
                    starts,
                    narrow,
                    Mux(flags.maximum, Mux(old_value > narrow, old_value, narrow), old_value + narrow),
                )
            ),
            total.eq(Mux(starts, wide, old_sum + wide)),
            value_write.addr.eq(row_a),
            value_write.data.eq(value),
            value_write.en.eq(valid & keeps_value),
            sum_write.addr.eq(row_a),
            sum_write.data.eq(total),
            sum_write.en.eq(valid & flags.counts),
        ]
        m.d.sync += [value_z.eq(value), sum_z.eq(total)]

        m.submodules.factors_of_rows = made = RowFactors()
        complete = Signal()
        m.d.sync += complete.eq(valid & ends & flags.counts & ~flags.maximum)
        m.d.comb += [
            made.sum.eq(sum_z),
            made.total.eq(value_z),
            *(
                getattr(made, name).eq(setting[name])
                for name in ("look_up", "centre", "length", "epsilon", "epsilon_shift")
            ),
        ]
        write, read = factors.write_port(), factors.read_port()
        m.d.comb += [
            write.addr.eq(delay(m, row_z, ROW_FACTOR_CYCLES, "row_made")),
            write.data.eq(Cat(made.factor, made.shift)),
            write.en.eq(_steady(m, complete, ROW_FACTOR_CYCLES, "made")),
            read.addr.eq(early),
        ]
        own = value_read.data.as_signed()
        off = Mux(flags.shares & setting["centre"] & ~look_up, own, 0)
        m.d.comb += [
            self.last_soon.eq(delay(m, self.row_last, ROW_BEFORE - 1, "last_soon_late")),
            self.subtrahend.eq(
                Mux(
                    flags.counts & flags.maximum,
                    0,
                    Mux(look_up, own[:DIFFERENCE_BITS], setting["zero_point"]),
                )
            ),
            self.offset.eq(delay(m, off, OFFSET_STAGE, "offset_late")),
            self.factor.eq(delay(m, read.data[:FACTOR_BITS], FACTOR_STAGE, "factor_late")),
            self.shift.eq(delay(m, read.data[FACTOR_BITS:], SHIFT_STAGE, "shift_late")),
        ]
        return m

    def _reduce_differences(self, m: Module) -> Value:
        """Maximum or sum of the differences of a pass; each level of the tree takes a cycle."""
        parts: list[Value] = [
            self.differences.word_select(lane, DIFFERENCE_BITS).as_signed() for lane in range(self._lanes)
        ]
        level = 0
        while len(parts) > 1:
            following: list[Value] = []
            for left, right in zip(parts[::2], parts[1::2], strict=True):
                node = Signal(signed(len(left) + 1), name=f"narrow_{level}_{len(following)}", reset_less=True)
                m.d.sync += node.eq(Mux(self.flags.maximum, Mux(left > right, left, right), left + right))
                following.append(node)
            parts, level = following, level + 1
        return parts[0]

    def _sum_elements(self, m: Module) -> Value:
        """Sum of the elements of a pass, as unsigned numbers: table entries and squares are not negative."""
        parts: list[Value] = [
            self.elements.word_select(lane, ELEMENT_BITS)[:ENTRY_BITS] for lane in range(self._lanes)
        ]
        level = 0
        while len(parts) > 1:
            following: list[Value] = []
            for left, right in zip(parts[::2], parts[1::2], strict=True):
                node = Signal(len(left) + 1, name=f"wide_{level}_{len(following)}", reset_less=True)
                m.d.sync += node.eq(left + right)
                following.append(node)
            parts, level = following, level + 1
        return parts[0]


def _steady(m: Module, bit: Value, cycles: int, name: str) -> Value:
    """`bit`, delayed by `cycles` cycles (1 or more); a reset clears all registers of the delay."""
    later = Signal(cycles, name=name)
    m.d.sync += later.eq(Cat(bit, later))
    return later[-1]
