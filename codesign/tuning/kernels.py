"""Processors and GPUs as targets of the tuner: candidates are timed, and at the end the best candidates are timed again
in turns.
"""

from __future__ import annotations

import statistics
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from math import inf, isfinite
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from vdla.compiler.kernel_forms import Lowering
from vdla.compiler.pipeline import network_workloads
from vdla.compiler.records.apply import knobs_from
from vdla.compiler.records.book import CHECKED, book_of
from vdla.compiler.records.package_identity import compiler_identity
from vdla.compiler.records.record import Record
from vdla.compiler.runtime.executable import Arrays, Executable
from vdla.compiler.templates.chosen_knobs import ChosenKnobs
from vdla.compiler.templates.columns import Values
from vdla.compiler.templates.registry import KernelT, Registry, TargetT
from vdla.compiler.templates.space import knobs_obstacle
from vdla.compiler.tune.measure.descriptions import describe
from vdla.compiler.tune.measure.trial import WRONG, Result
from vdla.compiler.tune.program_features.program import Read
from vdla.compiler.tune.program_features.reading import read_points
from vdla.util.errors import UserError

from ..output_check import relative_difference
from ..samples import sample_inputs
from .options import Options
from .target import Layer, Outcome, Run, Tunable, TunableNetwork

BASELINES = ("random", "grid")
"""Search strategies that ignore the template's own choice: "random" starts at random points, and "grid" at the first
points of the space. All other strategies try the template's own choice first.
"""
FINALISTS = 3
"""Largest number of candidate schedules of a workload that are measured again at the end."""
CHECKS = 3
"""Number of times that the best candidates of a workload and the template's own choice are measured again, in turns."""
TOLERANCE = 1e-4
"""Allowed difference of a network's outputs after tuning, relative to the greatest value: float32 sums have another
order in all layers.
"""

NetworkT = TypeVar("NetworkT", bound=Executable)
Load = Callable[[Path, ChosenKnobs[Any] | None], tuple[NetworkT, int]]
"""Function that compiles the network in a file, with the knobs of tuning records, and loads it; returns (the loaded
network, number of its kernels).
"""


