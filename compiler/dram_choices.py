"""Chooses the knobs of a network on a machine with a DRAM (hw/dram.md), and the nodes whose stores are kept apart from
loads (`codegen/vdla/dram_placement.py`), by simulated cycles of the whole network.

The templates' cost models count bus beats, and the latency of a fixed memory. A DRAM also loses cycles with each burst
that opens a row, and with each change of direction. A fixed memory that serves one burst at a time loses cycles with
each burst, too. So the candidates for a kernel are its best knobs on this machine and on machines with such memories
(`STAND_INS`), whose bursts are longer. The simulator, which counts row misses and turnarounds exactly, compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vdla.isa.config import Config, Memory
from vdla.isa.program import Program

from .codegen.vdla.errors import EmissionError
from .codegen.vdla.placement import PlacementError
from .node_points import Points, cycles_by_group, measured_points
from .schedule import LegalityError
from .templates.columns import Values
from .templates.vdla.lower import UnfitNodeError, choose_points
from .templates.vdla.template import Kernel

STAND_INS = ((1, 1, 1, 1), (1, 2, 2, 1), (2, 1, 4, 1), (3, 2, 6, 2), (4, 1, 4, 1), (6, 8, 9, 4), (1, 1, 6, 1))
"""Fixed memories in place of a DRAM: multiple of its read latency, outstanding reads, multiple of its write latency,
outstanding writes. Each gives the chosen knobs of several layers of the networks of `benchmarks/dram_placement.py`.
"""
MOST_INSTRUCTIONS = 400_000
"""Largest number of instructions in all programs that are simulated for one network. ResNet-18 has 11,000."""
RANKS = 3
"""Number of the best options of each node that are tried once more. In these trials the neighbours of the node keep
their options."""

NOT_COMPILED = (LegalityError, EmissionError, PlacementError, UnfitNodeError, ValueError)
"""Exceptions that mean that a network cannot be compiled with some candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DramChoices:
    """Choices for a network: the knobs of each node's kernels, and the nodes whose stores are `apart` from loads."""

    points: Points
    apart: frozenset[str]


class _Option(NamedTuple):
    """A choice for one node: the knobs of its kernels, and whether its stores are kept apart from loads."""

    knobs: tuple[Values, ...]
    apart: bool


class _Run(NamedTuple):
    """A simulated program: the option chosen for each node, the cycles of the whole program, and the cycles spent in
    each node.
    """

    options: tuple[_Option, ...]
    cycles: int
    spent: NDArray[np.int64]


ProgramOf = Callable[[Points, Collection[str]], Program]
"""A function that links the program of a network without constants, from the knobs of all nodes and the names of the
nodes whose stores are kept apart from loads. The program has an instruction group for each node."""


def choose(
    config: Config, kernels: Mapping[str, Sequence[Kernel]], virtual_threads: int, program_of: ProgramOf
) -> DramChoices:
    """Chooses the knobs of all nodes, and the nodes whose stores are kept apart from loads, so that the simulated
    network takes the fewest cycles of all programs that are tried. `kernels`: the kernels of all nodes. Tuning records
    are ignored. Raises UnfitNodeError.
    """
    plain = choose_points(config, kernels, {}, virtual_threads)
    others = [{**plain, **points} for points in _alternatives(config, kernels, virtual_threads, program_of)]
    trials = _Trials(tuple(kernels), program_of)
    best = trials.run([_Option(plain[name], False) for name in kernels])
    for points in others:
        trials.run([_Option(points[name], False) for name in kernels])
    for start in (trials.mixed(), best.options):
        trials.run([option._replace(apart=True) for option in start])
    best = min(best, trials.run(trials.mixed()), key=_cycles)
    for rank in range(RANKS):
        for parity in (0, 1):
            best = trials.improved(best, rank, parity)
    chosen = dict(zip(kernels, best.options, strict=True))
    return DramChoices(
        points={name: option.knobs for name, option in chosen.items()},
        apart=frozenset(name for name, option in chosen.items() if option.apart),
    )


