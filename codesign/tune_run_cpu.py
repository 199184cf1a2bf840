"""The steps of `vdla tune` on processors: workloads alone, then the network with their best, before and after."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import inf, isfinite
from pathlib import Path
from typing import Any

import numpy as np
from vdla.compiler.cpu_driver import compile_cpu, network_workloads
from vdla.compiler.target.cpu.machine import CpuTarget, host_target, runs_here
from vdla.compiler.templates.space import EmptySpaceError, Values
from vdla.compiler.templates.tasks_cpu import default_values, knobs_obstacle, space
from vdla.compiler.templates.workload_cpu import CpuWorkload
from vdla.compiler.tune.measure.backends import Backend
from vdla.compiler.tune.measure.descriptions import describe_cpu
from vdla.compiler.tune.measure.trial import Result
from vdla.compiler.tune.measure.trial_cpu import WRONG
from vdla.compiler.tune.program_features.reading import read_cpu
from vdla.compiler.tune.records.apply_cpu import knobs_from
from vdla.compiler.tune.records.book import book_of, history_of
from vdla.compiler.tune.records.record import Key, Record, Task, describe_target
from vdla.compiler.tune.records.transfer_cpu import samples_from
from vdla.compiler.tune.runs.session import Job, Plan, Trial, tune
from vdla.compiler.tune.search.history import History
from vdla.compiler.tune.search.short_list import ShortList
from vdla.compiler.tune.search.strategies import strategy_of
from vdla.isa.errors import UserError

from .bench.timing import interleaved
from .processor_run import relative_difference, sample_inputs
from .tune_run import Options, Watchers, template_record

BASELINES = ("random", "grid")
"""Strategies that take no hint: the others start at the template's own choice."""
CHECKS = 3
"""Times that the best of a workload and the template's choice are measured in turns at the end."""
ROUNDS = (5, 25)
"""Rounds of the whole network before and after, at least and at most."""
ROUNDS_SECONDS = 2.0
TOLERANCE = 1e-4
"""Of a network's outputs, relative to the greatest: sums of float32 in another order, through all its layers."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CpuSubject:
    """A workload to be tuned, and the names of the nodes that have it (none: it was named itself)."""

    name: str
    workload: CpuWorkload
    nodes: tuple[str, ...] = ()


def check_target(target: CpuTarget) -> None:
    """UserError for a processor whose code cannot be measured on this machine."""
    if not runs_here(target):
        host = host_target()
        raise UserError(
            f"--target: candidates for {target.cpu} ({target.triple}) cannot be measured on this machine ({host.cpu}, "
            f"{host.triple}); name a --scheduler with workers that can, or take `llvm`"
        )


def subjects_of(path: Path, target: CpuTarget) -> list[CpuSubject]:
    """The distinct workloads of a network, in its order, each with its nodes. UserError where there are none."""
    nodes: dict[CpuWorkload, list[str]] = {}
    for node, workload in network_workloads(path, target):
        nodes.setdefault(workload, []).append(node)
    if not nodes:
        raise UserError(
            f"{path}: has no layers that can be tuned on processors: convolutions, matrix products, pools, "
            "element-wise operators, and reductions, softmax and normalization of some thousand elements, in float32"
        )
    return [
        CpuSubject(name=members[0], workload=workload, nodes=tuple(members))
        for workload, members in nodes.items()
    ]


def tune_workloads(
    target: CpuTarget,
    named: Sequence[tuple[str, CpuWorkload]],
    options: Options,
    backend: Backend,
    known: Sequence[Record],
    transfer: Sequence[Record],
    watchers: Watchers,
) -> dict[str, Any]:
    """Tunes workloads that were named; the document of `vdla tune --json`, times in seconds."""
    subjects = [CpuSubject(name=name, workload=workload) for name, workload in named]
    tasks, _ = _tune(target, subjects, options, backend, known, transfer, watchers)
    return {"name": ", ".join(name for name, _ in named), **_target(target), "tasks": tasks}


def tune_network(
    target: CpuTarget,
    path: Path,
    options: Options,
    backend: Backend,
    known: Sequence[Record],
    transfer: Sequence[Record],
    watchers: Watchers,
) -> dict[str, Any]:
    """Tunes a network's workloads, then measures all of it with and without the records, if this machine runs it.

    The document of `vdla tune --json`.
    """
    subjects = subjects_of(path, target)
    tasks, written = _tune(target, subjects, options, backend, known, transfer, watchers)
    document = {"name": path.stem, **_target(target), "tasks": tasks}
    if not runs_here(target):
        watchers.remark(f"{path}: the whole network is not measured, as this machine cannot run it")
        return document
    return document | {"network": compare_network(path, target, [*known, *written])}


def compare_network(path: Path, target: CpuTarget, records: Sequence[Record]) -> dict[str, Any]:
    """A network with the template's own choices and with the records: milliseconds of one inference, and its outputs.

    Both run in turns on one thread of this machine; the medians of thread CPU time count. Raises UserError.
    """
    knobs = knobs_from(book_of(records), target)
    with compile_cpu(path, target) as plain, compile_cpu(path, target, knobs=knobs) as tuned:
        arrays = sample_inputs(plain)
        expected = plain.run(arrays)
        difference = relative_difference(expected, tuned.run(arrays))
        began = time.thread_time()
        plain.run(arrays)
        least, most = ROUNDS
        rounds = int(ROUNDS_SECONDS / max(2 * (time.thread_time() - began), 1e-6))
        before, after = interleaved(
            time.thread_time,
            [lambda: plain.run(arrays), lambda: tuned.run(arrays)],
            min(most, max(least, rounds)),
            least=1e-3,
        )
        kernels = len(tuned.kernels)
    return {
        "default_ms": statistics.median(before) * 1e3,
        "tuned_ms": statistics.median(after) * 1e3,
        "kernels": kernels,
        "kernels_tuned": len(knobs.applied),
        "kernels_ignored": len(knobs.ignored),
        "max_relative_error": difference,
        "outputs_equal": difference is not None and difference <= TOLERANCE,
    }


def _target(target: CpuTarget) -> dict[str, Any]:
    return {"target": "llvm", "cpu": target.cpu, "triple": target.triple}


def _tune(
    target: CpuTarget,
    subjects: Sequence[CpuSubject],
    options: Options,
    backend: Backend,
    known: Sequence[Record],
    transfer: Sequence[Record],
    watchers: Watchers,
) -> tuple[list[dict[str, Any]], list[Record]]:
    """The tasks of the document, and the records that were written."""
    written: list[Record] = []

    def write(record: Record) -> None:
        written.append(record)
        watchers.write(record)

    described = describe_target(target)
    jobs: list[Job] = []
    read_of = cache(partial(read_cpu, target))
    for subject in subjects:
        task = Task(workload=subject.workload.to_dict(), target=described)
        own = space(target, subject.workload)
        resumed = history_of(known, task, own, strategy=options.strategy, seed=options.seed)
        if resumed.warning is not None:
            watchers.remark(f"{subject.name}: {resumed.warning}")
        short_list = None
        if options.reads_programs(own):
            lessons = samples_from(transfer, target, subject.workload, read_of)
            short_list = ShortList(read=read_of(subject.workload), prior=lessons)
        prior = samples_from(transfer, target, subject.workload)
        jobs.append(
            Job(
                name=subject.name,
                task=task,
                space=own,
                measure=partial(backend.finished, describe_cpu(target, subject.workload)),
                strategy=strategy_of(options.strategy, prior, short_list, options.model(own)),
                history=resumed.history,
                trials=resumed.trials,
                weight=max(1, len(subject.nodes)),
            )
        )
    own = _own_choices(jobs, known, options)
    left = max(0, options.trials - sum(len(job.history) for job in jobs) - len(own))
    if options.strategy not in BASELINES:
        told = replace(watchers, write=write)
        for turn in [k for k, job in enumerate(jobs) if job.trials == 0][:left]:
            values = default_values(target, subjects[turn].workload)
            if knobs_obstacle(jobs[turn].space, values) is None:
                jobs[turn] = _begun(jobs[turn], turn, values, options, told)
                left -= 1
    plan = Plan(
        trials=left,
        batch=options.batch,
        seed=options.seed,
        strategy=options.strategy,
        patience=options.patience,
    )
    empty: list[EmptySpaceError] = []

    def refuse(job: Job, error: EmptySpaceError) -> None:
        empty.append(error)
        watchers.remark(f"{job.name}: {error} of processor {target.cpu}; its template decides")

    histories = tune(jobs, plan, write=write, watch=watchers.trial, refuse=refuse)
    if len(empty) == len(jobs):
        raise UserError(f"{empty[0]} of processor {target.cpu}")
    own = _own_choices(jobs, [*known, *written], options)
    tasks = [
        _task(target, subject, job, history, own.get(job.task.key), backend)
        for subject, job, history in zip(subjects, jobs, histories, strict=True)
    ]
    for job, history, task in zip(jobs, histories, tasks, strict=True):
        if job.task.key in own and task["knobs"] and _is_slower(task):
            # One reading was lucky: what is applied is what was faster in turns, whose cost is told beside it.
            cost = history.best * task["default"] / task["best"]
            write(template_record(job.task, cost, options.seed))
            task |= {"knobs": {}, "best": task["default"]}
    return tasks, written


def _own_choices(jobs: Sequence[Job], records: Sequence[Record], options: Options) -> dict[Key, float]:
    """The cost of the template's own choice by task, where this search tried it and it is no point of the space."""
    ours = {job.task.key for job in jobs}
    return {
        record.task.key: inf if record.cost is None else record.cost
        for record in records
        if not record.knobs
        and record.task.key in ours
        and (record.strategy, record.seed) == (options.strategy, options.seed)
    }


