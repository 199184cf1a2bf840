"""Tests the memory port against a simulated memory (AXI slave) that stalls at random. The port must keep AXI's rules,
the priorities of its clients and the limits on open requests, and must return each beat to the client that requested
it.
"""

import dataclasses
from collections import deque
from random import Random

import pytest
from amaranth.sim import Simulator

from vdla.hw.axi import SLAVE_ERROR
from vdla.hw.interfaces import Client, Kind
from vdla.hw.memory_port import MemoryPort
from vdla.isa.config import load_config

TINY = load_config("tiny")
BASE = 0x12_3456_7000


def simulate(dut, bench):
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


def port_of(reads: int, writes: int = 2) -> MemoryPort:
    memory = dataclasses.replace(TINY.memory, outstanding_reads=reads, outstanding_writes=writes)
    return MemoryPort(config=dataclasses.replace(TINY, memory=memory))


@pytest.mark.parametrize(("ready", "limit"), [(1.0, 8), (0.4, 8), (0.7, 1)])
def test_reads(ready: float, limit: int):
    random = Random(limit)
    dut = port_of(limit)
    accepted = dict.fromkeys(Client, 0)

    async def bench(ctx):
        ctx.set(dut.base, BASE)
        ctx.set(dut.stop, 1)
        await ctx.tick()  # the launch cycle
        ctx.set(dut.stop, 0)
        shown: dict[Client, tuple[int, int]] = {}
        waiting: tuple[int, int] | None = None  # an address shown to a slave that was not ready
        owner_waiting: Client | None = None
        memory: deque[tuple[Client, int]] = deque()  # beats to come
        outstanding = 0
        before: tuple[Client, int, bool] | None = None
        for _ in range(1000):
            for client in Client:
                port = getattr(dut, client.name.lower())
                if client not in shown and random.random() < 0.06:
                    shown[client] = (random.randrange(1 << 30), random.randint(1, 6))
                    ctx.set(port.request.payload, {
                        "address": shown[client][0], "beats": shown[client][1], "bytes": 8, "kind": Kind.WGT,
                    })  # fmt: skip
                ctx.set(port.request.valid, client in shown)
            accepts = random.random() < ready
            ctx.set(dut.axi.arready, accepts)
            beat = bool(memory) and random.random() < 0.6
            last = beat and memory[0][1] == 1
            ctx.set(dut.axi.rvalid, beat)
            ctx.set(dut.axi.rlast, last)
            data = random.getrandbits(64)
            ctx.set(dut.axi.rdata, data)
            for client in Client:
                port = getattr(dut, client.name.lower())
                assert ctx.get(port.beat_valid) == (before is not None and before[0] is client)
                if ctx.get(port.beat_valid):
                    assert (client, ctx.get(port.beat_data), ctx.get(port.beat_last)) == before
            before = (memory[0][0], data, last) if beat else None  # shown to its client in the next cycle
            assert ctx.get(dut.quiet) == (outstanding == 0 and waiting is None)
            valid = ctx.get(dut.axi.arvalid)
            assert valid == (outstanding < limit and bool(shown))
            if valid:
                # AXI: what has been shown stays until it is accepted, whoever shows up meanwhile.
                owner = (
                    owner_waiting
                    if owner_waiting is not None
                    else min(shown, key=lambda client: client.value)
                )
                address, beats = shown[owner]
                now = ctx.get(dut.axi.araddr), ctx.get(dut.axi.arlen)
                assert now == ((BASE + address) // 8 * 8, beats - 1)
                assert waiting in (None, now)
                waiting, owner_waiting = (None, None) if accepts else (now, owner)
                for client in Client:
                    taken = ctx.get(getattr(dut, client.name.lower()).request.ready)
                    assert taken == (accepts and client is owner)
                assert ctx.get(dut.read_accepted) == accepts
                if accepts:
                    memory.extend((owner, left) for left in range(beats, 0, -1))
                    accepted[owner] += 1
                    outstanding += 1
                    del shown[owner]
            if beat:
                memory.popleft()
                outstanding -= last
            await ctx.tick()

    simulate(dut, bench)
    assert min(accepted.values()) > 2


def test_writes_are_limited_and_errors_reported():
    dut = port_of(4, writes=2)

    async def bench(ctx):
        ctx.set(dut.base, BASE)
        ctx.set(dut.stop, 1)
        await ctx.tick()  # the launch cycle
        ctx.set(dut.stop, 0)
        burst = {"address": 0x1234, "beats": 3, "bytes": 20, "kind": Kind.OUT}
        ctx.set(dut.write.request.payload, burst)
        ctx.set(dut.write.request.valid, 1)
        ctx.set(dut.axi.awready, 0)
        assert ctx.get(dut.axi.awvalid) and not ctx.get(dut.write.request.ready)
        await ctx.tick()
        ctx.set(dut.axi.awready, 1)
        for _ in range(2):
            assert ctx.get(dut.write.request.ready) and ctx.get(dut.write_accepted)
            assert ctx.get(dut.axi.awaddr) == BASE + 0x1230 and ctx.get(dut.axi.awlen) == 2
            await ctx.tick()
        assert not ctx.get(dut.axi.awvalid) and not ctx.get(dut.write.request.ready)
        ctx.set(dut.axi.bvalid, 1)
        assert ctx.get(dut.write.response) and not ctx.get(dut.error)
        await ctx.tick()
        assert ctx.get(dut.axi.awvalid)
        ctx.set(dut.write.request.valid, 0)
        ctx.set(dut.axi.bresp, SLAVE_ERROR)
        assert ctx.get(dut.error) and not ctx.get(dut.quiet)
        await ctx.tick()
        ctx.set(dut.axi.bvalid, 0)
        assert ctx.get(dut.quiet) and not ctx.get(dut.error)

    simulate(dut, bench)


def write_burst(ctx, dut, address: int, beats: int) -> None:
    ctx.set(
        dut.write.request.payload, {"address": address, "beats": beats, "bytes": 8 * beats, "kind": Kind.OUT}
    )


def test_data_is_shown_before_its_address_is_accepted():
    """A slave may wait for WVALID before it raises AWREADY."""
    dut = port_of(4, writes=2)

    async def bench(ctx):
        write_burst(ctx, dut, 0x100, 2)
        ctx.set(dut.axi.wready, 1)
        # Data that is ready too early waits for its address to be shown.
        ctx.set(dut.write.beat.valid, 1)
        assert not ctx.get(dut.axi.wvalid) and not ctx.get(dut.write.beat.ready)
        await ctx.tick()
        ctx.set(dut.write.request.valid, 1)
        assert ctx.get(dut.axi.awvalid) and not ctx.get(dut.axi.wvalid)
        await ctx.tick()
        for last in (0, 1):
            ctx.set(dut.write.beat.payload.last, last)
            assert ctx.get(dut.axi.wvalid) and ctx.get(dut.write.beat.ready)
            assert ctx.get(dut.axi.awvalid)
            await ctx.tick()
        # All data has moved and the address still waits: nothing more is shown for it.
        assert not ctx.get(dut.axi.wvalid) and ctx.get(dut.axi.awvalid)
        assert not ctx.get(dut.written) and not ctx.get(dut.quiet)
        ctx.set(dut.axi.awready, 1)
        assert ctx.get(dut.write.request.ready)
        await ctx.tick()
        ctx.set(dut.write.request.valid, 0)
        assert not ctx.get(dut.written)
        ctx.set(dut.axi.bvalid, 1)
        await ctx.tick()
        ctx.set(dut.axi.bvalid, 0)
        assert ctx.get(dut.written) and ctx.get(dut.quiet)

    simulate(dut, bench)


def test_stop_shows_no_new_address_and_keeps_what_waits():
    dut = port_of(4, writes=2)

    async def bench(ctx):
        write_burst(ctx, dut, 0x100, 1)
        ctx.set(dut.write.beat.payload.last, 1)
        ctx.set(dut.write.request.valid, 1)
        ctx.set(dut.write.beat.valid, 1)
        ctx.set(dut.load.request.payload, {"address": 0x800, "beats": 1, "bytes": 8, "kind": Kind.INP})
        ctx.set(dut.load.request.valid, 1)
        await ctx.tick()  # both addresses are shown and wait
        ctx.set(dut.stop, 1)
        for _ in range(3):
            assert ctx.get(dut.axi.arvalid) and ctx.get(dut.axi.awvalid) and ctx.get(dut.axi.wvalid)
            assert not ctx.get(dut.written)
            await ctx.tick()
        ctx.set(dut.load.request.valid, 0)  # the unit has been reset; the address stays
        assert ctx.get(dut.axi.araddr) == 0x800 and ctx.get(dut.axi.arvalid)
        for ready in (dut.axi.arready, dut.axi.awready, dut.axi.wready):
            ctx.set(ready, 1)
        await ctx.tick()
        ctx.set(dut.write.beat.valid, 0)
        write_burst(ctx, dut, 0x200, 1)
        ctx.set(dut.fetch.request.valid, 1)
        for _ in range(3):  # what comes now is not shown
            assert not ctx.get(dut.axi.arvalid) and not ctx.get(dut.axi.awvalid)
            assert not ctx.get(dut.write.request.ready) and not ctx.get(dut.fetch.request.ready)
            assert not ctx.get(dut.written)
            await ctx.tick()
        ctx.set(dut.axi.bvalid, 1)
        await ctx.tick()
        ctx.set(dut.axi.bvalid, 0)
        assert ctx.get(dut.written) and not ctx.get(dut.quiet)  # a read is still to come
        ctx.set(dut.axi.rvalid, 1)
        ctx.set(dut.axi.rlast, 1)
        await ctx.tick()
        ctx.set(dut.axi.rvalid, 0)
        assert ctx.get(dut.quiet)
        ctx.set(dut.stop, 0)
        assert ctx.get(dut.axi.arvalid) and ctx.get(dut.axi.awvalid)

    simulate(dut, bench)
