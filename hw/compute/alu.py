"""Arithmetic of the ALU operations on one int32 lane, except addition and subtraction (`lane.py` has the adders)."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

LANE = signed(32)


class Alu(wiring.Component):
    """The arithmetic of one lane, modulo 2^32; isa/README.md defines the operations.

    Below, x is the cycle in which an operation begins to execute.

    Members
    -------
    shifts, is_max : In
        `shifts`: the instruction is SHR. `is_max`: it is MAX, not MIN. Both are stable while the instruction executes.
    start : In
        A SHR or MUL begins to execute in this cycle, with `left` as its first operand.
    since : In
        Bit k is 1 in cycle x + 1 + k of the SHR or MUL that is executing.
    left, right : In
        The operands. `right` is an accumulator or, with `use_imm`, the immediate; it does not change until the result
        is valid.
    chosen : Out
        MIN or MAX of `left_now` and `right`, in the same cycle.
    left_now : In
        The left operand of MIN and MAX (`pipeline.py` explains why it needs no forwarding).
    shifted : Out
        left SHR right, valid in x + 2.
    product : Out
        left MUL right, valid in x + 4.
    """

    shifts: In(1)
    is_max: In(1)
    start: In(1)
    since: In(2)
    left: In(LANE)
    left_now: In(LANE)
    right: In(LANE)
    chosen: Out(LANE)
    shifted: Out(LANE)
    product: Out(LANE)

    def elaborate(self, platform: object) -> Module:
        """Builds one comparator, one shifter, and one 16-bit multiplier, which computes the three partial products of a
        MUL in consecutive cycles.
        """
        m = Module()
        # The sign of a difference needs one carry chain, unlike `<`.
        difference = Signal(signed(33))
        left = Signal(32, reset_less=True)
        leftward = self.right[31]
        bits = self.left.as_unsigned()
        m.d.comb += [
            difference.eq(self.left_now - self.right),
            self.chosen.eq(Mux(difference[32] ^ self.is_max, self.left_now, self.right)),
            self.shifted.eq(self._shift(m, left)),
            self.product.eq(self._multiply(m, bits, left)),
        ]
        with m.If(self.start):
            m.d.sync += left.eq(Mux(self.shifts & leftward, bits[::-1], bits))
        return m

    def _shift(self, m: Module, source: Value) -> Value:
        """Adds a shifter to `m` and returns the result of SHR, valid two cycles after the start. `source`: the 32 bits
        to shift right by `right`. If `right` is negative, which means a left shift by -`right`, the caller reverses the
        bits of `source`, and the shifter reverses the bits of the result.
        """
        leftward = Signal(reset_less=True)
        distance = Signal(5, reset_less=True)
        far = Signal(reset_less=True)
        amount = self.right
        negative, low = amount[31], amount[:5]
        m.d.sync += [
            leftward.eq(negative),
            # Amounts below -31 or above 31.
            far.eq((amount[5:31] ^ negative.replicate(26)).any() | (negative & (low == 0))),
            distance.eq(Mux(negative, -low, low)),
        ]
        # Cycle x + 1 shifts by a multiple of four places, x + 2 by the rest; the registers above and `source` are
        # stable until then.
        fill, fill_2 = Signal(), Signal(reset_less=True)
        coarse_2 = Signal(32, reset_less=True)
        shifted = Signal(signed(33), name="shifted_fine")
        m.d.comb += [
            fill.eq(source[31] & ~leftward),
            shifted.eq(_signed(coarse_2, fill_2) >> distance[:2]),
        ]
        m.d.sync += [
            fill_2.eq(fill),
            coarse_2.eq(_signed(source, fill) >> Cat(Const(0, 2), distance[2:])),
        ]
        # A left shift by 32 or more clears the lane; a right shift by 32 or more leaves only the sign.
        near = Mux(leftward, shifted[:32][::-1], shifted[:32])
        return Mux(far, fill_2.replicate(32), near)

    def _multiply(self, m: Module, taken: Value, left: Value) -> Value:
        """Multiplies two 32-bit numbers with one 16-bit multiplier and returns the low 32 bits of the product. If a and
        b are the upper and the lower half of the left factor, and c and d those of the right factor, these are the low
        32 bits of b d + 2^16 (b c + a d). Registers hold the two inputs of the multiplier. `left`: the register of the
        left factor; the right factor is the input `right`. `taken`: the value that register `left` takes at the next
        clock edge.
        """
        factor = Signal(16, reset_less=True)
        other = Signal(16, name="other_factor", reset_less=True)
        product = Signal(32, name="partial", reset_less=True)
        total = Signal(32, reset_less=True)
        right = self.right.as_unsigned()
        upper = total[16:] + product[:16]
        with m.If(self.start):
            m.d.sync += [factor.eq(taken[:16]), other.eq(right[:16])]
        with m.Elif(self.since[0]):
            m.d.sync += other.eq(right[16:])
        with m.Else():
            m.d.sync += [factor.eq(left[16:]), other.eq(right[:16])]
        m.d.sync += [
            product.eq(factor * other),
            total.eq(Mux(self.since[1], product, Cat(total[:16], upper[:16]))),
        ]
        return Cat(total[:16], upper[:16])


def _signed(bits: Value, sign: Value) -> Value:
    """`bits` with the bit `sign` added above the top bit, as a signed value."""
    return Cat(bits, sign).as_signed()
