"""Proof about a command queue."""

from __future__ import annotations

import dataclasses

from amaranth.hdl import Mux, Signal

from vdla.isa.config import load_config

from .bench import Bench, around, implies, tag
from .faults import Fault, Load
from .proof import Proof

DEPTH = 3
CONFIG = dataclasses.replace(load_config("tiny"), command_queue_depth=DEPTH)
MODULE = "vdla.hw.command_queue"


def _bench(load: Load) -> Bench:
    bench = Bench()
    m = bench.m
    dut = bench.add("dut", load(MODULE).CommandQueue(config=CONFIG))
    inside = Signal(8)
    pop = dut.head.valid & dut.head.ready
    m.d.sync += inside.eq(inside + dut.push - pop)
    bench.assume(implies(dut.push, ~dut.full))
    bench.prove("the queue never overflows", inside <= DEPTH, cover=(inside == DEPTH) & pop)
    bench.prove(
        "it says whether it is full, and shows an instruction if it has one",
        (dut.full == (inside == DEPTH)) & (dut.head.valid == (inside != 0)),
        cover=dut.head.valid & bench.before(~dut.head.valid),
    )
    item = tag(bench, enters=dut.push, data=dut.instruction, leaves=pop, level=inside)
    bench.prove(
        "instructions leave in the order in which they came, unchanged",
        implies(item.inside & (item.ahead == 0), dut.head.payload == item.data),
        cover=item.inside & (item.ahead == 0) & pop & bench.before(pop) & bench.before(bench.before(pop)),
    )
    behind, newest, oldest = (bench.inside("dut", name) for name in ("behind", "newest", "oldest"))
    word = bench.peek("dut", "ring", around(oldest + item.ahead - 1, DEPTH))
    bench.invariant(
        behind + dut.head.valid == inside,
        implies(behind != 0, dut.head.valid),
        bench.inside("dut", "waiting") == (behind != 0),
        bench.inside("dut", "level") == inside,
        (newest < DEPTH) & (oldest < DEPTH) & (newest == around(oldest + behind, DEPTH)),
        implies(item.inside, Mux(item.ahead == 0, dut.head.payload, word) == item.data),
    )
    return bench


PROOF = Proof(
    component="CommandQueue, 3 places",
    build=_bench,
    depth=1,
    search=12,
    faults=(
        Fault(
            property="the queue never overflows",
            module=MODULE,
            before="self.fills.eq(~pop & (self.full | (self.push & (level == depth - 1))))",
            after="self.fills.eq(~pop & (self.full | (self.push & (level == depth))))",
        ),
        Fault(
            property="it says whether it is full, and shows an instruction if it has one",
            module=MODULE,
            before="Mux(moved, behind > 1, waiting)",
            after="(waiting & ~moved)",
        ),
        Fault(
            property="instructions leave in the order in which they came, unchanged",
            module=MODULE,
            before="stored.eq(self.push & ~(free & ~waiting))",
            after="stored.eq(self.push & ~free)",
        ),
    ),
)
