"""Trials on many machines: a scheduler of dask.distributed sends chunks of trials to its workers.

    dask scheduler                                     anywhere
    dask worker tcp://HOST:8786 --nthreads 1           as many as there are cores to measure on
    vdla tune ... --scheduler tcp://HOST:8786

Each thread of a worker has a process (`local_workers.py`) that measures the thread's chunks, so that a candidate that
crashes or hangs costs a single trial. Each task of dask is a call of `measure_chunk`, with JSON as argument and result.
If a worker dies, other workers measure its chunks. Scheduler and workers need the same version of the package as this
process; the version is checked for each chunk.

Tasks may read files, such as networks. A worker that lacks a file reports this, and gets the chunk again with all
files.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import queue
import socket
import tempfile
import threading
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.util.errors import UserError
from vdla.util.files import write_whole

from ...records.package_identity import package_identity
from ...templates.columns import Values
from . import backends
from .backends import Backend, BackendError
from .chunks import chunk_limits, chunks
from .descriptions import Description
from .local_workers import PATIENCE, LocalWorkers
from .trial import Result, result_from_dict
from .worker_process import WORKER, command_of

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_SECONDS = 10.0
"""Default of `connect`: seconds within which the scheduler must answer."""
STALL_SECONDS = 900.0
"""If there is no result for this number of seconds, the trials are abandoned. It is large because workers may start
late.
"""
_LOOK_SECONDS = 1.0
"""Seconds between checks of the connection to the scheduler."""
_LOSSES = 3
"""If too many workers die while they measure a chunk, the scheduler abandons the chunk. It is then submitted again at
most this number of times.
"""


class MissingExtraError(UserError):
    """Raised if a package that belongs to an extra (a group of optional dependencies) is not installed."""


def measure_chunk(request: str, files: Mapping[str, bytes] | None = None) -> str:
    """Measures a chunk of trials on a worker; request and answer are JSON objects.

    Request: {"package", "module", "task", "files", "points", "timeout"}. Answer: {"results": [...], "seconds": time of
    all results together}. If the worker has another version of the package: {"package", "host", "pid"}. If the task
    reads files that the worker lacks: {"missing": names}.
    """
    parts = json.loads(request)
    if parts["package"] != package_identity():
        return json.dumps({"package": package_identity(), "host": socket.gethostname(), "pid": os.getpid()})
    task = parts["task"]
    if parts["files"]:
        folder = Path(_folder().name)
        for name, content in (files or {}).items():
            write_whole(folder / Path(name).name, content)
        if missing := [name for name in parts["files"] if not (folder / Path(name).name).exists()]:
            return json.dumps({"missing": missing})
        task = {**task, "folder": str(folder)}
    processes = _process_of_thread(threading.get_ident(), parts["module"], parts["timeout"])
    started = time.perf_counter()
    results = processes.measure(task, parts["points"])
    seconds = time.perf_counter() - started
    return json.dumps({"results": [result.to_dict() for result in results], "seconds": seconds})


@functools.cache
def _process_of_thread(thread: int, module: str, timeout: float) -> LocalWorkers:
    """The process that measures trials for one thread of a dask worker; it runs the Python module `module`. The process
    keeps loaded tasks from one chunk of trials to the next, and ends with the dask worker. `timeout`: seconds for a
    candidate.
    """
    return LocalWorkers(1, timeout=timeout, command=command_of(module))


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """The temporary folder for files that tasks read on this worker; removed when the worker ends."""
    return tempfile.TemporaryDirectory(prefix="vdla-trials-")


def _ignore(_: str) -> None:
    """Default of `notify`: drops the message."""


class DaskWorkers(Backend):
    """Measures candidates on the workers that are connected to the scheduler at `address`. Workers may come and go.

    `timeout`: seconds for one candidate (None: `backends.TIMEOUT`). `stall`: seconds without any result after which
    trials are abandoned. `module`: name of the Python module that measuring processes run. `files`: contents of files,
    by name; a task's description has the "folder" from which the task reads them. `notify` receives a line on the
    pending work when no trial has finished for a while. Raises MissingExtraError without dask.distributed. Raises
    BackendError if nothing answers at the address within `connect` seconds.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout: float | None = None,
        connect: float | None = None,
        stall: float = STALL_SECONDS,
        module: str = WORKER,
        files: Mapping[str, bytes] | None = None,
        notify: Callable[[str], None] = _ignore,
    ) -> None:
        self._address = address
        self._module = module
        self._files = dict(files or {})
        self._timeout = backends.TIMEOUT if timeout is None else timeout
        self._stall = stall
        self._notify = notify
        self._connect_seconds = CONNECT_SECONDS if connect is None else connect
        self._client = _connect(address, self._connect_seconds)
        self._name = f"vdla-trials-{uuid.uuid4().hex}"
        self._submitted = 0
        self._trial_seconds: float | None = None

    def close(self) -> None:
        """Disconnects from the scheduler, which keeps running."""
        with contextlib.suppress(OSError):
            self._client.close(timeout=2)

    def finished(
        self, description: Description, points: Sequence[Values | None]
    ) -> Iterator[tuple[int, Result]]:
        """Measures `points` (candidates by their knob values); yields (index, result) of each, chunk by chunk."""
        batch = _Batch(description, points)
        try:
            threads = sum(self._ask("ncores", batch).values())
            self._submit(batch, chunks(len(points), threads, chunk_limits(self._trial_seconds)))
            while batch.running:
                future = self._wait(batch)
                results = self._results(batch, future, batch.running.pop(future))
                yield from results
                if results:
                    batch.progress = time.monotonic()
        finally:
            # Abandoned early: chunks that have begun run to their end, the others never begin.
            for future in batch.running:
                future.release()

    def _ask(self, name: str, batch: _Batch) -> dict[str, Any]:
        """Calls the scheduler's remote function `name`. Returns the answer, a dictionary by worker. Raises BackendError
        if the scheduler does not answer; the error's text has the number of trials for which `batch` still waits.
        """
        if self._client.status != "running":
            raise self._lost(batch)
        try:
            question = getattr(self._client.scheduler, name)
            answer: Any = self._client.sync(question, callback_timeout=self._connect_seconds)
            return answer
        except OSError:  # failed connections and time-outs
            raise self._lost(batch) from None

    def _submit(self, batch: _Batch, parts: Sequence[Sequence[int]], *, files: bool = False) -> None:
        requests = [
            json.dumps(
                {
                    "package": package_identity(),
                    "module": self._module,
                    "task": batch.description,
                    "files": list(self._files),
                    "points": [_numbers(batch.points[index]) for index in indices],
                    "timeout": self._timeout,
                }
            )
            for indices in parts
        ]
        # Every chunk has a unique key, so that dask never reuses the result of an equal chunk.
        keys = [(self._name, self._submitted + k) for k in range(len(parts))]
        self._submitted += len(parts)
        if self._client.status != "running":
            raise self._lost(batch)
        given = [self._files if files else None for _ in parts]
        with warnings.catch_warnings():
            # The warning is about large messages: files go to each worker that lacks them, once.
            warnings.filterwarnings("ignore", message="Sending large graph")
            futures = self._client.map(measure_chunk, requests, given, key=keys, pure=False)
        for future, indices in zip(futures, parts, strict=True):
            batch.running[future] = indices
            future.add_done_callback(batch.done.put)

    def _wait(self, batch: _Batch) -> Future:
        """The next future of the batch that is done: finished, failed or cancelled. Raises BackendError if the
        scheduler is gone, or after `stall` seconds without a result.
        """
        told = time.monotonic()
        while True:
            now = time.monotonic()
            if self._client.status != "running":
                raise self._lost(batch)
            if now - batch.progress >= self._stall:
                raise BackendError(f"no result for {now - batch.progress:.0f} s: {self._waited_for(batch)}")
            if now - told >= PATIENCE:
                told = now
                self._notify(self._waited_for(batch))
            with contextlib.suppress(queue.Empty):
                return batch.done.get(timeout=_LOOK_SECONDS)

    def _results(self, batch: _Batch, future: Future, indices: Sequence[int]) -> list[tuple[int, Result]]:
        """Returns (trial index, result) for each trial of the chunk whose `future` has finished. `indices`: the trials
        of the chunk. Returns an empty list if the chunk is measured again. Raises BackendError if the trials cannot be
        measured.
        """
        from distributed import KilledWorker

        if future.cancelled():
            raise self._lost(batch)
        try:
            answer = json.loads(future.result(timeout=PATIENCE))
        except TimeoutError:
            # The worker died before it delivered its result: the scheduler has the chunk measured again.
            batch.running[future] = indices
            future.add_done_callback(batch.done.put)
            return []
        except KilledWorker as error:
            batch.losses.update(indices)
            if max(batch.losses[index] for index in indices) > _LOSSES:
                raise BackendError(
                    f"{_LOSSES + 1} workers ended while they measured the same trials: {error}"
                ) from None
            self._submit(batch, [indices])
            return []
        except UserError:
            raise
        except Exception as error:
            if self._client.status != "running" or future.cancelled():
                raise self._lost(batch) from None
            raise BackendError(
                f"a worker of {self._address} cannot run trials ({type(error).__name__}: {error}); scheduler and "
                f"workers need the package installed as it is here: {package_identity()}"
            ) from None
        if "missing" in answer:
            self._submit(batch, [indices], files=True)
            return []
        if "results" not in answer:
            raise BackendError(
                f"the worker on {answer['host']} (process {answer['pid']}) has {answer['package']}, here it is "
                f"{package_identity()}; install the same version there and restart the worker"
            )
        results = [result_from_dict(value) for value in answer["results"]]
        self._trial_seconds = answer["seconds"] / len(results)
        return list(zip(indices, results, strict=True))

    def _lost(self, batch: _Batch) -> BackendError:
        left = sum(len(indices) for indices in batch.running.values())
        return BackendError(
            f"the scheduler at {self._address} ended, or lost the trials, before {left or 'some'} of them were "
            "measured; start the scheduler and its workers again, and resume the search"
        )

    def _waited_for(self, batch: _Batch) -> str:
        left = sum(len(indices) for indices in batch.running.values())
        try:
            processing = self._ask("processing", batch)
        except BackendError:
            return f"{left} trials left; the scheduler at {self._address} does not answer"
        if not processing:
            return (
                f"{left} trials are waiting for a worker at {self._address}; start some with: dask worker "
                f"{self._address} --nthreads 1"
            )
        busy = ", ".join(f"{address} for {len(keys)} chunks" for address, keys in processing.items())
        return f"{left} trials left; waiting for {busy}"


