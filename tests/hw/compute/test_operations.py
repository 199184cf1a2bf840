"""The RTL's loop nest of operations equals nested Python loops in every cycle, with instructions back to back."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from vdla.hw.compute.operations import Operations, most_extra, offset_layout
from vdla.isa.config import load_config

CONFIG = load_config("tiny")
FACTORS = ("dst", "src", "wgt")


def walk(values: dict[str, int], base: dict[str, int], two: int, extra: int) -> list[tuple[int, ...]]:
    """The expected outputs of the RTL's loop nest for an instruction with the field values `values`, one tuple for each
    cycle. A tuple has three flags, which are 1 if the cycle reads the source, reads the destination, and is the last;
    then the micro-op, and the indices of dst, src and wgt.

    `base`: the micro-op's indices; `two`: 1 if the source is read one cycle before the destination; `extra`: number of
    further cycles for each operation.
    """
    steps = [
        (uop, *(base[f] + y * values[f"{f}_factor_out"] + x * values[f"{f}_factor_in"] for f in FACTORS))
        for y in range(values["iter_out"])
        for x in range(values["iter_in"])
        for uop in range(values["uop_bgn"], values["uop_end"])
    ]
    cycles = []
    for number, step in enumerate(steps):
        for cycle in range(1 + two + extra):
            last = number == len(steps) - 1 and cycle == two + extra
            cycles.append((int(two and cycle == 0), int(cycle == two), int(last), *step))
    return cycles


@pytest.mark.parametrize("extra", [0, 1, most_extra(CONFIG)])
@pytest.mark.parametrize("two", [0, 1])
def test_cycles_of_four_instructions(two: int, extra: int) -> None:
    rng = np.random.default_rng(3)
    programs = []
    for shape in ((1, 1, 1), (3, 2, 4), (2, 5, 1), (1, 1, 6)):
        begin = int(rng.integers(0, CONFIG.uop_depth - 8))
        values = {
            "uop_bgn": begin,
            "uop_end": begin + shape[2],
            "iter_out": shape[0],
            "iter_in": shape[1],
        }
        values |= {f"{f}_factor_{side}": int(rng.integers(0, 9)) for f in FACTORS for side in ("out", "in")}
        programs.append((values, {f: int(rng.integers(0, 100)) for f in FACTORS}))
    # The last micro-op of the memory: uop_end = uop_depth.
    programs[1][0].update(uop_bgn=CONFIG.uop_depth - 4, uop_end=CONFIG.uop_depth)
    wanted = [cycle for values, base in programs for cycle in walk(values, base, two, extra)]
    unit = Operations(config=CONFIG)
    seen = []

    async def bench(ctx) -> None:
        left, known = list(programs), False  # known: the next instruction has been there for a cycle
        while left or ctx.get(unit.busy):
            if ctx.get(unit.busy):
                row = [ctx.get(s) for s in (unit.source, unit.destination, unit.last, unit.uop)]
                seen.append((*row, *(ctx.get(unit.offset[f]) for f in FACTORS)))
            assert len(seen) <= len(wanted)
            start = known and bool(left) and (not ctx.get(unit.busy) or bool(ctx.get(unit.last)))
            ctx.set(unit.start, start)
            if left:
                values, base = left[0]
                ctx.set(unit.loops, values)
                ctx.set(unit.base, base)
                ctx.set(unit.two, two)
                ctx.set(unit.extra, extra)
            if start:
                left.pop(0)
            known = not start
            await ctx.tick()

    simulator = Simulator(unit)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    assert seen == wanted
    assert set(offset_layout(CONFIG).members) == set(FACTORS)
