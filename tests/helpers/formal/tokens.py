"""Proof about token counters."""

from __future__ import annotations

import dataclasses

from amaranth.hdl import Signal

from vdla.isa.config import load_config

from .bench import Bench, implies
from .faults import Fault, Load
from .proof import Proof

DEPTH = 3
CONFIG = dataclasses.replace(load_config("tiny"), token_queue_depth=DEPTH)
MODULE = "vdla.hw.tokens"


def _bench(load: Load) -> Bench:
    bench = Bench()
    m = bench.m
    dut = bench.add("dut", load(MODULE).TokenCounter(config=CONFIG))
    push, pop = dut.push, dut.pop
    tokens, reserved = Signal(8), Signal(8)  # wide enough to show a count below zero as a large one
    m.d.sync += [
        tokens.eq(tokens + push.push - pop.pop),
        reserved.eq(reserved + push.reserve - push.push),
    ]
    bench.assume(implies(pop.pop, pop.available), implies(push.reserve, push.room), push.push <= reserved)
    bench.prove("a pop finds a token", implies(pop.pop, tokens != 0), cover=pop.pop & (push.push == 2))
    bench.prove(
        "tokens and reservations never exceed the depth",
        tokens + reserved <= DEPTH,
        cover=(tokens + reserved == DEPTH) & pop.pop,
    )
    bench.prove(
        "available and room say what the counts are",
        (pop.available == (tokens != 0)) & (push.room == (tokens + reserved < DEPTH)),
        cover=pop.available & ~push.room,
    )
    bench.invariant(
        bench.inside("dut", "tokens") == tokens,
        bench.inside("dut", "taken") == tokens + reserved,
        bench.inside("dut", "available") == (tokens != 0),
        bench.inside("dut", "full") == (tokens + reserved == DEPTH),
    )
    return bench


PROOF = Proof(
    component="TokenCounter, depth 3",
    build=_bench,
    depth=1,
    search=8,
    faults=(
        Fault(
            property="a pop finds a token",
            module=MODULE,
            before="will_be_some(tokens, up=self.push.push != 0, down=self.pop.pop)",
            after="(self.push.push != 0) | (tokens != 0)",
        ),
        Fault(
            property="tokens and reservations never exceed the depth",
            module=MODULE,
            before="will_be_full(taken, depth, up=self.push.reserve, down=self.pop.pop)",
            after="~self.pop.pop & (taken == depth)",
        ),
        Fault(
            property="available and room say what the counts are",
            module=MODULE,
            before="Mux(self.pop.pop, tokens - 1, tokens) + self.push.push",
            after="Mux(self.pop.pop, tokens - 1, tokens) + (self.push.push != 0)",
        ),
    ),
)
