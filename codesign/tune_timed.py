"""The steps of `vdla tune` on targets where candidates are timed, not simulated.

All workloads are tuned; at the end their best candidates are measured again, in turns.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import inf, isfinite
from typing import Any, Generic, Protocol, TypeVar

from vdla.compiler.records.book import CHECKED
from vdla.compiler.records.package_identity import compiler_identity
from vdla.compiler.records.record import Record, Task
from vdla.compiler.templates.space import Space, Values, knobs_obstacle
from vdla.compiler.tune.measure.backends import Backend
from vdla.compiler.tune.measure.trial import WRONG, Result
from vdla.compiler.tune.program_features.program import Read
from vdla.compiler.tune.runs.resumed import trials_of
from vdla.compiler.tune.runs.session import Job
from vdla.compiler.tune.runs.task_scheduler import BEHIND
from vdla.compiler.tune.search.cost_model import Samples
from vdla.compiler.tune.search.history import History

from .tune_jobs import strategy_for, tune_jobs
from .tune_options import Options, Watchers

BASELINES = ("random", "grid")
"""Strategies that start without a hint; the others start at the template's own choice."""
FINALISTS = 3
"""Largest number of candidates of a workload that are measured again at the end."""
CHECKS = 3
"""Number of times that the finalists of a workload and the template's choice are measured in turns at the end."""


class Described(Protocol):
    """The interface of a workload that this module uses; equal workloads are tuned only once."""

    def to_dict(self) -> dict[str, Any]:
        """The workload as a JSON object."""
        ...

    def __hash__(self) -> int: ...


W = TypeVar("W", bound=Described)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subject(Generic[W]):
    """A workload to be tuned, and the names of its nodes in a network (none if the workload itself was named). Subjects
    with the same name are methods to compute the same layer.
    """

    name: str
    workload: W
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timed(Generic[W]):
    """A target as tuning needs it.

    `described` is its entry in records, `document` its entry in the JSON of `vdla tune`, `machine` its name for people;
    `describe` makes the task of a workload that a backend measures. `space` and `defaults` give a workload's space and
    default knobs, `samples` training data from other workloads, and `read` the features of its programs, see
    `tune_jobs.strategy_for`.
    """

    described: Mapping[str, Any]
    document: Mapping[str, Any]
    machine: str
    describe: Callable[[W], Mapping[str, Any]]
    space: Callable[[W], Space]
    defaults: Callable[[W], Values]
    samples: Callable[[W, Callable[[W], Read] | None], tuple[Samples, ...]]
    read: Callable[[W], Read]


def subjects_named(named: Sequence[tuple[str, W]]) -> list[Subject[W]]:
    """Named workloads, each once."""
    names: dict[W, str] = {}
    for name, workload in named:
        names.setdefault(workload, name)
    return [Subject(name=name, workload=workload) for workload, name in names.items()]


def subjects_of_nodes(workloads: Sequence[tuple[str, W]]) -> list[Subject[W]]:
    """The distinct workloads of a network's nodes in order, each with its nodes."""
    nodes: dict[W, list[str]] = {}
    for node, workload in workloads:
        nodes.setdefault(workload, []).append(node)
    return [
        Subject(name=members[0], workload=workload, nodes=tuple(members))
        for workload, members in nodes.items()
    ]


def tune_timed(
    target: Timed[W],
    name: str,
    subjects: Sequence[Subject[W]],
    options: Options,
    backend: Backend,
    known: Sequence[Record],
    watchers: Watchers,
) -> tuple[dict[str, Any], list[Record]]:
    """Tunes workloads; `name` is their common name in the document. Returns the document of `vdla tune --json`, with
    costs in seconds, and the records that were written.

    Raises UserError if no workload has a legal schedule, and the backend's errors.
    """
    written: list[Record] = []

    def write(record: Record) -> None:
        written.append(record)
        watchers.write(record)

    compiler = compiler_identity(target.described["kind"])
    jobs: list[Job] = []
    read_of = cache(target.read)
    for subject in subjects:
        task = Task(workload=subject.workload.to_dict(), target=target.described)
        own = target.space(subject.workload)
        resumed = trials_of(known, task, own, strategy=options.strategy, seed=options.seed, compiler=compiler)
        if resumed.warning is not None:
            watchers.remark(f"{subject.name}: {resumed.warning}")
        samples = partial(target.samples, subject.workload)
        # So that applied records are never slower than none. In spaces made by rules the template's choice is not a
        # point.
        first = None if options.strategy in BASELINES else target.defaults(subject.workload) or None
        jobs.append(
            Job(
                name=subject.name,
                task=task,
                space=own,
                measure=partial(backend.finished, target.describe(subject.workload)),
                strategy=strategy_for(options, own, subject.workload, samples, read_of),
                first=None if first is None or knobs_obstacle(own, first) else first,
                known=resumed.trials,
                weight=max(1, len(subject.nodes)),
                layer=subject.name,
            )
        )
    watchers.resumed(sum(len(job.known) for job in jobs))
    histories = tune_jobs(
        jobs,
        options,
        compiler=compiler,
        machine=target.machine,
        write=write,
        watchers=watchers,
    )
    bests: dict[str, float] = {}
    for subject, history in zip(subjects, histories, strict=True):
        bests[subject.name] = min(history.best, bests.get(subject.name, inf))
    tasks = []
    for subject, job, history in zip(subjects, jobs, histories, strict=True):
        if job.first is not None and BEHIND * bests[subject.name] < history.best < inf:
            tasks.append(_task_behind(subject, job, history))
        else:
            tasks.append(_task(target, subject, job, history, backend, options, write))
    tasks = [task | {"fastest": task is _fastest(tasks, task["name"])} for task in tasks]
    return {"name": name, **target.document, "tasks": tasks}, written


