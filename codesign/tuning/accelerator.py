"""The accelerator as a target of the tuner: candidates are simulated, and the nodes of a network are tuned in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from vdla.compiler.pipeline import accelerator_graph
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
from vdla.compiler.vdla_stages import AcceleratorNetwork
from vdla.isa.config import Config
from vdla.util.errors import UserError

from ..evaluate import sample_arrays
from ..network_run import compile_network, simulate_network
from ..workload_names import accelerator_workload
from .in_place import tune_in_place
from .target import Layer, Outcome, Run, Tunable, TunableNetwork

TEMPLATE = "template"
"""Strategy of a record that holds the template's own choice."""


class AcceleratorTunable(Tunable[Workload]):
    """See `target.Tunable`. `task` gives the task of a workload, with a cache of scheduled programs."""

    in_place = True

    def __init__(self, config: Config) -> None:
        self._config = config
        self.task = cache(partial(AcceleratorTask.of, config))

    @property
    def target(self) -> Config:
        """The configuration."""
        return self._config

    @property
    def templates(self) -> Templates[Config, Workload]:
        """The accelerator's templates."""
        return VDLA

    @property
    def machine(self) -> str:
        """The configuration's name for people."""
        return f"configuration {self.target.name}"

    @property
    def document(self) -> Mapping[str, Any]:
        """The configuration, and warnings about it."""
        return {"target": "vdla", "config": self.target.name, "warnings": list(self.target.warnings)}

    def named(self, name: str) -> Sequence[Workload]:
        """The int8 workload with this name."""
        return (accelerator_workload(name, self.target),)

    def network(self, path: Path) -> TunableNetwork[Workload]:
        """The network in a file. Raises UserError, also for a network that does not fit."""
        trials = network_trials(path, self.target)
        return TunableNetwork(
            workloads=tuple(trials.workloads.items()), conclude=partial(self._conclude, path, trials)
        )

    def _conclude(
        self, path: Path, network: NetworkTrials, layers: Sequence[Layer[Workload]], run: Run
    ) -> Mapping[str, Any]:
        """The cycles of the network before and after trials in place, and whether it computes the same bits."""
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

    def read(self, workload: Workload) -> Read:
        """The reader of the features of a workload's programs."""
        return read_vdla(self.task(workload))

    def default_cycles(self, workload: Workload) -> float:
        """The cycles of the template's own choice, alone."""
        return measure(self.task(workload), None).cost

    def begin(self, jobs: Sequence[tuple[Workload, Job]], run: Run) -> None:
        """Writes a record without knobs of each template's choice, so that applied records are never slower alone."""
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
        """The cycles of the template's choice and of the best trial, and whether both compute the same bits."""
        workload, knobs = layer.subject.workload, layer.knobs
        return Outcome(
            default=self.default_cycles(workload),
            best=layer.history.best,
            knobs=knobs,
            right=None if knobs is None else agrees(self.task(workload), knobs),
        )


def network_trials(path: Path, config: Config) -> NetworkTrials:
    """The network in file `path`, ready for trials. Raises UserError, also for a network that does not fit."""
    legalized = legalize(accelerator_graph(path, config), config)
    trials = NetworkTrials(AcceleratorNetwork(config=config, legalized=legalized))
    for workload in trials.workloads.values():
        if limit := template_of(workload).violated(config, workload):
            raise UserError(
                f"{path}: {workload.template}: no tile is small enough for {limit} of configuration {config.name}"
            )
    return trials


def outputs_equal(path: Path, config: Config, book: RecordBook) -> bool:
    """Whether a network computes the same bits with the records as with its templates' choices, on one random input.

    Both are compiled and simulated as by `vdla run`. Raises UserError.
    """
    outputs = []
    for records in (None, book):
        compiled = compile_network(path, config, records=records)
        outputs.append(simulate_network(compiled, sample_arrays(compiled.graph, 1)).outputs)
    plain, tuned = outputs
    return all(np.array_equal(plain[name], tuned[name]) for name in plain)
