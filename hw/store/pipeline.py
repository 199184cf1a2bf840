"""Registers of a pipeline's data: no reset, so that synthesis may put delays into shift registers."""

from amaranth.hdl import Module, Signal, Value


def register(m: Module, value: Value, name: str) -> Signal:
    """`value` of the cycle before, in its own shape."""
    return delay(m, value, 1, name)


def delay(m: Module, value: Value, cycles: int, name: str) -> Signal:
    """`value` of `cycles` (1 or more) cycles before, in its own shape."""
    shape = value.shape()
    for cycle in range(cycles):
        suffix = "" if cycle == cycles - 1 else f"_{cycle}"
        late = Signal(shape, name=f"{name}{suffix}", reset_less=True)
        m.d.sync += late.eq(value)
        value = late
    return value
