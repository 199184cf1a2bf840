"""Chooses schedules of a design: several likely schedules of every layer are tried, and the network is compiled with
the best ones.

Candidates are the schedules with the least estimated cost by the templates' own cost models
(`compiler/tune/search/likely.py`): other loop orders and tiles, and each buffer with as many copies (virtual threads)
as fit. Each candidate is first simulated alone. Then it is simulated in the whole network, where layers overlap: a
schedule that is slower there than the template's own choice is dropped, so that a design is never slower than without
trials.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from types import MappingProxyType

import numpy as np

from vdla.compiler.pipeline import network_on
from vdla.compiler.records.network import Settings
from vdla.compiler.records.package_identity import sources_digest
from vdla.compiler.templates.columns import Values
from vdla.compiler.templates.space import EmptySpaceError
from vdla.compiler.templates.vdla.legalize import legalize
from vdla.compiler.templates.vdla.template import space_of
from vdla.compiler.templates.vdla.workload import Workload
from vdla.compiler.tune.measure.network_vdla import NOT_RUN, NetworkTrials
from vdla.compiler.tune.search.likely import likely_points
from vdla.isa.config import Config
from vdla.util.errors import UserError

from ...report.split import layer_boundaries
from ..networks import Network

WORTH = 2e-4
"""Other schedules of a workload are tried only if they could save more than this share of the network's cycles, summed
over all layers with this workload.
"""
MOST_TRIALS = 1000
MOST_ROUNDS = 4
"""Largest number of rounds, each of which tries the next best schedule of every layer in the network. After that,
hardly any layer has another schedule that is as fast.
"""
TEMPLATE: Values = MappingProxyType({})
"""Empty knobs: the template chooses its own schedule."""
CLOSE = 1.02
"""A candidate schedule is tried in the network if it takes at most this many times the cycles of the layer's fastest
candidate. For this comparison, each candidate is simulated with its layer alone. In the network, a different candidate
may be the fastest.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The effort spent on schedules. `trials`: for each distinct layer of a network, the number of candidate schedules
    that are simulated with this layer alone.
    """

    trials: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.trials <= MOST_TRIALS:
            raise UserError(f"{self.trials:,} trials of schedules: give a number from 0 to {MOST_TRIALS:,}")

    @property
    def rounds(self) -> int:
        """Number of rounds. Each round runs the network twice. In the first run, every layer has its next best
        candidate as a new schedule. In the second run, every layer has its previous or its new schedule, whichever is
        faster. The fastest of all runs is kept.
        """
        return min(MOST_ROUNDS, max(1, self.trials // 16))

    @property
    def key(self) -> str:
        """Part of a cache key: a text of all settings on which the chosen schedules depend, except machine and network.
        Empty without trials.
        """
        if not self.trials:
            return ""
        sources = sources_digest("vdla.compiler.tune.search", "vdla.codesign.explore.schedules")
        return f"{self.trials} trials, {sources}"


NO_TRIALS = Effort()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen:
    """Chosen schedules. `settings`: knobs by node, without nodes that have their template's own schedule; `cycles`: the
    network's cycles with these settings; `default`: its cycles if all nodes have their templates' schedules (None if
    the network does not run with them).
    """

    settings: Settings
    cycles: int
    default: int | None


def choose_schedules(config: Config, network: Network, effort: Effort) -> Chosen | None:
    """The best schedules found; None if the network runs with none of them. Raises UserError."""
    try:
        legalized = legalize(network.graph_for(config), config)
        cache = network.schedule_cache
        trials = NetworkTrials(network_on(config, legalized=legalized, schedule_cache=cache))
        default = _run(trials, {})
        nodes: dict[Workload, list[str]] = {}
        for node, workload in trials.workloads.items():
            nodes.setdefault(workload, []).append(node)
        ranked: dict[str, Sequence[Values]] = {}
        for workload, members in nodes.items():
            enough = 0.0 if default is None else WORTH * default.cycles / len(members)
            found = _ranked(config, trials, members[0], workload, effort.trials, enough)
            ranked |= dict.fromkeys(members, found)
        best = default
        for number in range(effort.rounds):
            best = _round(trials, ranked, number, best)
    except NOT_RUN as error:
        if isinstance(error, UserError):
            raise
        return None
    if best is None:
        return None
    return Chosen(
        settings=best.settings, cycles=best.cycles, default=None if default is None else default.cycles
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Run:
    """Result of simulating the network with some schedules (`settings`): its cycles, and the cycles of each node."""

    settings: Settings
    cycles: int
    by_node: Mapping[str, int]


def _run(trials: NetworkTrials, settings: Settings) -> _Run | None:
    """Simulates the network with the schedules `settings` (knobs by node); None if it does not run with them."""
    try:
        program, simulation = trials.run(settings)
    except NOT_RUN:
        return None
    spent = np.diff(layer_boundaries(program, simulation.end, simulation.cycles)).tolist()
    return _Run(
        settings=settings,
        cycles=simulation.cycles,
        by_node=dict(zip(program.groups, spent, strict=True)),
    )


def _ranked(
    config: Config, trials: NetworkTrials, node: str, workload: Workload, count: int, enough: float
) -> Sequence[Values]:
    """The candidate schedules of a layer, fastest first, with at most CLOSE times the cycles of the fastest (the layer
    is simulated alone). The candidates are the template's own schedule and `count` others. Empty if no schedule could
    save more than `enough` cycles (by a lower bound on the layer's cycles), or if the layer has no legal schedule.
    """
    try:
        space = space_of(config, workload)
    except EmptySpaceError:
        return ()
    default = trials.alone(node, None)
    if default - space.floor <= enough:
        return ()
    tried = [TEMPLATE, *(space.values(point) for point in likely_points(space, count))]
    costs = [default, *(trials.alone(node, values) for values in tried[1:])]
    order = sorted(range(len(tried)), key=lambda k: costs[k])
    return [tried[k] for k in order if costs[k] < inf and costs[k] <= CLOSE * costs[order[0]]]


def _round(
    trials: NetworkTrials, ranked: Mapping[str, Sequence[Values]], number: int, best: _Run | None
) -> _Run | None:
    """The fastest of three runs. The first is `best`. In the second, every layer has the schedule at index `number` of
    its ranking (`ranked`, by node); a layer with a shorter ranking keeps its schedule of `best`. In the third, every
    layer has the faster of its schedules in the first two runs. None if the network ran in neither of the first two.
    """
    before = {} if best is None else best.settings
    tried = _settings({**before, **{node: of[number] for node, of in ranked.items() if number < len(of)}})
    if tried == before:
        return best
    run = _run(trials, tried)
    if run is None or best is None:
        return best if run is None else run
    faster = {node for node in ranked if run.by_node[node] < best.by_node[node]}
    mixed = _settings({node: (tried if node in faster else before).get(node, TEMPLATE) for node in ranked})
    third = None if mixed in (tried, before) else _run(trials, mixed)
    return min([best, run, *([] if third is None else [third])], key=lambda item: item.cycles)


def _settings(values: Settings) -> Settings:
    """`values` without nodes that have their template's own schedule (no knobs)."""
    return {node: knobs for node, knobs in values.items() if knobs}
