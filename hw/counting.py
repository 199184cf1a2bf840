"""Counting up and down by late signals: both neighbours of the count are formed beforehand."""

from __future__ import annotations

from amaranth.hdl import Mux, Signal, Value


def counted(count: Signal, *, up: Value, down: Value) -> Value:
    """`count` + `up` - `down`, both one bit, in the width of `count`; they meet a multiplexer and no carry chain."""
    bits = len(count)
    return Mux(up == down, count, Mux(up, (count + 1)[:bits], (count - 1)[:bits]))
