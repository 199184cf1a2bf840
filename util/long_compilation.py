"""Help for long compilations: a message while numba compiles, and a pause of Python's collector of cyclic garbage while
the toolkit itself compiles.

The message appears on standard error, at most once in a process, if compilation by numba takes more than SILENCE
seconds.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

SILENCE = 5.0
"""Seconds of compilation by numba, over all functions of a process, before the long-compilation message is printed."""
QUIET = "VDLA_QUIET"
"""Environment variable that suppresses numba's long-compilation message in Python sessions, as -q does for commands."""
TEXT = "compiling the simulator, which takes about a minute the first time ..."


def print_it(text: str) -> None:
    """Prints `text`, the long-compilation message, on standard error; Python sessions use this function by default."""
    print(text, file=sys.stderr, flush=True)


@dataclass(slots=True, eq=False)
class LongCompilation:
    """Seconds that this process has spent in numba's compiler, and whether the message on long compilation was printed.

    `tell` prints the message and is called from a timer's thread; the command line replaces it by a function that
    prints nothing with -q.
    """

    tell: Callable[[str], object] = print_it
    _told: bool = False
    _spent: float = 0.0
    _depth: int = 0
    _timer: threading.Timer | None = None
    _began: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Context for a call of numba's compiler; contexts nest, as numba compiles callees inside the caller's."""
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
        """Starts the timer of the long-compilation message. Called when numba has no cached code and compiles."""
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
        if first and not os.environ.get(QUIET):
            self.tell(TEXT)


long_compilation = LongCompilation()
"""The only instance of LongCompilation in a process."""


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pauses Python's collector of cyclic garbage in a block, or in a function that it decorates.

    Cycles that the block creates stay in memory until its end. The collector would take 3% of the time of a compilation
    for the accelerator (a third if it visited all objects of the process), and a quarter of the elaboration of RTL.
    """
    if not gc.isenabled():  # paused by a caller, who will turn it on again
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
