"""The RTL's accumulator banks, with two readers and one writer, behave like a Python list."""

import dataclasses
from random import Random

import pytest
from gateware import simulate

from vdla.hw.compute.accumulators import Accumulators
from vdla.isa.config import load_config

TINY = load_config("tiny")


@pytest.mark.parametrize("banks", [1, 2, 4])
def test_readers_and_writer(banks: int):
    random = Random(banks)
    config = dataclasses.replace(TINY, acc_banks=banks, acc_buffer_bytes=16 * 16)
    lanes, depth = config.batch * config.block_out, config.acc_depth
    dut = Accumulators(config=config)
    refused = 0

    async def bench(ctx):
        nonlocal refused
        words = [[0] * lanes for _ in range(depth)]
        before = []  # what the reads of the cycle before give: they show two cycles after their address
        for _ in range(800):
            enable, address = random.getrandbits(lanes), random.randrange(depth)
            values = [random.randrange(-(1 << 31), 1 << 31) for _ in range(lanes)]
            ctx.set(dut.write.enable, enable)
            ctx.set(dut.write.address, address)
            data = sum((value & 0xFFFF_FFFF) << 32 * lane for lane, value in enumerate(values))
            ctx.set(dut.write.data, data)
            reads, place = random.random() < 0.6, random.randrange(depth)
            ctx.set(dut.read.enable, reads)
            ctx.set(dut.read.address, place)
            asks, other = random.random() < 0.6, random.randrange(depth)
            ctx.set(dut.store.request, asks)
            ctx.set(dut.store.address, other)
            same = place // config.acc_bank_depth == other // config.acc_bank_depth
            granted = asks and not (reads and same)
            assert not asks or ctx.get(dut.store.grant) == granted
            refused += asks and not granted
            read_word, store_word = list(words[place]), list(words[other])
            for lane in range(lanes):
                if enable >> lane & 1:
                    words[address][lane] = values[lane]
            await ctx.tick()
            for shown, word, happens in before:
                expected = sum((value & 0xFFFF_FFFF) << 32 * lane for lane, value in enumerate(word))
                assert not happens or ctx.get(shown) == expected
            before = [(dut.read.data, read_word, reads), (dut.store.data, store_word, granted)]

    simulate(dut, bench)
    assert refused > 50
