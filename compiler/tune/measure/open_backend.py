"""Opens the backend for trials that the options of a command select."""

from __future__ import annotations

from collections.abc import Callable

from .backends import Backend, InProcess
from .cuda_workers import CudaWorkers
from .dask_workers import DaskWorkers
from .local_workers import LocalWorkers


def open_backend(
    *, workers: int, scheduler: str | None, timeout: float | None = None, notify: Callable[[str], None]
) -> Backend:
    """Opens a backend for trials. With `scheduler` it runs trials on the scheduler's workers; otherwise on `workers`
    processes of this machine (0: in this process).

    `timeout`: seconds for one candidate (None: `backends.TIMEOUT`); has no effect if trials run in this process.
    `notify` receives a line when no trial has finished for a while. Raises UserError for a scheduler that cannot be
    reached.
    """
    if scheduler is not None:
        return DaskWorkers(scheduler, timeout=timeout, notify=notify)
    if workers == 0:
        return InProcess()
    return LocalWorkers(workers, timeout=timeout, notify=notify)


def open_cuda_backend(
    *, workers: int, ordinal: int, timeout: float | None = None, notify: Callable[[str], None]
) -> CudaWorkers:
    """The backend for GPU number `ordinal` of this machine: `workers` processes compile, one process owns the device.

    `timeout`: seconds for one candidate (None: `backends.TIMEOUT`). `notify` receives a line when no trial has finished
    for a while.
    """
    return CudaWorkers(
        LocalWorkers(workers, timeout=timeout, notify=notify),
        LocalWorkers(1, timeout=timeout, notify=notify),
        ordinal=ordinal,
    )
