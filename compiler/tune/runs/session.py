"""A run of the tuner: measures batches of trials for one task or for the tasks of a network, and records each trial as
it ends.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from ...records.record import Record, Task
from ...templates.columns import Values
from ...templates.space import EmptySpaceError, Space
from ..measure.trial import Result
from ..search.history import History, Strategy
from . import task_scheduler
from .resumed import points_of
from .task_scheduler import TaskScheduler

Measure = Callable[[Sequence[Values]], Iterator[tuple[int, Result]]]
"""A function that measures candidates, given as knob values. It yields (index, result) of each candidate in the order
in which the trials end.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """A task to be tuned, with the functions that measure and propose its candidates, and its earlier trials.

    `weight`: number of occurrences of the task in the network. `layer`: identifies the layer that the job computes.
    Several jobs may compute one layer in different ways; the network uses the fastest way. `first`: a candidate to try
    before the strategy proposes any. `known`: the trials of this search before an interruption, by number within the
    job; their knobs are legal.
    """

    name: str
    task: Task
    space: Space
    measure: Measure
    strategy: Strategy
    first: Values | None = None
    known: Mapping[int, Record] = field(default_factory=dict[int, Record])
    weight: float = 1.0
    layer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Settings of a run.

    `trials`: number of trials of all jobs, including known trials; `batch`: number of trials in a batch. `seed`,
    `strategy` and `compiler` are fields of the records; `seed` also determines the random proposals. `patience`: a task
    ends after this number of trials without improvement (None: never).
    """

    trials: int
    batch: int
    seed: int
    strategy: str
    compiler: str | None = None
    patience: int | None = None
    scheduler: TaskScheduler = field(default_factory=TaskScheduler)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A finished trial of the job `name`; the argument of the callback `watch`. `count`: number of trials of the run so
    far, from 1. `best`: least cost of the job so far.
    """

    name: str
    record: Record
    count: int
    best: float


def raise_error(job: Job, error: EmptySpaceError) -> None:
    """Raises `error`. This is the default of `tune`'s callback `refuse`, which is called for a job whose space has no
    legal candidate.
    """
    raise error


def tune(
    jobs: Sequence[Job],
    plan: Plan,
    *,
    write: Callable[[Record], None] = lambda _: None,
    watch: Callable[[Trial], None] = lambda _: None,
    refuse: Callable[[Job, EmptySpaceError], None] = raise_error,
) -> list[History]:
    """Spends the plan's trials on the jobs and returns their histories.

    Every measured trial is passed to `write` as soon as it ends, so that an interruption loses no trial, and then to
    `watch`. The run ends early when every job's space is exhausted or its search has stalled. `refuse` receives a job
    whose space has no legal candidate, with the error; such a job gets no trial. By default the error is raised.

    A resumed run repeats the same batches with known trials in place of measurements, and continues, even in the middle
    of a batch, as if it had not stopped. If the plan has changed, all known trials are still used.
    """
    histories = [History.empty(job.space) for job in jobs]
    numbers = [0] * len(jobs)
    finished = [False] * len(jobs)
    spent, trials = 0, max(plan.trials, sum(len(job.known) for job in jobs))
    while spent < trials:
        turn = plan.scheduler.next_task(_tasks(jobs, histories, finished))
        ahead = [k for k, job in enumerate(jobs) if max(job.known, default=-1) >= numbers[k]]
        if ahead and turn not in ahead:
            turn = ahead[0]  # The known trials belong to a search with another plan.
        if turn is None:
            break
        job, history = jobs[turn], histories[turn]
        try:
            points, known, end = _batch(job, history, numbers[turn], plan)
        except EmptySpaceError as error:
            refuse(job, error)
            numbers[turn], finished[turn] = max(job.known, default=-1) + 1, True
            continue
        if len(points) == 0:
            later = [number for number in job.known if number >= numbers[turn]]
            numbers[turn], finished[turn] = min(later, default=numbers[turn]), not later
            continue
        points = points[: max(trials - spent, max(known, default=-1) + 1)]
        costs = np.full(len(points), np.inf)
        for index, record in known.items():
            costs[index] = np.inf if record.cost is None else record.cost
        spent += len(known)
        missing = [index for index in range(len(points)) if index not in known]
        candidates = [job.space.values(points[index]) for index in missing]
        began = time.perf_counter()
        for place, result in job.measure(candidates) if missing else ():
            costs[missing[place]] = result.cost
            now = time.perf_counter()
            record = Record(
                task=job.task,
                knobs=candidates[place],
                cost=result.cost if math.isfinite(result.cost) else None,
                error=result.error,
                trial=numbers[turn] + missing[place],
                seed=plan.seed,
                strategy=plan.strategy,
                elapsed=now - began,
                compiler=plan.compiler,
            )
            began = now
            write(record)
            spent += 1
            best = min(history.best, float(costs.min()))
            watch(Trial(name=job.name, record=record, count=spent, best=best))
        numbers[turn] = max(numbers[turn] + len(points), end)
        histories[turn] = history.with_trials(points, costs)
        finished[turn] = plan.patience is not None and has_stalled(histories[turn], plan.patience)
    return histories