def _fastest(tasks: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    """The document of the fastest method to compute a layer."""

    def cost(task: Mapping[str, Any]) -> float:
        known = [task[what] for what in ("best", "default") if task[what] is not None]
        return min(known, default=inf)

    return min((task for task in tasks if task["name"] == name), key=cost)


def _task_behind(subject: Subject[W], job: Job, history: History) -> dict[str, Any]:
    """The document's part for a method that is far slower than another: its trials suffice, without further
    measurements.
    """
    best = int(history.costs.argmin())
    knobs = job.space.values(history.points[best])
    return _described(subject, job, history, float(history.costs[0]), history.best, knobs, right=True)


def _task(
    target: Timed[W],
    subject: Subject[W],
    job: Job,
    history: History,
    backend: Backend,
    options: Options,
    write: Callable[[Record], None],
) -> dict[str, Any]:
    """The workload's part of the document: the template's choice and the best, measured in turns, in seconds.

    The least of many noisy measurements is often only a lucky one. Therefore the few best candidates are measured again
    in turns with the template's choice. A record of the best of these, possibly the template's choice itself, is
    written; it takes precedence over single measurements.
    """
    order = [k for k in history.costs.argsort(kind="stable")[:FINALISTS] if isfinite(history.costs[k])]
    finalists = [job.space.values(history.points[k]) for k in order]
    began = time.perf_counter()
    results = backend.measure(target.describe(subject.workload), [None, *finalists] * CHECKS)
    default, *tuned = (results[k :: len(finalists) + 1] for k in range(len(finalists) + 1))
    medians = [_median(group) for group in tuned]
    best = min(((m, k) for k, m in enumerate(medians) if isfinite(m)), default=(inf, len(finalists)))[1]
    knobs = finalists[best] if best < len(finalists) else None
    default_cost = _median(default)
    if knobs is not None or isfinite(default_cost):
        # If no trial is faster, the template's choice is recorded; without knobs if it is not a point of the space.
        own = target.defaults(subject.workload)
        own = own if knobs_obstacle(job.space, own) is None else {}
        faster = knobs is not None and medians[best] <= default_cost
        write(
            Record(
                task=job.task,
                knobs=knobs if knobs is not None and faster else own,
                cost=medians[best] if faster else default_cost,
                trial=len(history),
                seed=options.seed,
                strategy=CHECKED,
                elapsed=time.perf_counter() - began,
                compiler=compiler_identity(job.task.target["kind"]),
            )
        )
    wrong = any(WRONG in (result.error or "") for group in tuned for result in group)
    cost = inf if knobs is None else medians[best]
    return _described(subject, job, history, default_cost, cost, knobs, right=not wrong)


def _described(
    subject: Subject[W],
    job: Job,
    history: History,
    default: float,
    best: float,
    knobs: Values | None,
    *,
    right: bool,
) -> dict[str, Any]:
    return {
        "name": subject.name,
        "workload": subject.workload.to_dict(),
        "nodes": list(subject.nodes),
        "unit": job.task.unit,
        "default": _number(default),
        "best": _number(best),
        "floor": job.space.floor,
        "trials": len(history),
        "failed": int((history.costs == inf).sum()),
        "knobs": None if knobs is None else dict(knobs),
        "outputs_equal": None if knobs is None else right,
    }


def _median(results: Sequence[Result]) -> float:
    """Median cost of the results that did not fail; inf if all failed."""
    costs = [result.cost for result in results if not result.failed]
    return statistics.median(costs) if costs else inf


def _number(value: float) -> float | None:
    return value if isfinite(value) else None
