"""The second half of tuning a network: candidates for single nodes are measured within the whole network ("in
place").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...records.network import Settings
from ...templates.columns import Values
from ...templates.space import Space
from ..measure.network_vdla import NetworkTrials
from ..measure.trial import Result
from ..search.history import History, Strategy
from ..search.point_features import examine
from .task_scheduler import Task, TaskScheduler

BATCH = 8
"""Number of candidates of a node that are measured before the node's cost model is trained again."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TunedNode:
    """A node to be tuned within the whole network. It has a search space, candidates that are good when the node runs
    alone (best first), and a strategy that proposes more candidates.

    `alone`: cycles of the node by itself with its initial settings.
    """

    node: str
    space: Space
    candidates: Sequence[Values]
    strategy: Strategy
    alone: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The outcome of a trial within the whole network. The trial sets the knobs of `node` to `values`; the cost in
    `result` is the number of cycles of the whole network.
    """

    node: str
    values: Values
    result: Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Progress report of one trial, in which `node` was tried within the network. `count`: number of trials so far,
    including this trial and the initial settings. `best`: least cycles of the network so far.
    """

    node: str
    count: int
    best: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TuningResult:
    """Result of a run: the best knob settings of a network, the network's cycles with these settings, and the number of
    `trials`.
    """

    settings: Settings
    cycles: float
    trials: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """Callbacks of a run that tunes nodes within the whole network. Trial 0 measures the initial settings.

    `write(number, tried)`: called for every new trial except trial 0. `improve(number, settings, cycles)`: called for
    trial 0 and for each trial whose settings made the network faster. `watch(move)`: called after every new trial
    except trial 0.
    """

    write: Callable[[int, Tried], None] = lambda number, tried: None
    improve: Callable[[int, Settings, float], None] = lambda number, settings, cycles: None
    watch: Callable[[Move], None] = lambda _: None


NO_CALLBACKS = Callbacks()


def refine(
    network: NetworkTrials,
    nodes: Sequence[TunedNode],
    start: Settings,
    *,
    trials: int,
    seed: int,
    known: Mapping[int, Tried],
    callbacks: Callbacks = NO_CALLBACKS,
) -> TuningResult:
    """Improves the knob settings `start` of a network: each batch of trials changes one node, all other nodes keep
    their settings.

    Each batch goes to the node with the largest expected gain. For the node's cost model, the cost of a candidate is
    the node's initial cycles alone plus the change of the network's cycles. (In the network's total, the effect of a
    single node would be too small for the cost model to learn.) Trial 0 is `start`. `trials`: number of trials,
    including trial 0 and known trials.

    `known`: trials of this run by number, from before an interruption. They are not measured again; the run continues
    as if it had not stopped. `callbacks` receive new trials and improvements.
    """
    settings, best = dict(start), float(network.cycles(start))
    callbacks.improve(0, settings, best)
    histories = [History.empty(tuned.space) for tuned in nodes]
    present = [tuned.alone for tuned in nodes]
    finished = [False] * len(nodes)
    names = [tuned.node for tuned in nodes]
    scheduler, spent = TaskScheduler(warm_up=BATCH), 1
    trials = max(trials, 1 + len(known))
    # Trials with larger numbers are beyond the end of this run.
    known = {number: tried for number, tried in known.items() if number < trials}
    while spent < trials:
        tasks = [
            Task(history=history, weight=1.0, floor=tuned.space.floor, finished=done)
            for tuned, history, done in zip(nodes, histories, finished, strict=True)
        ]
        turn = scheduler.next_task(tasks)
        ahead = min((number for number in known if number >= spent), default=None)
        if ahead is not None:
            # The records determine the node, even if its candidates have changed since.
            spent = max(spent, ahead - BATCH + 1)
            turn = names.index(known[ahead].node)
        if turn is None:
            break
        tuned, history = nodes[turn], histories[turn]
        recorded = _recorded(known, spent, tuned.node)
        last = max(known, default=-1) <= spent + max(recorded, default=0)
        points = _batch(tuned, history, settings, recorded, last, seed, turn)
        if points is None:
            # The strategy now proposes other points than the recorded ones: use only the recorded trials.
            points = np.stack([tuned.space.point(tried.values) for tried in recorded.values()])
            spent = max(recorded) - len(recorded) + 1 + spent
            recorded = dict(enumerate(recorded.values()))
        points = points[: max(trials - spent, max(recorded, default=-1) + 1)]
        finished[turn] = len(points) == 0
        costs = []
        reference = best - present[turn]
        for index, point in enumerate(points):
            tried = recorded.get(index)
            fresh = tried is None
            if tried is None:
                values = tuned.space.values(point)
                tried = Tried(
                    node=tuned.node,
                    values=values,
                    result=network.measure(settings, tuned.node, values),
                )
                callbacks.write(spent, tried)
            cycles = tried.result.cost
            costs.append(max(cycles - reference, 1.0))
            if cycles < best:
                best, present[turn] = cycles, costs[-1]
                settings = {**settings, tuned.node: tried.values}
                callbacks.improve(spent, settings, cycles)
            spent += 1
            if fresh:
                callbacks.watch(Move(node=tuned.node, count=spent, best=best))
        histories[turn] = history.with_trials(points, np.array(costs))
    return TuningResult(settings=settings, cycles=best, trials=spent)


