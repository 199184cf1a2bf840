"""Proof about the control registers: they are a correct AXI4-Lite slave, and follow the state of a run."""

from __future__ import annotations

from amaranth.hdl import Cat, Signal

from vdla.hw.axi import OKAY
from vdla.hw.control import LAUNCH_BIT, REGISTERS, STOP_BIT
from vdla.hw.counters import READ_CYCLES
from vdla.isa.config import load_config

from .bench import Bench, implies
from .faults import Fault, Load
from .proof import Proof

MODULE = "vdla.hw.control"


def _bench(load: Load) -> Bench:
    bench = Bench()
    m = bench.m
    dut = bench.add("dut", load(MODULE).Control(config=load_config("tiny")))
    bus = dut.bus
    # The master keeps what it shows until it is accepted; memory port and units answer as they like.
    for channel, payload in (
        ("aw", bus.awaddr),
        ("w", Cat(bus.wdata, bus.wstrb)),
        ("ar", bus.araddr),
    ):
        valid, ready = getattr(bus, f"{channel}valid"), getattr(bus, f"{channel}ready")
        bench.assume(implies(bench.before(valid & ~ready), valid & bench.same(payload)))

    # Requests taken and not answered yet, by the bench's own count.
    addresses, words, reads = (Signal(4, name=name) for name in ("addresses", "words", "reads"))
    answered, read_answered = bus.bvalid & bus.bready, bus.rvalid & bus.rready
    m.d.sync += [
        addresses.eq(addresses + (bus.awvalid & bus.awready) - answered),
        words.eq(words + (bus.wvalid & bus.wready) - answered),
        reads.eq(reads + (bus.arvalid & bus.arready) - read_answered),
    ]
    again = Signal()  # a read has been answered
    with m.If(read_answered):
        m.d.sync += again.eq(1)
    age = Signal(4)  # cycles since the address of a read was taken, until it is answered
    with m.If(bus.arvalid & bus.arready):
        m.d.sync += age.eq(1)
    with m.Elif(~bus.rvalid & (reads != 0)):
        m.d.sync += age.eq(age + 1)
    waits_b, waits_r = bench.before(bus.bvalid & ~bus.bready), bench.before(bus.rvalid & ~bus.rready)
    bench.prove(
        "a response stays until it is accepted",
        implies(waits_b, bus.bvalid & bench.same(bus.bresp))
        & implies(waits_r, bus.rvalid & bench.same(Cat(bus.rdata, bus.rresp))),
        cover=waits_b & waits_r & bus.arvalid & bus.awvalid,
    )
    bench.prove(
        "one response for each write, and none before address and data",
        implies(bus.bvalid, (addresses == 1) & (words == 1)) & (addresses == words) & (addresses <= 1),
        cover=answered & bench.before(bench.before(answered)),
    )
    bench.prove(
        "one response for each read, and none before the address",
        implies(bus.rvalid, reads == 1) & (reads <= 1),
        cover=read_answered & again,
    )
    bench.prove(
        "every response is OKAY",
        implies(bus.bvalid, bus.bresp == OKAY) & implies(bus.rvalid, bus.rresp == OKAY),
        cover=bus.bvalid & bus.rvalid,
    )
    bench.prove(
        "a write is answered in the next cycle, a read once a counter has had time to show",
        implies(bench.before(bus.awvalid & bus.wvalid & ~bus.bvalid), bus.bvalid)
        & implies((reads != 0) & ~bus.rvalid, age <= READ_CYCLES + 1),
        cover=bus.rvalid & ~waits_r & bench.before(age == READ_CYCLES + 1),
    )

    taken = bus.awvalid & bus.awready & bus.wvalid & bus.wready
    control = taken & (bus.awaddr[2:] == REGISTERS["CONTROL"] >> 2) & bus.wstrb[0]
    wanted = Signal()  # software has asked for a launch that has not happened
    with m.If(dut.launch | (control & bus.wdata[STOP_BIT] & ~bus.wdata[LAUNCH_BIT])):
        m.d.sync += wanted.eq(0)
    with m.If(control & bus.wdata[LAUNCH_BIT]):
        m.d.sync += wanted.eq(1)
    bench.prove(
        "a launch was asked for, nothing runs, nothing is outstanding",
        implies(dut.launch, wanted & ~dut.running & dut.quiet),
        cover=dut.launch & ~bench.before(dut.quiet) & bench.before(wanted),
    )
    ends = bench.before(dut.running & (dut.finished | (dut.stop & dut.written)))
    bench.prove(
        "a run lasts from its launch to FINISH, or to the last write after a stop",
        dut.running == (bench.before(dut.launch) | (bench.before(dut.running) & ~ends)),
        cover=ends & bench.before(dut.stop),
    )
    stops = dut.error | (control & bus.wdata[STOP_BIT])
    bench.prove(
        "no new address from an error or a stop to the end of the run, and between runs",
        implies(bench.before(dut.running & (stops | dut.stop)), dut.stop) & implies(~dut.running, dut.stop),
        cover=dut.running & dut.stop & bench.before(bench.before(dut.error)),
    )
    waiting = bench.inside("dut", "waiting")
    bench.invariant(
        reads == bus.rvalid + (waiting != 0),
        implies(waiting != 0, ~bus.rvalid & (waiting == (1 << age) >> 1)),
        addresses == bus.bvalid,
        bench.inside("dut", "pending") == wanted,
    )
    return bench


PROOF = Proof(
    component="Control",
    build=_bench,
    depth=1,
    search=14,
    faults=(
        Fault(
            property="a response stays until it is accepted",
            module=MODULE,
            before="with m.If(bus.bvalid & bus.bready):",
            after="with m.If(bus.bvalid):",
        ),
        Fault(
            property="one response for each write, and none before address and data",
            module=MODULE,
            before="accept = bus.awvalid & bus.wvalid & ~bus.bvalid",
            after="accept = bus.awvalid & ~bus.bvalid",
        ),
        Fault(
            property="one response for each read, and none before the address",
            module=MODULE,
            before="accept = bus.arvalid & bus.arready",
            after="accept = bus.arready",
        ),
        Fault(
            property="every response is OKAY",
            module=MODULE,
            before="bus.bresp.eq(OKAY)",
            after="bus.bresp.eq(2)",
        ),
        Fault(
            property="a write is answered in the next cycle, a read once a counter has had time to show",
            module=MODULE,
            before="accept = bus.awvalid & bus.wvalid & ~bus.bvalid",
            after="accept = bus.awvalid & bus.wvalid & ~bus.bvalid & ~bus.rvalid",
        ),
        Fault(
            property="a launch was asked for, nothing runs, nothing is outstanding",
            module=MODULE,
            before="self.launch.eq(pending & ~self.running & self.quiet)",
            after="self.launch.eq(pending & ~self.running)",
        ),
        Fault(
            property="a run lasts from its launch to FINISH, or to the last write after a stop",
            module=MODULE,
            before="with m.If(self.finished | (stopping & self.written)):",
            after="with m.If(self.finished | stopping):",
        ),
        Fault(
            property="no new address from an error or a stop to the end of the run, and between runs",
            module=MODULE,
            before="stopping.eq(stopping | self.error | stopped)",
            after="stopping.eq(self.error | stopped)",
        ),
    ),
)
