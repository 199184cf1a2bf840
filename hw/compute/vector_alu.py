"""The arithmetic of ALU operations on a vector of int32 lanes, but for the addition (`pipeline.py` has an adder)."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from vdla.isa.config import Config
from vdla.isa.opcodes import AluOpcode

from ..copies import copies

LANE = signed(32)


def lanes(config: Config) -> int:
    """Lanes of an accumulator vector, [batch][block_out] in this order."""
    return config.batch * config.block_out


def accumulator_layout(config: Config) -> data.ArrayLayout:
    """An accumulator vector, lane b * block_out + o int32."""
    return data.ArrayLayout(LANE, lanes(config))


class VectorAlu(wiring.Component):
    """Lane by lane, low 32 bits; isa/README.md defines the operations.

    Members
    -------
    opcode : In
        An `isa.layout.AluOpcode`, stable while an instruction executes.
    start : In
        An operation SHR or MUL executes from this cycle x on: `left` is taken.
    left, right : In
        Accumulators; `right` is the immediate in every lane with `use_imm`, and stays until the result is there.
    chosen : Out
        MIN or MAX of `left_now` and `right`, in the same cycle.
    left_now : In
        The left operand of MIN and MAX (`pipeline.py` tells why it needs no forwarding).
    shifted : Out
        left SHR right, in x + 2.
    product : Out
        left MUL right, in x + 4.
    """

    def __init__(self, *, config: Config) -> None:
        self.config = config
        layout = accumulator_layout(config)
        super().__init__(
            {
                "opcode": In(3),
                "start": In(1),
                "left": In(layout),
                "left_now": In(layout),
                "right": In(layout),
                "chosen": Out(layout),
                "shifted": Out(layout),
                "product": Out(layout),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """One comparator, shifter and 16-bit multiplier a lane; the multiplier makes three products, one a cycle."""
        m = Module()
        cycle = Signal(4)  # bit k: x + 1 + k
        m.d.sync += cycle.eq((cycle << 1) | self.start)
        count = lanes(self.config)
        shifts = copies(m, self.opcode == AluOpcode.SHR, count, "shifts")
        is_max = copies(m, self.opcode == AluOpcode.MAX, count, "is_max")
        for lane in range(count):
            left_now, right = self.left_now[lane], self.right[lane]
            # The sign of the difference is one carry chain, unlike `<`.
            difference = Signal(signed(33), name=f"difference_{lane}")
            m.d.comb += [
                difference.eq(left_now - right),
                self.chosen[lane].eq(Mux(difference[32] ^ is_max[lane], left_now, right)),
            ]
            left = Signal(32, name=f"left_{lane}", reset_less=True)
            leftward = right[31]
            bits = self.left[lane].as_unsigned()
            with m.If(self.start):
                m.d.sync += left.eq(Mux(shifts[lane] & leftward, bits[::-1], bits))
            m.d.comb += [
                self.shifted[lane].eq(self._shift(m, lane, left, right)),
                self.product[lane].eq(self._multiply(m, lane, bits, left, right.as_unsigned(), cycle)),
            ]
        return m

    @staticmethod
    def _shift(m: Module, lane: int, source: Value, amount: Value) -> Value:
        """One right shifter: a left shift has reversed the bits before it and does so again after it."""
        leftward = Signal(name=f"leftward_{lane}", reset_less=True)
        distance = Signal(5, name=f"distance_{lane}", reset_less=True)
        far = Signal(name=f"far_{lane}", reset_less=True)
        negative, low = amount[31], amount[:5]
        m.d.sync += [
            leftward.eq(negative),
            # Beyond -32 .. 31, or -32.
            far.eq((amount[5:31] ^ negative.replicate(26)).any() | (negative & (low == 0))),
            distance.eq(Mux(negative, -low, low)),
        ]
        # In x + 1 by multiples of four places, in x + 2 by the rest: these registers and `source` hold still as long.
        fill, fill_2 = Signal(name=f"fill_{lane}"), Signal(name=f"fill_2_{lane}", reset_less=True)
        coarse_2 = Signal(32, name=f"coarse_2_{lane}", reset_less=True)
        shifted = Signal(signed(33), name=f"shifted_{lane}")
        m.d.comb += [
            fill.eq(source[31] & ~leftward),
            shifted.eq(_signed(coarse_2, fill_2) >> distance[:2]),
        ]
        m.d.sync += [
            fill_2.eq(fill),
            coarse_2.eq(_signed(source, fill) >> Cat(Const(0, 2), distance[2:])),
        ]
        # A left shift by 32 or more clears the lane; a right shift by as much leaves the sign.
        near = Mux(leftward, shifted[:32][::-1], shifted[:32])
        return Mux(far, fill_2.replicate(32), near)

    def _multiply(self, m: Module, lane: int, taken: Value, left: Value, right: Value, cycle: Value) -> Value:
        """low x low, low x high, high x low; the upper halves of the last two fall off.

        The factors of the next product stand in registers before the multiplier; `taken` is what `left` becomes.
        """
        factor = Signal(16, name=f"factor_{lane}", reset_less=True)
        other = Signal(16, name=f"other_factor_{lane}", reset_less=True)
        product = Signal(32, name=f"partial_{lane}", reset_less=True)
        total = Signal(32, name=f"total_{lane}", reset_less=True)
        upper = total[16:] + product[:16]
        with m.If(self.start):
            m.d.sync += [factor.eq(taken[:16]), other.eq(right[:16])]
        with m.Elif(cycle[0]):
            m.d.sync += other.eq(right[16:])
        with m.Else():
            m.d.sync += [factor.eq(left[16:]), other.eq(right[:16])]
        m.d.sync += [
            product.eq(factor * other),
            total.eq(Mux(cycle[1], product, Cat(total[:16], upper[:16]))),
        ]
        return Cat(total[:16], upper[:16])


def _signed(bits: Value, sign: Value) -> Value:
    """`bits` with `sign` on top, as a signed value."""
    return Cat(bits, sign).as_signed()
