"""Places that evaluate machines (accelerator configurations): this process, processes of this computer, or the workers
of a dask scheduler.

The code that runs worker processes and talks to schedulers is the tuner's (`compiler/tune/measure`): if a process dies
or takes too long, the machine that it evaluates counts as failed, and the exploration continues.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from vdla.compiler.tune.measure.backends import Backend
from vdla.compiler.tune.measure.dask_workers import DaskWorkers
from vdla.compiler.tune.measure.descriptions import modules_of
from vdla.compiler.tune.measure.local_workers import LocalWorkers
from vdla.compiler.tune.measure.trial import Result
from vdla.compiler.tune.measure.worker_process import command_of
from vdla.isa.config import Config
from vdla.util.files import write_whole

from ..technology.components import Components
from .evaluate import Figures, evaluate, from_json, sources_of_figures
from .networks import Network
from .schedules.choose import Effort

TIMEOUT = 600.0
"""Default timeout for one machine in seconds: several hundred times the duration of large networks."""
WORKER = "vdla.codesign.explore.worker"


def _ignore(_: str) -> None:
    """Does nothing with a message: the default of `Place.notify`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place that evaluates machines: the workers of the dask scheduler at the address `scheduler`, else `workers`
    processes of this computer. With one worker, this process itself evaluates, without `timeout`. `notify` is called
    with a line of text when no evaluation has finished for a while.
    """

    workers: int = 1
    scheduler: str | None = None
    timeout: float = TIMEOUT
    notify: Callable[[str], None] = _ignore


HERE = Place()
"""The `Place` that evaluates machines in this process."""


class Evaluator(Protocol):
    """Function that evaluates machines on the exploration's networks. Layers get the best schedules that an `Effort`
    (number of trials) finds.
    """

    def __call__(
        self, machines: Sequence[Config], effort: Effort
    ) -> Generator[tuple[int, Figures], None, None]:
        """Yields (index of the machine, its figures) for each machine, in order of completion. Raises BackendError
        if evaluation cannot continue.
        """
        ...


@contextlib.contextmanager
def evaluator(place: Place, networks: Sequence[Network], components: Components) -> Iterator[Evaluator]:
    """A context with the function that evaluates machines at `place`. Raises UserError if the scheduler cannot be
    reached.
    """
    if place.scheduler is None and place.workers == 1:

        def here(machines: Sequence[Config], effort: Effort) -> Generator[tuple[int, Figures], None, None]:
            for number, machine in enumerate(machines):
                yield number, evaluate(machine, networks, components, effort)

        yield here
        return
    task: dict[str, Any] = {
        "kind": "designs",
        "sources": sources_of_figures(),
        "components": asdict(components),
        "networks": [{"name": network.name, "digest": network.digest} for network in networks],
    }
    files = {network.digest: network.content for network in networks}
    with contextlib.ExitStack() as stack:
        if place.scheduler is not None:
            backend: Backend = DaskWorkers(
                place.scheduler, timeout=place.timeout, module=WORKER, files=files, notify=place.notify
            )
        else:
            task["folder"] = stack.enter_context(TemporaryDirectory(prefix="vdla-explore-"))
            for name, content in files.items():
                write_whole(Path(task["folder"]) / name, content)
            backend = LocalWorkers(
                place.workers, timeout=place.timeout, command=command_of(WORKER), notify=place.notify
            )
        stack.enter_context(backend)

        def elsewhere(
            machines: Sequence[Config], effort: Effort
        ) -> Generator[tuple[int, Figures], None, None]:
            machine_fields = [machine.to_dict() for machine in machines]
            described = {**task, "machines": machine_fields, "trials": effort.trials}
            if modules := modules_of(machines):
                described["imports"] = modules
            points = [{"machine": number} for number in range(len(machines))]
            for number, result in backend.finished(described, points):
                yield number, _figures(result)

        yield elsewhere


def _figures(result: Result) -> Figures:
    """The figures of a machine (area, clock, cycles, energy) in a worker's result. If the worker died or took too long,
    `failed` of the figures is the reason.
    """
    if result.figures is None:
        return Figures(failed=result.error or "was not evaluated")
    return from_json(result.figures)
