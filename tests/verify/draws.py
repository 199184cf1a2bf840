"""The results of the random generators in verify/, as golden texts.

    PYTHONPATH=tests/helpers python -m tests.verify.draws      # from the clone: writes the texts anew

If a generator draws other programs by mistake, no other test notices, since the engines agree on these as well. The
texts contain the machines of co-simulation, statistics of the fields of random programs, the cycles of their runs, and
the coverage bins that they hit. After an intended change, write the texts anew and read the difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from kept_texts import KeptTexts, number

from vdla.isa.config import Config, Memory, load_config
from vdla.isa.decoding import decode_one
from vdla.isa.program import Program
from vdla.sim import simulate
from vdla.verify import random_operands, worst_roundings
from vdla.verify.cosim.cases import case, launch
from vdla.verify.cosim.coverage import Bin, measure
from vdla.verify.cosim.machines import default_machines
from vdla.verify.cosim.mutate import mutated_program
from vdla.verify.cosim.networks import GRAPHS, compiled
from vdla.verify.cosim.observe import observe
from vdla.verify.cosim.places import surround
from vdla.verify.energy_programs import energy_program
from vdla.verify.random_programs import random_config, random_program

NUMBERS = (3, 4, 5, 6, 7, 8)
"""Numbers of co-simulation cases that need no network: each kind of memory timing, with and without random initial
state, at the usual and at other addresses.
"""


def machine_line(config: Config) -> str:
    """A line with the fields of a machine that differ from their defaults."""
    differing: list[str] = []
    for kind, values in ((Config, config), (Memory, config.memory)):
        usual = Config() if kind is Config else Memory()
        for item in fields(kind):
            value = getattr(values, item.name)
            if item.name not in ("name", "memory") and value != getattr(usual, item.name):
                differing.append(f"{item.name} {'+'.join(value) if isinstance(value, tuple) else value}")
    return f"{config.name}: {', '.join(differing)}"


def field_lines(programs: list[Program]) -> Iterator[str]:
    """Yields, for each kind of instruction in all `programs` together, how many there are, and the least value, the
    greatest value and the sum of each field that is not always 0. Each configuration register is a kind of its own.
    """
    kinds: Counter[str] = Counter()
    values: dict[str, dict[str, list[int]]] = {}
    for program in programs:
        for words in program.instructions.tolist():
            name, found = decode_one(program.config, *words)
            if name == "CONFIG":
                name = f"CONFIG {found.pop('unit')}.{found.pop('register')}"
            kinds[name] += 1
            for field, value in found.items():
                values.setdefault(name, {}).setdefault(field, []).append(value)
    for name in sorted(kinds):
        yield f"  {name}: {kinds[name]}"
        for field, column in values[name].items():
            if any(column):
                yield f"    {field} {min(column)}..{max(column)}, sum {sum(column)}"


def image_line(programs: list[Program]) -> str:
    """A line with the total size in bytes, and the sum of all bytes, of the programs' images."""
    return f"  images: {sum(p.image.size for p in programs)} bytes, sum {sum(int(p.image.sum()) for p in programs)}"


def machines_text() -> Iterator[str]:
    """Yields a line for each machine of co-simulation and for some random machines."""
    for config in default_machines():
        yield machine_line(config)
    for seed in range(40):
        yield machine_line(random_config(seed))


def programs_text() -> Iterator[str]:
    """Yields statistics of the fields of random programs, on random machines and on a preset."""
    random = [random_program(random_config(seed), seed, length=60) for seed in range(40)]
    preset = [random_program(load_config("vta"), seed, length=60) for seed in range(4)]
    for title, programs in (("random machines", random), ("vta", preset)):
        yield title
        yield image_line(programs)
        yield from field_lines(programs)


