"""Proof about the AXI4 master port; its clients are replaced by their proven properties."""

from __future__ import annotations

import dataclasses

from amaranth.hdl import Cat, Signal, Value

from vdla.hw.axi import INCREMENTING
from vdla.hw.interfaces import ADDRESS_BITS, Client
from vdla.isa.config import load_config
from vdla.isa.timing import AXI_BOUNDARY, READ_BURST_BEATS

from .bench import Bench, around, implies, tag
from .faults import Fault, Load
from .proof import Proof

LIMIT = 2
TINY = load_config("tiny")
CONFIG = dataclasses.replace(
    TINY, memory=dataclasses.replace(TINY.memory, outstanding_reads=LIMIT, outstanding_writes=LIMIT)
)
SHIFT = CONFIG.memory.bus_bytes.bit_length() - 1
PAGE_BITS = AXI_BOUNDARY.bit_length() - 1
MODULE = "vdla.hw.memory_port"


def legal(request: Value) -> Value:
    """Whether a client's burst request is legal: 1 to 64 beats, counted from the bus word of its first byte, within a
    page of 4096 bytes.
    """
    payload = request.payload  # type: ignore[attr-defined]
    beats_to_boundary = (AXI_BOUNDARY >> SHIFT) - payload.address[SHIFT:PAGE_BITS]
    return (payload.beats != 0) & (payload.beats <= READ_BURST_BEATS) & (payload.beats <= beats_to_boundary)


