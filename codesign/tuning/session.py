"""A run of `vdla tune`, for all targets. First, each workload is tuned alone. Then the network is tuned or measured as
a whole with the best schedules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from math import inf, isfinite
from pathlib import Path
from typing import Any

from vdla.compiler.records.package_identity import compiler_identity
from vdla.compiler.records.record import Task
from vdla.compiler.templates.registry import WorkloadT
from vdla.compiler.templates.space import EmptySpaceError
from vdla.compiler.tune.measure.descriptions import describe
from vdla.compiler.tune.runs.resumed import trials_of
from vdla.compiler.tune.runs.session import Job, Plan
from vdla.compiler.tune.runs.session import tune as spend_trials
from vdla.compiler.tune.runs.task_scheduler import RIVAL_MARGIN
from vdla.compiler.tune.search.history import History
from vdla.compiler.tune.search.short_list import ShortList
from vdla.compiler.tune.search.strategies import strategy_of
from vdla.compiler.tune.search.transfer import samples_from
from vdla.util.errors import UserError

from .target import Layer, Outcome, Run, Subject, Tunable


def tune(target: Tunable[Any], model: Path | None, names: Sequence[str], run: Run) -> dict[str, Any]:
    """Tunes the network in the file `model` or, if it is None, the workloads named in `names`.

    Returns the JSON object of `vdla tune --json`. Raises UserError if no workload has a legal schedule, and the
    backend's errors.
    """
    if model is None:
        named = [(name, workload) for name in names for workload in target.named(name)]
        subjects = subjects_of(named, in_network=False)
        return tune_subjects(target, ", ".join(dict.fromkeys(names)), subjects, run)[0]
    network = target.network(model)
    subjects = subjects_of(network.workloads, in_network=True)
    document, layers = tune_subjects(target, model.stem, subjects, run)
    found = network.conclude(layers, run)
    return document if found is None else document | {"network": found}


def subjects_of(named: Sequence[tuple[str, WorkloadT]], *, in_network: bool) -> list[Subject[WorkloadT]]:
    """The distinct workloads of the pairs (name, workload) in `named`, in order. A workload with several names gets the
    first name. With `in_network`, the names are names of a network's nodes, and the `nodes` of a subject are all names
    of its workload.
    """
    names: dict[WorkloadT, list[str]] = {}
    for name, workload in named:
        names.setdefault(workload, []).append(name)
    return [
        Subject(name=found[0], workload=workload, nodes=tuple(found) if in_network else ())
        for workload, found in names.items()
    ]


def tune_subjects(
    target: Tunable[WorkloadT], name: str, subjects: Sequence[Subject[WorkloadT]], run: Run
) -> tuple[dict[str, Any], list[Layer[WorkloadT]]]:
    """Tunes the workloads `subjects`, each of them alone (a network is not run). Returns the JSON object of the run
    and, for each workload, the history of its trials. `name` is written into the JSON object as the name of what was
    tuned. Raises the same errors as `tune`.
    """
    jobs = jobs_of(target, subjects, run)
    run.watchers.resumed(sum(len(job.known) for job in jobs))
    target.begin([(subject.workload, job) for subject, job in zip(subjects, jobs, strict=True)], run)
    layers = [
        Layer(subject=subject, job=job, history=history)
        for subject, job, history in zip(subjects, jobs, _histories(target, jobs, run), strict=True)
    ]
    bests: dict[str, float] = {}
    for layer in layers:
        bests[layer.job.name] = min(layer.history.best, bests.get(layer.job.name, inf))
    tasks = [_described(layer, _outcome(target, layer, bests[layer.job.name], run)) for layer in layers]
    tasks = [task | {"fastest": task is _fastest(tasks, task["name"])} for task in tasks]
    return {"name": name, **target.document, "tasks": tasks}, layers


def jobs_of(target: Tunable[WorkloadT], subjects: Sequence[Subject[WorkloadT]], run: Run) -> list[Job]:
    """Jobs of the tuner, one for each workload, each with the earlier trials of that workload."""
    read_of = cache(target.feature_reader)
    return [_job(target, subject, run, read_of) for subject in subjects]


def _job(target: Tunable[WorkloadT], subject: Subject[WorkloadT], run: Run, read_of: Any) -> Job:
    options, workload = run.options, subject.workload
    task = Task(workload=workload.to_dict(), target=target.target.described)
    try:
        space = target.templates.space(target.target, workload)
    except EmptySpaceError as error:
        raise UserError(f"{subject.name}: cannot be tuned: {error} of {target.machine}") from None
    resumed = trials_of(
        run.known,
        task,
        space,
        strategy=options.strategy,
        seed=options.seed,
        compiler=compiler_identity(task.target["kind"]),
    )
    if resumed.warning is not None:
        run.watchers.remark(f"{subject.name}: {resumed.warning}")
    samples = partial(samples_from, run.transfer, target.templates, target.target, workload)
    short_list = None
    if options.reads_programs(space):
        short_list = ShortList(read=read_of(workload), prior=samples(read_of))
    return Job(
        name=subject.name,
        task=task,
        space=space,
        measure=partial(run.backend.finished, describe(target.target, workload)),
        strategy=strategy_of(options.strategy, samples(), short_list, options.model(space)),
        first=target.first(workload, options),
        known=resumed.trials,
        weight=max(1, len(subject.nodes)),
        layer=subject.name,
    )


def _histories(target: Tunable[Any], jobs: Sequence[Job], run: Run) -> list[History]:
    """Runs the trials of all jobs; returns their histories. A job whose space has no legal schedule is skipped, so that
    its workload keeps the template's own choice. Raises UserError if every job is skipped.
    """
    options = run.options
    plan = Plan(
        trials=options.trials,
        batch=options.batch,
        seed=options.seed,
        strategy=options.strategy,
        compiler=compiler_identity(target.target.described["kind"]),
        patience=options.patience,
    )
    empty: list[EmptySpaceError] = []

    def refuse(job: Job, error: EmptySpaceError) -> None:
        empty.append(error)
        run.watchers.remark(
            f"{job.name} is not tuned: {error} of {target.machine}; its template's default schedule is used"
        )

    histories = spend_trials(jobs, plan, write=run.write, watch=run.watchers.trial, refuse=refuse)
    if len(empty) == len(jobs):
        raise UserError(f"no layer can be tuned: {empty[0]} of {target.machine}")
    return histories


def _outcome(target: Tunable[WorkloadT], layer: Layer[WorkloadT], best: float, run: Run) -> Outcome:
    """The result of tuning a workload: the cost of the template's own choice and the cost of the best candidate.
    `best`: the least cost of the layer over all methods to compute it. If this workload's method is much slower than
    `best`, it is not worth a final, more precise measurement.
    """
    history = layer.history
    if layer.job.first is not None and RIVAL_MARGIN * best < history.best < inf:
        # Far slower than another method: its trials suffice, without further measurements.
        return Outcome(default=float(history.costs[0]), best=history.best, knobs=layer.knobs, right=True)
    return target.finish(layer, run)


def _described(layer: Layer[Any], outcome: Outcome) -> dict[str, Any]:
    """The entry of a tuned workload in the JSON object of `vdla tune --json`."""
    subject, job, history = layer.subject, layer.job, layer.history
    return {
        "name": subject.name,
        "workload": subject.workload.to_dict(),
        "nodes": list(subject.nodes),
        "unit": job.task.unit,
        "default": _number(outcome.default),
        "best": _number(outcome.best),
        "floor": job.space.floor,
        "trials": len(history),
        "failed": int((history.costs == inf).sum()),
        "knobs": None if outcome.knobs is None else dict(outcome.knobs),
        "outputs_equal": outcome.right,
    }


def _fastest(tasks: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    """Among the JSON entries `tasks`, the entry of the fastest method to compute the layer `name`."""

    def cost(task: Mapping[str, Any]) -> float:
        return min((task[key] for key in ("best", "default") if task[key] is not None), default=inf)

    return min((task for task in tasks if task["name"] == name), key=cost)


def _number(value: float) -> float | None:
    return value if isfinite(value) else None
