"""A token queue of the RTL counts like two Python integers."""

import dataclasses
from random import Random

import pytest
from gateware import simulate

from vdla.hw.tokens import TokenCounter
from vdla.isa.config import load_config

TINY = load_config("tiny")


@pytest.mark.parametrize("depth", [1, 2, 5, 64])
def test_a_queue_counts_tokens_and_reservations(depth: int):
    random = Random(depth)
    dut = TokenCounter(config=dataclasses.replace(TINY, token_queue_depth=depth))
    seen = set()

    async def bench(ctx):
        tokens = reserved = 0
        for cycle in range(600):
            # Phases in which more comes than goes, and the other way round.
            filling = cycle // 150 % 2 == 0
            assert ctx.get(dut.pop.available) == (tokens > 0)
            assert ctx.get(dut.push.room) == (tokens + reserved < depth)
            seen.add((tokens > 0, tokens + reserved < depth))
            pop = tokens > 0 and random.random() < (0.2 if filling else 0.9)
            reserve = tokens + reserved < depth and random.random() < (0.9 if filling else 0.2)
            push = random.randint(0, reserved) if random.random() < 0.5 else 0
            ctx.set(dut.pop.pop, pop)
            ctx.set(dut.push.reserve, reserve)
            ctx.set(dut.push.push, push)
            tokens += push - pop
            reserved += reserve - push
            await ctx.tick()

    simulate(dut, bench)
    assert {(False, True), (True, False)} <= seen  # empty, full