def _bench(load: Load) -> Bench:
    bench = Bench()
    m = bench.m
    dut = bench.add("dut", load(MODULE).MemoryPort(config=CONFIG))
    axi, write = dut.axi, dut.write
    clients = [getattr(dut, client.name.lower()) for client in Client]
    # Addresses and data that were shown in the cycle before and not accepted.
    waits = {}
    for channel in ("ar", "aw", "w"):
        valid, ready = getattr(axi, f"{channel}valid"), getattr(axi, f"{channel}ready")
        waits[channel] = bench.before(valid & ~ready)
    waits_ar, waits_aw, waits_w = waits.values()
    address = {
        channel: Cat(*(getattr(axi, channel + name) for name in ("addr", "len", "size", "burst")))
        for channel in ("ar", "aw")
    }
    data = Cat(axi.wdata, axi.wstrb, axi.wlast)

    # Read clients may withdraw or change a request (they are reset when a run is stopped); the store unit is not
    # while its request or its data is shown.
    for client in clients:
        bench.assume(implies(client.request.valid, legal(client.request)))
    request, beat = write.request, write.beat
    bench.assume(
        implies(request.valid, legal(request)),
        implies(waits_aw, request.valid & bench.same(request.payload.as_value())),
        implies(
            waits_w,
            beat.valid & bench.same(beat.payload.as_value()),
        ),
        dut.base[:PAGE_BITS] == 0,
    )

    # Software may write the base address at any time; it counts from the launch on: until then nothing was
    # outstanding, and nothing was shown.
    base = Signal.like(dut.base, reset_less=True)
    with m.If(dut.quiet & dut.stop):
        m.d.sync += base.eq(dut.base)
    bench.invariant(bench.inside("dut", "base@elaborate") == base, base[:PAGE_BITS] == 0)

    # What is outstanding, by the bench's own count, and a memory that answers only what was asked.
    reads, writes, unmoved, unanswered = (
        Signal(8, name=name) for name in ("reads", "writes", "unmoved", "unanswered")
    )
    read, written = axi.arvalid & axi.arready, axi.awvalid & axi.awready
    last = axi.rvalid & axi.rready & axi.rlast
    last_data = axi.wvalid & axi.wready & axi.wlast
    response = axi.bvalid & axi.bready
    m.d.sync += [
        reads.eq(reads + read - last),
        writes.eq(writes + written - response),
        unmoved.eq(unmoved + (axi.awvalid & ~waits_aw) - last_data),
        unanswered.eq(unanswered + last_data - response),
    ]
    bench.assume(implies(axi.rvalid, reads != 0), implies(axi.bvalid, (writes != 0) & (unanswered != 0)))

    bench.prove(
        "a read address stays until it is accepted",
        implies(waits_ar, axi.arvalid & bench.same(address["ar"])),
        cover=waits_ar & ~dut.load.request.valid & bench.before(dut.load.request.valid),
    )
    bench.prove(
        "a write address stays until it is accepted",
        implies(waits_aw, axi.awvalid & bench.same(address["aw"])),
        cover=waits_aw & dut.stop,
    )
    bench.prove(
        "write data stays until it is accepted",
        implies(waits_w, axi.wvalid & bench.same(data)),
        cover=waits_w & axi.wready & axi.wlast,
    )
    fits = []
    for channel, valid in (("ar", axi.arvalid), ("aw", axi.awvalid)):
        start, length = getattr(axi, f"{channel}addr"), getattr(axi, f"{channel}len")
        fits.append(
            implies(
                valid,
                (start[:SHIFT] == 0)
                & (start[SHIFT:PAGE_BITS] + length + 1 <= AXI_BOUNDARY >> SHIFT)
                & (length < READ_BURST_BEATS)
                & (getattr(axi, f"{channel}burst") == INCREMENTING)
                & (getattr(axi, f"{channel}size") == SHIFT),
            )
        )
    bench.prove(
        "no burst is longer than 64 beats or crosses 4 KiB",
        Cat(*fits).all(),
        cover=axi.arvalid
        & (axi.arlen == READ_BURST_BEATS - 1)
        & (axi.araddr[:PAGE_BITS] == AXI_BOUNDARY - (READ_BURST_BEATS << SHIFT)),
    )
    bench.prove("no more reads are outstanding than the limit", reads <= LIMIT, cover=(reads == LIMIT) & last)
    bench.prove(
        "no more writes are outstanding than the limit", writes <= LIMIT, cover=(writes == LIMIT) & response
    )
    bench.prove(
        "no data is shown before its address",
        implies(axi.wvalid, unmoved != 0) & (unmoved <= LIMIT),
        cover=last_data & waits_aw,
    )

    # The arbiter. Of an address that is new in this cycle:
    new, turns = axi.arvalid & ~waits_ar, []
    for index, client in enumerate(clients):
        above = Cat(*(other.request.valid for other in clients[:index])).any()
        payload = client.request.payload
        mine = (
            client.request.valid
            & ~above
            & (axi.araddr[SHIFT:] == (base + payload.address)[SHIFT:ADDRESS_BITS])
            & (axi.arlen == payload.beats - 1)
        )
        turns.append(implies(new & client.request.ready, mine))
    told = Cat(*(client.request.ready for client in clients))
    bench.prove(
        "the first client in order of priority is served, and told",
        Cat(*turns).all() & (sum(told) == read),
        cover=clients[2].request.ready & clients[3].request.valid,
    )
    item = tag(bench, enters=read, data=told, leaves=last, level=reads)
    beats = Cat(*(client.beat_valid for client in clients))
    head = item.inside & (item.ahead == 0)
    bench.prove(
        "a beat goes to the client that asked for it",
        (sum(beats) == bench.before(axi.rvalid))
        & implies(bench.before(head & axi.rvalid), beats == bench.before(item.data)),
        cover=head & last & (item.data == 4) & bench.before(last),
    )
    bench.prove(
        "quiet means that nothing is outstanding",
        implies(dut.quiet, (reads + writes + unmoved == 0) & ~waits_ar & ~waits_aw)
        & implies(bench.before(dut.quiet), beats == 0),
        cover=dut.quiet & bench.before(response),
    )
    bench.prove(
        "when stopped, no new address is shown",
        implies(dut.stop, implies(axi.arvalid, waits_ar) & implies(axi.awvalid, waits_aw)),
        cover=dut.stop & axi.arvalid & dut.fetch.request.valid,
    )

    newest, oldest = (bench.inside("dut", name) for name in ("newest", "oldest"))
    bench.invariant(
        (oldest < LIMIT) & (newest == around(oldest + reads, LIMIT)),
        bench.inside("dut", "outstanding@_reads") == reads,
        bench.inside("dut", "outstanding@_writes") == writes,
        bench.inside("dut", "announced") == unmoved,
        bench.inside("dut", "full@_reads") == (reads == LIMIT),
        bench.inside("dut", "full@_writes") == (writes == LIMIT),
        bench.inside("dut", "shows_data") == (unmoved != 0),
        bench.inside("dut", "choosing") == ~bench.inside("dut", "kept"),
        # Each burst whose address has been shown is accepted or waits; its data has moved or has not.
        writes + waits_aw == unmoved + unanswered,
        implies(waits_ar, reads < LIMIT) & implies(waits_aw, writes < LIMIT),
        implies(
            item.inside, item.data == 1 << bench.peek("dut", "owners", around(oldest + item.ahead, LIMIT))
        ),
    )
    return bench


