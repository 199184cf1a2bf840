"""The second half of tuning a network: nodes whose candidates are measured in their place, in the whole network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...templates.space import Space, Values
from ..measure.network_vdla import NetworkTrials, Settings
from ..search.history import History, Strategy
from ..search.point_features import examine
from .task_scheduler import Task, TaskScheduler

BATCH = 8
"""Candidates of a node between two trainings of its model."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Place:
    """A node to be set: its space, candidates known to be good alone (best first), and what proposes more.

    `alone` are the cycles that it takes by itself as it is set at first.
    """

    node: str
    space: Space
    candidates: Sequence[Values]
    strategy: Strategy
    alone: float


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
    seed: int,
    write: Callable[[str, Values, float], None] = lambda node, values, cycles: None,
    watch: Callable[[Move], None] = lambda _: None,
) -> Placed:
    """Better settings than `start`, a batch of trials of one node after the other, all others keeping still.

    Batches go to the node that promises to save most. What a candidate costs there is taken to be what its node took
    alone at first, and what the network took more or less than before: of all its cycles a node's would be too small a
    part to learn from. `write` gets every setting that made the network faster, and at first all of `start`, so that
    the last ones written are always the best known.
    """
    settings, best = dict(start), float(network.cycles(start))
    for node, values in settings.items():
        write(node, values, best)
    histories = [History.empty(place.space) for place in places]
    present = [place.alone for place in places]
    finished = [False] * len(places)
    scheduler, spent = TaskScheduler(warm_up=BATCH), 1
    while spent < trials:
        tasks = [
            Task(history=history, weight=1.0, floor=place.space.floor, finished=done)
            for place, history, done in zip(places, histories, finished, strict=True)
        ]
        turn = scheduler.next_task(tasks)
        if turn is None:
            break
        place, history = places[turn], histories[turn]
        points = _proposed(place, history, settings, min(BATCH, trials - spent), seed + turn)
        finished[turn] = len(points) == 0
        before, costs = settings, []
        reference = best - present[turn]
        for point in points:
            values = place.space.values(point)
            cycles = network.measure(before, place.node, values).cost
            costs.append(max(cycles - reference, 1.0))
            spent += 1
            if cycles < best:
                best, present[turn] = cycles, costs[-1]
                settings = {**before, place.node: values}
                write(place.node, values, cycles)
            watch(Move(node=place.node, count=spent, best=best))
        histories[turn] = history.with_trials(points, np.array(costs))
    return Placed(settings=settings, cycles=best, trials=spent)


def _proposed(
    place: Place, history: History, settings: Mapping[str, Values], count: int, seed: int
) -> np.ndarray:
    """Points to try next: at first what the node is set to and what is good alone, then what a model finds."""
    if len(history) == 0:
        known = [place.space.point(v) for v in (settings.get(place.node), *place.candidates) if v]
        if known:
            return _distinct(place.space, np.stack(known))[:count]
    generator = np.random.default_rng([seed, len(history)])
    return place.strategy.propose(place.space, history, generator, count)


def _distinct(space: Space, points: np.ndarray) -> np.ndarray:
    """The points [n, axes] of different programs, the first of each."""
    _, first = np.unique(examine(space, points).programs, return_index=True)
    return points[np.sort(first)]
