"""The RTL's token counters and its issue of instructions follow hw/README.md, section 5, in random traffic."""

import dataclasses
from random import Random

import pytest
from amaranth.sim import Simulator

from vdla.hw.interfaces import Activity
from vdla.hw.issue import Issue
from vdla.hw.tokens import TokenCounter
from vdla.isa.config import load_config
from vdla.isa.layout import encode

TINY = load_config("tiny")


def simulate(dut, bench):
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("depth", [1, 2, 5, 64])
def test_tokens_and_reservations_are_counted(depth: int):
    random = Random(depth)
    dut = TokenCounter(config=dataclasses.replace(TINY, token_queue_depth=depth))

    async def bench(ctx):
        tokens = reserved = pops = full = 0
        for cycle in range(600):
            busy = (cycle // 100) % 2  # now producing faster than consuming, now the other way round
            assert ctx.get(dut.pop.available) == (tokens > 0)
            assert ctx.get(dut.push.room) == (tokens + reserved < depth)
            full += tokens + reserved == depth
            pop = tokens > 0 and random.random() < (0.2 if busy else 0.8)
            reserve = tokens + reserved < depth and random.random() < (0.9 if busy else 0.3)
            push = random.randint(0, min(reserved, 3)) if random.random() < 0.5 else 0
            ctx.set(dut.pop.pop, pop)
            ctx.set(dut.push.reserve, reserve)
            ctx.set(dut.push.push, push)
            tokens, reserved, pops = tokens + push - pop, reserved + reserve - push, pops + pop
            await ctx.tick()
        assert pops > 30 and (full or depth == 64)

    simulate(dut, bench)


def test_each_pop_happens_in_its_first_cycle_and_all_conditions_are_waited_for():
    random = Random(5)
    dut = Issue(config=TINY)
    seen = set()

    async def bench(ctx):
        for _ in range(300):
            flags = {name: random.randrange(2) for name in ("pop_prev", "pop_next", "push_prev", "push_next")}
            low, high = encode(TINY, "LOAD.INP", **flags)
            ctx.set(dut.commands.payload, low | high << 64)
            for _ in range(random.randrange(2)):
                ctx.set(dut.commands.valid, 0)
                assert ctx.get(dut.stall) == Activity.INSTRUCTION
                assert not (ctx.get(dut.begin) or ctx.get(dut.pop_prev.pop) or ctx.get(dut.pop_next.pop))
                await ctx.tick()
            ctx.set(dut.commands.valid, 1)
            done = {"pop_prev": not flags["pop_prev"], "pop_next": not flags["pop_next"]}
            ready = False
            while True:
                if not ready:  # room and condition stay until the begin
                    available = {"pop_prev": random.random() < 0.5, "pop_next": random.random() < 0.5}
                    room = {"prev": random.random() < 0.7, "next": random.random() < 0.7}
                    condition = random.random() < 0.7
                ctx.set(dut.pop_prev.available, available["pop_prev"])
                ctx.set(dut.pop_next.available, available["pop_next"])
                ctx.set(dut.room_prev, room["prev"])
                ctx.set(dut.room_next, room["next"])
                ctx.set(dut.condition, condition)
                for name, port in (("pop_prev", dut.pop_prev), ("pop_next", dut.pop_next)):
                    assert ctx.get(port.pop) == (available[name] and not done[name])
                    done[name] = done[name] or available[name]
                expected = Activity.BEGIN
                for failed, activity in (
                    (not done["pop_prev"], Activity.TOKEN_PREV),
                    (not done["pop_next"], Activity.TOKEN_NEXT),
                    (flags["push_prev"] and not room["prev"], Activity.FULL_PREV),
                    (flags["push_next"] and not room["next"], Activity.FULL_NEXT),
                    (not condition, Activity.UNIT),
                ):
                    if failed:
                        expected = activity
                        break
                begins = ready  # in the cycle before
                assert ctx.get(dut.stall) == expected
                assert ctx.get(dut.begin) == ctx.get(dut.commands.ready) == begins
                assert ctx.get(dut.reserve_prev) == (begins and flags["push_prev"])
                assert ctx.get(dut.reserve_next) == (begins and flags["push_next"])
                seen.add(expected)
                ready = expected is Activity.BEGIN
                await ctx.tick()
                if begins:
                    break

    simulate(dut, bench)
    assert len(seen) == 6