def _recorded(known: Mapping[int, Tried], begin: int, node: str) -> dict[int, Tried]:
    """The earlier trials that belong to one batch of `node`, by their index within the batch. The batch begins at trial
    number `begin`, and ends before the first trial of another node. `known`: all earlier trials, by number.
    """
    found = {}
    for index in range(BATCH):
        tried = known.get(begin + index)
        if tried is not None and tried.node != node:
            break
        if tried is not None:
            found[index] = tried
    return found


def _batch(
    tuned: TunedNode,
    history: History,
    settings: Settings,
    recorded: Mapping[int, Tried],
    last: bool,
    seed: int,
    turn: int,
) -> np.ndarray | None:
    """The points (candidate schedules), [n, axes], of the next batch for a node. `recorded`: known trials, by index in
    this batch; the result has their points at these indices. Returns None if the recorded trials cannot belong to this
    batch.

    Batches are always whole, so that a longer run begins like a shorter one. `last`: whether this is the last batch
    with recorded trials; only in the last batch may recorded trials be missing. If a trial is missing from an earlier
    batch, lines of the file of records were lost, and the trial may be recorded under another number. `seed` and `turn`
    (the node's index) seed the random proposals. `settings`: the network's present knobs.
    """
    known = {index: tuned.space.point(tried.values) for index, tried in recorded.items()}
    if len(known) == BATCH and len(history) > 0:
        return np.stack(list(known.values()))
    # The first batch may be short; recorded trials beyond its end belong to the next batch.
    points = _proposed(tuned, history, settings, [seed, turn, len(history)])
    held = [np.array_equal(points[index], point) for index, point in known.items() if index < len(points)]
    fits = all(held) and (held or not known) and (last or len(held) == len(points))
    return points if fits else None


def _proposed(tuned: TunedNode, history: History, settings: Settings, seed: Sequence[int]) -> np.ndarray:
    """Points (candidate schedules) to try next. In the first batch of a node, these are the node's present settings and
    the candidates known to be good. In later batches, the node's strategy proposes them.
    """
    if len(history) == 0:
        known = [tuned.space.point(v) for v in (settings.get(tuned.node), *tuned.candidates) if v]
        if known:
            return _distinct(tuned.space, np.stack(known))[:BATCH]
    return tuned.strategy.propose(tuned.space, history, np.random.default_rng(seed), BATCH)


def _distinct(space: Space, points: np.ndarray) -> np.ndarray:
    """The points (candidate schedules), [n, axes], without repeated programs: of the points with equal programs only
    the first.
    """
    _, first = np.unique(examine(space, points).programs, return_index=True)
    return points[np.sort(first)]
