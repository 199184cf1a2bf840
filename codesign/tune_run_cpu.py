"""The steps of `vdla tune` on processors: workloads alone, then the network with their best, before and after."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import inf, isfinite
from pathlib import Path
from typing import Any

from vdla.compiler.cpu_driver import compile_cpu, network_workloads
from vdla.compiler.target.cpu.machine import CpuTarget, host_target, runs_here
from vdla.compiler.templates.tasks_cpu import default_values, knobs_obstacle, space
from vdla.compiler.templates.workload_cpu import CpuWorkload
from vdla.compiler.tune.measure.backends import Backend
from vdla.compiler.tune.measure.descriptions import describe_cpu
from vdla.compiler.tune.measure.package_identity import compiler_identity
from vdla.compiler.tune.measure.trial import WRONG, Result
from vdla.compiler.tune.program_features.reading import read_cpu
from vdla.compiler.tune.records.apply_cpu import knobs_from
from vdla.compiler.tune.records.book import CHECKED, book_of
from vdla.compiler.tune.records.record import Record, Task, describe_target
from vdla.compiler.tune.records.resumed import trials_of
from vdla.compiler.tune.records.transfer_cpu import samples_from
from vdla.compiler.tune.runs.session import Job
from vdla.compiler.tune.search.history import History
from vdla.isa.errors import UserError

from .bench.timing import interleaved
from .processor_run import relative_difference, sample_inputs
from .tune_jobs import strategy_for, tune_jobs
from .tune_options import Options, Watchers

BASELINES = ("random", "grid")
"""Strategies that take no hint: the others start at the template's own choice."""
FINALISTS = 3
"""Of a workload, how many are measured again at the end."""
CHECKS = 3
"""Times that the finalists of a workload and the template's choice are measured in turns at the end."""
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
    names: dict[CpuWorkload, str] = {}
    for name, workload in named:
        names.setdefault(workload, name)
    subjects = [CpuSubject(name=name, workload=workload) for workload, name in names.items()]
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
    compiler = compiler_identity(described["kind"])
    jobs: list[Job] = []
    read_of = cache(partial(read_cpu, target))
    for subject in subjects:
        task = Task(workload=subject.workload.to_dict(), target=described)
        own = space(target, subject.workload)
        resumed = trials_of(known, task, own, strategy=options.strategy, seed=options.seed, compiler=compiler)
        if resumed.warning is not None:
            watchers.remark(f"{subject.name}: {resumed.warning}")
        samples = partial(samples_from, transfer, target, subject.workload)
        # So that records are not worse than none. In spaces that rules made the template's choice is no point.
        first = None if options.strategy in BASELINES else default_values(target, subject.workload) or None
        jobs.append(
            Job(
                name=subject.name,
                task=task,
                space=own,
                measure=partial(backend.finished, describe_cpu(target, subject.workload)),
                strategy=strategy_for(options, own, subject.workload, samples, read_of),
                first=None if first is None or knobs_obstacle(own, first) else first,
                known=resumed.trials,
                weight=max(1, len(subject.nodes)),
            )
        )
    watchers.resumed(sum(len(job.known) for job in jobs))
    histories = tune_jobs(
        jobs,
        options,
        compiler=compiler,
        machine=f"processor {target.cpu}",
        write=write,
        watchers=watchers,
    )
    tasks = [
        _task(target, subject, job, history, backend, options, write)
        for subject, job, history in zip(subjects, jobs, histories, strict=True)
    ]
    return tasks, written


def _task(
    target: CpuTarget,
    subject: CpuSubject,
    job: Job,
    history: History,
    backend: Backend,
    options: Options,
    write: Callable[[Record], None],
) -> dict[str, Any]:
    """The workload's part of the document: the template's choice and the best, measured in turns, in seconds.

    Of many noisy readings the least is lucky more than it is good. So the few best take turns with the template's
    choice, and of the best of these, which need not be another, a record is written that counts more than readings.
    """
    order = [k for k in history.costs.argsort(kind="stable")[:FINALISTS] if isfinite(history.costs[k])]
    finalists = [job.space.values(history.points[k]) for k in order]
    began = time.perf_counter()
    results = backend.measure(describe_cpu(target, subject.workload), [None, *finalists] * CHECKS)
    default, *tuned = (results[k :: len(finalists) + 1] for k in range(len(finalists) + 1))
    medians = [_median(group) for group in tuned]
    best = min(((m, k) for k, m in enumerate(medians) if isfinite(m)), default=(inf, len(finalists)))[1]
    knobs = finalists[best] if best < len(finalists) else None
    default_cost = _median(default)
    if knobs is not None or isfinite(default_cost):
        # Where no trial is faster, the template's choice is worth applying; without knobs where the space has no such.
        own = default_values(target, subject.workload)
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
    return {
        "name": subject.name,
        "workload": subject.workload.to_dict(),
        "nodes": list(subject.nodes),
        "unit": job.task.unit,
        "default": _number(default_cost),
        "best": None if knobs is None else medians[best],
        "floor": job.space.floor,
        "trials": len(history),
        "failed": int((history.costs == inf).sum()),
        "knobs": None if knobs is None else dict(knobs),
        "outputs_equal": None if knobs is None else not wrong,
    }


def _median(results: Sequence[Result]) -> float:
    """Of those that ran; inf where none did."""
    costs = [result.cost for result in results if not result.failed]
    return statistics.median(costs) if costs else inf


def _number(value: float) -> float | None:
    return value if isfinite(value) else None
