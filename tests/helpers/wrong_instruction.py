"""A custom instruction whose hardware differs from its semantics: a test of the tests."""

from __future__ import annotations

from dataclasses import replace

from amaranth.hdl import Module, Signal, signed
from own_instruction import XOR, XorLane


class ForgetfulLane(XorLane):
    """An XOR that reads its first operand a cycle after `start`, when the operand of another operation may be there."""

    def elaborate(self, platform: object) -> Module:
        """Returns the circuit: the XOR in a register without enable, which therefore changes in every cycle."""
        m = Module()
        held = Signal(signed(32))
        m.d.sync += held.eq(self.left ^ self.right)
        m.d.comb += self.result.eq(held)
        return m


FORGETFUL = replace(XOR, name="FORGETFUL", rtl=ForgetfulLane, cycles=3)
