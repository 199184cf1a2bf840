"""Running Amaranth components in pysim, and both ends of their streams."""

from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import Any

from amaranth.sim import Simulator

Bench = Callable[[Any], Awaitable[None]]


def simulate(component: Any, *benches: Bench, background: Iterable[Bench] = ()) -> None:
    """Run `benches` side by side until all have ended; `background` ones do not keep the simulation alive."""
    simulator = Simulator(component)
    simulator.add_clock(1e-6)
    for bench in benches:
        simulator.add_testbench(bench)
    for bench in background:
        simulator.add_testbench(bench, background=True)
    simulator.run()


async def stream_put(ctx: Any, stream: Any, payload: Any) -> None:
    """Offer one payload until it is taken."""
    ctx.set(stream.payload, payload)
    ctx.set(stream.valid, 1)
    await ctx.tick().until(stream.ready)
    ctx.set(stream.valid, 0)


async def stream_get(ctx: Any, stream: Any) -> Any:
    """Take one payload."""
    ctx.set(stream.ready, 1)
    (payload,) = await ctx.tick().sample(stream.payload).until(stream.valid)
    ctx.set(stream.ready, 0)
    return payload


async def stream_put_all(ctx: Any, stream: Any, payloads: Iterable[Any], random: Random, idle: float) -> None:
    """Offer payloads one after the other; with chance `idle`, nothing for a cycle before each."""
    for payload in payloads:
        while random.random() < idle:
            await ctx.tick()
        await stream_put(ctx, stream, payload)
