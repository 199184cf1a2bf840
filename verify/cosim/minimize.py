"""Shrinks a program on which simulator and RTL differ: fewer instructions, smaller fields, a simpler initial state.

Delta debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002) over instructions:
smaller and smaller pieces are left out if simulator and RTL still differ on the other instructions. The remaining
instructions are repaired (`mutate.repair`), so that the static checker accepts every candidate. Then fields are
reduced, one at a time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from vdla.isa.check import check
from vdla.isa.config import Config, Memory
from vdla.isa.decoding import decode_one
from vdla.isa.layout import encode
from vdla.isa.parameters import declared
from vdla.isa.program import bare_program
from vdla.isa.program_builder import Instruction

from .cases import Launch
from .mutate import repair

MOST_RUNS = 600
"""Number of runs (each on simulator and RTL) after which the search stops with the smallest launch so far."""

Differs = Callable[[Config, Launch], bool]

_KEPT = ("opcode", "memory_type", "unit", "register")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Smallest:
    """The smallest launch (program and initial state) found on which simulator and RTL still differ, its configuration,
    and the number of runs so far.
    """

    config: Config
    launch: Launch
    runs: int


@dataclasses.dataclass(slots=True, kw_only=True)
class _Search:
    differs: Differs
    config: Config
    launch: Launch
    runs: int = 0

    def accepts(self, config: Config, launch: Launch) -> bool:
        """Whether simulator and RTL still differ on `launch` (a program and its initial state); if so, `launch` becomes
        the smallest launch so far. Always False after MOST_RUNS runs.
        """
        if self.runs >= MOST_RUNS:
            return False
        self.runs += 1
        if not self.differs(config, launch):
            return False
        self.config, self.launch = config, launch
        return True

    @property
    def instructions(self) -> list[Instruction]:
        """The instructions before FINISH of the smallest launch found so far."""
        words = self.launch.program.instructions.tolist()
        decoded = [decode_one(self.config, *row) for row in words]
        end = next(index for index, (name, _) in enumerate(decoded) if name == "FINISH")
        return decoded[:end]

    @property
    def finish(self) -> Instruction:
        """The instruction FINISH of the smallest launch found so far."""
        words = self.launch.program.instructions.tolist()
        return next(item for row in words if (item := decode_one(self.config, *row))[0] == "FINISH")


def minimize(config: Config, launch: Launch, differs: Differs) -> Smallest:
    """Shrinks `launch`, a program and its initial state, as long as `differs(config, launch)`, which says whether
    simulator and RTL differ, stays true; returns the smallest launch found. `differs` must be true for `launch` itself.
    """
    search = _Search(differs=differs, config=config, launch=launch)
    _plainer_start(search)
    before = -1
    while before != len(search.instructions) and search.runs < MOST_RUNS:
        before = len(search.instructions)
        _fewer_instructions(search)
        _smaller_fields(search)
    _plainer_start(search)
    return Smallest(config=search.config, launch=search.launch, runs=search.runs)


def _plainer_start(search: _Search) -> None:
    """Tries each simplification of the initial state: address 0, scratchpads of zeros, registers at reset, the smallest
    latencies without noise, an image of zeros.
    """
    if search.launch.place is not None:
        search.accepts(search.config, dataclasses.replace(search.launch, place=None))
    launch = search.launch
    if launch.scratchpads is not None:
        cleared = dataclasses.replace(launch, scratchpads=None)
        if _sound(search.config, cleared):
            search.accepts(search.config, cleared)
    if search.launch.random_state is not None:
        search.accepts(search.config, dataclasses.replace(search.launch, random_state=None))
    for name, _, item in declared(Memory):
        if item.rtl or not item.samples:
            continue
        memory = dataclasses.replace(
            search.config.memory, **{name: item.choices[0] if item.choices else item.low}
        )
        if memory != search.config.memory:
            config = search.config.with_memory(memory)
            search.accepts(config, _with_words(config, search.launch, search.launch.program.instructions))
    image = np.zeros_like(search.launch.program.image)
    if search.launch.program.image.any():
        program = bare_program(search.config, search.launch.program.instructions, image)
        blank = dataclasses.replace(search.launch, program=program)
        if _sound(search.config, blank):
            search.accepts(search.config, blank)


def _with_words(config: Config, launch: Launch, words: np.ndarray) -> Launch:
    return dataclasses.replace(launch, program=bare_program(config, words, launch.program.image))


def _sound(config: Config, launch: Launch) -> bool:
    found = check(config, launch.program.instructions, launch.program.image, uop=launch.uop)
    return not any(item.severity == "error" or item.kind == "unchecked" for item in found)


def _candidate(search: _Search, instructions: list[Instruction]) -> Launch:
    """The smallest launch so far, with `instructions` and FINISH as its program, repaired if the static checker does
    not accept them.
    """
    config, launch = search.config, search.launch
    plain = _as_they_are(search, instructions)
    if _sound(config, plain):
        return plain
    program = repair(config, [*instructions, search.finish], launch.program.image, launch.uop)
    return dataclasses.replace(launch, program=program)


def _as_they_are(search: _Search, instructions: list[Instruction]) -> Launch:
    """The smallest launch so far, with `instructions` and FINISH as its program, neither checked nor repaired."""
    words = [encode(search.config, name, **values) for name, values in (*instructions, search.finish)]
    return _with_words(search.config, search.launch, np.array(words, np.uint64))


def _fewer_instructions(search: _Search) -> None:
    """Tries to leave out halves of the program, then quarters, ... and at last single instructions."""
    parts = 2
    while True:
        current = search.instructions
        if not current:
            return
        parts = min(parts, len(current))
        size = -(-len(current) // parts)
        shorter = False
        for start in range(0, len(current), size):
            rest = current[:start] + current[start + size :]
            candidate = _candidate(search, rest)
            if len(candidate.program.instructions) > len(current):
                continue  # with FINISH: the repair added as many instructions as were left out
            if search.accepts(search.config, candidate):
                shorter = True
                break
        if shorter:
            parts = max(2, parts - 1)
        elif size == 1 or search.runs >= MOST_RUNS:
            return
        else:
            parts *= 2


def _smaller_fields(search: _Search) -> None:
    """For each field of each instruction, tries to set it to zero, one or half its value; keeps the change if the
    program is valid without repair and simulator and RTL still differ.
    """
    for index in range(len(search.instructions)):
        name, values = search.instructions[index]
        for key in values:
            if key in _KEPT:
                continue
            for value in _smaller(values[key]):
                instructions = search.instructions
                changed = instructions[index][1] | {key: value}
                instructions[index] = (name, changed)
                candidate = _as_they_are(search, instructions)
                if _sound(search.config, candidate) and search.accepts(search.config, candidate):
                    break


def _smaller(value: int) -> Iterator[int]:
    """Smaller values to try in place of `value`, the smallest first."""
    if value not in (0, 1):
        yield 0
        yield 1
        if abs(value) > 3:
            yield int(value / 2)
    elif value == 1:
        yield 0
