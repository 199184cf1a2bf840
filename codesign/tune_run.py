"""The steps of `vdla tune` on the accelerator: workloads alone, then every node of a network in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from vdla.compiler.graph.abilities import Abilities
from vdla.compiler.graph.fuse import fuse
from vdla.compiler.graph.onnx_import import import_model
from vdla.compiler.records.book import book_of
from vdla.compiler.records.package_identity import compiler_identity
from vdla.compiler.records.record import Record, Task
from vdla.compiler.templates.vdla.legalize import Legalized, legalize
from vdla.compiler.templates.vdla.read_workload import VDLA
from vdla.compiler.templates.vdla.table import template_of
from vdla.compiler.templates.vdla.workload import Workload
from vdla.compiler.tune.measure.backends import Backend
from vdla.compiler.tune.measure.check_vdla import agrees
from vdla.compiler.tune.measure.descriptions import describe
from vdla.compiler.tune.measure.measure_vdla import AcceleratorTask, measure
from vdla.compiler.tune.measure.network_vdla import NetworkTrials
from vdla.compiler.tune.program_features.reading import read_vdla
from vdla.compiler.tune.runs.resumed import trials_of
from vdla.compiler.tune.runs.session import Job
from vdla.compiler.tune.search.history import History
from vdla.compiler.tune.search.transfer import samples_from
from vdla.compiler.vdla_stages import AcceleratorNetwork
from vdla.isa.config import Config
from vdla.util.errors import UserError

from .tune_jobs import strategy_for, tune_jobs
from .tune_options import Options, Watchers
from .tune_run_in_place import Layer, outputs_equal, tune_in_place

TEMPLATE = "template"
"""Strategy of a record that holds the template's own choice."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tuned:
    """A workload after a run: its nodes, the cycles of the template's own choice and of the best, both alone, and the
    number of trials.

    `checked`: whether the best schedule computes the same bits as the template's choice, on random data.
    """

    name: str
    workload: Workload
    nodes: tuple[str, ...]
    default: float
    best: float
    floor: float
    trials: int
    failed: int
    knobs: Mapping[str, int] | None
    checked: bool | None

    def to_dict(self) -> dict[str, Any]:
        """The workload's part of the JSON document."""
        return {
            "name": self.name,
            "workload": self.workload.to_dict(),
            "nodes": list(self.nodes),
            "unit": "cycles",
            "default": _number(self.default),
            "best": _number(self.best),
            "floor": self.floor,
            "trials": self.trials,
            "failed": self.failed,
            "knobs": None if self.knobs is None else dict(self.knobs),
            "outputs_equal": self.checked,
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subject:
    """A workload to be tuned, and the names of its nodes in a network (none if the workload itself was named)."""

    name: str
    workload: Workload
    nodes: tuple[str, ...] = ()


def legalized_model(path: Path, config: Config) -> Legalized:
    """The legalized graph of the model in file `path`, ready for lowering. Raises UserError."""
    return legalize(fuse(import_model(path, abilities=Abilities.of(config))), config)


def network_trials(path: Path, config: Config) -> NetworkTrials:
    """The network in file `path`, ready for trials. Raises UserError, also for a network that does not fit."""
    network = AcceleratorNetwork(config=config, legalized=legalized_model(path, config))
    trials = NetworkTrials(network)
    for workload in trials.workloads.values():
        if limit := template_of(workload).violated(config, workload):
            raise UserError(
                f"{path}: {workload.template}: no tile is small enough for {limit} of configuration {config.name}"
            )
    return trials


def subjects_of(network: NetworkTrials) -> list[Subject]:
    """The distinct workloads of a network in order, each with its nodes."""
    nodes: dict[Workload, list[str]] = {}
    for node, workload in network.workloads.items():
        nodes.setdefault(workload, []).append(node)
    return [
        Subject(name=members[0], workload=workload, nodes=tuple(members))
        for workload, members in nodes.items()
    ]


def tune_alone(
    config: Config,
    subjects: Sequence[Subject],
    options: Options,
    *,
    backend: Backend,
    known: Sequence[Record] = (),
    transfer: Sequence[Record] = (),
    watchers: Watchers,
) -> tuple[list[Tuned], list[History], list[AcceleratorTask]]:
    """Tunes workloads by themselves. Trials in the records `known`, of the same search, are not repeated; the cost
    model also learns from the records `transfer`.

    Raises UserError for a workload that has no legal schedule.
    """
    target = config.described
    compiler = compiler_identity(target["kind"])
    tasks, jobs = [], []
    read_of = cache(lambda workload: read_vdla(AcceleratorTask.of(config, workload)))
    for subject in subjects:
        task = Task(workload=subject.workload.to_dict(), target=target)
        accelerator = AcceleratorTask.of(config, subject.workload)
        resumed = trials_of(
            known,
            task,
            accelerator.space,
            strategy=options.strategy,
            seed=options.seed,
            compiler=compiler,
        )
        if resumed.warning is not None:
            watchers.remark(f"{subject.name}: {resumed.warning}")
        tasks.append(accelerator)
        samples = partial(samples_from, transfer, VDLA, config, subject.workload)
        jobs.append(
            Job(
                name=subject.name,
                task=task,
                space=accelerator.space,
                measure=partial(backend.finished, describe(accelerator)),
                strategy=strategy_for(options, accelerator.space, subject.workload, samples, read_of),
                known=resumed.trials,
                weight=max(1, len(subject.nodes)),
            )
        )
    watchers.resumed(sum(len(job.known) for job in jobs))
    told = {record.task.key for record in known if (record.strategy, record.compiler) == (TEMPLATE, compiler)}
    for job, task in zip(jobs, tasks, strict=True):
        # This record is written first, so that applied records are never slower alone than the template's own choice.
        if job.task.key not in told:
            watchers.write(_template_record(job.task, measure(task, None).cost, options.seed, compiler))
    histories = tune_jobs(
        jobs,
        options,
        compiler=compiler,
        machine=f"configuration {config.name}",
        write=watchers.write,
        watchers=watchers,
    )
    tuned = [
        _tuned(subject, task, history)
        for subject, task, history in zip(subjects, tasks, histories, strict=True)
    ]
    return tuned, histories, tasks


def _template_record(task: Task, cost: float, seed: int, compiler: str) -> Record:
    """A record without knobs of the cost of the template's own choice."""
    return Record(
        task=task,
        knobs={},
        cost=cost,
        trial=0,
        seed=seed,
        strategy=TEMPLATE,
        elapsed=0.0,
        compiler=compiler,
    )


def _tuned(subject: Subject, task: AcceleratorTask, history: History) -> Tuned:
    best = int(history.costs.argmin()) if len(history) and history.best < float("inf") else None
    knobs = None if best is None else task.space.values(history.points[best])
    return Tuned(
        name=subject.name,
        workload=subject.workload,
        nodes=subject.nodes,
        default=measure(task, None).cost,
        best=history.best,
        floor=task.space.floor,
        trials=len(history),
        failed=int((history.costs == float("inf")).sum()),
        knobs=knobs,
        checked=None if knobs is None else agrees(task, knobs),
    )


def tune_workloads(
    config: Config,
    named: Sequence[tuple[str, Workload]],
    options: Options,
    backend: Backend,
    known: Sequence[Record],
    transfer: Sequence[Record],
    watchers: Watchers,
) -> dict[str, Any]:
    """Tunes named workloads alone and checks the best of each; returns the document of `vdla tune --json`."""
    names: dict[Workload, str] = {}
    for name, workload in named:
        names.setdefault(workload, name)
    subjects = [Subject(name=name, workload=workload) for workload, name in names.items()]
    tuned, _, _ = tune_alone(
        config, subjects, options, backend=backend, known=known, transfer=transfer, watchers=watchers
    )
    return {
        "name": ", ".join(name for name, _ in named),
        "target": "vdla",
        "config": config.name,
        "warnings": list(config.warnings),
        "tasks": [item.to_dict() for item in tuned],
    }


def tune_network(
    config: Config,
    path: Path,
    options: Options,
    backend: Backend,
    known: Sequence[Record],
    transfer: Sequence[Record],
    watchers: Watchers,
) -> dict[str, Any]:
    """Tunes a network's workloads alone, then its nodes in place; returns the document of `vdla tune --json`."""
    network = network_trials(path, config)
    subjects = subjects_of(network)
    written: list[Record] = []

    def write(record: Record) -> None:
        written.append(record)
        watchers.write(record)

    telling = replace(watchers, write=write)
    tuned, histories, tasks = tune_alone(
        config, subjects, options, backend=backend, known=known, transfer=transfer, watchers=telling
    )
    layers = [
        Layer(nodes=subject.nodes, task=task, history=history)
        for subject, task, history in zip(subjects, tasks, histories, strict=True)
    ]
    placed = tune_in_place(config, network, layers, options, known=known, watchers=telling)
    default = network.cycles({})
    roofline, bound = network.roofline_cycles, network.bound_cycles
    return {
        "name": path.stem,
        "target": "vdla",
        "config": config.name,
        "warnings": list(config.warnings),
        "tasks": [item.to_dict() for item in tuned],
        "network": {
            "key": network.key,
            "default_cycles": default,
            "tuned_cycles": placed.cycles,
            "roofline_cycles": roofline,
            "bound_cycles": bound,
            "distance_closed": (default - placed.cycles) / (default - bound) if default > bound else 0.0,
            "default_utilization": roofline / default,
            "tuned_utilization": roofline / placed.cycles,
            "trials": placed.trials,
            "outputs_equal": outputs_equal(path, config, book_of([*known, *written])),
        },
    }


def _number(value: float) -> float | None:
    return value if value < float("inf") else None
