"""Queues of dependence tokens: tokens have no content, so a queue is two counters (hw/README.md section 5)."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from vdla.isa.config import Config

from .counting import counted, will_be_full, will_be_some
from .interfaces import token_bits, token_pop, token_push


class TokenCounter(wiring.Component):
    """One token queue. Members: `push`: the producer's side; `pop`: the consumer's side. An event of cycle t is visible
    in t + 1.
    """

    def __init__(self, *, config: Config) -> None:
        """`config` determines the depth of the token queue."""
        self._config = config
        super().__init__({"push": In(token_push(config)), "pop": In(token_pop())})

    def elaborate(self, platform: object) -> Module:
        """Builds two counters: `tokens`, the number of tokens that can be popped, and `taken`, which also counts places
        reserved for later pushes.

        The outputs to the units are registers. Their next values are computed for each combination of the signals pop
        and reserve; these signals are late in the cycle and only select one of the values.
        """
        m = Module()
        bits = token_bits(self._config)
        depth = self._config.token_queue_depth
        tokens, taken = (Signal(bits, name=name) for name in ("tokens", "taken"))
        available, full = Signal(), Signal()
        m.d.sync += [
            tokens.eq(Mux(self.pop.pop, tokens - 1, tokens) + self.push.push),
            taken.eq(counted(taken, up=self.push.reserve, down=self.pop.pop)),
            available.eq(will_be_some(tokens, up=self.push.push != 0, down=self.pop.pop)),
            full.eq(will_be_full(taken, depth, up=self.push.reserve, down=self.pop.pop)),
        ]
        m.d.comb += [self.pop.available.eq(available), self.push.room.eq(~full)]
        return m
