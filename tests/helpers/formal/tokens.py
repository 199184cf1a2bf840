"""Token counters."""

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
        bench.inside("dut", "tokens") == tokens, bench.inside("dut", "taken") == tokens + reserved
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
            before="self.pop.available.eq(tokens != 0)",
            after="self.pop.available.eq(taken != 0)",
        ),
        Fault(
            property="tokens and reservations never exceed the depth",
            module=MODULE,
            before="taken < self._config.token_queue_depth",
            after="taken <= self._config.token_queue_depth",
        ),
        Fault(
            property="available and room say what the counts are",
            module=MODULE,
            before="tokens.eq(tokens + self.push.push - self.pop.pop)",
            after="tokens.eq(tokens + (self.push.push != 0) - self.pop.pop)",
        ),
    ),
)
