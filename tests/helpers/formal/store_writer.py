"""Proof about the store unit's writer: its FIFO, the addresses of its bursts, and their data."""

from __future__ import annotations

import dataclasses

from amaranth.hdl import Array, Cat, Const, Mux, Signal, Value
from amaranth.lib import data

from vdla.hw.interfaces import burst_layout
from vdla.isa.config import Config, load_config
from vdla.isa.timing import write_burst_beats

from .bench import Bench, implies, tag
from .faults import Fault, Load
from .proof import Proof

TINY = load_config("tiny")
BUS = TINY.memory.bus_bytes
SHIFT = BUS.bit_length() - 1
MEMORY = dataclasses.replace(TINY.memory, outstanding_writes=1)
NARROW = dataclasses.replace(TINY, memory=MEMORY, store_fifo_bytes=4 * BUS)
"""A configuration with a store FIFO of 8 vectors, two in a bus word, and bursts of at most 2 beats."""

WIDE = dataclasses.replace(NARROW, block_in=16, block_out=16, store_fifo_bytes=8 * BUS)
"""A configuration with a store FIFO of 4 vectors of two bus words each, and bursts of at most 4 beats."""

MODULE = "vdla.hw.store.writer"


def _narrow(load: Load) -> Bench:
    return _bench(NARROW, load)


def _wide(load: Load) -> Bench:
    return _bench(WIDE, load)


