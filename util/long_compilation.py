"""A line on standard error while numba compiles, where that takes long: who waits is told once what for."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SILENCE = 5.0
"""Seconds of compiling, over all functions of a process, after which a line says so."""
TEXT = "compiling the simulator, which takes about a minute the first time ..."


def print_it(text: str) -> None:
    """The line on standard error: what a Python session gets."""
    print(text, file=sys.stderr, flush=True)


class LongCompilation:
    """Of one process: how long numba has compiled, and whether a line has said so.

    `tell` gets the line, from another thread; the command line puts its own there, which is silent with -q.
    """

    def __init__(self, tell: Callable[[str], object] = print_it) -> None:
        self.tell = tell
        self._told = False
        self._spent = 0.0
        self._depth = 0
        self._timer: threading.Timer | None = None
        self._began = 0.0
        self._lock = threading.Lock()

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Around what may compile, also around what calls itself anew for the functions that a function calls."""
        with self._lock:
            self._depth += 1
        try:
            yield
        finally:
            with self._lock:
                self._depth -= 1
                if not self._depth and self._timer is not None:
                    self._timer.cancel()
                    self._timer = None
                    self._spent += time.monotonic() - self._began

    def begins(self) -> None:
        """Nothing was kept, and what is around compiles from here on."""
        with self._lock:
            if self._told or not self._depth or self._timer is not None:
                return
            left = SILENCE - self._spent
            if left > 0:
                self._began = time.monotonic()
                self._timer = threading.Timer(left, self._tell)
                self._timer.daemon = True
                self._timer.start()
                return
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            first, self._told = not self._told, True
        if first:
            self.tell(TEXT)


long_compilation = LongCompilation()
"""Of this process."""
