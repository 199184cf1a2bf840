"""Tests the RTL pipeline of the instruction STORE.POST by itself. Windows of accumulators follow each other as closely
as hw/README.md allows. Some machines have fewer lanes than a vector has elements; there, the lanes process a vector in
several passes.
"""

import dataclasses
import itertools

import numpy as np
import pytest
from amaranth.sim import Simulator
from campaign import representatives

from vdla.hw.store.constants import CONSTANTS_CYCLES
from vdla.hw.store.post import PostPipeline, scales_after_biases
from vdla.isa.arithmetic import AddConstants, combine_add, requantize
from vdla.isa.config import Config, load_config
from vdla.isa.fields import pack_fields
from vdla.isa.registers import register
from vdla.isa.timing import post_latency

EDGE8 = load_config("edge8")
SMALL = dataclasses.replace(load_config("tiny"), batch=2)
CASES = {
    "8 lanes in 1 pass": dataclasses.replace(EDGE8, post_lanes=None),
    "8 lanes in 2 passes": EDGE8,
    "8 lanes in 8 passes": dataclasses.replace(EDGE8, post_lanes=1),
    "2x4 lanes in 2 passes": dataclasses.replace(SMALL, post_lanes=4),
    "2x4 lanes in 4 passes": dataclasses.replace(SMALL, post_lanes=2),
}
ZERO_POINT, LOW, HIGH = 3, -100, 100
RATIOS = np.float32(0.75), np.float32(-0.3)
OFFSET = np.float32(1.5)


def bits(array: np.ndarray) -> int:
    return int.from_bytes(np.ascontiguousarray(array).tobytes(), "little")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """The inputs of `count` STORE.POST operations of a machine `config`. `acc`: `reads` accumulators for each
    operation, (count, reads, batch, block_out). `operands`: second operands, which are used if `combine` is set. `bias`
    and `scale`: (count, block_out).
    """

    config: Config
    acc: np.ndarray
    operands: np.ndarray
    bias: np.ndarray
    scale: np.ndarray
    combine: bool

    @property
    def expected(self) -> np.ndarray:
        total = (self.acc.sum(axis=1) + self.bias[:, None]).astype(np.int32)
        value = requantize(total, np.broadcast_to(self.scale[:, None], total.shape), ZERO_POINT, -128, 127)
        if not self.combine:
            return value
        constants = AddConstants(ratio_a=RATIOS[0], ratio_b=RATIOS[1], offset=OFFSET, unsigned=False)
        return combine_add(value, self.operands, constants, LOW, HIGH)


def case(config: Config, *, count: int, reads: int, combine: bool) -> Case:
    rng = np.random.default_rng((count, reads, combine))
    shape = (config.batch, config.block_out)
    return Case(
        config=config,
        acc=rng.integers(-40_000, 40_000, (count, reads, *shape), dtype=np.int32),
        operands=rng.integers(-128, 128, (count, *shape)).astype(np.int8),
        bias=rng.integers(-9000, 9000, (count, config.block_out), dtype=np.int32),
        scale=(
            rng.choice([-1, 1], size := (count, config.block_out)) * rng.uniform(0.0005, 0.005, size)
        ).astype(np.float32),
        combine=combine,
    )


def settings(case: Case) -> dict[str, int]:
    values = {
        "REQUANTIZE": {"zero_point": ZERO_POINT, "low": -128, "high": 127},
        "RATIO": {"ratio_self": bits(RATIOS[0]), "ratio_operand": bits(RATIOS[1])},
        "COMBINE": {"offset": bits(OFFSET), "low": LOW, "high": HIGH},
    }
    return {name.lower(): pack_fields(name, register(name).fields, fields) for name, fields in values.items()}


def run(case: Case) -> dict[int, bytes]:
    """The vectors that the pipeline outputs, by the cycle of their `put`; the first accumulator is read in cycle 0."""
    dut, got = PostPipeline(config=case.config), {}
    count, reads = case.acc.shape[:2]
    pace = max(reads, case.config.post_passes)
    first_bias = reads - 1 + 2
    first_scale = first_bias + scales_after_biases(case.config)

    async def bench(ctx) -> None:
        for name, value in settings(case).items():
            ctx.set(getattr(dut, name), value)
        ctx.set(dut.flags, {"sum": 1, "combine": case.combine, "operand": case.combine})
        await ctx.tick().repeat(CONSTANTS_CYCLES)
        data = next_data = 0
        for cycle in range(count * pace + post_latency(case.config)):
            if ctx.get(dut.put):
                got[cycle] = ctx.get(dut.vector).to_bytes(case.config.out_bytes, "little")
            window, step = divmod(cycle, pace)
            for port, values, since in (
                (dut.biases, case.bias, first_bias),
                (dut.scales, case.scale, first_scale),
            ):
                if (number := (cycle - since) // pace) in range(count):
                    ctx.set(port, bits(values[number]))
            reading = window < count and step < reads
            ctx.set(dut.read, reading)
            ctx.set(dut.first, reading and step == 0)
            ctx.set(dut.last, reading and step == reads - 1)
            ctx.set(dut.operand, bits(case.operands[window]) if reading and step == 0 else 0)
            ctx.set(dut.data, data)  # of the read two cycles before
            data, next_data = (
                next_data,
                bits(case.acc[window, step]) if reading else -1 % (1 << 8 * case.config.acc_bytes),
            )
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    return got


@pytest.mark.parametrize(
    ("name", "reads", "combine"),
    representatives(
        itertools.product(CASES, (1, 3), (False, True)),
        0,
        always=[
            ("8 lanes in 2 passes", 3, True),
            ("2x4 lanes in 2 passes", 1, True),
            ("2x4 lanes in 4 passes", 1, False),
        ],
    ),
)
def test_results_come_at_the_full_rate_in_the_right_cycles(name: str, reads: int, combine: bool) -> None:
    config = CASES[name]
    given = case(config, count=40, reads=reads, combine=combine)
    pace = max(reads, config.post_passes)
    cycles = [k * pace + reads - 1 + post_latency(config) - 1 for k in range(40)]
    expected = given.expected
    assert len(np.unique(expected)) > 100
    assert run(given) == {cycle: expected[k].tobytes() for k, cycle in enumerate(cycles)}
