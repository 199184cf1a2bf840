"""Registers for data in a pipeline; they have no reset, so that synthesis may map delays to shift registers."""

from amaranth.hdl import Module, Signal, Value


def register(m: Module, value: Value, name: str) -> Signal:
    """A register with the `value` of the previous cycle, of the same shape."""
    return delay(m, value, 1, name)


def delay(m: Module, value: Value, cycles: int, name: str) -> Signal:
    """A register with the `value` of `cycles` (1 or more) cycles ago, of the same shape."""
    shape = value.shape()
    for cycle in range(cycles):
        suffix = "" if cycle == cycles - 1 else f"_{cycle}"
        late = Signal(shape, name=f"{name}{suffix}", reset_less=True)
        m.d.sync += late.eq(value)
        value = late
    return value
