"""Copies of a register that drives many pins, each copy for a group of the pins."""

from __future__ import annotations

from amaranth.hdl import Module, Signal, Value

KINDS = 4
"""Largest number of registers with the same value; group number n of the pins is driven by register n modulo KINDS."""


def copy(m: Module, value: Value, number: int, name: str) -> Value:
    """The `value` of the previous cycle, from copy `number` of a register called `name`. There are only KINDS
    registers: the copy is register `number` modulo KINDS.

    Synthesis merges equal registers, whatever their attributes. So the registers differ: two of the four store the
    complement, and two of the four are 1 at power-up. The values at power-up have no effect, since the registers have
    no reset.
    """
    kind = number % KINDS
    ones = (1 << len(value)) - 1
    held = Signal(len(value), name=f"{name}_copy_{kind}", init=ones if kind & 2 else 0, reset_less=True)
    m.d.sync += held.eq(~value if kind & 1 else value)
    return ~held if kind & 1 else held[:]


def copies(m: Module, value: Value, count: int, name: str) -> list[Value]:
    """Returns `count` signals that all have the `value` of the previous cycle, so that each can drive some of many
    pins. At most KINDS registers drive the signals in turn (see `copy`).
    """
    kinds = [copy(m, value, number, name) for number in range(min(count, KINDS))]
    return [kinds[number % KINDS] for number in range(count)]
