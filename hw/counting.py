"""Next values of counters whose inputs come late in the cycle: count + 1 and count - 1 are computed first, and the
inputs only select one.
"""

from __future__ import annotations

from amaranth.hdl import Mux, Signal, Value


def counted(count: Signal, *, up: Value, down: Value) -> Value:
    """`count` + `up` - `down` in the width of `count`. `up` and `down` have one bit each and only control a
    multiplexer, so that they do not pass a carry chain.
    """
    bits = len(count)
    return Mux(up == down, count, Mux(up, (count + 1)[:bits], (count - 1)[:bits]))


def will_be_full(count: Signal, limit: int, *, up: Value, down: Value) -> Value:
    """Whether `count` + `up` - `down` equals `limit`. Callers set `up` only while `count` is below `limit`."""
    return ~down & ((count == limit) | ((count == limit - 1) & up))


def will_be_some(count: Signal, *, up: Value, down: Value) -> Value:
    """Whether the next value of `count` is not 0. With `up` the count grows by 1 or more, with `down` it falls by 1;
    callers set `down` only while `count` is above 0.
    """
    return up | (count > 1) | ((count == 1) & ~down)


def following(place: Signal, places: int) -> Value:
    """The index after `place` in a ring buffer of `places` entries: 0 after the last one."""
    return Mux(place == places - 1, 0, place + 1)