def _batch(job: Job, history: History, number: int, plan: Plan) -> tuple[np.ndarray, dict[int, Record], int]:
    """Returns three things about the batch that begins at trial `number`: its points [n, axes]; the known records of
    these points, by index; and the number of the trial after its last known trial (`number` if it has no known trials).

    Batches are always whole, so that a longer search begins like a shorter one. Raises EmptySpaceError if the space has
    no legal candidate.
    """
    size = 1 if number == 0 and job.first is not None else plan.batch
    known = {k: job.known[number + k] for k in range(size) if number + k in job.known}
    end = number + max(known, default=-1) + 1
    recorded, _ = points_of(known.values(), job.space)
    if len(known) == size:
        return recorded, known, end
    if max(job.known, default=-1) >= number + size:
        # Lines of the file were lost, or batches had another size: missing trials may be recorded under other
        # numbers.
        return recorded, dict(enumerate(known.values())), end
    if size == 1 and job.first is not None:
        points = job.space.point(job.first)[None]
    else:
        generator = np.random.default_rng([plan.seed, number, _number(job.task)])
        points = job.strategy.propose(job.space, history, generator, size)
    if max(known, default=-1) < len(points) and np.array_equal(points[list(known)], recorded):
        return points, known, end
    # The strategy now proposes other points than the recorded ones.
    return recorded, dict(enumerate(known.values())), end


def _tasks(
    jobs: Sequence[Job], histories: Sequence[History], finished: Sequence[bool]
) -> list[task_scheduler.Task]:
    bests = [history.best for history in histories]

    def rival(k: int) -> float:
        layer = jobs[k].layer
        others = (bests[i] for i, job in enumerate(jobs) if i != k and job.layer == layer)
        return math.inf if layer is None else min(others, default=math.inf)

    return [
        task_scheduler.Task(
            history=history, weight=job.weight, floor=job.space.floor, finished=done, rival=rival(k)
        )
        for k, (job, history, done) in enumerate(zip(jobs, histories, finished, strict=True))
    ]


def _number(task: Task) -> int:
    """A seed that depends on the task alone, so that the jobs of a run draw different random numbers."""
    return int.from_bytes(blake2b(repr(task.key).encode(), digest_size=4).digest())


def has_stalled(history: History, patience: int, improvement: float = 0.001) -> bool:
    """Whether the last `patience` trials have lowered the best cost by less than the fraction `improvement` in total.

    False if `history` has no more than `patience` trials, or if all its trials have failed.
    """
    if len(history) <= patience:
        return False
    before = float(np.min(history.costs[: len(history) - patience]))
    return bool(np.isfinite(history.best) and history.best > (1 - improvement) * before)
