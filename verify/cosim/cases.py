"""The cases of a co-simulation: each has a program that depends on the seed alone, so that it is equal on every
computer and in any order of cases.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.isa.config import Config
from vdla.isa.layout import uop_dtype
from vdla.isa.program import Program
from vdla.isa.scratchpads import Contents

from ..random_programs import random_program
from ..random_scratchpads import random_scratchpads
from .machines import share
from .memory_timings import TIMINGS, with_timing
from .mutate import mutated_program

LENGTH = 60
"""Number of instructions of a random program, not counting instructions that only push or pop tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One program on one machine (accelerator configuration) with one memory timing.

    - `machine`: the configuration in the list of machines. `config`: the same configuration with this case's memory
      timing. `timing`: index of this timing in TIMINGS.
    - `number`: index of this case among the machine's cases. `campaign`: seed of the campaign. `seed`: seed of the
      program.
    - `mutated`: the program is made by mutation of compiler output. If no network fits the machine, it is a random
      program instead.
    - `random_state`: seed of the contents of registers and scratchpads at power-up. None: registers have their reset
      values, and scratchpads are zero.
    - `place`: seed of the memory image's addresses and of the counters' initial values (module `places`). None: the
      image is at address 0, and counters start at 0.
    """

    machine: Config
    config: Config
    number: int
    campaign: int
    seed: int
    timing: int
    mutated: bool
    random_state: int | None
    place: int | None

    @property
    def name(self) -> str:
        """A name that identifies the case: machine, seed and number."""
        return f"{self.machine.name} / seed {self.campaign} / number {self.number}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Launch:
    """A program and the initial state of simulator and RTL. `scratchpads`: contents by name; None for zeros.
    `random_state`: seed of the RTL's registers; None for their reset values. `place`: seed of the addresses to which
    the program is moved for the RTL (`places.surround`); None if it is not moved.
    """

    program: Program
    scratchpads: dict[str, NDArray[np.uint8]] | None
    random_state: int | None
    place: int | None = None

    @property
    def uop(self) -> NDArray[np.unsignedinteger] | None:
        """The micro-op scratchpad at launch; None for zeros."""
        return _uop_memory(self.program.config, self.scratchpads)


def _uop_memory(config: Config, scratchpads: Contents | None) -> NDArray[np.unsignedinteger] | None:
    return None if scratchpads is None else scratchpads["uop"].view(uop_dtype(config))


def case(machine: Config, number: int, campaign: int) -> Case:
    """Case `number` of `machine` in the campaign of seed `campaign`.

    The properties of a case depend only on these three arguments. The three memory timings alternate from case to case.
    For each timing, a third of the programs are made by mutation of compiler output (if a network fits the machine).
    Half of all programs start with random registers and scratchpads, and three quarters run at random addresses.
    """
    words = np.random.SeedSequence((campaign, zlib.crc32(machine.digest.encode()), number)).generate_state(3)
    seed, timing = int(words[0]), number % len(TIMINGS)
    return Case(
        machine=machine,
        config=with_timing(machine, timing, seed),
        number=number,
        campaign=campaign,
        seed=seed,
        timing=timing,
        mutated=number // len(TIMINGS) % 3 == 0,
        random_state=int(words[1]) if number % 2 else None,
        place=int(words[2]) if number % 4 else None,
    )


def launch(item: Case) -> Launch:
    """The program of a case and its initial state."""
    scratchpads = None if item.random_state is None else random_scratchpads(item.config, item.random_state)
    uop = _uop_memory(item.config, scratchpads)
    program = mutated_program(item.config, item.seed, uop) if item.mutated else None
    if program is None:
        program = random_program(item.config, item.seed, LENGTH, uop=uop)
    return Launch(program=program, scratchpads=scratchpads, random_state=item.random_state, place=item.place)


def plan(machines: Sequence[Config], programs: int, campaign: int) -> list[list[Case]]:
    """Lists of cases in the campaign of seed `campaign`, one list for each machine, `programs` cases in total. The
    numbers of cases are proportional to `share` of the machine; each machine has at least one case if `programs` is at
    least the number of machines.
    """
    shares = np.array([share(machine) for machine in machines])
    wanted = programs * shares / shares.sum()
    counts = np.maximum(np.floor(wanted).astype(int), 1 if programs >= len(machines) else 0)
    while counts.sum() < programs:
        counts[int(np.argmax(wanted - counts))] += 1
    while counts.sum() > programs:
        counts[int(np.argmax(counts))] -= 1
    return [
        [case(machine, number, campaign) for number in range(count)]
        for machine, count in zip(machines, counts.tolist(), strict=True)
    ]
