"""The router between one AXI port and the channels of a DRAM: places of bursts, order of data and responses, limits."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from amaranth.sim import Simulator

from vdla.hw.axi_router import AxiRouter

PIECE, BUS = 4096, 8


class Channel:
    """A memory behind a port of the router. It answers each burst after a random time, in order; a word that it reads
    is the channel's number and the byte address. `taken`: the words written, by byte address. `moved`: whether a word
    of a read moved in the cycle before.
    """

    def __init__(self, number: int, port: Any, random: Random) -> None:
        self.number, self.port, self.random = number, port, random
        self.reads: list[tuple[int, int]] = []
        self.writes: list[tuple[int, int]] = []
        self.answers, self.moved = 0, False
        self.taken: dict[int, int] = {}

    def drive(self, ctx: Any) -> None:
        port, offers = self.port, bool(self.reads) and self.random.random() < 0.7
        ctx.set(port.arready, self.random.random() < 0.5)
        ctx.set(port.awready, self.random.random() < 0.5)
        ctx.set(port.wready, bool(self.writes) and self.random.random() < 0.7)
        if not ctx.get(port.rvalid) or self.moved:
            ctx.set(port.rvalid, offers)
        if self.reads:
            at, beats = self.reads[0]
            ctx.set(port.rdata, self.number << 48 | at)
            ctx.set(port.rlast, beats == 1)
        ctx.set(port.bvalid, self.answers > 0)

    def sample(self, ctx: Any) -> None:
        port = self.port
        self.moved = bool(ctx.get(port.rvalid) and ctx.get(port.rready))
        if self.moved:
            at, beats = self.reads.pop(0)
            if beats > 1:
                self.reads.insert(0, (at + BUS, beats - 1))
        if ctx.get(port.wvalid) and ctx.get(port.wready):
            at, beats = self.writes.pop(0)
            self.taken[at] = ctx.get(port.wdata)
            assert ctx.get(port.wlast) == (beats == 1)
            if beats > 1:
                self.writes.insert(0, (at + BUS, beats - 1))
            else:
                self.answers += 1
        if ctx.get(port.bvalid) and ctx.get(port.bready):
            self.answers -= 1
        if ctx.get(port.arvalid) and ctx.get(port.arready):
            self.reads.append((ctx.get(port.araddr), ctx.get(port.arlen) + 1))
        if ctx.get(port.awvalid) and ctx.get(port.awready):
            self.writes.append((ctx.get(port.awaddr), ctx.get(port.awlen) + 1))


def place(address: int, channels: int) -> tuple[int, int]:
    """(channel, byte within the channel) of the byte at `address` of a memory with this number of channels."""
    piece, within = divmod(address, PIECE)
    return piece % channels, piece // channels * PIECE + within


@pytest.mark.parametrize(("channels", "seed"), [(2, 0), (4, 1)])
def test_bursts_reach_their_channels_and_return_in_order(channels: int, seed: int) -> None:
    random = Random(seed)
    router = AxiRouter(bus_bytes=BUS, channels=channels, channel_bytes=PIECE, reads=3, writes=2)
    master = router.master
    behind = [Channel(number, getattr(router, f"channel_{number}"), random) for number in range(channels)]
    bursts = [
        (random.randrange(64) * PIECE + random.randrange(PIECE // BUS - 8) * BUS, random.randrange(1, 9))
        for _ in range(60)
    ]
    reads, writes = list(bursts[:30]), list(bursts[30:])
    expected = [place(address + BUS * beat, channels) for address, beats in reads for beat in range(beats)]
    data = [(beat + 1 == beats) for _, beats in writes for beat in range(beats)]
    outstanding = {"reads": 0, "writes": 0}
    most = {"reads": 0, "writes": 0}

    async def bench(ctx: Any) -> None:
        sent = shown = answered = 0
        for _ in range(4000):
            for channel in behind:
                channel.drive(ctx)
            ctx.set(master.arvalid, bool(reads))
            ctx.set(master.awvalid, bool(writes))
            for name, queue in (("ar", reads), ("aw", writes)):
                if queue:
                    ctx.set(getattr(master, f"{name}addr"), queue[0][0])
                    ctx.set(getattr(master, f"{name}len"), queue[0][1] - 1)
            # Data are offered once their address was on the bus.
            ctx.set(master.wvalid, sent < len(data) and shown > sum(data[:sent]))
            if sent < len(data):
                ctx.set(master.wdata, sent)
                ctx.set(master.wlast, data[sent])
            ctx.set(master.rready, 1)
            ctx.set(master.bready, 1)
            await ctx.delay(1e-9)
            for channel in behind:
                channel.sample(ctx)
            if ctx.get(master.rvalid):
                number, at = expected.pop(0)
                assert ctx.get(master.rdata) == number << 48 | at
                outstanding["reads"] -= ctx.get(master.rlast)
            if ctx.get(master.bvalid):
                outstanding["writes"] -= 1
                answered += 1
            if ctx.get(master.wvalid) and ctx.get(master.wready):
                sent += 1
            if ctx.get(master.arvalid) and ctx.get(master.arready):
                reads.pop(0)
                outstanding["reads"] += 1
            if ctx.get(master.awvalid):
                shown = 30 - len(writes) + 1
                if ctx.get(master.awready):
                    writes.pop(0)
                    outstanding["writes"] += 1
            for name, count in outstanding.items():
                most[name] = max(most[name], count)
            await ctx.tick()
            if answered == 30 and not expected:
                break
        assert answered == 30 and sent == len(data)

    simulator = Simulator(router)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert not expected and not reads and not writes
    assert most == {"reads": 3, "writes": 2}
    found = {(channel.number, at): word for channel in behind for at, word in channel.taken.items()}
    number = 0
    last: dict[tuple[int, int], int] = {}
    for address, beats in bursts[30:]:
        for beat in range(beats):
            last[place(address + BUS * beat, channels)] = number
            number += 1
    assert found == last
