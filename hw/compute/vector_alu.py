"""The arithmetic of one ALU operation on a vector of int32 lanes, combinational."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from vdla.isa.config import Config
from vdla.isa.layout import AluOpcode

LANE = signed(32)


def lanes(config: Config) -> int:
    """Lanes of an accumulator vector, [batch][block_out] in this order."""
    return config.batch * config.block_out


def accumulator_layout(config: Config) -> data.ArrayLayout:
    """An accumulator vector, lane b * block_out + o int32."""
    return data.ArrayLayout(LANE, lanes(config))


class VectorAlu(wiring.Component):
    """`result` = left (operation) right, lane by lane, low 32 bits; isa/README.md defines the operations.

    Members
    -------
    opcode : In
        An `isa.layout.AluOpcode`.
    left, right : In
        Accumulators; `right` is the immediate in every lane with `use_imm`.
    result : Out
        The new accumulators, in the same cycle.
    """

    def __init__(self, *, config: Config) -> None:
        self.config = config
        layout = accumulator_layout(config)
        super().__init__({"opcode": In(3), "left": In(layout), "right": In(layout), "result": Out(layout)})

    def elaborate(self, platform: object) -> Module:
        """One comparator, adder, shifter and multiplier a lane."""
        m = Module()
        for lane in range(lanes(self.config)):
            left, right = self.left[lane], self.right[lane]
            less = Signal(name=f"less_{lane}")
            m.d.comb += less.eq(left < right)
            result = self.result[lane]
            with m.Switch(self.opcode):
                with m.Case(AluOpcode.MIN):
                    m.d.comb += result.eq(Mux(less, left, right))
                with m.Case(AluOpcode.MAX):
                    m.d.comb += result.eq(Mux(less, right, left))
                with m.Case(AluOpcode.ADD):
                    m.d.comb += result.eq(left + right)
                with m.Case(AluOpcode.SHR):
                    m.d.comb += result.eq(self._shift(m, lane, left, right))
                with m.Default():
                    m.d.comb += result.eq(left * right)
        return m

    @staticmethod
    def _shift(m: Module, lane: int, value: Value, amount: Value) -> Value:
        """One right shifter: a left shift reverses the bits before and after it."""
        leftward, distance = Signal(name=f"leftward_{lane}"), Signal(5, name=f"distance_{lane}")
        magnitude = Signal(32, name=f"magnitude_{lane}")
        m.d.comb += [
            leftward.eq(amount < 0),
            magnitude.eq(Mux(leftward, -amount, amount)),
            distance.eq(Mux(magnitude[5:] != 0, 31, magnitude[:5])),
        ]
        fill = Signal(name=f"fill_{lane}")
        shifted = Signal(signed(33), name=f"shifted_{lane}")
        bits = value.as_unsigned()
        m.d.comb += fill.eq(value[31] & ~leftward)
        source = Signal(signed(33), name=f"source_{lane}")
        m.d.comb += [
            source.eq(_signed(Mux(leftward, bits[::-1], bits), fill)),
            shifted.eq(source >> distance),
        ]
        # A left shift by 32 or more clears the lane; a right shift by as much is one by 31.
        left_result = Mux(magnitude[5:] != 0, 0, shifted[:32][::-1])
        return Mux(leftward, left_result, shifted[:32])


def _signed(bits: Value, sign: Value) -> Value:
    """`bits` with `sign` on top, as a signed value."""
    return (bits | (sign << 32)).as_signed()