def cosim_text() -> Iterator[str]:
    """Yields lines about one co-simulation case of each machine: its cycles, and the address of the program in memory.
    The last lines are the coverage bins that all these cases hit together.
    """
    machines = default_machines()
    counts: Counter[Bin] = Counter()
    for index, machine in enumerate(machines):
        item = case(machine, NUMBERS[index % len(NUMBERS)], 5)
        start = launch(item)
        program = start.program
        found = simulate(item.config, program.instructions, program.image, data=False)
        counts.update(observe(item.config, program, found, start.uop))
        words, around = surround(item.config, program, item.seed)
        moved = int(words.sum() % np.uint64(1_000_003))
        yield f"{item.name}: {found.cycles} cycles at address {around.base:x}, instructions there {moved}"
        yield f"  counters from {sum(around.counts)}, memory {item.config.memory}"
    coverage = measure(machines, counts)
    for group in sorted({group for group, _ in coverage.hits}):
        bins = {name: hits for (of, name), hits in coverage.hits.items() if of == group}
        unreachable = sum(of == group for of, _ in coverage.unreachable)
        hit = sum(map(bool, bins.values()))
        yield f"{group}: {len(bins)} bins, {unreachable} out of reach, {hit} hit, {sum(bins.values())} hits"


def mutated_text() -> Iterator[str]:
    """Yields lines on the small networks of co-simulation and on mutations of their programs."""
    tiny = load_config("tiny")
    attending = replace(
        tiny, name="attending", extensions=(*tiny.extensions, "table", "zero_points", "rows"), row_entries=16
    )
    for config in (tiny, attending):
        for source in GRAPHS:
            for threads in (1, 2):
                program = compiled(config, source, threads)
                if program is not None:
                    cycles = simulate(config, program.instructions, program.image, data=False).cycles
                    yield f"{source} on {config.name}, {threads}: {len(program.instructions)} instructions, {cycles}"
        programs = [found for seed in range(25) if (found := mutated_program(config, seed)) is not None]
        yield image_line(programs)
        yield from field_lines(programs)


def energy_text() -> Iterator[str]:
    """Yields statistics of the programs on which energy models are fitted and judged."""
    for name in ("vta", "tiny"):
        programs = [energy_program(load_config(name), seed) for seed in range(12)]
        yield name
        yield image_line(programs)
        yield from field_lines(programs)


def operands_text() -> Iterator[str]:
    """Yields statistics of the operands with which rounding is tested."""

    def line(name: str, draw: Callable[[np.random.Generator], Any]) -> str:
        rng = np.random.default_rng(11)
        drawn = [np.atleast_1d(np.asarray(draw(rng), np.float64)).ravel() for _ in range(300)]
        values = np.concatenate(drawn)
        finite = values[np.isfinite(values)]
        logarithms = np.log2(np.abs(finite[finite != 0]))
        return (
            f"{name}: {len(values)} values, {len(finite)} finite, {int((finite < 0).sum())} negative, "
            f"log2 {number(logarithms.min())}..{number(logarithms.max())}, sum {number(logarithms.sum())}"
        )

    yield line("log_uniform_int32", lambda rng: random_operands.log_uniform_int32(rng, 5))
    yield line("magnitude", lambda rng: random_operands.magnitude(rng, 0.01, 50))
    yield line("dyadic", random_operands.dyadic)
    yield line("tie", random_operands.tie)
    yield line("special", random_operands.special)
    yield line("random_scales", lambda rng: random_operands.random_scales(rng, 5))
    yield line(
        "near_tie_totals",
        lambda rng: random_operands.near_tie_totals(rng, np.float32([0.37, 1e-3]), np.int32([9, -70]), 3),
    )
    yield line("combine_constants", random_operands.combine_constants)
    yield line("far_rescale", lambda rng: random_operands.far_rescale(rng, 3))
    yield line("worst_totals", lambda rng: worst_roundings.worst_totals(rng, 3).totals)
    yield line("worst_multiply", lambda rng: worst_roundings.worst_multiply(rng, 90, -7, -100, 100))
    yield line("worst_rescale", lambda rng: worst_roundings.worst_rescale(rng, 7))


TEXTS = KeptTexts(
    Path(__file__).parent / "golden",
    {
        "machines": machines_text,
        "programs": programs_text,
        "cosim": cosim_text,
        "mutated": mutated_text,
        "energy": energy_text,
        "operands": operands_text,
    },
)

if __name__ == "__main__":
    TEXTS.write()
