"""Copies of a register that drives many pins, one for each group of pins."""

from __future__ import annotations

from amaranth.hdl import Module, Signal, Value

KINDS = 4
"""Number of distinct registers that hold one value; copy number KINDS uses the register of number 0 again."""


def copy(m: Module, value: Value, number: int, name: str) -> Value:
    """`value` of the previous cycle, from the register of copy `number`; every fourth number has the same register.

    Synthesis merges equal registers, whatever their attributes. The copies therefore differ: every second one holds the
    complement, and two of four are ones at power-up, which has no effect, as they have no reset.
    """
    kind = number % KINDS
    ones = (1 << len(value)) - 1
    held = Signal(len(value), name=f"{name}_copy_{kind}", init=ones if kind & 2 else 0, reset_less=True)
    m.d.sync += held.eq(~value if kind & 1 else value)
    return ~held if kind & 1 else held[:]


def copies(m: Module, value: Value, count: int, name: str) -> list[Value]:
    """`copy` for the numbers 0 .. `count` - 1."""
    kinds = [copy(m, value, number, name) for number in range(min(count, KINDS))]
    return [kinds[number % KINDS] for number in range(count)]
