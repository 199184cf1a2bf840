"""Input and weight memories: lanes, and when what is written can be read."""

from random import Random

import pytest
from gateware import simulate
from vdla.hw.scratchpads import Scratchpad


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


class Refused(Scratchpad):
    """Amaranth warns of components that are made and not used, unless told not to."""

    _MustUse__silence = True


def test_lanes_must_divide_the_width():
    with pytest.raises(ValueError, match="3 lanes or 1 repeats do not divide 32 bits"):
        Refused(depth=4, width=32, lanes=3)
