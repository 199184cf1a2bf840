"""A run of the tuner: batches of trials for the tasks of a network or for one, recorded as they end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from ...templates.space import EmptySpaceError, Space, Values
from ..measure.trial import Result
from ..records.record import Record, Task
from ..search.history import History, Strategy
from . import task_scheduler
from .early_stopping import has_stalled
from .task_scheduler import TaskScheduler

Measure = Callable[[Sequence[Values | None]], Iterator[tuple[int, Result]]]
"""Measures candidates given by the values of their knobs, None being the template's own choice.

Gives index and result of each, in the order in which they end.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """A task to be tuned: how its candidates are measured and proposed, and what it was known of before.

    `weight` says how often the task occurs. `history` and `trials` (the number of the next one) are those of a search
    that is resumed.
    """

    name: str
    task: Task
    space: Space
    measure: Measure
    strategy: Strategy
    history: History
    trials: int = 0
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many trials to spend in all, how many at a time, and when a task counts as done.

    `strategy` is the name that records get. `patience`: trials without improvement that end a task (None: never).
    """

    trials: int
    batch: int
    seed: int
    strategy: str
    patience: int | None = None
    scheduler: TaskScheduler = field(default_factory=TaskScheduler)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One trial that ended, for those who watch: of the job of that `name`, the `count`-th of the run."""

    name: str
    record: Record
    count: int
    best: float


def raise_it(job: Job, error: EmptySpaceError) -> None:
    """Raises the error."""
    raise error


def tune(
    jobs: Sequence[Job],
    plan: Plan,
    *,
    write: Callable[[Record], None] = lambda _: None,
    watch: Callable[[Trial], None] = lambda _: None,
    refuse: Callable[[Job, EmptySpaceError], None] = raise_it,
) -> list[History]:
    """Spends the plan's trials on the jobs and returns their histories.

    Every trial is handed to `write` as it ends, so that an interrupted run loses none of them; then to `watch`. Ends
    early when every job's space is exhausted or has stalled. `refuse` gets a job in whose space nothing is legal, which
    gets no trial then; by default the error is raised.
    """
    histories = [job.history for job in jobs]
    numbers = [job.trials for job in jobs]
    finished = [False] * len(jobs)
    spent = 0
    while spent < plan.trials:
        turn = plan.scheduler.next_task(_tasks(jobs, histories, finished))
        if turn is None:
            break
        job, history = jobs[turn], histories[turn]
        generator = np.random.default_rng([plan.seed, numbers[turn], _number(job.task)])
        count = min(plan.batch, plan.trials - spent)
        try:
            points = job.strategy.propose(job.space, history, generator, count)
        except EmptySpaceError as error:
            refuse(job, error)
            finished[turn] = True
            continue
        if len(points) == 0:
            finished[turn] = True
            continue
        costs = np.full(len(points), np.inf)
        candidates = [job.space.values(point) for point in points]
        began = time.perf_counter()
        for index, result in job.measure(candidates):
            costs[index] = result.cost
            now = time.perf_counter()
            record = Record(
                task=job.task,
                knobs=candidates[index],
                cost=result.cost if math.isfinite(result.cost) else None,
                error=result.error,
                trial=numbers[turn] + index,
                seed=plan.seed,
                strategy=plan.strategy,
                elapsed=now - began,
            )
            began = now
            write(record)
            spent += 1
            best = min(history.best, float(costs.min()))
            watch(Trial(name=job.name, record=record, count=spent, best=best))
        numbers[turn] += len(points)
        histories[turn] = history.with_trials(points, costs)
        finished[turn] = plan.patience is not None and has_stalled(histories[turn], plan.patience)
    return histories


def _tasks(
    jobs: Sequence[Job], histories: Sequence[History], finished: Sequence[bool]
) -> list[task_scheduler.Task]:
    return [
        task_scheduler.Task(history=history, weight=job.weight, floor=job.space.floor, finished=done)
        for job, history, done in zip(jobs, histories, finished, strict=True)
    ]


def _number(task: Task) -> int:
    """A number that only the task decides, so that jobs of one run draw differently."""
    return int.from_bytes(blake2b(repr(task.key).encode(), digest_size=4).digest())
