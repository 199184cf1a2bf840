"""Proof about the BurstCutter: the read and write requests that it makes are legal on AXI."""

from __future__ import annotations

from amaranth.hdl import Cat, Mux, Signal, Value

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

    # Where the runs are, by the bench's own account: bytes left of this run, rows behind it. The length of rows that
    # are joined is a product, which the cutter forms over several cycles; here it is taken to be right.
    product = bench.inside("dut", "product.result")
    here, row, pitch = (Signal.like(runs.address, name=name) for name in ("here", "row", "pitch"))
    left, length = Signal.like(product, name="left"), Signal.like(product, name="length")
    rows, unfinished, multiplies = Signal(16), Signal(), Signal()
    later = Signal()  # behind the first run
    with m.If(dut.start):
        several = runs.joined & (runs.rows > 1)
        m.d.sync += [
            here.eq(runs.address),
            row.eq(runs.address),
            left.eq(runs.length),
            length.eq(runs.length),
            pitch.eq(runs.pitch),
            rows.eq(Mux(several, 0, runs.rows - 1)),
            unfinished.eq((runs.rows != 0) & (runs.length != 0)),
            multiplies.eq(several & (runs.length != 0)),
        ]
    with m.Elif(multiplies & bench.inside("dut", "product.done")):
        m.d.sync += [left.eq(product), length.eq(product), multiplies.eq(0)]
    with m.Elif(accepted):
        m.d.sync += [here.eq(here + burst.bytes), left.eq(left - burst.bytes)]
        with m.If(left == burst.bytes):
            m.d.sync += [here.eq(row + pitch), row.eq(row + pitch), left.eq(length)]
            m.d.sync += [rows.eq(rows - 1), unfinished.eq(rows != 0), later.eq(1)]
    bench.assume(implies(multiplies & bench.inside("dut", "product.done"), product != 0))

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
        cover=accepted & later & (row != here),
    )
    bench.prove(
        "a burst ends with its run, at 4 KiB or at the most beats",
        implies(dut.burst.valid, (burst.bytes == left) | (end == AXI_BOUNDARY) | (burst.beats == MOST)),
        cover=accepted & (burst.beats == MOST) & (burst.bytes < left),
    )
    # The store unit's writer wants that of its vectors.
    right = []
    for bits in (SHIFT - 1, SHIFT + 1):
        aligned = bench.constant(1, f"aligned_{bits}")
        bench.assume(
            implies(
                aligned,
                Cat(*(value[:bits] for value in (runs.address, runs.length, runs.pitch, product))) == 0,
            )
        )
        right.append(implies(aligned & dut.burst.valid, Cat(burst.address[:bits], burst.bytes[:bits]) == 0))
        bench.invariant(
            implies(
                aligned & unfinished, Cat(*(value[:bits] for value in (here, left, row, length, pitch))) == 0
            )
        )
    bench.prove(
        "bursts of runs of whole vectors hold whole vectors",
        Cat(*right).all(),
        cover=accepted & aligned & (end == AXI_BOUNDARY) & (burst.beats == 2),
    )

    # The cutter's registers: the next run, the rest of this one, its burst; which of its states it is in.
    first, cut, valid, multiplying, starting = (
        bench.inside("dut", name) for name in ("first", "cut", "valid", "multiplying", "starting")
    )
    states = Cat(first, cut, valid, multiplying, starting)

    def words_and_tail(start: Value, of: Value) -> Value:
        """The last bus word of `of` bytes that begin at address `start`, as a value with two fields: in the low bits,
        how many bytes of this word are unused; above, how many bus words the bytes touch, minus 1.
        """
        reach = start[:SHIFT] + of - 1
        return Cat((~reach[:SHIFT])[:SHIFT], reach[SHIFT:])

    now = Cat(bench.inside("dut", "tail"), bench.inside("dut", "over"))
    following = Cat(bench.inside("dut", "next_tail"), bench.inside("dut", "next_over"))
    joined, last, turns, goes_on = (
        bench.inside("dut", name) for name in ("joined", "last", "turns", "goes_on")
    )
    started = unfinished & (cut | valid)
    # In the second cycle of a burst the cutter stands behind it.
    behind = valid & ~turns & ~goes_on
    there = {
        name: Mux(behind, Mux(last, turned, stays), now)
        for name, now, stays, turned in (
            ("here", here, (here + burst.bytes)[: len(here)], (row + pitch)[: len(row)]),
            ("left", left, (left - burst.bytes)[: len(left)], length),
            ("rows", rows, rows, (rows - 1)[: len(rows)]),
            ("row", row, row, (row + pitch)[: len(row)]),
        )
    }
    over = behind & last & (rows == 0)
    bench.invariant(
        dut.active == (unfinished | starting),
        bench.inside("dut", "idle") == ~dut.active,
        implies(~dut.active, states == 0),
        implies(dut.active, Cat(*(states == 1 << index for index in range(5))).any()),
        implies(~unfinished, ~multiplies & ~cut & ~valid & ~first & ~multiplying),
        implies(unfinished & ~starting, multiplies == multiplying),
        bench.inside("dut", "fresh") == (starting | first),
        ~(turns & goes_on),
        implies(turns, starting | first | valid & last) & implies(starting | first, turns),
        implies(goes_on, valid & ~last),
        implies(unfinished & joined, rows == 0),
        implies(starting, bench.inside("dut", "product.past") == 1),
        implies(
            starting,
            (unfinished == (bench.inside("dut", "rows") != 0) & (bench.inside("dut", "length") != 0))
            & (multiplies == (unfinished & joined & (bench.inside("dut", "rows") > 1))),
        ),
        implies(valid, bench.inside("dut", "more") == (rows != 0)),
        implies(unfinished & ~multiplying, (left != 0) & (left <= length)),
        implies(
            unfinished & ~multiplying,
            (bench.inside("dut", "length") == length) & (bench.inside("dut", "pitch") == pitch),
        ),
        implies(unfinished, bench.inside("dut", "pitch") == pitch),
        implies(
            unfinished & (starting | first | multiplying),
            (bench.inside("dut", "row_start") == row)
            & (here == row)
            & (left == length)
            & (joined | (bench.inside("dut", "rows") == (rows + 1)[:16])),
        ),
        implies(
            started & ~over,
            (Cat(bench.inside("dut", "offset"), bench.inside("dut", "word")) == there["here"])
            & (now == words_and_tail(there["here"], there["left"])[: len(now)]),
        ),
        implies(
            started & ~joined & ~over,
            (bench.inside("dut", "row_start") == (there["row"] + pitch)[: len(row)])
            & (bench.inside("dut", "rows") == there["rows"]),
        ),
        implies(
            valid & ~behind & ~joined,
            following == words_and_tail(bench.inside("dut", "row_start"), length)[: len(following)],
        ),
        implies(valid, last == (burst.bytes == left)),
        implies(valid & ~last, bench.inside("dut", "left_out") == 0),
    )
    return bench


PROOF = Proof(
    component="BurstCutter, at most 4 beats of 8 bytes",
    build=_bench,
    depth=1,
    search=12,
    faults=(
        Fault(
            property="a burst stays until it is accepted",
            module=MODULE,
            before="moves.eq(valid & self.burst.ready)",
            after="moves.eq(valid)",
        ),
        Fault(
            property="no burst crosses 4 KiB or has more beats than allowed",
            module=MODULE,
            before="(~at_the_end | (over[:most_bits] + before < most))",
            after="1",
        ),
        Fault(
            property="its beats are the bus words that hold its bytes",
            module=MODULE,
            before="(address[:shift] + left_out)",
            after="left_out",
        ),
        Fault(
            property="the bursts are the runs, in order and complete",
            module=MODULE,
            before="row_start.eq(row_start + pitch)",
            after="row_start.eq(row_start + length)",
        ),
        Fault(
            property="a burst ends with its run, at 4 KiB or at the most beats",
            module=MODULE,
            before="most - Mux(at_the_end, before, 0)",
            after="most - before",
        ),
        Fault(
            property="bursts of runs of whole vectors hold whole vectors",
            module=MODULE,
            before="                offset.eq(0),",
            after="                offset.eq(1),",
        ),
    ),
)