def _alternatives(
    config: Config, kernels: Mapping[str, Sequence[Kernel]], virtual_threads: int, program_of: ProgramOf
) -> Iterator[Points]:
    """Yields alternative knobs for nodes: first the knobs that `node_points` finds by measurement, then, for each
    memory in STAND_INS, the best knobs on a machine with that memory instead of the DRAM.
    """
    yield measured_points(config, kernels, virtual_threads, lambda points: program_of(points, ()))
    memory = config.memory
    for read, reads, write, writes in STAND_INS:
        other = Memory(
            bus_bytes=memory.bus_bytes,
            read_latency=read * memory.read_latency,
            write_latency=write * memory.write_latency,
            outstanding_reads=reads,
            outstanding_writes=writes,
        )
        with suppress(UnfitNodeError):
            yield choose_points(config.with_memory(other), kernels, {}, virtual_threads)


def _cycles(run: _Run) -> int:
    return run.cycles


@dataclass(slots=True, eq=False)
class _Trials:
    """Simulates programs of a network, until they have MOST_INSTRUCTIONS together. `names`: the nodes in order.

    `measured`: for each node and each of its options, the fewest cycles of the node in a program with this option.
    `runs`: the results so far, by the options of all nodes.
    """

    names: tuple[str, ...]
    program_of: ProgramOf
    measured: list[dict[_Key, tuple[int, _Option]]] = field(default_factory=list)
    runs: dict[tuple[_Key, ...], _Run] = field(default_factory=dict)
    instructions: int = 0

    def run(self, options: Sequence[_Option]) -> _Run:
        """Simulates the program with `options`, one for each node. The result has an endless number of cycles if the
        program cannot be compiled, or if the trials together have too many instructions already.
        """
        key = tuple([_key(option) for option in options])
        if key not in self.runs:
            self.runs[key] = self._run(tuple(options), key)
        return self.runs[key]

    def _run(self, options: tuple[_Option, ...], key: tuple[_Key, ...]) -> _Run:
        endless = _Run(options, 1 << 62, np.full(len(options), 1 << 32))
        if self.instructions > MOST_INSTRUCTIONS:
            return endless
        chosen = dict(zip(self.names, options, strict=True))
        apart = {name for name, option in chosen.items() if option.apart}
        try:
            program = self.program_of({name: option.knobs for name, option in chosen.items()}, apart)
        except NOT_COMPILED:
            if not self.runs:
                raise
            return endless
        self.instructions += len(program.instructions)
        cycles, spent = cycles_by_group(program)
        self.measured = self.measured or [{} for _ in options]
        for known, own, option, count in zip(self.measured, key, options, spent.tolist(), strict=True):
            if own not in known or count < known[own][0]:
                known[own] = (count, option)
        return _Run(options, cycles, spent)

    def ranked(self, node: int) -> list[_Option]:
        """The options of node number `node` that were simulated, fastest first."""
        return [option for _, option in sorted(self.measured[node].values(), key=lambda item: item[0])]

    def mixed(self) -> tuple[_Option, ...]:
        """For each node, the option with which the node took the fewest cycles. The program with all these options need
        not be the fastest, because neighbouring nodes run at overlapping times.
        """
        return tuple([self.ranked(node)[0] for node in range(len(self.names))])

    def improved(self, best: _Run, rank: int, parity: int) -> _Run:
        """Tries the options at `rank` for every second node: for nodes with even numbers if `parity` is 0, with odd
        numbers if it is 1. A node keeps its new option only if the node and the next one together become faster.
        Returns the faster program: `best`, or `best` with the options that were kept.
        """
        options = list(best.options)
        for node in range(parity, len(options), 2):
            options[node] = dict(enumerate(self.ranked(node))).get(rank, options[node])
        tried = self.run(options)
        before, after = (run.spent + np.append(run.spent[1:], 0) for run in (best, tried))
        faster = [
            new if less else old for old, new, less in zip(best.options, options, after < before, strict=True)
        ]
        return min(best, self.run(faster), key=_cycles)


_Key = tuple[tuple[tuple[tuple[str, int], ...], ...], bool]
"""An option in a hashable form, to look up results of earlier simulations."""


def _key(option: _Option) -> _Key:
    return tuple([tuple(sorted(knobs.items())) for knobs in option.knobs]), option.apart
