"""Makes two choices for a network on a machine with a DRAM (hw/dram.md): its knobs, and the nodes whose stores are
separated in time from loads (`codegen/vdla/dram_placement.py`). Both are chosen by simulated cycles of the whole
network.

`dram_candidates` proposes knobs. The simulator counts row misses and turnarounds exactly. One program compares options
of many nodes: the cycles of a node and its neighbours show whether the node's option is good.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vdla.isa.config import Config
from vdla.isa.program import Program

from .codegen.vdla.errors import EmissionError
from .codegen.vdla.placement import PlacementError
from .dram_candidates import candidates, with_deeper_buffers
from .node_points import Points, cycles_by_group, measured_points
from .schedule import LegalityError
from .templates.columns import Values
from .templates.vdla.lower import UnfitNodeError, choose_points
from .templates.vdla.template import Kernel

MOST_INSTRUCTIONS = 400_000
"""Largest number of instructions in all programs together that are simulated for one network. (A program of ResNet-18
has 11,000.)
"""
NOT_COMPILED = (LegalityError, EmissionError, PlacementError, UnfitNodeError, ValueError)
"""Exceptions which mean that the network cannot be compiled with a candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DramChoices:
    """Choices for a network: knobs of each node's kernels, and nodes whose stores are `apart` in time from loads."""

    points: Points
    apart: frozenset[str]


class _Option(NamedTuple):
    """A choice for one node: the knobs of its kernels, and whether its stores are separated in time from loads."""

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
"""A function that links the program of a network, without its constants. Arguments: the knobs of all nodes, and the
names of the nodes whose stores are separated in time from loads. The program has an instruction group for each node.
"""


def choose(
    config: Config, kernels: Mapping[str, Sequence[Kernel]], virtual_threads: int, program_of: ProgramOf
) -> DramChoices:
    """Chooses the knobs of all nodes, and the nodes whose stores are separated in time from loads. Several programs are
    simulated, and the one with the fewest cycles is chosen. `kernels`: the kernels of all nodes. `virtual_threads`:
    largest number of copies of a buffer in the knobs of least cost by the cost model. `program_of` links the programs
    to simulate. Tuning records are ignored. Raises UnfitNodeError.
    """
    plain = choose_points(config, kernels, {}, virtual_threads)
    trials = _Trials(tuple(kernels), program_of)
    together, separate = (
        trials.run([_Option(plain[name], apart) for name in kernels]) for apart in (False, True)
    )
    # Other knobs are tried with the stores as they are better with the plain knobs.
    better = _with_neighbours(separate.spent) < _with_neighbours(together.spent)
    apart = dict(zip(kernels, better.tolist(), strict=True))
    trials.run([_Option(plain[name], apart[name]) for name in kernels])
    for points in _alternatives(config, kernels, virtual_threads, program_of):
        trials.run([_Option(points.get(name, plain[name]), apart[name]) for name in kernels])
    trials.run(trials.ranked(0))

    # Every proposal changes the options of the best program so far.
    def toggled() -> list[_Option]:
        return [option._replace(apart=not option.apart) for option in trials.best.options]

    def deeper() -> list[_Option]:
        nodes = zip(kernels.values(), trials.best.options, strict=True)
        return [
            option._replace(knobs=with_deeper_buffers(config, several, option.knobs))
            for several, option in nodes
        ]

    ranked = [partial(trials.ranked, rank) for rank in range(3)]
    for proposed in (ranked[0], toggled, *ranked[1:], deeper, toggled):
        trials.improve(proposed())
    chosen = dict(zip(kernels, trials.best.options, strict=True))
    return DramChoices(
        points={name: option.knobs for name, option in chosen.items()},
        apart=frozenset(name for name, option in chosen.items() if option.apart),
    )


def _alternatives(
    config: Config, kernels: Mapping[str, Sequence[Kernel]], virtual_threads: int, program_of: ProgramOf
) -> Iterator[Points]:
    """Yields knobs for nodes: first those that `node_points` finds by measurement, then the proposals of
    `dram_candidates`. The arguments are those of `choose`. A node without an entry in a yielded mapping keeps its knobs
    of least cost.
    """
    yield measured_points(config, kernels, virtual_threads, lambda points: program_of(points, ()))
    yield from candidates(config, kernels, virtual_threads)


@dataclass(slots=True, eq=False)
class _Trials:
    """Simulates programs of a network, until they have MOST_INSTRUCTIONS together. `names`: the nodes in order.

    `measured`: for each node and each of its options, the fewest cycles that the node has taken in a program with this
    option. `runs`: the results so far, by the options of all nodes.
    """

    names: tuple[str, ...]
    program_of: ProgramOf
    measured: list[dict[_Key, tuple[int, _Option]]] = field(default_factory=list)
    runs: dict[tuple[_Key, ...], _Run] = field(default_factory=dict)
    instructions: int = 0

    @property
    def best(self) -> _Run:
        """The run of fewest cycles so far."""
        return min(self.runs.values(), key=lambda run: run.cycles)

    def run(self, options: Sequence[_Option]) -> _Run:
        """Simulates the program with `options`, one for each node. If the program cannot be compiled, or if the trials
        together already have too many instructions, the result has 2**62 cycles. If the first program cannot be
        compiled, raises the compiler's error.
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

    def ranked(self, rank: int) -> list[_Option]:
        """For each node, its option of rank `rank`. Options are ranked by the cycles measured for the node (rank 0:
        fewest cycles). A node without an option of this rank keeps its option in the best run. The program with all
        options of rank 0 need not be the fastest, because neighbouring nodes run at overlapping times.
        """
        found = [
            [option for _, option in sorted(known.values(), key=lambda item: item[0])]
            for known in self.measured
        ]
        return [
            options[rank] if rank < len(options) else kept
            for options, kept in zip(found, self.best.options, strict=True)
        ]

    def improve(self, proposed: Sequence[_Option]) -> None:
        """Tries the options `proposed`, one for each node, in the best program so far. Three programs are simulated;
        each has the new options of every third node. An option is good if the node and its two neighbours together take
        fewer cycles with it, since their loads and stores overlap. A last program has all good options together.
        """
        best = self.best
        good = list(best.options)
        for first in range(min(3, len(good))):
            options = list(best.options)
            options[first::3] = proposed[first::3]
            less = _with_neighbours(self.run(options).spent) < _with_neighbours(best.spent)
            for node in range(first, len(good), 3):
                good[node] = proposed[node] if less[node] else good[node]
        self.run(good)


def _with_neighbours(spent: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each node, the sum of the cycles `spent` in the node and in the nodes directly before and after it."""
    return spent + np.append(spent[1:], 0) + np.append(0, spent[:-1])


_Key = tuple[tuple[tuple[tuple[str, int], ...], ...], bool]
"""An option in a hashable form, to look up results of earlier simulations."""


def _key(option: _Option) -> _Key:
    return tuple([tuple(sorted(knobs.items())) for knobs in option.knobs]), option.apart