@dataclass(slots=True, eq=False)
class _Batch:
    """The trials of one call of `DaskWorkers.finished`. They are sent to workers in chunks of several trials.

    `running`: the future of each chunk that is being measured, with the indices of the chunk's trials. `done`: futures
    that have finished. `losses`: how often the result of a trial was lost, by the trial's index. `progress`: time of
    the last result.
    """

    description: Description
    points: Sequence[Values | None]
    running: dict[Future, Sequence[int]] = field(default_factory=dict)
    done: queue.SimpleQueue[Future] = field(default_factory=queue.SimpleQueue)
    losses: Counter[int] = field(default_factory=Counter)
    progress: float = field(default_factory=time.monotonic)


def _numbers(values: Values | None) -> dict[str, int] | None:
    return None if values is None else {name: int(value) for name, value in values.items()}


def _connect(address: str, seconds: float) -> Client:
    try:
        from distributed import Client
        from distributed.comm.addressing import get_address_host_port
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"trials on other machines need dask.distributed ({error.name} is missing): pip install 'vdla[tune]'"
        ) from None
    # A connection that fails or breaks is reported by BackendError, not by tracebacks from parts of dask.
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        get_address_host_port(address, strict=True)
        return Client(address, timeout=seconds, set_as_default=False)
    except (OSError, ValueError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise BackendError(
            f"no scheduler at {address} ({reason}); it is started with: dask scheduler"
        ) from None
