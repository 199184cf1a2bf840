"""Proof about the RTL that starts instructions. It covers the first instruction in a unit's command queue, and the four
counters of tokens: the instruction takes tokens from two of them before it begins, and adds tokens to the other two.
"""

from __future__ import annotations

import dataclasses

from amaranth.hdl import Cat, Signal

from vdla.hw.layouts import instruction_layout, view
from vdla.isa.config import load_config

from .bench import Bench, implies
from .faults import Fault, Load
from .proof import Proof

DEPTH = 2
CONFIG = dataclasses.replace(load_config("tiny"), token_queue_depth=DEPTH)
MODULE = "vdla.hw.issue"


def _bench(load: Load) -> Bench:
    bench = Bench()
    m = bench.m
    dut = bench.add("dut", load(MODULE).Issue(config=CONFIG))
    head = view(instruction_layout(CONFIG, "FINISH"), dut.commands.payload)
    valid, begin = dut.commands.valid, dut.begin
    # A command queue keeps its head until the unit takes it.
    waits = bench.before(valid & ~dut.commands.ready)
    bench.assume(implies(waits, valid & bench.same(dut.commands.payload)))
    pops_right, pops_once, pushes_right, complete, filled = [], [], [], [], []
    for side in ("prev", "next"):
        popped = bench.add(f"popped_{side}", load("vdla.hw.tokens").TokenCounter(config=CONFIG))
        pushed = bench.add(f"pushed_{side}", load("vdla.hw.tokens").TokenCounter(config=CONFIG))
        pop, reserve = getattr(dut, f"pop_{side}"), getattr(dut, f"reserve_{side}")
        m.d.comb += [
            popped.pop.pop.eq(pop.pop),
            pop.available.eq(popped.pop.available),
            getattr(dut, f"room_{side}").eq(pushed.push.room),
            pushed.push.reserve.eq(reserve),
        ]
        # By the bench's own count: tokens there and to come in the one queue; taken and owed in the other.
        tokens, promised, taken, owed = (
            Signal(8, name=f"{name}_{side}") for name in ("tokens", "promised", "taken", "owed")
        )
        m.d.sync += [
            tokens.eq(tokens + popped.push.push - pop.pop),
            promised.eq(promised + popped.push.reserve - popped.push.push),
            taken.eq(taken + reserve - pushed.pop.pop),
            owed.eq(owed + reserve - pushed.push.push),
        ]
        # The producer of the one, the unit itself and the consumer of the other keep TokenCounter's rules.
        bench.assume(
            implies(popped.push.reserve, popped.push.room),
            popped.push.push <= promised,
            pushed.push.push <= owed,
            implies(pushed.pop.pop, pushed.pop.available),
        )
        got = Signal(name=f"got_{side}")  # the head instruction has popped in an earlier cycle
        m.d.sync += got.eq((got | pop.pop) & ~begin)
        pops, pushes = head[f"pop_{side}"], head[f"push_{side}"]
        pops_right.append(implies(begin, (got | (pop.pop & (tokens != 0))) == pops))
        pops_once.append(implies(pop.pop, valid & pops & ~got & (tokens != 0)))
        pushes_right.append(
            (reserve == (begin & pushes)) & implies(reserve, taken < DEPTH) & (taken <= DEPTH)
        )
        complete.append((~pops | got | (tokens != 0)) & (~pushes | (taken < DEPTH)))
        filled.append(reserve & (taken == DEPTH - 1))
        bench.invariant(
            bench.inside(f"popped_{side}", "tokens") == tokens,
            bench.inside(f"popped_{side}", "taken") == tokens + promised,
            bench.inside(f"pushed_{side}", "taken") == taken,
            bench.inside(f"pushed_{side}", "tokens") == taken - owed,
            bench.inside(f"popped_{side}", "available") == (tokens != 0),
            bench.inside(f"popped_{side}", "full") == (tokens + promised == DEPTH),
            bench.inside(f"pushed_{side}", "available") == (taken != owed),
            bench.inside(f"pushed_{side}", "full") == (taken == DEPTH),
            tokens + promised <= DEPTH,
            owed <= taken,
            bench.inside("dut", f"pop_{side}_done") == got,
            implies(got, bench.before(valid & pops)),
            # What let an instruction begin still holds when it does.
            implies(begin, valid & (got == pops) & (~pushes | (taken < DEPTH))),
        )
    early = bench.before(bench.inside("dut", "pop_prev_done") & dut.pop_next.pop) & begin
    bench.prove("no instruction begins without its tokens", Cat(pops_right).all(), cover=early)
    bench.prove("each pop takes one token, once", Cat(pops_once).all(), cover=dut.pop_prev.pop & ~begin)
    bench.prove(
        "a place is reserved for each push, while there is room",
        Cat(pushes_right).all(),
        cover=Cat(filled).all(),
    )
    bench.prove(
        "it begins in the cycle after the first in which nothing is missing",
        begin == bench.before(valid & Cat(complete).all() & dut.condition & ~begin),
        cover=begin & ~bench.before(waits),
    )
    return bench


PROOF = Proof(
    component="Issue with four TokenCounters, depth 2",
    build=_bench,
    depth=2,
    search=10,
    faults=(
        Fault(
            property="no instruction begins without its tokens",
            module=MODULE,
            before="lacks.eq(needs & ~port.available)",
            after="lacks.eq(needs & ~port.available & ~self.condition)",
        ),
        Fault(
            property="each pop takes one token, once",
            module=MODULE,
            before="head[name] & ~done\n",
            after="head[name]\n",
        ),
        Fault(
            property="a place is reserved for each push, while there is room",
            module=MODULE,
            before='full_next = head["push_next"] & ~self.room_next',
            after='full_next = head["push_next"] & ~self.room_prev',
        ),
        Fault(
            property="it begins in the cycle after the first in which nothing is missing",
            module=MODULE,
            before="ready = ~missing[0] & ~missing[1] & ~full_prev & ~full_next",
            after="ready = ~missing[0] & ~missing[1] & self.room_prev & ~full_next",
        ),
    ),
)
