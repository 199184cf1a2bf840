"""The steps of `vdla tune` on the accelerator: workloads alone, then every node of a network in its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from vdla.compiler.graph.fuse import fuse
from vdla.compiler.graph.onnx_import import import_model
from vdla.compiler.templates.prepare_vdla import Prepared, prepare
from vdla.compiler.templates.space import EmptySpaceError, Space, Values
from vdla.compiler.templates.tiling import NoTileError
from vdla.compiler.templates.workload_vdla import Workload
from vdla.compiler.tune.measure.backends import Backend
from vdla.compiler.tune.measure.check_vdla import agrees
from vdla.compiler.tune.measure.descriptions import describe
from vdla.compiler.tune.measure.measure_vdla import VIRTUAL_THREADS, AcceleratorTask, measure
from vdla.compiler.tune.measure.network_vdla import NetworkTrials
from vdla.compiler.tune.program_features.reading import read_vdla
from vdla.compiler.tune.records.book import book_of, history_of
from vdla.compiler.tune.records.record import Record, Task, describe_target
from vdla.compiler.tune.records.transfer_vdla import samples_from
from vdla.compiler.tune.runs.in_place import Move, Place, Placed, refine
from vdla.compiler.tune.runs.session import Job, Plan, Trial, tune
from vdla.compiler.tune.search.cost_model import THOROUGH, CostModel, Samples
from vdla.compiler.tune.search.history import History
from vdla.compiler.tune.search.point_features import examine, point_features
from vdla.compiler.tune.search.short_list import ShortList
from vdla.compiler.tune.search.strategies import LEARNING, StrategyName, strategy_of
from vdla.isa.config import Config
from vdla.isa.errors import UserError

IN_PLACE = "in place"
"""The strategy that records of nodes in their networks name."""
TEMPLATE = "template"
"""The strategy that the record of a template's own choice names."""
RULES = frozenset({"sketch_cpu"})
"""Spaces that rules made: their accounts guess no cost, so that what programs show and more training pay."""
STARTS = 8
"""Candidates of a node that are good alone and are tried in its place first."""


FeatureSet = Literal["account", "program"]
"""What models learn from: what spaces know of points alone, or of a short list what their programs show, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `vdla tune` was asked for: `trials` of workloads alone, `in_place` trials of nodes in their network.

    `features` None: those that `benchmarks/cost_model.py` shows to be the better ones for a space.
    """

    trials: int
    in_place: int
    batch: int
    seed: int
    strategy: StrategyName
    patience: int | None = None
    features: FeatureSet | None = None

    def reads_programs(self, space: Space) -> bool:
        """Whether candidates of a space are lowered before they are chosen."""
        usual = "program" if space.template in RULES else "account"
        return self.strategy in LEARNING and (self.features or usual) == "program"

    def model(self, space: Space) -> CostModel:
        """How the model that leads walks through a space is trained."""
        return THOROUGH if space.template in RULES else CostModel()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tuned:
    """A workload after a run: its nodes, cycles of the template's own choice and of the best alone, trials made.

    `checked`: whether the best computes the same bits as the template's choice, on random data.
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
    """A workload to be tuned, and the names of the nodes that have it (none: it was named itself)."""

    name: str
    workload: Workload
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Watchers:
    """Who is told of a run as it goes: records to be kept, trials alone, trials in their place, remarks for people."""

    write: Callable[[Record], None] = lambda _: None
    trial: Callable[[Trial], None] = lambda _: None
    move: Callable[[Move], None] = lambda _: None
    remark: Callable[[str], None] = lambda _: None


def prepare_model(path: Path, config: Config) -> Prepared:
    """The graph of the model in file `path` as it is lowered. Raises UserError."""
    return prepare(fuse(import_model(path)), config, VIRTUAL_THREADS)


def network_trials(path: Path, config: Config) -> NetworkTrials:
    """The network in file `path`, ready for trials. Raises UserError, also for a network that does not fit."""
    try:
        return NetworkTrials(config, prepare_model(path, config))
    except NoTileError as error:
        raise UserError(f"{path}: {error} of configuration {config.name}") from None


def subjects_of(network: NetworkTrials) -> list[Subject]:
    """The distinct workloads of a network, in its order, each with its nodes."""
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
    """Tunes workloads by themselves. `known` records of the same search are not repeated; of `transfer` a model learns.

    Raises UserError for a workload that has no legal schedule.
    """
    target = describe_target(config)
    tasks, jobs = [], []
    read_of = cache(lambda workload: read_vdla(AcceleratorTask.of(config, workload)))
    for subject in subjects:
        task = Task(workload=subject.workload.to_dict(), target=target)
        accelerator = AcceleratorTask.of(config, subject.workload)
        resumed = history_of(known, task, accelerator.space, strategy=options.strategy, seed=options.seed)
        if resumed.warning is not None:
            watchers.remark(f"{subject.name}: {resumed.warning}")
        tasks.append(accelerator)
        short_list = None
        if options.reads_programs(accelerator.space):
            lessons = samples_from(transfer, config, subject.workload, read_of)
            short_list = ShortList(read=read_of(subject.workload), prior=lessons)
        prior = samples_from(transfer, config, subject.workload)
        jobs.append(
            Job(
                name=subject.name,
                task=task,
                space=accelerator.space,
                measure=partial(backend.finished, describe(accelerator)),
                strategy=strategy_of(options.strategy, prior, short_list, options.model(accelerator.space)),
                history=resumed.history,
                trials=resumed.trials,
                weight=max(1, len(subject.nodes)),
            )
        )
    told = {record.task.key for record in known if record.strategy == TEMPLATE}
    for job, task in zip(jobs, tasks, strict=True):
        # Before any trial, so that what is applied is never slower alone than what would be chosen anyway.
        if job.task.key not in told:
            watchers.write(template_record(job.task, measure(task, None).cost, options.seed))
    plan = Plan(
        trials=max(0, options.trials - sum(len(job.history) for job in jobs)),
        batch=options.batch,
        seed=options.seed,
        strategy=options.strategy,
        patience=options.patience,
    )
    empty: list[EmptySpaceError] = []

    def refuse(job: Job, error: EmptySpaceError) -> None:
        empty.append(error)
        watchers.remark(f"{job.name}: {error} of configuration {config.name}; its template decides")

    histories = tune(jobs, plan, write=watchers.write, watch=watchers.trial, refuse=refuse)
    if len(empty) == len(jobs):
        raise UserError(f"{empty[0]} of configuration {config.name}")
    tuned = [
        _tuned(subject, task, history)
        for subject, task, history in zip(subjects, tasks, histories, strict=True)
    ]
    return tuned, histories, tasks


def template_record(task: Task, cost: float, seed: int) -> Record:
    """What the template's own choice costs: a record without knobs."""
    return Record(task=task, knobs={}, cost=cost, trial=0, seed=seed, strategy=TEMPLATE, elapsed=0.0)


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


