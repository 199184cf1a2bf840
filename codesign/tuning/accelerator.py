"""The accelerator as a target of the tuner. Candidate schedules are measured by simulation. First every layer is tuned
alone; then ("in place") the schedules of the layers are tuned by the cycles of the whole network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from vdla.compiler.pipeline import accelerator_graph, network_on
from vdla.compiler.records.book import RecordBook, book_of
from vdla.compiler.records.package_identity import compiler_identity
from vdla.compiler.records.record import Record
from vdla.compiler.templates.registry import Templates
from vdla.compiler.templates.vdla.legalize import legalize
from vdla.compiler.templates.vdla.read_workload import VDLA
from vdla.compiler.templates.vdla.template import template_of
from vdla.compiler.templates.vdla.workload import Workload
from vdla.compiler.tune.measure.check_vdla import agrees
from vdla.compiler.tune.measure.measure_vdla import AcceleratorTask, measure
from vdla.compiler.tune.measure.network_vdla import NetworkTrials
from vdla.compiler.tune.program_features.program import Read
from vdla.compiler.tune.program_features.reading import read_vdla
from vdla.compiler.tune.runs.session import Job
from vdla.isa.config import Config
from vdla.util.errors import UserError

from ..evaluate import sample_arrays
from ..network_run import compile_network, simulate_network
from ..workload_names import accelerator_workload
from .in_place import tune_in_place
from .target import Layer, Outcome, Run, Tunable, TunableNetwork

TEMPLATE = "template"
"""Strategy named in the record of a schedule that the template itself chose, without a search."""


class AcceleratorTunable(Tunable[Workload]):
    """The accelerator with configuration `config` as a target of the tuner (`target.Tunable`). `task(workload)` returns
    the `AcceleratorTask` of a workload, which caches its scheduled programs.
    """

    in_place = True

    def __init__(self, config: Config) -> None:
        self._config = config
        self.task = cache(partial(AcceleratorTask.of, config))

    @property
    def target(self) -> Config:
        """The configuration of the accelerator."""
        return self._config

    @property
    def templates(self) -> Templates[Config, Workload]:
        """The schedule templates of the accelerator."""
        return VDLA

    @property
    def machine(self) -> str:
        """Text for users that names the hardware: the name of the configuration."""
        return f"configuration {self.target.name}"

    @property
    def document(self) -> Mapping[str, Any]:
        """The target's entries in the JSON object of `vdla tune`: the configuration's name and warnings about it."""
        return {"target": "vdla", "config": self.target.name, "warnings": list(self.target.warnings)}

    def named(self, name: str) -> Sequence[Workload]:
        """The int8 workload that the text `name` describes (`workload_names.FORMS`), as a sequence of one workload."""
        return (accelerator_workload(name, self.target),)

    def network(self, path: Path) -> TunableNetwork[Workload]:
        """The network in the file `path`, with the workloads of its nodes. Raises UserError, also if the network does
        not fit the accelerator.
        """
        trials = network_trials(path, self.target)
        return TunableNetwork(
            workloads=tuple(trials.workloads.items()), conclude=partial(self._conclude, path, trials)
        )

    def _conclude(
        self, path: Path, network: NetworkTrials, layers: Sequence[Layer[Workload]], run: Run
    ) -> Mapping[str, Any]:
        """Tunes the layers of the network in the file `path` once more, now judging each schedule by the cycles of the
        whole network. Returns entries for the JSON result: cycles before and after, their lower bounds, and whether the
        outputs stay equal bit by bit.
        """
        placed = tune_in_place(network, layers, self.task, self.target, run)
        default, roofline, bound = network.cycles({}), network.roofline_cycles, network.bound_cycles
        return {
            "key": network.key,
            "default_cycles": default,
            "tuned_cycles": placed.cycles,
            "roofline_cycles": roofline,
            "bound_cycles": bound,
            "distance_closed": (default - placed.cycles) / (default - bound) if default > bound else 0.0,
            "default_utilization": roofline / default,
            "tuned_utilization": roofline / placed.cycles,
            "trials": placed.trials,
            "outputs_equal": outputs_equal(path, self.target, book_of(run.records)),
        }

    def feature_reader(self, workload: Workload) -> Read:
        """The function that computes the features of a workload's scheduled programs, from which the cost
        model learns.
        """
        return read_vdla(self.task(workload))

    def default_cycles(self, workload: Workload) -> float:
        """Cycles of the schedule that the template chooses, simulated alone."""
        return measure(self.task(workload), None).cost

    def begin(self, jobs: Sequence[tuple[Workload, Job]], run: Run) -> None:
        """For each workload, writes a record of the template's own choice, unless an earlier run has written one. If no
        trial is better, this record is the best one of the workload, so that applying the records never makes a layer
        slower when it runs alone.
        """
        compiler = compiler_identity("vdla")
        told = {
            record.task.key
            for record in run.known
            if (record.strategy, record.compiler) == (TEMPLATE, compiler)
        }
        for workload, job in jobs:
            if job.task.key not in told:
                run.write(
                    Record(
                        task=job.task,
                        knobs={},
                        cost=self.default_cycles(workload),
                        trial=0,
                        seed=run.options.seed,
                        strategy=TEMPLATE,
                        elapsed=0.0,
                        compiler=compiler,
                    )
                )

    def finish(self, layer: Layer[Workload], run: Run) -> Outcome:
        """The result of tuning a workload: cycles of the template's own choice and of the best trial, and whether both
        schedules compute equal bits.
        """
        workload, knobs = layer.subject.workload, layer.knobs
        return Outcome(
            default=self.default_cycles(workload),
            best=layer.history.best,
            knobs=knobs,
            right=None if knobs is None else agrees(self.task(workload), knobs),
        )


def network_trials(path: Path, config: Config) -> NetworkTrials:
    """The network in the file `path`, ready for trials. Raises UserError, also if the network does not fit the
    accelerator.
    """
    legalized = legalize(accelerator_graph(path, config), config)
    trials = NetworkTrials(network_on(config, legalized=legalized))
    for workload in trials.workloads.values():
        if limit := template_of(workload).violated(config, workload):
            raise UserError(
                f"{path}: {workload.template}: no tile is small enough for {limit} of configuration {config.name}; "
                "choose a configuration with larger memories"
            )
    return trials


def outputs_equal(path: Path, config: Config, book: RecordBook) -> bool:
    """Whether a network computes the same bits with the records in `book` as with its templates' own schedules, on one
    random input.

    Both versions are compiled and simulated as by `vdla run`. Raises UserError.
    """
    outputs = []
    for records in (None, book):
        compiled = compile_network(path, config, records=records)
        outputs.append(simulate_network(compiled, sample_arrays(compiled.graph, 1)).outputs)
    plain, tuned = outputs
    return all(np.array_equal(plain[name], tuned[name]) for name in plain)