def _bench(config: Config, load: Load) -> Bench:
    bench = Bench()
    m = bench.m
    dut = bench.add("dut", load(MODULE).Writer(config=config))
    capacity = config.fifo_bytes("store") // config.out_bytes
    vector_shift = config.out_bytes.bit_length() - 1
    limit = config.memory.outstanding_writes
    request, beat, burst = dut.write.request, dut.write.beat, dut.write.request.payload
    waits = bench.before(request.valid & ~request.ready)
    accepted, new = request.valid & request.ready, request.valid & ~waits
    moved = beat.valid & beat.ready
    vectors = (burst.bytes >> vector_shift)[:4]

    # By the bench's own count: places reserved and vectors inside; vectors that no accepted address has claimed;
    # bursts accepted and not answered, and those among them whose data has moved. The oldest bursts that have been
    # shown and whose data has not all moved, with what has moved of the first.
    reserved, inside, unclaimed, unanswered, finished = (
        Signal(8, name=name) for name in ("reserved", "inside", "unclaimed", "unanswered", "finished")
    )
    shown, sent = Signal(range(limit + 2)), Signal(8)
    entries = [
        {name: Signal(10, name=f"{name}_{index}") for name in ("offset", "beats", "bytes")}
        for index in range(limit + 1)
    ]
    first = entries[0]
    last = sent + 1 == first["beats"]
    # Bytes first .. end of this beat, counted from the burst's first bus word, are the burst's.
    begin, end = first["offset"], first["offset"] + first["bytes"]
    lanes = Cat(*(((sent << SHIFT) + lane >= begin) & ((sent << SHIFT) + lane < end) for lane in range(BUS)))
    leaves = Signal(range(BUS + 1))  # vectors that end with this beat, if it moves
    if config.out_bytes < BUS:
        m.d.comb += leaves.eq(moved * sum(lanes[:: config.out_bytes]))
    else:
        m.d.comb += leaves.eq(moved & (((sent + 1) << SHIFT)[:vector_shift] == 0))
    m.d.sync += [
        reserved.eq(reserved + dut.reserve - dut.put),
        inside.eq(inside + dut.put - leaves),
        unclaimed.eq(unclaimed + dut.put - Mux(new, vectors, 0)),
        unanswered.eq(unanswered + accepted - dut.write.response),
        finished.eq(finished + (moved & last) - dut.write.response),
    ]
    pops = moved & last
    with m.If(moved):
        m.d.sync += sent.eq(Mux(last, 0, sent + 1))
    arriving = {"offset": burst.address[:SHIFT], "beats": burst.beats, "bytes": burst.bytes}
    for index, entry in enumerate(entries):
        with m.If(new & (shown == index + pops)):
            m.d.sync += [entry[name].eq(value) for name, value in arriving.items()]
        if index < limit:
            with m.Elif(pops):
                m.d.sync += [entry[name].eq(value) for name, value in entries[index + 1].items()]
    m.d.sync += shown.eq(shown + new - pops)

    # The cutter gives whole vectors, and beats that fit, as it is proven to do for runs of whole vectors. It gets the
    # runs of a store once it has cut those of the one before; the store unit reserves before it puts. The memory port
    # keeps to its limit, and a response comes after address and data.
    cutter = bench.submodule("dut", "cutter")
    pending, showing = bench.inside("dut", "pending"), bench.inside("dut", "shown")
    # Whether the burst at the cutter, the next, the one that shows and the one that waits for its response are the
    # last ones of their stores, by the bench's own count.
    shows_last, waits_last = Signal(), Signal()
    next_last = Signal()
    moves, takes = bench.inside("dut", "moves"), cutter.burst.valid & cutter.burst.ready
    with m.If(takes):
        m.d.sync += next_last.eq(cutter.ends)
    with m.If(moves):
        m.d.sync += shows_last.eq(next_last)
    with m.If(accepted):
        m.d.sync += waits_last.eq(shows_last)
    bench.assume(
        implies(cutter.burst.valid, _legal(config, cutter.burst.payload)),
        implies(dut.start, dut.ready),
        implies(dut.reserve, dut.room),
        implies(dut.put, reserved != 0),
        implies(request.ready, unanswered < limit),
        implies(dut.write.response, (unanswered != 0) & (finished != 0)),
    )

    bench.prove("the FIFO never overflows", reserved + inside <= capacity, cover=(inside == capacity) & moved)
    bench.prove(
        "an address is shown once all its vectors have been put",
        implies(new, vectors <= unclaimed),
        cover=new & (vectors == unclaimed) & (vectors == capacity // 2),
    )
    bench.prove(
        "an address stays until it is accepted",
        implies(waits, request.valid & bench.same(burst.as_value())),
        cover=waits & accepted & dut.put,
    )
    waits_w = bench.before(beat.valid & ~beat.ready)
    bench.prove(
        "data stays until it is accepted",
        implies(
            waits_w,
            beat.valid & bench.same(beat.payload.as_value()),
        ),
        cover=waits_w & moved & dut.put,
    )
    bench.prove(
        "no data is shown before its address, and none before it was put",
        implies(beat.valid, (shown != 0) & (inside >= Mux(config.out_bytes < BUS, leaves, 1))),
        cover=pops & waits,
    )
    bench.prove(
        "last marks exactly the last beat of the burst",
        implies(beat.valid, beat.payload.last == last),
        cover=pops & (sent == write_burst_beats(config) - 1),
    )
    bench.prove(
        "the strobes are the bytes of the burst",
        implies(beat.valid, beat.payload.strobe == lanes),
        cover=moved & (beat.payload.strobe != (1 << BUS) - 1)
        if config.out_bytes < BUS
        else pops & (sent == 1),
    )
    bench.prove(
        "the queue of bursts never overflows",
        implies(new, shown <= limit),
        cover=new & (shown == limit),
    )
    item = tag(bench, enters=dut.put, data=dut.vector, leaves=leaves, level=inside)
    here = Signal()
    if config.out_bytes < BUS:
        place = (first["offset"] >> vector_shift) * (sent == 0) + item.ahead
        now = item.inside & moved & (item.ahead < leaves)
        m.d.comb += here.eq(beat.payload.data.word_select(place[:1], 8 * config.out_bytes) == item.data)
    else:
        now = item.inside & moved & (item.ahead == 0)
        part = sent[: vector_shift - SHIFT]
        m.d.comb += here.eq(beat.payload.data == item.data.word_select(part, 8 * BUS))
    bench.prove(
        "vectors leave in the order in which they came, unchanged",
        implies(now, here),
        cover=now & pops & (item.data != 0) & bench.before(moved),
    )
    bench.prove(
        "done comes with the last response of a store",
        dut.done == (dut.write.response & waits_last),
        cover=dut.done & bench.before(bench.before(pops)),
    )
    # Why all that follows from itself: how the counts hang together, and what the writer's registers are.
    queue = bench.fifo("dut", "bursts", depth=limit + 1)
    gone = Signal(8)  # vectors of the first burst that have moved
    if config.out_bytes < BUS:
        m.d.comb += gone.eq(Mux(sent == 0, 0, ((sent << SHIFT) - first["offset"]) >> vector_shift))
        bench.invariant(bench.inside("dut", "sent") == gone)
    else:
        m.d.comb += gone.eq((sent << SHIFT) >> vector_shift)
        bench.invariant(bench.inside("dut", "part") == sent[: vector_shift - SHIFT])
    listed: Value = sum(
        (Mux(shown > index, entry["bytes"] >> vector_shift, 0) for index, entry in enumerate(entries)),
        Const(0),
    )
    for index, entry in enumerate(entries):
        beats = entry["beats"][:7]
        packed = Cat(
            entry["offset"][:SHIFT],
            beats,
            beats == 1,
            beats == 2,
            (entry["bytes"] >> vector_shift)[: len(gone)],
        )
        word = queue.entry(index)
        bench.invariant(
            implies(
                shown > index,
                (word == packed[: len(word)])
                & (entry["beats"] == (entry["offset"] + entry["bytes"] + (BUS - 1)) >> SHIFT)
                & (entry["offset"] < BUS)
                & (entry["offset"][:vector_shift] == 0)
                & (entry["bytes"][:vector_shift] == 0)
                & (entry["bytes"] != 0)
                & (entry["beats"] <= write_burst_beats(config)),
            )
        )
    used = bench.inside("dut", "first_used")
    index = Signal.like(used)
    m.d.comb += index.eq(used + item.ahead)
    next_burst = data.View(burst_layout(config), bench.inside("dut", "burst@elaborate"))
    bench.invariant(
        showing == request.valid,
        implies(
            pending,
            _legal(config, next_burst) & (bench.inside("dut", "claimed") == next_burst.bytes >> vector_shift),
        ),
        implies(showing, _legal(config, burst) & (bench.inside("dut", "shown_vectors") == vectors)),
        implies(waits, showing),
        implies(new, vectors <= unclaimed),
        queue.level == shown,
        bench.inside("dut", "is_first") == (sent == 0),
        implies(sent != 0, bench.inside("dut", "beats_left") == (first["beats"] - sent)[:7]),
        implies(sent != 0, bench.inside("dut", "is_last") == (bench.inside("dut", "beats_left") == 1)),
        bench.inside("dut", "vacant") == ~pending,
        bench.inside("dut", "full") == (bench.inside("dut", "taken") == capacity),
        implies(
            pending,
            bench.inside("dut", "left") + bench.inside("dut", "claimed") == bench.inside("dut", "there"),
        ),
        Mux(shown == 0, sent == 0, sent < first["beats"]),
        bench.inside("dut", "offered") == waits,
        bench.inside("dut", "there") + Mux(new, vectors, 0) == unclaimed,
        bench.inside("dut", "waiting") == unanswered,
        implies(pending, bench.inside("dut", "next_ends") == next_last),
        implies(showing, bench.inside("dut", "shown_ends") == shows_last),
        bench.inside("dut", "ends@elaborate") == ((unanswered != 0) & waits_last),
        bench.inside("dut", "taken") == reserved + inside + gone,
        bench.inside("dut", "taken") <= capacity,
        unanswered <= limit,
        shown + finished == unanswered + waits,
        inside + gone == listed + unclaimed,
        bench.inside("dut", "first_free") == (used + inside)[: len(used)],
        implies(item.inside, _stored(bench, config, index) == item.data),
    )
    return bench


def _legal(config: Config, burst: Value) -> Value:
    """Whether a write burst is legal: it consists of whole vectors, at least one, and its number of beats matches its
    bytes and is not above the limit.
    """
    bits = config.out_bytes.bit_length() - 1
    return (
        (Cat(burst.address[:bits], burst.bytes[:bits]) == 0)
        & (burst.bytes != 0)
        & (burst.beats == (burst.address[:SHIFT] + burst.bytes + (BUS - 1)) >> SHIFT)
        & (burst.beats <= write_burst_beats(config))
    )


def _stored(bench: Bench, config: Config, index: Value) -> Value:
    """The vector at position `index` of the store FIFO."""
    if config.out_bytes >= BUS:
        return bench.peek("dut", "vectors", index)
    banks = BUS // config.out_bytes
    bits = banks.bit_length() - 1
    return Array([bench.peek("dut", f"bank_{bank}", index[bits:]) for bank in range(banks)])[index[:bits]]


NARROW_PROOF = Proof(
    component="Writer of the store unit, 8 vectors, 2 in a bus word",
    build=_narrow,
    depth=1,
    search=16,
    faults=(
        Fault(
            property="the FIFO never overflows",
            module=MODULE,
            before="will_be_full(taken, capacity, up=self.reserve, down=bursts.r_en)",
            after="will_be_full(taken, capacity, up=self.put, down=bursts.r_en)",
        ),
        Fault(
            property="an address is shown once all its vectors have been put",
            module=MODULE,
            before="left.eq(Mux(pending, left, there - claims) + self.put)",
            after="left.eq(Mux(pending, left, there - claims) + self.reserve)",
        ),
        Fault(
            property="an address stays until it is accepted",
            module=MODULE,
            before="self.write.request.valid.eq(shown)",
            after="self.write.request.valid.eq(shown & ~self.put)",
        ),
        Fault(
            property="data stays until it is accepted",
            module=MODULE,
            before="beat.valid.eq(bursts.r_rdy)",
            after="beat.valid.eq(bursts.r_rdy & ~self.put)",
        ),
        Fault(
            property="data stays until it is accepted",
            module=MODULE,
            before="Mux(used, Array(reads)[(turn + place)[:place_bits]], 0)",
            after="Array(reads)[(turn + place)[:place_bits]]",
        ),
        Fault(
            property="no data is shown before its address, and none before it was put",
            module=MODULE,
            before="bursts.w_en.eq(shown & ~offered)",
            after="bursts.w_en.eq(pending & ~offered)",
        ),
        Fault(
            property="last marks exactly the last beat of the burst",
            module=MODULE,
            before="is_last.eq(Mux(is_first, head.double, beats_left == 2)),",
            after="is_last.eq(Mux(is_first, head.single, beats_left == 2)),",
        ),
        Fault(
            property="the queue of bursts never overflows",
            module=MODULE,
            before="m.d.sync += offered.eq(shown & ~accepted)",
            after="m.d.sync += offered.eq(shown & ~accepted & ~bursts.r_en)",
        ),
        Fault(
            property="done comes with the last response of a store",
            module=MODULE,
            before="Mux(accepted & shown_ends, 1 << left_waiting, 0)",
            after="Mux(accepted & next_ends, 1 << left_waiting, 0)",
        ),
        Fault(
            property="the strobes are the bytes of the burst",
            module=MODULE,
            before="(place < start + count)",
            after="(place <= start + count)",
        ),
        Fault(
            property="vectors leave in the order in which they came, unchanged",
            module=MODULE,
            before=" + (head[:place_bits] > number if number + 1 < places else 0)",
            after="",
        ),
    ),
)

WIDE_PROOF = Proof(
    component="Writer of the store unit, 4 vectors of 2 bus words",
    build=_wide,
    depth=1,
    search=16,
    faults=(
        Fault(
            property="the strobes are the bytes of the burst",
            module=MODULE,
            before="beat.strobe.eq(-1)",
            after="beat.strobe.eq(part - 1)",
        ),
        Fault(
            property="vectors leave in the order in which they came, unchanged",
            module=MODULE,
            before="            with m.If(part == out // bits - 1):\n                m.d.sync += head.eq(head + 1)",
            after="            m.d.sync += head.eq(head + 1)",
        ),
    ),
)
