"""The second half of tuning a network: every node in turn, its candidates measured in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..templates.space import Space
from .features import examine
from .history import History, Strategy
from .network_vdla import NetworkTrials, Settings, Values

BATCH = 8
"""Candidates of a node between two trainings of the model."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Place:
    """A node to be set: its space, candidates known to be good alone (best first), and what proposes more."""

    node: str
    space: Space
    candidates: Sequence[Values]
    strategy: Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One trial in its place: of `node`, the `count`-th of the run; `best` are the network's least cycles so far."""

    node: str
    count: int
    best: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Placed:
    """Settings of a network and the cycles that it takes with them; `trials` were spent."""

    settings: Settings
    cycles: float
    trials: int


def refine(
    network: NetworkTrials,
    places: Sequence[Place],
    start: Settings,
    *,
    trials: int,
    share: int,
    seed: int,
    write: Callable[[str, Values, float], None] = lambda node, values, cycles: None,
    watch: Callable[[Move], None] = lambda _: None,
) -> Placed:
    """Better settings than `start`, found node by node, the ones that stand longest above their floor first.

    A turn spends up to `share` trials on one node while all others keep still; turns go round until `trials` are
    spent or a whole round improves nothing. `write` gets every setting that made the network faster, and at first all
    of `start`, so that the last ones written are always the best known.
    """
    settings = dict(start)
    best, spent = float(network.cycles(settings)), 1
    for node, values in settings.items():
        write(node, values, best)
    improved = True
    turn = 0
    while improved and spent < trials:
        improved = False
        for place in places:
            turn += 1
            turn_share = min(share, trials - spent)
            for values, cycles in _trials(network, place, settings, best, turn_share, seed + turn):
                spent += 1
                if cycles < best:
                    best, improved = cycles, True
                    settings = {**settings, place.node: values}
                    write(place.node, values, cycles)
                watch(Move(node=place.node, count=spent, best=best))
            if spent >= trials:
                break
    return Placed(settings=settings, cycles=best, trials=spent)


def _trials(
    network: NetworkTrials, place: Place, settings: Settings, present: float, share: int, seed: int
) -> Iterator[tuple[Values, float]]:
    """Up to `share` trials of one node, all else as in `settings`, which take `present` cycles.

    First come candidates that are good alone, then what a model finds. It learns what a candidate costs on top of the
    node's floor: of the whole network's cycles that would be too small a part to be seen.
    """
    reference = present - place.space.floor
    history = History.empty(place.space)
    known = [place.space.point(values) for values in (settings.get(place.node), *place.candidates) if values]
    waiting = _distinct(place.space, known)[:share]
    while len(history) < share:
        if len(waiting) == 0:
            generator = np.random.default_rng([seed, len(history)])
            count = min(BATCH, share - len(history))
            waiting = place.strategy.propose(place.space, history, generator, count)
            if len(waiting) == 0:
                return
        costs = []
        for point in waiting:
            values = place.space.values(point)
            costs.append(network.measure(settings, place.node, values).cost)
            yield values, costs[-1]
        marginal = np.maximum(np.array(costs) - reference, 1.0)
        history = history.with_trials(waiting, marginal)
        waiting = waiting[:0]


def _distinct(space: Space, points: Sequence[np.ndarray]) -> np.ndarray:
    """The points [n, axes] of different programs, the first of each."""
    if not points:
        return np.empty((0, len(space.axes)), np.int64)
    stacked = np.stack(points)
    _, first = np.unique(examine(space, stacked).programs, return_index=True)
    return stacked[np.sort(first)]
