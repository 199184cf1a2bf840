"""The second half of `vdla tune` for a network on the accelerator. In the first half, each layer was tuned alone. Here,
each candidate schedule of a layer is tried in the whole network and judged by the network's total cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite

from vdla.compiler.records.book import book_of
from vdla.compiler.records.network import (
    IN_PLACE,
    Settings,
    best_settings,
    knobs_of,
    legal_settings,
    network_task,
)
from vdla.compiler.records.package_identity import compiler_identity
from vdla.compiler.records.record import Record, Task
from vdla.compiler.templates.columns import Values
from vdla.compiler.templates.vdla.workload import Workload
from vdla.compiler.tune.measure.measure_vdla import AcceleratorTask, measure
from vdla.compiler.tune.measure.network_vdla import NetworkTrials
from vdla.compiler.tune.measure.trial import Result
from vdla.compiler.tune.program_features.reading import read_vdla
from vdla.compiler.tune.runs.in_place import Callbacks, Tried, TunedNode, TuningResult, refine
from vdla.compiler.tune.runs.resumed import trials_of
from vdla.compiler.tune.search.cost_model import Samples
from vdla.compiler.tune.search.point_features import examine, point_features
from vdla.compiler.tune.search.short_list import ShortList
from vdla.compiler.tune.search.strategies import strategy_of
from vdla.isa.config import Config

from .options import Options
from .target import Layer, Run

STARTS = 8
"""Number of schedules of a node that are tried first in the whole network. They are the best schedules among the trials
in which the node was measured alone.
"""


TaskOf = Callable[[Workload], AcceleratorTask]
"""Function that returns the `AcceleratorTask` of a workload: its schedule space and its tensor program on one machine.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Before:
    """State of an interrupted run that tuned the schedules of a whole network. `start`: the settings (schedule of each
    node) with which the run began. `trials`: the trials made so far, by number. `improvements`: the trials that found
    better settings, by number of the trial (0: the start); each value is the pair (settings as the knobs of a record,
    cycles of the network).
    """

    start: Settings | None
    trials: Mapping[int, Tried]
    improvements: Mapping[int, tuple[Values, float]]


def tune_in_place(
    network: NetworkTrials, layers: Sequence[Layer[Workload]], task_of: TaskOf, config: Config, run: Run
) -> TuningResult:
    """Chooses the schedule of every node by the network's total cycles. `layers`: the nodes' workloads, with the
    histories of the trials in which each was tuned alone; `task_of`: the function from a workload to its task.

    Three settings are compared first: the templates' own choices; the best settings of the network in the known
    records; and, for each node, the schedule that was best when the node was tuned alone. The search starts from the
    fastest of the three, so the result is never slower than any of them. A resumed search starts from the settings with
    which the interrupted search started.
    """
    target = config.described
    compiler = compiler_identity(target["kind"])
    before = _resumed(config, network, layers, run)
    run.watchers.resumed(len(before.trials) + (before.start is not None))
    start = before.start
    if start is None:
        start = _fastest(network, [{}, *_starts(config, network, layers, task_of, run.known)])

    def record(task: Task, knobs: Values, number: int, result: Result) -> None:
        run.write(
            Record(
                task=task,
                knobs=knobs,
                cost=result.cost if isfinite(result.cost) else None,
                error=result.error,
                trial=number,
                seed=run.options.seed,
                strategy=IN_PLACE,
                elapsed=result.seconds,
                compiler=compiler,
            )
        )

    def write(number: int, tried: Tried) -> None:
        record(Task(workload=network.place(tried.node), target=target), tried.values, number, tried.result)

    def improve(number: int, settings: Settings, cycles: float) -> None:
        knobs = knobs_of(settings)
        if before.improvements.get(number) != (knobs, cycles):
            result = Result(cost=cycles, seconds=0.0)
            record(network_task(network.key, target), knobs, number, result)

    return refine(
        network,
        [node for layer in layers for node in _tuned_nodes(layer, task_of, start, run.options)],
        {node: start.get(node, {}) for layer in layers for node in layer.subject.nodes},
        trials=run.options.in_place,
        seed=run.options.seed,
        known=before.trials,
        callbacks=Callbacks(write=write, improve=improve, watch=run.watchers.move),
    )


