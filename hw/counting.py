"""Counters with late inputs: count + 1 and count - 1 are computed in advance."""

from __future__ import annotations

from amaranth.hdl import Mux, Signal, Value


def counted(count: Signal, *, up: Value, down: Value) -> Value:
    """`count` + `up` - `down` (one bit each) in the width of `count`; `up` and `down` pass a multiplexer, no carry
    chain.
    """
    bits = len(count)
    return Mux(up == down, count, Mux(up, (count + 1)[:bits], (count - 1)[:bits]))


def will_be_full(count: Signal, limit: int, *, up: Value, down: Value) -> Value:
    """Whether `counted` is `limit`, which `count` never exceeds."""
    return ~down & ((count == limit) | ((count == limit - 1) & up))


def will_be_some(count: Signal, *, up: Value, down: Value) -> Value:
    """Whether `counted` is not zero, for a `count` that never falls below zero; `up` may stand for an increment above
    one.
    """
    return up | (count > 1) | ((count == 1) & ~down)


def following(place: Signal, places: int) -> Value:
    """The place after `place` in a ring of `places`."""
    return Mux(place == places - 1, 0, place + 1)
