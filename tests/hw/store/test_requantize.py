"""The RTL of stage A (requantization) of the store pipeline equals vdla.isa.arithmetic."""

import numpy as np
from amaranth.sim import Simulator

from vdla.hw.store.requantize import REQUANTIZE_STAGES, SCALE_STAGE, Requantize
from vdla.isa.arithmetic import requantize


def operands(rng: np.random.Generator, count: int) -> np.ndarray:
    """Random int32 values of every magnitude, including neighbours of powers of two and ties of float32 rounding."""
    plain = rng.integers(-(2**31), 2**31, count) >> rng.integers(0, 31, count)
    powers = 1 << rng.integers(0, 31, count)
    ties = (2 * rng.integers(2**23, 2**24, count) + 1) << rng.integers(0, 6, count)
    near = np.where(
        rng.random(count) < 0.5, powers + rng.integers(-1, 2, count), ties + rng.integers(-1, 2, count)
    )
    values = np.where(rng.random(count) < 0.5, plain, near * rng.choice([-1, 1], count))
    values[:4] = [0, -(2**31), 2**31 - 1, -1]
    return np.clip(values, -(2**31), 2**31 - 1).astype(np.int32)


def scales_for(rng: np.random.Generator, totals: np.ndarray) -> np.ndarray:
    """Random scales that map most of `totals` near the int8 range, many of them to a tie."""
    wanted = rng.integers(-140, 140, len(totals)) + rng.choice([0.0, 0.5, 0.5, 0.25], len(totals))
    scales = (wanted / np.where(totals == 0, 1, totals)).astype(np.float32)
    bits = scales.view(np.int32) + rng.integers(-1, 2, len(totals)).astype(np.int32)
    scales = np.where(rng.random(len(totals)) < 0.6, bits.view(np.float32), scales)
    halves = np.ldexp(np.float32(1), rng.integers(-32, 4, len(totals))).astype(np.float32)
    scales = np.where(rng.random(len(totals)) < 0.3, halves, scales)
    corners = np.array([0, 1, 0x80000000, 0x7F7FFFFF, 0xFF7FFFFF, 0x00800000, 0x007FFFFF], np.uint32)
    scales[: 2 * len(corners)] = np.tile(corners.view(np.float32), 2)
    return np.where(np.isfinite(scales), scales, np.float32(1)).astype(np.float32)


def run(totals: np.ndarray, scales: np.ndarray, zero_point: int, low: int, high: int) -> list[int]:
    """The RTL's results, requantized with `zero_point` and clamped to `low` .. `high`, for pairs of total and scale.
    The pipeline uses a scale some cycles after its total, so the scales are delayed accordingly.
    """
    lane, got = Requantize(), []

    async def bench(ctx) -> None:
        ctx.set(lane.zero_point, zero_point)
        ctx.set(lane.low, low)
        ctx.set(lane.high, high)
        for cycle in range(len(totals) + REQUANTIZE_STAGES):
            if cycle >= REQUANTIZE_STAGES:
                got.append(ctx.get(lane.result))
            ctx.set(lane.total, int(totals[min(cycle, len(totals) - 1)]))
            ctx.set(lane.scale, int(scales.view(np.uint32)[np.clip(cycle - SCALE_STAGE, 0, len(totals) - 1)]))
            await ctx.tick()

    simulator = Simulator(lane)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    return got


def test_random_and_corner_operands():
    rng = np.random.default_rng(11)
    for zero_point, low, high in (
        (0, -128, 127),
        (-128, -128, 127),
        (17, 17, 90),
        (-32768, -128, 127),
        (3, 5, 2),
    ):
        totals = operands(rng, 300)
        scales = scales_for(rng, totals)
        with np.errstate(over="ignore"):
            expected = requantize(totals, scales, zero_point, low, high)
        assert run(totals, scales, zero_point, low, high) == expected.tolist()