def _starts(
    config: Config,
    network: NetworkTrials,
    layers: Sequence[Layer[Workload]],
    task_of: TaskOf,
    known: Sequence[Record],
) -> list[Settings]:
    """The settings (a schedule for each node) from which the tuning of the whole network may start. There are up to
    two: the settings with the fewest cycles of the network in the records `known`, and the settings in which each node
    has the schedule that was best when the node was tuned alone.
    """
    best = best_settings(book_of(known), config, network.key, network.workloads)
    alone = {
        node: layer.knobs
        for layer in layers
        if layer.knobs and layer.history.best < measure(task_of(layer.subject.workload), None).cost
        for node in layer.subject.nodes
    }
    return [settings for settings in (best, alone) if settings]


def _fastest(network: NetworkTrials, settings: Sequence[Settings]) -> Settings:
    """The settings (schedule of each node) with which the network is fastest; among equally fast settings the first.
    Settings with which the network cannot run are skipped.
    """
    return min(settings, key=lambda item: network.measure(item, "", None).cost)


def _resumed(config: Config, network: NetworkTrials, layers: Sequence[Layer[Workload]], run: Run) -> Before:
    """Reconstructs the state of an interrupted tuning of the whole network from its records, so that the tuning can
    continue. Tells the user how many records could not be used.
    """
    target = config.described
    compiler = compiler_identity(target["kind"])
    ours = [record for record in run.known if (record.strategy, record.seed) == (IN_PLACE, run.options.seed)]
    states: dict[int, Record] = {}
    key = network_task(network.key, target).key
    for record in ours:
        if record.task.key == key and record.compiler == compiler:
            states.setdefault(record.trial, record)
    trials: dict[int, Tried] = {}
    unused = 0
    for layer in layers:
        for node in layer.subject.nodes:
            task = Task(workload=network.place(node), target=target)
            found = trials_of(
                ours, task, layer.job.space, strategy=IN_PLACE, seed=run.options.seed, compiler=compiler
            )
            unused += found.duplicates + found.foreign + found.illegal + found.stale
            for number, record in found.trials.items():
                cost = inf if record.cost is None else record.cost
                result = Result(cost=cost, error=record.error, seconds=record.elapsed)
                trials.setdefault(number, Tried(node=node, values=record.knobs, result=result))
    if unused:
        run.watchers.remark(
            f"{unused} records of trials in place are not used: they are of another version of the compiler, "
            "repeated, or of illegal knobs"
        )
    start = legal_settings(config, network.workloads, states[0].knobs) if 0 in states else None
    if start is None:
        # Without the settings that they began with, trials are useless.
        return Before(start=None, trials={}, improvements={})
    improvements = {
        number: (record.knobs, inf if record.cost is None else record.cost)
        for number, record in states.items()
    }
    return Before(start=start, trials=trials, improvements=improvements)


def _tuned_nodes(
    layer: Layer[Workload], task_of: TaskOf, start: Settings, options: Options
) -> list[TunedNode]:
    task, history = task_of(layer.subject.workload), layer.history
    order = [k for k in history.costs.argsort(kind="stable")[:STARTS] if history.costs[k] < inf]
    candidates = [task.space.values(history.points[k]) for k in order]
    # Trials of the workload alone also train the cost model for trials in place.
    learned = Samples(features=point_features(task.space, history.points)[1], costs=history.costs)
    short_list = None
    if options.reads_programs(task.space):
        short_list = ShortList(read=read_vdla(task))
        training_samples = short_list.training_samples(
            task.space, examine(task.space, history.points), history.costs
        )
        short_list = replace(short_list, prior=training_samples)
    prior = (learned,) if len(history) > 1 else ()
    strategy = strategy_of(options.strategy, prior, short_list, options.model(task.space))
    return [
        TunedNode(
            node=node,
            space=task.space,
            candidates=candidates,
            strategy=strategy,
            alone=measure(task, start.get(node) or None).cost,
        )
        for node in layer.subject.nodes
    ]
