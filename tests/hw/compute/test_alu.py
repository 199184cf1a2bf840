"""Every ALU operation of the RTL equals the reference's arithmetic, including corner cases of shifts."""

import dataclasses

import numpy as np
import pytest
from amaranth.sim import Simulator

from vdla.hw.compute.alu import Alu
from vdla.hw.compute.lane import lane_controls
from vdla.isa.alu import ALU_OPERATIONS, AluOpcode
from vdla.isa.config import load_config
from vdla.isa.extensions import EXTENSIONS
from vdla.isa.timing import alu_cycles

UNFOLDED = tuple(name for name in EXTENSIONS if name != "fold")
ADDED = lane_controls(dataclasses.replace(load_config("tiny"), extensions=UNFOLDED))["adds"]
"""ALU operations that use the adders of a lane of the compute unit. They are tested in `test_unit.py` instead of here.
"""

CORNERS = [0, 1, -1, 31, 32, 33, -31, -32, -33, 2**31 - 1, -(2**31), 2**30, -(2**16), 65535, 5, -5]


def wrap(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def expected(opcode: AluOpcode, left: int, right: int) -> int:
    result = ALU_OPERATIONS[opcode].compute(np.array([left], np.int64), np.array([right], np.int64))
    return wrap(int(result[0]))


@pytest.mark.parametrize("opcode", [code for code in AluOpcode if code not in ADDED], ids=lambda o: o.name)
def test_a_lane_follows_the_reference(opcode: AluOpcode) -> None:
    rng = np.random.default_rng(int(opcode))
    pairs = [(a, b) for a in CORNERS for b in CORNERS]
    pairs += [
        (int(a), int(b))
        for a, b in zip(rng.integers(-(2**31), 2**31, 200), rng.integers(-40, 40, 200), strict=True)
    ]
    alu = Alu()
    results = {AluOpcode.MIN: alu.chosen, AluOpcode.MAX: alu.chosen, AluOpcode.SHR: alu.shifted}
    result = results.get(opcode, alu.product)

    async def bench(ctx) -> None:
        ctx.set(alu.shifts, opcode == AluOpcode.SHR)
        ctx.set(alu.is_max, opcode == AluOpcode.MAX)
        await ctx.tick()
        for left, right in pairs:
            ctx.set(alu.left, left)
            ctx.set(alu.left_now, left)
            ctx.set(alu.right, right)
            ctx.set(alu.start, 1)
            for cycle in range(alu_cycles(load_config("tiny"), opcode, True) - 1):
                await ctx.tick()
                ctx.set(alu.start, 0)
                ctx.set(alu.since, (1 << cycle) & 3)
                ctx.set(alu.left, int(rng.integers(-99, 99)))  # it was taken
            assert ctx.get(result) == expected(opcode, left, right), (left, right)

    simulator = Simulator(alu)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
