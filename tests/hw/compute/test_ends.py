"""The shift register that times the ends of instructions: several instructions may end in the same cycle."""

import dataclasses

import pytest
from amaranth.sim import Simulator

from vdla.hw.compute.ends import Ends, most_ends
from vdla.isa.config import Config, load_config
from vdla.isa.timing import BEGIN_DELAY, gemm_latency

TINY = load_config("tiny")
WIDE = dataclasses.replace(TINY, block_in=32, extensions=(), inp_buffer_bytes=32768, wgt_buffer_bytes=65536)


@pytest.mark.parametrize(
    "config",
    [*(dataclasses.replace(TINY, multiplier_stages=stages) for stages in (1, 2, 3, 4)), WIDE],
    ids=lambda config: f"latency {gemm_latency(config)}, {config.block_in} wide",
)
def test_all_that_join_a_matrix_instruction_end_with_it(config: Config) -> None:
    """Instructions without operations that begin before a matrix instruction has ended (`joins`) end in the same cycle
    as it. The last operation of the matrix instruction issues in cycle 0; the others begin as often as possible.
    """
    latency = gemm_latency(config)
    ends = Ends(config=config)
    seen: dict[int, tuple[int, int]] = {}

    async def bench(ctx) -> None:
        for cycle in range(latency + 4):
            joins = int(cycle < latency and cycle % (1 + BEGIN_DELAY) == 0)
            ctx.set(ends.issued, int(cycle == 0))
            ctx.set(ends.issued_next, int(cycle == 0))
            ctx.set(ends.joins, joins)
            ctx.set(ends.joins_next, joins)
            if count := ctx.get(ends.now.count):
                seen[cycle] = count, ctx.get(ends.now.push_next)
            await ctx.tick()

    simulator = Simulator(ends)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    assert seen == {latency: (most_ends(config), most_ends(config))}
