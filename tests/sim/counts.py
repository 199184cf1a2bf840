"""The simulator's counts for a few programs, as golden texts.

    PYTHONPATH=tests/helpers python -m tests.sim.counts      # from the clone: writes the texts anew

The texts contain the cycles, causes of stalls, traffic and bit changes of random programs and of a compiled network.
After an intended change, write the texts anew and read the difference.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from kept_texts import KeptTexts

from vdla.isa.program import Program
from vdla.sim import simulate
from vdla.sim.statistics import operand_statistics
from vdla.verify.random_programs import random_config, random_program

SEEDS = (1, 2, 5, 8, 11, 13)


def program_lines(program: Program) -> Iterator[str]:
    """Yields lines with all counts of a program's simulation."""
    config, instructions, image = program.config, program.instructions, program.image
    found = simulate(config, instructions, image)
    assert found.memory is not None and found.scratchpads is not None
    left = zlib.crc32(found.memory)
    yield f"{config.name}: {len(instructions)} instructions, {found.cycles} cycles, memory {left:08x}"
    for name, times in (("begin", found.begin), ("end", found.end), ("dispatch", found.dispatch)):
        yield f"  {name}: sum {int(times.sum())}, times its place {int(times @ np.arange(len(times)))}"
    for unit, counters in found.units.items():
        yield f"  {unit}: busy {counters.busy}, stalls {counters.stalls}"
    yield f"  traffic: { ({kind: (item.bytes, item.beats) for kind, item in found.traffic.items()}) }"
    for share in (1.0, 0.4):
        changes = operand_statistics(config, instructions, image, share=share, seed=7)
        yield f"  {changes.looked_at} of {changes.operations} operations looked at"
        yield from (f"    {name} {value:.9g}" for name, value in changes.changes.items() if value)


def random_lines() -> Iterator[str]:
    """Yields lines with the counts of random programs, each on a random machine."""
    for seed in SEEDS:
        yield from program_lines(random_program(random_config(seed), seed, length=50))


TEXTS = KeptTexts(Path(__file__).parent / "golden", {"random": random_lines})

if __name__ == "__main__":
    TEXTS.write()
