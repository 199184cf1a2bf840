"""Proof about a read client: ReadRequests and its ReadFifo, between an arbiter and the reader of the words."""

from __future__ import annotations

from amaranth.hdl import Mux, Signal
from amaranth.lib import data

from vdla.hw.interfaces import burst_layout
from vdla.isa.config import load_config

from .bench import Bench, implies, tag
from .faults import Fault, Load
from .proof import Proof

CONFIG = load_config("tiny")
WORDS = 4
FIFO_BYTES = WORDS * CONFIG.memory.bus_bytes
REQUESTS, FIFO = "vdla.hw.read_requests", "vdla.hw.read_fifo"


def _bench(load: Load) -> Bench:
    bench = Bench()
    m = bench.m
    requests = bench.add("requests", load(REQUESTS).ReadRequests(config=CONFIG, fifo_bytes=FIFO_BYTES))
    fifo = bench.add("fifo", load(FIFO).ReadFifo(config=CONFIG, fifo_bytes=FIFO_BYTES))
    m.d.comb += requests.release.eq(fifo.release)
    shown = requests.request
    accepted = shown.valid & shown.ready
    taken = fifo.words.valid & fifo.words.ready

    # Words by the bench's own count: asked for and not arrived, in the FIFO, and taken of a burst whose last word is
    # still to be taken. Memory answers what was asked, in any rhythm; where bursts end is left open.
    owed, inside, held = (Signal(8, name=name) for name in ("owed", "inside", "held"))
    m.d.sync += [
        owed.eq(owed + shown.valid * shown.ready * shown.payload.beats - fifo.beat_valid),
        inside.eq(inside + fifo.beat_valid - taken),
    ]
    with m.If(taken):
        m.d.sync += held.eq(held + 1)
        with m.If(fifo.words.payload.last):
            m.d.sync += held.eq(0)
    # The cutter gives bursts of at most half the FIFO, as it is proven to do.
    cutter, most = bench.submodule("requests", "cutter"), WORDS // 2
    bench.assume(
        implies(requests.start, ~requests.active),
        implies(fifo.beat_valid, owed != 0),
        implies(cutter.burst.valid, cutter.burst.payload.beats <= most),
    )

    ended = bench.before(taken & fifo.words.payload.last)
    waits = bench.before(shown.valid & ~shown.ready)
    bench.prove(
        "a request stays until it is accepted",
        implies(waits, shown.valid & bench.same(shown.payload.as_value())),
        cover=waits & accepted,
    )
    bench.prove(
        "a request is shown only with room for all its beats",
        implies(shown.valid, owed + inside + held + shown.payload.beats <= WORDS),
        cover=shown.valid & (owed + inside + held + shown.payload.beats == WORDS) & (held != 0),
    )
    bench.prove(
        "the FIFO never overflows",
        implies(fifo.beat_valid, inside < WORDS) & (inside <= WORDS),
        cover=fifo.beat_valid & (inside == WORDS - 1),
    )
    bench.prove(
        "the FIFO shows every word, two cycles after it came",
        fifo.words.valid == (inside != bench.before(fifo.beat_valid)),
        cover=bench.before(taken) & ~fifo.words.valid,
    )
    bench.prove(
        "room is given back by bursts, in the cycle after their last word is taken",
        fifo.release == ended * bench.before(held + 1),
        cover=fifo.release == 2,
    )
    beat = fifo.words.payload.as_value()
    arriving = Signal.like(beat)
    view = type(fifo.words.payload)(fifo.words.payload.shape(), arriving)
    m.d.comb += [view.data.eq(fifo.beat_data), view.last.eq(fifo.beat_last)]
    item = tag(bench, enters=fifo.beat_valid, data=arriving, leaves=taken, level=inside)
    head = item.inside & (item.ahead == 0)
    bench.prove(
        "words leave in the order in which they arrived, unchanged",
        implies(head & fifo.words.valid, beat == item.data),
        cover=head & taken & (item.data != 0) & bench.before(taken),
    )
    arrived, popped = bench.before(fifo.beat_valid), bench.before(taken)
    asked = bench.inside("requests", "shown") * shown.payload.beats
    given = Signal.like(fifo.release)  # back in the requests' count in the next cycle
    m.d.sync += given.eq(fifo.release)
    first = bench.inside("fifo", "head")
    place = Signal.like(first)
    m.d.comb += place.eq(first + item.ahead)
    count = bench.inside("fifo", "count")
    waiting = bench.inside("requests", "pending")
    following = data.View(burst_layout(CONFIG), bench.inside("requests", "following"))
    bench.invariant(
        bench.inside("requests", "vacant") == ~waiting,
        implies(waiting, following.beats <= most),
        implies(
            waiting, bench.inside("requests", "left") + following.beats == bench.inside("requests", "free")
        ),
        bench.inside("fifo", "following") == (first + 1)[: len(first)],
        bench.inside("requests", "free") + given + fifo.release + asked + owed + inside + held == WORDS,
        bench.inside("requests", "released") == given,
        bench.inside("fifo", "level") + arrived == inside,
        bench.inside("fifo", "valid") == (inside != arrived),
        bench.inside("fifo", "arrived") == arrived,
        bench.inside("fifo", "tail") == (first + inside)[: len(first)],
        bench.inside("fifo", "popped") == popped,
        implies(popped, bench.inside("fifo", "ends") == ended) & implies(ended, popped),
        Mux(ended, held == 0, held == count + popped),
        implies(item.inside, bench.peek("fifo", "memory", place) == item.data),
        implies(head & fifo.words.valid, beat == item.data),
    )
    return bench


PROOF = Proof(
    component="ReadRequests and ReadFifo, 4 words",
    build=_bench,
    depth=1,
    search=14,
    faults=(
        Fault(
            property="a request stays until it is accepted",
            module=REQUESTS,
            before="self.request.valid.eq(shown)",
            after="self.request.valid.eq(shown & (self.release == 0))",
        ),
        Fault(
            property="a request is shown only with room for all its beats",
            module=REQUESTS,
            before="(left >= 0)",
            after="(free != 0)",
        ),
        Fault(
            property="the FIFO never overflows",
            module=REQUESTS,
            before="free.eq(Mux(moves, left, free) + released)",
            after="free.eq(free - moves + released)",
        ),
        Fault(
            property="the FIFO shows every word, two cycles after it came",
            module=FIFO,
            before="Mux(pop, level > 1, valid)",
            after="Mux(pop, level > 2, valid)",
        ),
        Fault(
            property="room is given back by bursts, in the cycle after their last word is taken",
            module=FIFO,
            before="count.eq(Mux(ends, 0, count + 1))",
            after="count.eq(count + 1)",
        ),
        Fault(
            property="words leave in the order in which they arrived, unchanged",
            module=FIFO,
            before="read.addr.eq(Mux(pop, following, head))",
            after="read.addr.eq(head)",
        ),
    ),
)
