"""Proof about the operand FIFO and its requests: it gets bus words and delivers vectors."""

from __future__ import annotations

import dataclasses

from amaranth.hdl import Array, Signal, Value
from amaranth.lib.data import View

from vdla.hw.interfaces import burst_layout
from vdla.isa.config import Config, load_config

from .bench import Bench, implies, tag
from .faults import Fault, Load
from .proof import Proof

WORDS = 4
TINY = load_config("tiny")
BUS = TINY.memory.bus_bytes
NARROW = dataclasses.replace(TINY, operand_fifo_bytes=WORDS * BUS)
"""A configuration in which a bus word holds two vectors."""

WIDE = dataclasses.replace(NARROW, block_in=16, block_out=16)
"""A configuration in which a vector takes two bus words."""

MODULE = "vdla.hw.store.operand_fifo"
REQUESTS = "vdla.hw.read_requests"


def _narrow(load: Load) -> Bench:
    return _bench(NARROW, load)


def _wide(load: Load) -> Bench:
    return _bench(WIDE, load)


def _bench(config: Config, load: Load) -> Bench:
    bench = Bench()
    m = bench.m
    fifo_bytes = config.fifo_bytes("operand")
    requests = bench.add("requests", load(REQUESTS).ReadRequests(config=config, fifo_bytes=fifo_bytes))
    dut = bench.add("dut", load(MODULE).OperandFifo(config=config))
    m.d.comb += requests.release.eq(dut.release)
    banks, places = max(1, config.out_bytes // BUS), max(1, BUS // config.out_bytes)
    shown, words = requests.request, dut.words
    taken = words.valid & words.ready

    # Which of its places in the head word a vector has; how many words leave in this cycle.
    place, row = Signal(range(places)), Signal(range(places))
    with m.If(dut.start):
        m.d.sync += [place.eq(dut.offset), row.eq(dut.offset)]
    with m.Elif(dut.take):
        m.d.sync += place.eq(place + 1)
        with m.If(dut.run_ends):
            m.d.sync += [place.eq(row + dut.pitch), row.eq(row + dut.pitch)]
    leaves = Signal(3)
    m.d.comb += leaves.eq(taken)
    with m.If(dut.take):
        m.d.comb += leaves.eq(banks if banks > 1 else (place == places - 1) | dut.run_ends)

    # Words by the bench's own count, as in the read client's proof.
    owed, inside, held, arrived, left = (
        Signal(8, name=name) for name in ("owed", "inside", "held", "arrived", "left")
    )
    last_leaves = Signal()
    cutter = bench.submodule("requests", "cutter")
    m.d.sync += [
        owed.eq(owed + shown.valid * shown.ready * shown.payload.beats - dut.beat_valid),
        inside.eq(inside + dut.beat_valid - leaves),
        held.eq(held + leaves),
        arrived.eq(arrived + dut.beat_valid),
        left.eq(left + leaves),
    ]
    with m.If(last_leaves):
        m.d.sync += held.eq(0)
    bench.assume(
        implies(requests.start, ~requests.active),
        implies(dut.beat_valid, owed != 0),
        # The cutter gives bursts of at most half the FIFO, as it is proven to do.
        implies(cutter.burst.valid, cutter.burst.payload.beats <= WORDS // 2),
        # Words or vectors; vectors are whole, and bursts end with one.
        ~(dut.take & words.ready),
        implies(dut.take, dut.vector_valid & (left[: banks.bit_length() - 1] == 0)),
        implies(dut.beat_valid & dut.beat_last, (arrived + 1)[: banks.bit_length() - 1] == 0),
    )

    bench.prove(
        "the FIFO never overflows",
        implies(dut.beat_valid, inside < WORDS) & (inside <= WORDS),
        cover=dut.beat_valid & (inside == WORDS - 1),
    )
    bench.prove(
        "it shows a word or a vector if and only if all of it is there",
        (words.valid == (inside != 0)) & (dut.vector_valid == (inside >= banks)) & (leaves <= inside),
        cover=bench.before(dut.take & words.valid) & ~words.valid,
    )
    arriving = Signal(8 * BUS + 1)
    m.d.comb += arriving.eq(dut.beat_data | dut.beat_last << 8 * BUS)
    item = tag(bench, enters=dut.beat_valid, data=arriving, leaves=leaves, level=inside)
    here = item.inside & (item.ahead == 0)
    data = item.data[: 8 * BUS]
    if banks > 1:
        # The tagged word is one of those of the vector.
        mine = item.inside & (item.ahead < banks)
        vector_right = implies(
            mine & dut.take, dut.vector.word_select(item.ahead[: banks.bit_length() - 1], 8 * BUS) == data
        )
        ends = item.inside & (leaves != 0) & (item.ahead + 1 == leaves)
    else:
        vector = data.word_select(place, 8 * config.out_bytes)
        vector_right = implies(here & dut.take, dut.vector == vector)
        ends = here & (leaves != 0)
    bench.prove(
        "words and vectors leave in the order in which they arrived, unchanged",
        implies(here & words.valid, words.payload.as_value() == item.data) & vector_right,
        cover=here & dut.take & (data != 0) & bench.before(taken),
    )
    bench.prove(
        "room is given back by bursts, when their last word is taken",
        implies(ends, dut.release == item.data[-1] * (held + leaves))
        & implies(leaves == 0, dut.release == 0),
        cover=ends & (dut.release == 2) & dut.take,
    )
    m.d.comb += last_leaves.eq(dut.release != 0)
    first = bench.inside("dut", "first_used")
    index = Signal(range(WORDS))
    m.d.comb += index.eq(first + item.ahead)
    waiting = bench.inside("requests", "pending")
    following = View(burst_layout(config), bench.inside("requests", "following"))
    bench.invariant(
        bench.inside("requests", "vacant") == ~waiting,
        implies(waiting, following.beats <= WORDS // 2),
        implies(
            waiting, bench.inside("requests", "left") + following.beats == bench.inside("requests", "free")
        ),
        bench.inside("dut", "level") == inside,
        bench.inside("dut", "complete") == (inside >= banks),
        bench.inside("dut", "popped") == held,
        bench.inside("dut", "first_free") == (first + inside)[: len(first)],
        first == left[: len(first)],
        (left + inside)[: len(left)] == arrived,
        bench.inside("requests", "free")
        + bench.inside("requests", "released")
        + bench.inside("requests", "shown") * shown.payload.beats
        + owed
        + inside
        + held
        == WORDS,
        implies(item.inside, _entry(bench, banks, index) == item.data),
    )
    if banks == 1:
        bench.invariant(bench.inside("dut", "offset") == place, bench.inside("dut", "row") == row)
    return bench


def _entry(bench: Bench, banks: int, index: Value) -> Value:
    bits = banks.bit_length() - 1
    words = [bench.peek("dut", f"bank_{bank}", index[bits:]) for bank in range(banks)]
    return Array(words)[index[:bits]] if banks > 1 else words[0]


NARROW_PROOF = Proof(
    component="OperandFifo, 4 words, 2 vectors in a word",
    build=_narrow,
    depth=1,
    search=14,
    faults=(
        Fault(
            property="the FIFO never overflows",
            module=REQUESTS,
            before="(left >= 0)",
            after="(free != 0)",
        ),
        Fault(
            property="it shows a word or a vector if and only if all of it is there",
            module=MODULE,
            before="level.eq(level + self.beat_valid - pop)",
            after="level.eq(level + self.beat_valid - (pop & ~self.beat_valid))",
        ),
        Fault(
            property="words and vectors leave in the order in which they arrived, unchanged",
            module=MODULE,
            before="word_ends = (offset == self._places - 1) | self.run_ends",
            after="word_ends = offset == self._places - 1",
        ),
        Fault(
            property="room is given back by bursts, when their last word is taken",
            module=MODULE,
            before="last.eq(here.last)]",
            after="last.eq(here.last & ~self.take)]",
        ),
    ),
)

WIDE_PROOF = Proof(
    component="OperandFifo, 4 words, a vector in 2 words",
    build=_wide,
    depth=1,
    search=14,
    faults=(
        Fault(
            property="it shows a word or a vector if and only if all of it is there",
            module=MODULE,
            before="Mux(pop_word, grown > self._banks, enough)",
            after="enough",
        ),
        Fault(
            property="words and vectors leave in the order in which they arrived, unchanged",
            module=MODULE,
            before="read.addr.eq(head[bank_bits:]),",
            after="read.addr.eq(tail[bank_bits:]),",
        ),
        Fault(
            property="room is given back by bursts, when their last word is taken",
            module=MODULE,
            before="last.eq(Mux(self.take, reads[-1].last, here.last))",
            after="last.eq(here.last)",
        ),
    ),
)