def tune_in_place(
    config: Config,
    network: NetworkTrials,
    subjects: Sequence[Subject],
    histories: Sequence[History],
    tasks: Sequence[AcceleratorTask],
    options: Options,
    *,
    known: Mapping[str, Values],
    watchers: Watchers,
) -> Placed:
    """Sets every node of a network by its cycles in the whole. `known` are the settings to start from, by node.

    Nodes start at the template's choice, which is so the worst that can come out.
    """
    target = describe_target(config)
    start: dict[str, Values] = {}
    places: list[Place] = []
    for subject, history, task in zip(subjects, histories, tasks, strict=True):
        order = [k for k in history.costs.argsort(kind="stable")[:STARTS] if history.costs[k] < float("inf")]
        candidates = [task.space.values(history.points[k]) for k in order]
        # What was learned of it alone holds in its place, too.
        learned = Samples(features=point_features(task.space, history.points)[1], costs=history.costs)
        short_list = None
        if options.reads_programs(task.space):
            short_list = ShortList(read=read_vdla(task))
            lessons = short_list.lessons(task.space, examine(task.space, history.points), history.costs)
            short_list = replace(short_list, prior=lessons)
        strategy = strategy_of(options.strategy, (learned,) if len(history) > 1 else (), short_list)
        for node in subject.nodes:
            start[node] = known.get(node, {})
            alone = measure(task, start[node] or None).cost
            places.append(
                Place(node=node, space=task.space, candidates=candidates, strategy=strategy, alone=alone)
            )
    written = iter(range(10**9))

    def write(node: str, values: Values, cycles: float) -> None:
        record = Record(
            task=Task(workload=network.place(node), target=target),
            knobs=values,
            cost=cycles,
            trial=next(written),
            seed=options.seed,
            strategy=IN_PLACE,
            elapsed=0.0,
        )
        watchers.write(record)

    return refine(
        network,
        places,
        start,
        trials=options.in_place,
        seed=options.seed,
        write=write,
        watch=watchers.move,
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
    """Tunes workloads that were named, alone, and checks the best of each; the document of `vdla tune --json`."""
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
    """Tunes a network's workloads alone, then its nodes in their places; the document of `vdla tune --json`."""
    network = network_trials(path, config)
    subjects = subjects_of(network)
    tuned, histories, tasks = tune_alone(
        config, subjects, options, backend=backend, known=known, transfer=transfer, watchers=watchers
    )
    book = book_of(known)
    target = describe_target(config)
    settled = {
        node: values
        for subject, task in zip(subjects, tasks, strict=True)
        for node in subject.nodes
        if (values := book.lookup(network.place(node), target, task.space)) is not None
    }
    placed = tune_in_place(
        config, network, subjects, histories, tasks, options, known=settled, watchers=watchers
    )
    by_node = {node: task for subject, task in zip(subjects, tasks, strict=True) for node in subject.nodes}
    default = network.cycles({})
    roofline, bound = network.roofline_cycles, network.bound_cycles
    return {
        "name": path.stem,
        "target": "vdla",
        "config": config.name,
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
            "outputs_equal": all(
                agrees(by_node[node], values) for node, values in placed.settings.items() if values
            ),
        },
    }


def _number(value: float) -> float | None:
    return value if value < float("inf") else None
