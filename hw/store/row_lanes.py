"""One lane of the extension `rows`, which computes softmax and normalizations of rows of numbers. A first instruction
adds up a sum over each row; the lane computes the term that each accumulator contributes. A later instruction makes the
outputs; the lane computes each element and multiplies it by the factor of its row (`vdla.isa.rows` has the formulas).
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.config import Config
from vdla.isa.rows import (
    DIFFERENCE_BITS,
    ENTRY_BITS,
    FACTOR_BITS,
    LENGTH_BITS,
    PLANES,
    SHIFT_BITS,
    VALUE_BITS,
)
from vdla.isa.store_stages import ROW_CYCLES, TABLE_BYTES
from vdla.isa.timing import ROW_VALUE_CYCLES

from ..memories import ANY_ON_COLLISION
from .pipeline import delay, register

LANE = "row_lane"
"""Name of the Verilog module that all lanes of the extension `rows` share."""

OFFSET_STAGE, FACTOR_STAGE, SHIFT_STAGE = 3, 4, 7
"""Cycles from the lane's input `value` to the use of three inputs: `offset` (subtracted from the element), `factor`
(the row's factor, which multiplies the element) and `shift` (by which the product is shifted).
"""

ELEMENT_BITS = ENTRY_BITS + 1
_PRODUCT_BITS = ELEMENT_BITS + FACTOR_BITS + 1
_FINE = 3  # number of low bits of the shift distance, which are applied first
_HALF = FACTOR_BITS // 2


class RowLane(wiring.Component):
    """One lane of the extension `rows` (softmax and normalizations); accepts a new `value` every cycle.

    Members. Cycles are given for a value that enters in cycle t; inputs without a cycle must not change while values
    are in the pipeline.

    - `value` (int32) and `subtrahend` enter in t. `difference`, valid in t + 1, is value - subtrahend.
    - `off`, sampled in t, is 1 if this lane has no element of the row, because the row fills its last vector only in
      part. Then `element` is 0, and `difference` does not affect the row's result: `difference` is the least number if
      `maximum` is 1 (the row's maximum is wanted), else 0.
    - `element` is valid in t + ROW_VALUE_CYCLES. It is a number minus `offset` (sampled in t + OFFSET_STAGE). The
      number is the table's entry for the difference if `look_up` is 1, the square of the difference if `squares` is 1,
      otherwise the difference times `length`.
    - `result` is valid in t + ROW_CYCLES - 1. If `shares` is 1, it is element x `factor` x 2^-`shift` (`factor` sampled
      in t + FACTOR_STAGE, `shift` in t + SHIFT_STAGE). Otherwise it is `value`.
    - `write` fills the table: it has a bit for each plane (part of the table's memory), and writes `data` to word `at`
      of the planes whose bit is 1.
    """

    def __init__(self, *, config: Config) -> None:
        """`config` determines the bytes of a bus word; the table is written in bus words."""
        self._bus = config.memory.bus_bytes
        self._words = TABLE_BYTES // self._bus
        super().__init__(
            {
                "value": In(signed(32)),
                "subtrahend": In(signed(DIFFERENCE_BITS)),
                "off": In(1),
                "maximum": In(1),
                "look_up": In(1),
                "squares": In(1),
                "length": In(LENGTH_BITS),
                "offset": In(signed(VALUE_BITS)),
                "factor": In(FACTOR_BITS),
                "shift": In(SHIFT_BITS),
                "shares": In(1),
                "difference": Out(signed(DIFFERENCE_BITS)),
                "element": Out(signed(ELEMENT_BITS)),
                "result": Out(signed(32)),
                "write": In(PLANES),
                "at": In(range(self._words)),
                "data": In(8 * self._bus),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds the stages of the lane. The number at the end of a register's name says how many cycles after the
        input `value` the register is valid.
        """
        m = Module()
        less = (self.value[:DIFFERENCE_BITS].as_signed() - self.subtrahend)[:DIFFERENCE_BITS].as_signed()
        none = Mux(self.maximum, -1 << (DIFFERENCE_BITS - 1), 0)
        d = register(m, Mux(self.off, none, less).as_signed(), "difference_1")
        off_3 = delay(m, self.off, OFFSET_STAGE, "off_3")
        m.d.comb += self.difference.eq(d)
        factor = Signal(signed(LENGTH_BITS + 1))
        m.d.comb += factor.eq(Mux(self.squares, d, self.length))
        product_3 = delay(m, d * factor, 2, "product_3")
        entry_3 = self._entry(m, d[:8])
        whole = Mux(self.look_up, entry_3, product_3) - self.offset
        element_4 = Signal(signed(ELEMENT_BITS), reset_less=True)
        m.d.sync += element_4.eq(Mux(off_3, 0, whole))
        m.d.comb += self.element.eq(element_4)

        low_5 = register(m, element_4 * self.factor[:_HALF], "low_5")
        high_5 = register(m, element_4 * self.factor[_HALF:], "high_5")
        product_6 = Signal(signed(_PRODUCT_BITS), reset_less=True)
        # One bit below the last one, for rounding.
        m.d.sync += product_6.eq(((high_5 << _HALF) + low_5) << 1)
        product_7 = register(m, product_6, "product_7")
        coarse_8 = register(m, self.shift[_FINE:], "coarse_8")
        shifted_8 = Signal(signed(_PRODUCT_BITS), reset_less=True)
        shifted_9 = Signal(signed(_PRODUCT_BITS), reset_less=True)
        m.d.sync += [
            shifted_8.eq(product_7 >> self.shift[:_FINE]),
            shifted_9.eq(shifted_8 >> Cat(*([0] * _FINE), coarse_8)),
        ]
        plain_9 = delay(m, self.value, ROW_CYCLES - 2, "plain_9")
        share = (shifted_9[1:33] + shifted_9[0])[:32].as_signed()
        m.d.sync += self.result.eq(Mux(self.shares, share, plain_9))
        return m

    def _entry(self, m: Module, place: Signal) -> Signal:
        """Builds the look-up in the table for ROWS: returns entry number `place`, counted from 0, two cycles later. It
        reads a word of each plane (part of the table's memory), then selects a byte of each word.
        """
        low = self._bus.bit_length() - 1
        found = []
        for plane in range(PLANES):
            m.submodules[f"plane_{plane}"] = words = memory.Memory(
                shape=8 * self._bus, depth=self._words, init=[], attrs=ANY_ON_COLLISION
            )
            write, read = words.write_port(), words.read_port()
            m.d.comb += [
                write.addr.eq(self.at),
                write.data.eq(self.data),
                write.en.eq(self.write[plane]),
                read.addr.eq(place[low:]),
            ]
            found.append(read.data)
        byte = register(m, place[:low], "byte")
        return register(m, Cat(*(word.word_select(byte, 8) for word in found)), "entry_3")


assert FACTOR_STAGE == ROW_VALUE_CYCLES