def _begun(
    job: Job,
    turn: int,
    values: Values,
    options: Options,
    watchers: Watchers,
) -> Job:
    """The job after a first trial: that of the template's own choice, so that records are not worse than none."""
    began = time.perf_counter()
    # Rules make spaces in which the template's choice is no point: it has no knobs.
    ((_, result),) = job.measure([values or None])
    record = Record(
        task=job.task,
        knobs=values,
        cost=None if result.failed else result.cost,
        error=result.error,
        trial=0,
        seed=options.seed,
        strategy=options.strategy,
        elapsed=time.perf_counter() - began,
    )
    watchers.write(record)
    watchers.trial(Trial(name=job.name, record=record, count=turn + 1, best=result.cost))
    if not values:
        return replace(job, trials=1)
    history = job.history.with_trials(job.space.point(values)[None], np.array([result.cost]))
    return replace(job, history=history, trials=1)


def _task(
    target: CpuTarget,
    subject: CpuSubject,
    job: Job,
    history: History,
    own: float | None,
    backend: Backend,
) -> dict[str, Any]:
    """The workload's part of the document: the template's choice and the best, measured in turns, in seconds.

    `own` is what the template's choice cost in the search where it is no point; where nothing was faster, it is the
    best, and has no knobs.
    """
    knobs: Mapping[str, int] | None = None
    if own is not None and isfinite(own) and own <= history.best:
        knobs = {}
    elif isfinite(history.best):
        knobs = job.space.values(history.points[int(history.costs.argmin())])
    candidates = [None] if knobs is None else [None, knobs or None]
    results = backend.measure(describe_cpu(target, subject.workload), candidates * CHECKS)
    default, *tuned = (results[k :: len(candidates)] for k in range(len(candidates)))
    wrong = any(WRONG in (result.error or "") for group in tuned for result in group)
    return {
        "name": subject.name,
        "workload": subject.workload.to_dict(),
        "nodes": list(subject.nodes),
        "unit": job.task.unit,
        "default": _median(default),
        "best": _median(tuned[0]) if tuned else None,
        "floor": job.space.floor,
        "trials": len(history) + (own is not None),
        "failed": int((history.costs == inf).sum()) + (own == inf),
        "knobs": None if knobs is None else dict(knobs),
        "outputs_equal": None if knobs is None else not wrong,
    }


def _is_slower(task: Mapping[str, Any]) -> bool:
    """Whether the best of the search was slower than the template's choice when both were measured in turns."""
    default, best = task["default"], task["best"]
    return default is not None and best is not None and default < best


def _median(results: Sequence[Result]) -> float | None:
    """Of those that ran."""
    costs = [result.cost for result in results if not result.failed]
    return statistics.median(costs) if costs else None
