"""Input and weight memories: lanes, and the cycle from which a written word can be read."""

from random import Random

import pytest
from gateware import simulate

from vdla.hw.scratchpads import BankedScratchpad, Scratchpad
from vdla.isa.array_modes import TAPS


@pytest.mark.parametrize(
    ("width", "lanes", "repeats"), [(32, 4, 1), (64, 1, 1), (48, 2, 1), (48, 6, 3), (16, 1, 2)]
)
def test_against_a_list(width: int, lanes: int, repeats: int):
    random = Random(width)
    dut = Scratchpad(depth=12, width=width, lanes=lanes, repeats=repeats)
    part = width // lanes

    async def bench(ctx):
        words, shown = [0] * 12, 0
        for _ in range(600):
            enable, address = random.getrandbits(lanes), random.randrange(12)
            shared = random.getrandbits(width // repeats)
            data = sum(shared << width // repeats * place for place in range(repeats))
            ctx.set(dut.write.enable, enable)
            ctx.set(dut.write.address, address)
            ctx.set(dut.write.data, shared)
            reads, place = random.random() < 0.7, random.randrange(12)
            ctx.set(dut.read.enable, reads)
            ctx.set(dut.read.address, place)
            shown = words[place] if reads else shown
            for lane in range(lanes):
                if enable >> lane & 1:
                    mask = ((1 << part) - 1) << lane * part
                    words[address] = words[address] & ~mask | data & mask
            await ctx.tick()
            assert ctx.get(dut.read.data) == shown  # the word as it was; held without enable

    simulate(dut, bench)


@pytest.mark.parametrize(("parts", "neighbours"), [(1, 1), (1, 4), (2, 4), (4, 2), (4, 8)])
def test_neighbours_are_written_into_their_banks(parts: int, neighbours: int):
    random = Random(parts + neighbours)
    depth, width, lanes = 14 * parts, 16, 2
    dut = BankedScratchpad(depth=depth, width=width, lanes=lanes, parts=parts, neighbours=neighbours)

    async def bench(ctx):
        words = [[0] * lanes for _ in range(depth)]
        for cycle in range(400):
            count, address = random.randint(0, neighbours), random.randrange(depth)
            count = min(count, depth - address)
            data = [[random.getrandbits(8) for _ in range(lanes)] for _ in range(neighbours)]
            enables = [[i < count and random.random() < 0.8 for _ in range(lanes)] for i in range(neighbours)]
            flat = [item for word in data for item in word]
            ctx.set(dut.write.data, int.from_bytes(bytes(flat), "little"))
            bits = [bit for word in enables for bit in word]
            ctx.set(dut.write.enable, sum(bit << i for i, bit in enumerate(bits)))
            ctx.set(dut.write.address, address)
            ctx.set(dut.read.enable, 0)
            await ctx.tick()
            for i, (word, enable) in enumerate(zip(data, enables, strict=True)):
                for lane in range(lanes):
                    if enable[lane]:
                        words[address + i][lane] = word[lane]
            if cycle % 20 == 19:
                ctx.set(dut.write.enable, 0)
                for place in range(depth // parts):
                    bank, size = place % TAPS, len(dut.read.address) // TAPS
                    ctx.set(dut.read.enable, 1 << bank)
                    ctx.set(dut.read.address, place // TAPS << bank * size)
                    await ctx.tick()
                    shown = ctx.get(dut.read.data) >> bank * parts * width & (1 << parts * width) - 1
                    own = [item for word in words[place * parts : (place + 1) * parts] for item in word]
                    assert shown == int.from_bytes(bytes(own), "little")

    simulate(dut, bench)


class Refused(Scratchpad):
    """A scratchpad whose construction must fail; Amaranth's warning about unused components is switched off."""

    _MustUse__silence = True


def test_lanes_must_divide_the_width():
    with pytest.raises(
        ValueError, match="width = 32 bits must be a multiple of both lanes = 3 and repeats = 1"
    ):
        Refused(depth=4, width=32, lanes=3)
