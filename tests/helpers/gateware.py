"""Runs Amaranth components in the simulator pysim, and drives both ends of their streams."""

from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import Any

from amaranth.sim import Simulator

Bench = Callable[[Any], Awaitable[None]]


def simulate(component: Any, *benches: Bench, background: Iterable[Bench] = ()) -> None:
    """Runs `benches` concurrently on a component, with a clock, until all have ended; the simulation also runs the
    `background` benches but does not wait for their ends.
    """
    simulator = Simulator(component)
    simulator.add_clock(1e-6)
    for bench in benches:
        simulator.add_testbench(bench)
    for bench in background:
        simulator.add_testbench(bench, background=True)
    simulator.run()


async def stream_put(ctx: Any, stream: Any, payload: Any) -> None:
    """Offers one payload on a stream, with valid = 1, until it is accepted; then sets valid to 0."""
    ctx.set(stream.payload, payload)
    ctx.set(stream.valid, 1)
    await ctx.tick().until(stream.ready)
    ctx.set(stream.valid, 0)


async def stream_get(ctx: Any, stream: Any) -> Any:
    """Sets a stream's ready to 1, waits for one payload and returns it; then sets ready to 0."""
    ctx.set(stream.ready, 1)
    (payload,) = await ctx.tick().sample(stream.payload).until(stream.valid)
    ctx.set(stream.ready, 0)
    return payload


async def stream_put_all(ctx: Any, stream: Any, payloads: Iterable[Any], random: Random, idle: float) -> None:
    """Offers `payloads` on a stream, one after the other. Before each payload, the stream is idle for a random number
    of cycles: in every cycle, it stays idle for another cycle with probability `idle`.
    """
    for payload in payloads:
        while random.random() < idle:
            await ctx.tick()
        await stream_put(ctx, stream, payload)
