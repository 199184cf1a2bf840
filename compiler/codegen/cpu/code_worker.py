"""Threads that generate code while the calling thread lowers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

OBJECT_SECONDS = 600.0
"""Timeout in seconds of one object's code generation: a thousand times the time of the largest objects."""
_T = TypeVar("_T")


class CodeWorker:
    """Threads, at first one, that process work in the order in which it is submitted.

    They are daemons, because a call into LLVM cannot be interrupted: a command that abandons one must be able to exit.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Future[Any], Callable[[], object]] | None] = SimpleQueue()
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self.widen(1)

    def widen(self, threads: int) -> None:
        """Starts threads until there are at least `threads`."""
        while len(self._threads) < threads:
            thread = threading.Thread(target=self._run, name="vdla code generation", daemon=True)
            self._threads.append(thread)
            thread.start()

    def submit(self, work: Callable[[], _T]) -> Future[_T]:
        """Queues `work`; returns the future of its result."""
        future: Future[_T] = Future()
        self._queue.put((future, work))
        return future

    def end(self, *, wait: bool = True) -> None:
        """Cancels queued work and ends the threads; with `wait`, returns after running work has finished."""
        self._ended.set()
        for _ in self._threads:
            self._queue.put(None)
        if wait:
            for thread in self._threads:
                thread.join(OBJECT_SECONDS)

    def _run(self) -> None:
        while (piece := self._queue.get()) is not None:
            future, work = piece
            if self._ended.is_set():
                future.cancel()
                continue
            try:
                future.set_result(work())
            except BaseException as error:  # The error is raised when the result is requested.
                future.set_exception(error)