PROOF = Proof(
    component="MemoryPort, 2 reads and 2 writes outstanding",
    build=_bench,
    depth=1,
    search=8,
    faults=(
        Fault(
            property="a read address stays until it is accepted",
            module=MODULE,
            before="~choosing | (requested & ~full & ~self.stop)",
            after="(~choosing | requested) & ~full & ~self.stop",
        ),
        Fault(
            property="a read address stays until it is accepted",
            module=MODULE,
            before="with m.If(self.quiet & self.stop):",
            after="with m.If(self.quiet):",
        ),
        Fault(
            property="a write address stays until it is accepted",
            module=MODULE,
            before="~full & (waiting | ~self.stop)",
            after="~full & ~self.stop",
        ),
        Fault(
            property="write data stays until it is accepted",
            module=MODULE,
            before="axi.wvalid.eq(write.beat.valid & shows_data)",
            after="axi.wvalid.eq(write.beat.valid & shows_data & ~self.stop)",
        ),
        Fault(
            property="no burst is longer than 64 beats or crosses 4 KiB",
            module=MODULE,
            before="axi.arlen.eq(chosen.beats - 1)",
            after="axi.arlen.eq(chosen.beats)",
        ),
        Fault(
            property="no more reads are outstanding than the limit",
            module=MODULE,
            before="full.eq(will_be_full(outstanding, limit, up=accept, down=last))",
            after="full.eq(~last & (outstanding == limit))",
        ),
        Fault(
            property="no more writes are outstanding than the limit",
            module=MODULE,
            before="full.eq(will_be_full(outstanding, limit, up=accept, down=response))",
            after="full.eq(~response & (outstanding == limit))",
        ),
        Fault(
            property="no data is shown before its address",
            module=MODULE,
            before="axi.wvalid.eq(write.beat.valid & shows_data)",
            after="axi.wvalid.eq(write.beat.valid)",
        ),
        Fault(
            property="the first client in order of priority is served, and told",
            module=MODULE,
            before="in reversed(list(enumerate(clients))):",
            after="in list(enumerate(clients)):",
        ),
        Fault(
            property="a beat goes to the client that asked for it",
            module=MODULE,
            before="write.data.eq(owner)",
            after="write.data.eq(kept_owner)",
        ),
        Fault(
            property="quiet means that nothing is outstanding",
            module=MODULE,
            before="self.quiet.eq((reads == 0) & none_kept & self.written)",
            after="self.quiet.eq((reads == 0) & none_kept)",
        ),
        Fault(
            property="when stopped, no new address is shown",
            module=MODULE,
            before="(requested & ~full & ~self.stop)",
            after="(requested & ~full)",
        ),
    ),
)
