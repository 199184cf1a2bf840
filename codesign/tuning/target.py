"""The interface between a run of `vdla tune` and its target: the accelerator, a processor or a GPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, ClassVar, Generic

from vdla.compiler.records.record import Record
from vdla.compiler.templates.columns import Values
from vdla.compiler.templates.registry import Target, Templates, WorkloadT
from vdla.compiler.tune.measure import open_backend
from vdla.compiler.tune.measure.backends import Backend
from vdla.compiler.tune.program_features.program import Read
from vdla.compiler.tune.runs.session import Job
from vdla.compiler.tune.search.history import History

from .options import Options, Watchers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """A run of the tuner: its options and callbacks, and the `backend` that measures its trials.

    `known`: records of earlier runs; if a record is of the same search, its trial is not repeated. `transfer`: records
    from which only cost models learn. `written`: the new records of this run.
    """

    options: Options
    backend: Backend
    known: Sequence[Record] = ()
    transfer: Sequence[Record] = ()
    watchers: Watchers = field(default_factory=Watchers)
    written: list[Record] = field(default_factory=list[Record])

    def write(self, record: Record) -> None:
        """Adds a record to the run's new records and passes it to the callback `write`."""
        self.written.append(record)
        self.watchers.write(record)

    @property
    def records(self) -> list[Record]:
        """All records: the records of earlier runs (`known`), then the new records."""
        return [*self.known, *self.written]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subject(Generic[WorkloadT]):
    """A workload to be tuned, and the names of its nodes in a network (none if the workload itself was named). Subjects
    with the same name are alternative methods to compute one layer.
    """

    name: str
    workload: WorkloadT
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layer(Generic[WorkloadT]):
    """A workload with the history of its trials, in which it was measured alone and not as part of a network."""

    subject: Subject[WorkloadT]
    job: Job
    history: History

    @property
    def knobs(self) -> Values | None:
        """The knobs of the workload's best trial; None if all trials failed."""
        if not self.history.best < inf:
            return None
        return self.job.space.values(self.history.points[self.history.costs.argmin()])


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of tuning a workload. `default` and `best` are the costs of the template's own choice and of the best
    candidate; a cost is inf if the schedule could not run. `knobs` are the best candidate's knobs. `right`: whether its
    results are correct; None if there is no candidate.
    """

    default: float
    best: float
    knobs: Values | None
    right: bool | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TunableNetwork(Generic[WorkloadT]):
    """A network to be tuned on a target.

    `workloads`: pairs (name of a node that can be tuned, workload), in the order of the network. A node that can be
    computed by several methods has a workload for each.

    `conclude(layers, run)` is called after every layer was tuned alone. It tunes or measures the network as a whole,
    and returns the network's part of the JSON object; None if this computer cannot run the network.
    """

    workloads: Sequence[tuple[str, WorkloadT]]
    conclude: Callable[[Sequence[Layer[WorkloadT]], Run], Mapping[str, Any] | None]


class Tunable(ABC, Generic[WorkloadT]):
    """The interface of a target of the tuner (accelerator, processor or GPU). `in_place`: whether nodes, after they
    were tuned alone, are also tuned by the time of the whole network.
    """

    in_place: ClassVar[bool] = False

    @property
    @abstractmethod
    def target(self) -> Target:
        """The hardware: accelerator configuration, processor or GPU."""

    @property
    @abstractmethod
    def templates(self) -> Templates[Any, WorkloadT]:
        """The schedule templates for workloads of this target."""

    @property
    @abstractmethod
    def machine(self) -> str:
        """Text for users that names the hardware."""

    @property
    @abstractmethod
    def document(self) -> Mapping[str, Any]:
        """The target's entries in the JSON object of `vdla tune`, beginning with "target"."""

    def workers(
        self,
        *,
        count: int | None,
        scheduler: str | None,
        timeout: float | None,
        notify: Callable[[str], None],
    ) -> Backend:
        """The backend that measures trials: `count` processes (None: one; 0: this process), or the workers of a dask
        `scheduler`. `timeout`: seconds that one trial may take (None: the default). Raises UserError.
        """
        workers = 1 if count is None else count
        return open_backend.open_backend(workers=workers, scheduler=scheduler, timeout=timeout, notify=notify)

    @abstractmethod
    def named(self, name: str) -> Sequence[WorkloadT]:
        """The workloads that `--workload NAME` describes: a workload for each method to compute the operator. Raises
        UserError.
        """

    @abstractmethod
    def network(self, path: Path) -> TunableNetwork[WorkloadT]:
        """The network in the file `path`. Raises UserError, also if no node can be tuned."""

    @abstractmethod
    def feature_reader(self, workload: WorkloadT) -> Read:
        """The function that computes the features of a workload's scheduled programs, from which the cost
        model learns.
        """

    def first(self, workload: WorkloadT, options: Options) -> Values | None:
        """Knobs that are tried before the search strategy proposes candidates; None by default."""
        return None

    def begin(self, jobs: Sequence[tuple[WorkloadT, Job]], run: Run) -> None:
        """Writes records before the first trial, such as those of the templates' own choices; none by default."""

    @abstractmethod
    def finish(self, layer: Layer[WorkloadT], run: Run) -> Outcome:
        """The result of tuning one workload: the cost of the template's own schedule and the cost of the best
        candidate. Targets whose measurements are noisy measure the best candidates again first. `layer`: the finished
        search. `run`: the session, with the backend that measures.
        """
