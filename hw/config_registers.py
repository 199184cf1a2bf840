"""The configuration registers of a unit, which its CONFIG instructions write."""

from __future__ import annotations

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data

from vdla.isa.registers import register

from .layouts import REGISTER_BITS


def config_registers(
    m: Module, names: tuple[str, ...], begun: Value, setting: data.View
) -> dict[str, Signal]:
    """Adds the registers `names` to `m`; returns them by name. `setting`: the head instruction, viewed as a CONFIG.
    `begun`: a CONFIG began in the previous cycle.

    A register changes in the second cycle after its CONFIG began, because `begun` passes a register first. So an
    instruction that begins in the cycle after a CONFIG must not read the register.
    """
    index = Signal.like(setting["register"], reset_less=True)
    value = Signal(REGISTER_BITS, name="setting", reset_less=True)
    m.d.sync += [index.eq(setting["register"]), value.eq(setting["value"])]
    registers = {name: Signal(REGISTER_BITS, name=name.lower()) for name in names}
    for name, bits in registers.items():
        with m.If(begun & (index == register(name).index)):
            m.d.sync += bits.eq(value)
    return registers
