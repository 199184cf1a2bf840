"""A multiplier that takes several cycles. It computes byte lengths, which an instruction needs only once (hw/README.md
section 6).
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.timing import PRODUCT_CYCLES

DIGIT_BITS = 4
"""Number of bits of the right factor that are multiplied in a cycle."""

FACTOR_BITS = 16
"""Width of the right factor in bits."""


class Product(wiring.Component):
    """A multiplier that computes `result` = left x right + addend in several cycles.

    Members:

    - `take`: loads `left` (unsigned, `bits` wide), `right` (unsigned, 16 bits) and `addend` (modulo 2**(bits + 16)),
      and cancels a product that is being computed.
    - `start`: begins to multiply. In the cycle b in which it is 1, `take` must be 1, too; after it, `take` must stay 0
      until the product is done.
    - `done`: 1 only in cycle b + PRODUCT_CYCLES. `result` is valid from then until the next `take`.
    """

    def __init__(self, *, bits: int) -> None:
        """`bits`: width of the left factor in bits."""
        self._bits = bits
        wide = bits + FACTOR_BITS
        super().__init__(
            {
                "start": In(1),
                "take": In(1),
                "left": In(bits),
                "right": In(FACTOR_BITS),
                "addend": In(wide),
                "done": Out(1),
                "result": Out(wide),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Multiplies digit by digit, the lowest digit of the right factor first. A digit takes three cycles: two to
        compute left x digit, and one to add this to the result. Digits overlap, so a new one starts in every cycle.
        """
        m = Module()
        wide = self._bits + FACTOR_BITS
        left, right = Signal(wide, reset_less=True), Signal(FACTOR_BITS, reset_less=True)
        addend, partial = Signal(wide, reset_less=True), Signal(wide, reset_less=True)
        past = Signal(PRODUCT_CYCLES)  # bit k: it started k + 1 cycles ago
        pairs = [Signal(wide, name=f"pair_{low}", reset_less=True) for low in range(0, DIGIT_BITS, 2)]
        for pair, low in zip(pairs, range(0, DIGIT_BITS, 2), strict=True):
            m.d.sync += pair.eq(Mux(right[low], left << low, 0) + Mux(right[low + 1], left << (low + 1), 0))
        m.d.sync += [
            partial.eq(sum(pairs[1:], pairs[0])),
            past.eq(Cat(self.start, Mux(self.take, 0, past))),
            # In the first two cycles `partial` is still that of earlier factors.
            self.result.eq(Mux(past[0] | past[1], addend, self.result + partial)),
        ]
        with m.If(self.take):
            m.d.sync += [left.eq(self.left), right.eq(self.right), addend.eq(self.addend)]
        with m.Else():
            m.d.sync += [left.eq(left << DIGIT_BITS), right.eq(right >> DIGIT_BITS)]
        m.d.comb += self.done.eq(past[-1])
        return m