class KernelTunable(Tunable[KernelT], Generic[TargetT, KernelT, NetworkT]):
    """The part of the interface `target.Tunable` that processors and GPUs share; `lowering` has the hardware and its
    templates.
    """

    tunable: ClassVar[str]
    """Names of the operators that have knobs, as text for the error message about a network without such operators."""

    def __init__(self, lowering: Lowering[TargetT]) -> None:
        self.lowering = lowering

    @property
    def target(self) -> TargetT:
        """The processor or GPU on which candidates run."""
        return self.lowering.target

    @property
    def templates(self) -> Registry[TargetT, KernelT]:
        """The schedule templates for workloads of this target."""
        return self.lowering.templates

    def network(self, path: Path) -> TunableNetwork[KernelT]:
        """The network in the file `path`, with the workloads of its nodes. Raises UserError if no node has a workload
        that can be tuned.
        """
        workloads = network_workloads(self.lowering, path)
        if not workloads:
            raise UserError(
                f"{path}: has no layer that can be tuned; layers that can be tuned on {self.tunable}"
            )
        return TunableNetwork(workloads=workloads, conclude=lambda _, run: self.compare(path, run))

    def feature_reader(self, workload: KernelT) -> Read:
        """The function that computes the features of a workload's scheduled programs, from which the cost
        model learns.
        """
        return read_points(self.templates, self.target, workload)

    def first(self, workload: KernelT, options: Options) -> Values | None:
        """Knobs of the template's own choice, which is tried first, so that applying the records never makes a workload
        slower. Returns None if the strategy does not start with it (`BASELINES`), or if the choice is not a point of
        the space.
        """
        return None if options.strategy in BASELINES else self._default(workload) or None

    def _default(self, workload: KernelT) -> Values:
        """The template's own choice as the knobs of a record; empty if the choice is not a candidate of the workload's
        space.
        """
        default = self.templates.default(self.target, workload)
        return {} if knobs_obstacle(self.templates.space(self.target, workload), default) else default

    def finish(self, layer: Layer[KernelT], run: Run) -> Outcome:
        """The costs of the template's choice and of the best candidate, measured in turns, in seconds.

        The least of many noisy measurements is often low by chance. Therefore the few best candidates are measured
        again in turns with the template's choice. A record of the fastest of these schedules, possibly the template's
        choice itself, is written if any of them ran; it takes precedence over single measurements.
        """
        job, history, workload = layer.job, layer.history, layer.subject.workload
        order = [k for k in history.costs.argsort(kind="stable")[:FINALISTS] if isfinite(history.costs[k])]
        finalists = [job.space.values(history.points[k]) for k in order]
        began = time.perf_counter()
        results = run.backend.measure(describe(self.target, workload), [None, *finalists] * CHECKS)
        first, *others = (results[k :: len(finalists) + 1] for k in range(len(finalists) + 1))
        default, medians = _median(first), [_median(group) for group in others]
        best, place = min(((m, k) for k, m in enumerate(medians) if isfinite(m)), default=(inf, None))
        knobs = None if place is None else finalists[place]
        if isfinite(min(best, default)):
            faster = knobs is not None and best <= default
            run.write(
                Record(
                    task=job.task,
                    # If no trial is faster, the template's choice is recorded.
                    knobs=knobs if knobs is not None and faster else self._default(workload),
                    cost=best if faster else default,
                    trial=len(history),
                    seed=run.options.seed,
                    strategy=CHECKED,
                    elapsed=time.perf_counter() - began,
                    compiler=compiler_identity(job.task.target["kind"]),
                )
            )
        wrong = any(WRONG in (result.error or "") for group in others for result in group)
        return Outcome(default=default, best=best, knobs=knobs, right=None if knobs is None else not wrong)

    def compare(self, path: Path, run: Run) -> Mapping[str, Any] | None:
        """Measures a network with its templates' own choices and with the tuned records: milliseconds of one inference
        each, and the difference of the outputs.

        Returns None, after a remark to the user, if the network cannot be measured; its records are valid nevertheless.
        """
        knobs = knobs_from(book_of(run.records), self.templates, self.target)
        try:
            with ExitStack() as closing:
                load = self.loader(closing)
                (plain, _), (tuned, kernels) = (load(path, chosen) for chosen in (None, knobs))
                arrays = sample_inputs(plain)
                difference = relative_difference(plain.run(arrays), tuned.run(arrays))
                before, after = self.milliseconds((plain, tuned), arrays, closing)
        except UserError as error:
            run.watchers.remark(f"{path}: the whole network is not measured: {error}")
            return None
        return {
            "default_ms": before,
            "tuned_ms": after,
            "kernels": kernels,
            "kernels_tuned": len(knobs.applied),
            "kernels_ignored": len(knobs.ignored),
            "max_relative_error": difference,
            "outputs_equal": difference is not None and difference <= self.tolerance,
        }

    @property
    def tolerance(self) -> float:
        """Largest allowed difference of a network's outputs after tuning, relative to the greatest value."""
        return TOLERANCE

    @abstractmethod
    def loader(self, closing: ExitStack) -> Load[NetworkT]:
        """A function that compiles and loads a network; when `closing` is closed, all loaded networks are closed.
        Raises UserError if this computer cannot run the target's code.
        """

    @abstractmethod
    def milliseconds(
        self, networks: tuple[NetworkT, NetworkT], arrays: Arrays, closing: ExitStack
    ) -> tuple[float, float]:
        """Median milliseconds of one run of each of two networks on the inputs `arrays`; the networks run in turns.
        Resources of the measurement are closed when `closing` is closed.
        """


def _median(results: Sequence[Result]) -> float:
    """Median cost of the measurements that did not fail; inf if all failed."""
    costs = [result.cost for result in results if not result.failed]
    return statistics.median(costs) if costs else inf
