"""Dependence-token queues: tokens carry nothing, so a queue is two counters (hw/README.md section 5)."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from vdla.isa.config import Config

from .interfaces import token_bits, token_pop, token_push


class TokenCounter(wiring.Component):
    """One queue. `push`: the producer's side; `pop`: the consumer's. Both count cycles as the contract does: what
    happens in cycle t shows in t + 1.
    """

    def __init__(self, *, config: Config) -> None:
        """`config` gives the depth."""
        self._config = config
        super().__init__({"push": In(token_push(config)), "pop": In(token_pop())})

    def elaborate(self, platform: object) -> Module:
        """`tokens` can be popped; `taken` also counts the places reserved for tokens to come."""
        m = Module()
        bits = token_bits(self._config)
        tokens, taken = (Signal(bits, name=name) for name in ("tokens", "taken"))
        m.d.sync += [
            tokens.eq(tokens + self.push.push - self.pop.pop),
            taken.eq(taken + self.push.reserve - self.pop.pop),
        ]
        m.d.comb += [
            self.pop.available.eq(tokens != 0),
            self.push.room.eq(taken < self._config.token_queue_depth),
        ]
        return m
