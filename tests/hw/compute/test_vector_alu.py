"""Every ALU operation against the reference's arithmetic, corners of the shift included."""

import numpy as np
import pytest
from amaranth.sim import Simulator
from vdla.hw.compute.vector_alu import VectorAlu, lanes
from vdla.isa.config import load_config
from vdla.isa.opcodes import AluOpcode
from vdla.isa.timing import alu_cycles

CORNERS = [0, 1, -1, 31, 32, 33, -31, -32, -33, 2**31 - 1, -(2**31), 2**30, -(2**16), 65535, 5, -5]


def wrap(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def expected(opcode: AluOpcode, left: int, right: int) -> int:
    match opcode:
        case AluOpcode.MIN:
            return min(left, right)
        case AluOpcode.MAX:
            return max(left, right)
        case AluOpcode.ADD:
            return wrap(left + right)
        case AluOpcode.MUL:
            return wrap(left * right)
        case AluOpcode.SHR:
            return left >> min(right, 31) if right >= 0 else wrap(left << min(-right, 32))


@pytest.mark.parametrize("opcode", [o for o in AluOpcode if o is not AluOpcode.ADD], ids=lambda o: o.name)
def test_lanes_follow_the_reference(opcode: AluOpcode) -> None:
    config = load_config("tiny")
    rng = np.random.default_rng(int(opcode))
    pairs = [(a, b) for a in CORNERS for b in CORNERS]
    pairs += [
        (int(a), int(b))
        for a, b in zip(rng.integers(-(2**31), 2**31, 200), rng.integers(-40, 40, 200), strict=True)
    ]
    alu = VectorAlu(config=config)
    results = {AluOpcode.MIN: alu.chosen, AluOpcode.MAX: alu.chosen, AluOpcode.SHR: alu.shifted}
    result = results.get(opcode, alu.product)

    async def bench(ctx) -> None:
        ctx.set(alu.opcode, opcode)
        await ctx.tick()
        width = lanes(config)
        for at in range(0, len(pairs) - width + 1, width):
            group = pairs[at : at + width]
            ctx.set(alu.left, [a for a, _ in group])
            ctx.set(alu.left_now, [a for a, _ in group])
            ctx.set(alu.right, [b for _, b in group])
            ctx.set(alu.start, 1)
            for _ in range(alu_cycles(opcode, True) - 1):
                await ctx.tick()
                ctx.set(alu.start, 0)
                ctx.set(alu.left, [int(v) for v in rng.integers(-99, 99, width)])  # it was taken
            for lane, (a, b) in enumerate(group):
                assert ctx.get(result[lane]) == expected(opcode, a, b), (a, b)

    simulator = Simulator(alu)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
