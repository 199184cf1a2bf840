"""One lane of an accumulator vector: its operands, its arithmetic and its last results (hw/README.md section 7)."""

from __future__ import annotations

from itertools import pairwise

from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.alu import AluOpcode, alu_codes, custom_codes
from vdla.isa.config import Config

from ..lanes import ALU_LANE
from ..shared_modules import place
from .alu import LANE, Alu
from .columns import sum_bits
from .custom import component_of

IMMEDIATE = signed(16)

_CONTROLS: dict[str, tuple[AluOpcode, ...]] = {
    "adds": (AluOpcode.ADD, AluOpcode.SUB),
    "chooses": (AluOpcode.MIN, AluOpcode.MAX),
    "shifts": (AluOpcode.SHR,),
    "is_max": (AluOpcode.MAX,),
    "subtracts": (AluOpcode.SUB,),
}


def lane_controls(config: Config) -> dict[str, tuple[int, ...]]:
    """Maps the name of each control input of a lane to the opcodes of the ALU operations for which the input is 1.

    If none of `adds`, `chooses` and `shifts` is 1, the result is that of MUL. An input that no operation of the machine
    sets is left out. `custom_0`, `custom_1` ... select the machine's custom instructions.
    """
    there = [code.value for code in alu_codes(config)]
    chosen = {name: tuple(code for code in codes if code in there) for name, codes in _CONTROLS.items()}
    custom = {f"custom_{number}": (code,) for number, code in enumerate(custom_codes(config))}
    return {name: codes for name, codes in chosen.items() if codes} | custom


CYCLES = {AluOpcode.SHR: 3, AluOpcode.MUL: 5}
"""Cycles from the operand to the result, for operations that take more than one; must agree with isa/alu.py."""

RESULTS = ("writing", "written_1", "written_2")
"""Names of recent results that may replace an operand read from memory. `writing`: the result of the previous cycle,
which is being written in this cycle. `written_1`, `written_2`: the results one and two cycles older.
"""


class AccumulatorLane(wiring.Component):
    """One lane of `pipeline.Pipeline`. r is the cycle in which the accumulator is addressed, x = r + 3 the cycle of
    execution, as in the table of that class.

    Members
    -------
    read : In
        The accumulator that was read from memory, in r + 2.
    replace : In
        In r + 2: number, from 1, of the entry of `RESULTS` that replaces `read`; 0 for none.
    array_sum : In
        The array's sum, in x.
    just_before : In
        In x: the result of the previous cycle replaces the accumulator as operand.
    keeps : In
        In x: the accumulator is an operand; otherwise 0 takes its place.
    adds_sum, adds_right : In
        In x: with `adds_sum` the addition adds the array's sum, with `adds_right` it adds `right`.
    takes_right : In
        In x: the accumulator becomes `right`, the second operand of the next operation. Otherwise, with
        `use_immediate`, `right` becomes the `immediate`.
    adds, chooses, shifts, is_max : In
        Kind of the instruction: `adds`: a sum; `chooses`: MIN or MAX; `shifts`: SHR; `is_max`: MAX, not MIN.
    subtracts : In
        `right` is subtracted instead of added. Only on machines with the ALU operation SUB.
    custom_0, custom_1 : In
        The instruction is this custom instruction of the machine. Only on machines that have it.
    start, since : In
        The members of `alu.Alu` of these names.
    result : Out
        The result, from x + 1 on; for SHR, MUL and custom instructions from x plus their number of cycles on.
    """

    def __init__(self, *, config: Config) -> None:
        self.has_subtract, self.instructions = "subtracts" in lane_controls(config), config.instructions
        flags = (
            *("just_before", "keeps", "adds_sum", "adds_right", "takes_right", "use_immediate"),
            *lane_controls(config),
            "start",
        )
        super().__init__(
            {
                "read": In(LANE),
                "replace": In(range(len(RESULTS) + 1)),
                "array_sum": In(signed(sum_bits(config))),
                **dict.fromkeys(flags, In(1)),
                "immediate": In(IMMEDIATE),
                "since": In(2),
                "result": Out(LANE),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds two adders, so that no multiplexer is between the previous result and the next operation."""
        m = Module()
        results = [Signal(LANE, name=f"{name}_data", reset_less=True) for name in RESULTS]
        result = results[0]
        operand, right = Signal(LANE, reset_less=True), Signal(LANE, reset_less=True)
        with m.Switch(self.replace):
            with m.Case(0):
                m.d.sync += operand.eq(self.read)
            for number, earlier in enumerate(results, 1):
                with m.Case(number):
                    m.d.sync += operand.eq(earlier)
        now = Signal(LANE)
        m.d.comb += now.eq(Mux(self.just_before, result, operand))
        with m.If(self.takes_right):
            m.d.sync += right.eq(now)
        with m.Elif(self.use_immediate):
            m.d.sync += right.eq(self.immediate)
        alu = place(
            m,
            platform,
            "alu",
            ALU_LANE,
            Alu,
            shifts=self.shifts,
            is_max=self.is_max,
            start=self.start,
            since=self.since,
            left=now,
            left_now=operand,
            right=right,
        )
        addend, total, following = Signal(LANE), Signal(LANE), Signal(LANE)
        m.d.comb += [
            addend.eq(Mux(self.adds_right, self._signed(right), Mux(self.adds_sum, self.array_sum, 0))),
            total.eq(self._sum(Mux(self.keeps, operand, 0), addend)),
            following.eq(self._sum(result, addend)),
            self.result.eq(result),
        ]
        other: Value = Mux(self.shifts, alu.shifted, alu.product)
        for number, item in enumerate(self.instructions):
            name, selected = f"custom_{item.name.lower()}", getattr(self, f"custom_{number}")
            inputs = {"start": self.start, "left": now, "right": right}
            custom = place(m, platform, name, name, component_of(item), **inputs)
            other = Mux(selected, getattr(custom, "result"), other)  # noqa: B009
        m.d.sync += [
            result.eq(
                Mux(
                    self.adds,
                    Mux(self.just_before, following, total),
                    Mux(self.chooses, alu.chosen, other),
                )
            ),
            *(later.eq(earlier) for earlier, later in pairwise(results)),
        ]
        return m

    def _signed(self, right: Value) -> Value:
        """`right` or, for a subtraction, its ones' complement, to which `_sum` adds 1."""
        return Mux(self.subtracts, ~right, right) if self.has_subtract else right

    def _sum(self, left: Value, addend: Value) -> Value:
        """left + addend, plus 1 as carry for a subtraction."""
        return left + addend + (self.subtracts & self.adds_right) if self.has_subtract else left + addend
