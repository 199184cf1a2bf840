"""Addresses and FIFO of the RTL's read client equal a Python model of section 3 of hw/README.md."""

import dataclasses
from random import Random

import pytest
from amaranth.sim import Simulator

from vdla.hw.interfaces import Kind
from vdla.hw.read_fifo import ReadFifo
from vdla.hw.read_requests import BurstCutter, ReadRequests
from vdla.isa.config import Config, load_config
from vdla.isa.timing import FIFO_LATENCY, PRODUCT_CYCLES, REQUEST_DELAY, REQUEST_GAP, ROOM_DELAY

TINY = load_config("tiny")


def with_bus(bus: int) -> Config:
    return dataclasses.replace(
        TINY,
        memory=dataclasses.replace(TINY.memory, bus_bytes=bus),
        operand_fifo_bytes=512,
        store_fifo_bytes=512,
    )


def cut(start: int, length: int, bus: int, most: int) -> list[tuple[int, int]]:
    bursts = []
    while length:
        size = min(length, most * bus - start % bus, 4096 - start % 4096)
        bursts.append((start, size))
        start, length = start + size, length - size
    return bursts


def random_runs(random: Random) -> dict[str, int]:
    return {
        "address": random.randrange(1 << 20) * random.choice([1, 4, 16]),
        "length": random.choice([0, 1, 7, 64, random.randrange(9000)]),
        "rows": random.choice([0, 1, 2, 5]),
        "pitch": random.randrange(10_000),
        "joined": random.choice([0, 0, 1]),
    }


@pytest.mark.parametrize("bus", [8, 64])
@pytest.mark.parametrize("most", [1, 4, 32])
def test_bursts_are_cut_as_the_contract_says(bus: int, most: int):
    random = Random(bus * 100 + most)
    dut = BurstCutter(config=with_bus(bus), most_beats=most)
    checked = 0

    async def bench(ctx):
        nonlocal checked
        for _ in range(60):
            runs = random_runs(random)
            rows = [(runs["address"] + row * runs["pitch"], runs["length"]) for row in range(runs["rows"])]
            product = bool(runs["joined"] and runs["rows"] > 1)
            if product:
                rows = [(runs["address"], runs["length"] * runs["rows"])]
            expected = [burst for row in rows for burst in cut(*row, bus, most)][:60]
            ctx.set(dut.start, 1)
            ctx.set(dut.runs, {**runs, "kind": Kind.INP})
            await ctx.tick()
            ctx.set(dut.start, 0)
            assert ctx.get(dut.active)
            complete = len(expected) < 60
            hidden = REQUEST_DELAY - 3 + PRODUCT_CYCLES * product  # cycles until the next burst shows
            for address, size in expected:
                for _ in range(hidden):
                    ctx.set(dut.burst.ready, random.random() < 0.7)
                    assert not ctx.get(dut.burst.valid) and ctx.get(dut.active)
                    await ctx.tick()
                ctx.set(dut.burst.ready, 0)
                for _ in range(random.choice([0, 0, 1, 3])):
                    assert ctx.get(dut.burst.valid)
                    await ctx.tick()
                ctx.set(dut.burst.ready, 1)
                assert ctx.get(dut.burst.valid) and ctx.get(dut.active)
                assert ctx.get(dut.burst.payload.address) == address
                assert ctx.get(dut.burst.payload.bytes) == size
                assert ctx.get(dut.burst.payload.beats) == (address + size - 1) // bus - address // bus + 1
                await ctx.tick()
                checked += 1
                hidden = REQUEST_GAP - 1
            ctx.set(dut.burst.ready, 0)
            if complete and not expected:
                assert ctx.get(dut.active) and not ctx.get(dut.burst.valid)
                await ctx.tick()
            if complete:
                assert not ctx.get(dut.active) and not ctx.get(dut.burst.valid)
            ctx.set(dut.burst.ready, 1)
            while ctx.get(dut.active):
                await ctx.tick()
            ctx.set(dut.burst.ready, 0)

    simulate(dut, bench)
    assert checked > 60


def simulate(dut, bench):
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


def test_requests_wait_for_room():
    dut = ReadRequests(config=with_bus(8), fifo_bytes=64)  # eight words, bursts of at most four
    runs = {"address": 0, "length": 12 * 8, "rows": 1, "pitch": 0, "joined": 1, "kind": Kind.WGT}
    uses = {18: 2, 19: 1, 22: 1}  # words given back by their last use in a cycle: shown a cycle later

    async def bench(ctx):
        ctx.set(dut.runs, runs)
        ctx.set(dut.start, 1)
        ctx.set(dut.request.ready, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        shown = []
        for cycle in range(1, 40):
            ctx.set(dut.release, uses.get(cycle - 1, 0))
            if ctx.get(dut.request.valid):
                shown.append((cycle, ctx.get(dut.request.payload.address)))
            await ctx.tick()
        second = REQUEST_DELAY + REQUEST_GAP
        assert shown == [(REQUEST_DELAY, 0), (second, 32), (22 + ROOM_DELAY, 64)]
        assert not ctx.get(dut.active)

    simulate(dut, bench)


def test_a_burst_is_given_back_when_its_last_word_is_popped():
    dut = ReadFifo(config=with_bus(8), fifo_bytes=64)
    released = []

    async def bench(ctx):
        for number, last in enumerate([0, 0, 1, 1, 0, 1]):
            ctx.set(dut.beat_valid, 1)
            ctx.set(dut.beat_data, 100 + number)
            ctx.set(dut.beat_last, last)
            assert ctx.get(dut.words.valid) == (number >= FIFO_LATENCY - 1)  # a cycle passes before the FIFO
            await ctx.tick()
        ctx.set(dut.beat_valid, 0)
        ctx.set(dut.words.ready, 1)
        for number in range(6):
            assert ctx.get(dut.words.valid) and ctx.get(dut.words.payload.data) == 100 + number
            await ctx.tick()
            released.append(ctx.get(dut.release))
        assert not ctx.get(dut.words.valid)

    simulate(dut, bench)
    assert released == [0, 0, 3, 1, 0, 2]
