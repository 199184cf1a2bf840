"""The RTL's performance counters count like a Python dictionary."""

from random import Random

from gateware import simulate

from vdla.hw.counters import COUNTERS, CYCLE_COUNTERS, Counters, activities
from vdla.hw.interfaces import Kind
from vdla.isa.config import load_config
from vdla.isa.layout import Unit

TINY = load_config("tiny")


def test_every_counter_counts_its_own():
    random = Random(1)
    dut = Counters(config=TINY)

    async def bench(ctx):
        for _ in range(2):  # the second time from zero
            counts = dict.fromkeys(COUNTERS, 0)
            ctx.set(dut.clear, 1)
            await ctx.tick()
            ctx.set(dut.clear, 0)
            for _ in range(1200):
                run = random.random() < 0.9
                ctx.set(dut.run, run)
                for unit in Unit:
                    activity = random.choice(activities(unit))
                    ctx.set(getattr(dut, unit.name.lower()), activity)
                    name = next(name for u, a, name in CYCLE_COUNTERS if (u, a) == (unit, activity))
                    counts[name] += run
                for side, kinds in (
                    ("read", [kind for kind in Kind if kind is not Kind.OUT]),
                    ("write", [Kind.OUT]),
                ):
                    kind, accepted = random.choice(kinds), random.random() < 0.5
                    beats, size = random.randint(1, 64), random.randint(1, 512)
                    ctx.set(getattr(dut, f"{side}_accepted"), accepted)
                    burst = {"address": 0, "beats": beats, "bytes": size, "kind": kind}
                    ctx.set(getattr(dut, f"{side}_burst"), burst)
                    if accepted and run:
                        counts[f"{kind.name.lower()}.bytes"] += size
                        counts[f"{kind.name.lower()}.beats"] += beats
                await ctx.tick()
            ctx.set(dut.run, 0)
            # Accepted bursts and activities no longer count; any pipeline has a few cycles to empty.
            await ctx.tick().repeat(8)
            assert all(counts.values())
            # Reading may take a few cycles too: AXI4-Lite lets it.
            for index, name in enumerate(COUNTERS):
                ctx.set(dut.index, index)
                await ctx.tick().repeat(8)
                assert ctx.get(dut.value) == counts[name], name

    simulate(dut, bench)
