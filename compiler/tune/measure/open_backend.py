"""Which backend the options of a command ask for."""

from __future__ import annotations

from collections.abc import Callable

from .backends import Backend, InProcess
from .cuda_workers import CudaWorkers
from .dask_workers import DaskWorkers
from .local_workers import LocalWorkers


def open_backend(
    *, workers: int, scheduler: str | None, timeout: float | None = None, notify: Callable[[str], None]
) -> Backend:
    """The workers of `scheduler` if there is one, else `workers` processes of this machine, for 0 this process itself.

    `timeout` are seconds for one candidate, which this process itself does not heed; `notify` gets a line when nothing
    has finished for a while. Raises UserError for a scheduler that cannot be reached.
    """
    if scheduler is not None:
        return DaskWorkers(scheduler, timeout=timeout, notify=notify)
    if workers == 0:
        return InProcess()
    return LocalWorkers(workers, timeout=timeout, notify=notify)


def open_cuda_backend(
    *, workers: int, ordinal: int, timeout: float | None = None, notify: Callable[[str], None]
) -> CudaWorkers:
    """For tasks on GPU number `ordinal` of this machine: `workers` processes that compile, and one that has the device.

    `timeout` and `notify` as of `open_backend`.
    """
    return CudaWorkers(
        LocalWorkers(workers, timeout=timeout, notify=notify),
        LocalWorkers(1, timeout=timeout, notify=notify),
        ordinal=ordinal,
    )
