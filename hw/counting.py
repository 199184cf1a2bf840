"""Counting up and down by late signals: both neighbours of the count are formed beforehand."""

from __future__ import annotations

from amaranth.hdl import Mux, Signal, Value


def counted(count: Signal, *, up: Value, down: Value) -> Value:
    """`count` + `up` - `down`, both one bit, in the width of `count`; they meet a multiplexer and no carry chain."""
    bits = len(count)
    return Mux(up == down, count, Mux(up, (count + 1)[:bits], (count - 1)[:bits]))


def will_be_full(count: Signal, limit: int, *, up: Value, down: Value) -> Value:
    """Whether `counted` is `limit`, which `count` never exceeds."""
    return ~down & ((count == limit) | ((count == limit - 1) & up))


def will_be_some(count: Signal, *, up: Value, down: Value) -> Value:
    """Whether `counted` is not zero, of a `count` that never goes below; `up` may stand for more than one."""
    return up | (count > 1) | ((count == 1) & ~down)


def following(place: Signal, places: int) -> Value:
    """The place behind `place` in a ring of `places`."""
    return Mux(place == places - 1, 0, place + 1)
