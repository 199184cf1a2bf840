"""BurstCutter: what read and write requests may look like on AXI."""

from __future__ import annotations

from amaranth.hdl import Signal
from vdla.isa.config import load_config
from vdla.isa.timing import AXI_BOUNDARY

from .bench import Bench, implies
from .faults import Fault, Load
from .proof import Proof

CONFIG = load_config("tiny")
MOST = 4
SHIFT = CONFIG.memory.bus_bytes.bit_length() - 1
PAGE_BITS = AXI_BOUNDARY.bit_length() - 1
MODULE = "vdla.hw.read_requests"


def _bench(load: Load) -> Bench:
    bench = Bench()
    m = bench.m
    dut = bench.add("dut", load(MODULE).BurstCutter(config=CONFIG, most_beats=MOST))
    burst, runs = dut.burst.payload, dut.runs
    accepted = dut.burst.valid & dut.burst.ready
    bench.assume(implies(dut.start, ~dut.active))

    # Where the runs are, by the bench's own account: bytes left of this row, rows behind it.
    names = ("here", "left", "row", "length", "pitch")
    here, left, row, length, pitch = (Signal.like(runs.address, name=name) for name in names)
    rows, unfinished = Signal(16), Signal()
    with m.If(dut.start):
        m.d.sync += [
            here.eq(runs.address),
            row.eq(runs.address),
            left.eq(runs.length),
            length.eq(runs.length),
            pitch.eq(runs.pitch),
            rows.eq(runs.rows - 1),
            unfinished.eq((runs.rows != 0) & (runs.length != 0)),
        ]
    with m.Elif(accepted):
        m.d.sync += [here.eq(here + burst.bytes), left.eq(left - burst.bytes)]
        with m.If(left == burst.bytes):
            m.d.sync += [here.eq(row + pitch), row.eq(row + pitch), left.eq(length)]
            m.d.sync += [rows.eq(rows - 1), unfinished.eq(rows != 0)]

    waits = bench.before(dut.burst.valid & ~dut.burst.ready)
    bench.prove(
        "a burst stays until it is accepted",
        implies(waits, dut.burst.valid & bench.same(burst.as_value())),
        cover=waits & accepted,
    )
    end = burst.address[:PAGE_BITS] + burst.bytes
    bench.prove(
        "no burst crosses 4 KiB or has more beats than allowed",
        implies(dut.burst.valid, (end <= AXI_BOUNDARY) & (burst.beats <= MOST) & (burst.beats != 0)),
        cover=accepted & (end == AXI_BOUNDARY) & (burst.bytes < left),
    )
    words = burst.address[:SHIFT] + burst.bytes + ((1 << SHIFT) - 1)
    bench.prove(
        "its beats are the bus words that hold its bytes",
        implies(dut.burst.valid, (burst.beats == words >> SHIFT) & (burst.bytes != 0)),
        cover=accepted & (burst.beats == MOST) & (burst.bytes == (MOST << SHIFT) - 6),
    )
    bench.prove(
        "the bursts are the runs, in order and complete",
        implies(dut.burst.valid, unfinished & (burst.address == here) & (burst.bytes <= left))
        & implies(~dut.active, ~unfinished),
        cover=accepted & (row != here) & bench.before(bench.before(accepted & (left == burst.bytes))),
    )
    bench.prove(
        "a burst ends with its run, at 4 KiB or at the most beats",
        implies(dut.burst.valid, (burst.bytes == left) | (end == AXI_BOUNDARY) | (burst.beats == MOST)),
        cover=accepted & (burst.beats == MOST) & (burst.bytes < left),
    )
    bench.invariant(
        bench.inside("dut", "left") == unfinished * left,
        implies(dut.burst.valid, dut.active),
        implies(
            unfinished,
            (burst.address == here)
            & (left != 0)
            & (length != 0)
            & (bench.inside("dut", "row_start") == row)
            & (bench.inside("dut", "length") == length)
            & (bench.inside("dut", "pitch") == pitch)
            & (bench.inside("dut", "rows") == rows),
        ),
    )
    return bench


PROOF = Proof(
    component="BurstCutter, at most 4 beats of 8 bytes",
    build=_bench,
    depth=1,
    search=8,
    faults=(
        Fault(
            property="a burst stays until it is accepted",
            module=MODULE,
            before="with m.Elif(self.burst.valid & self.burst.ready):",
            after="with m.Elif(self.burst.valid):",
        ),
        Fault(
            property="no burst crosses 4 KiB or has more beats than allowed",
            module=MODULE,
            before="most.eq(Mux(to_boundary < limit, to_boundary, limit))",
            after="most.eq(limit)",
        ),
        Fault(
            property="its beats are the bus words that hold its bytes",
            module=MODULE,
            before="beats.eq((offset + size + (bus - 1)) >> shift)",
            after="beats.eq((size + (bus - 1)) >> shift)",
        ),
        Fault(
            property="the bursts are the runs, in order and complete",
            module=MODULE,
            before="                    address.eq(row_start + pitch),",
            after="                    address.eq(address + pitch),",
        ),
        Fault(
            property="a burst ends with its run, at 4 KiB or at the most beats",
            module=MODULE,
            before="limit.eq(self._most * bus - offset)",
            after="limit.eq((self._most - 1) * bus - offset)",
        ),
    ),
)
