"""Signals that end a command: the first becomes a KeyboardInterrupt, so that files, processes and threads end in order.
Later signals are ignored for a second; after that, another signal ends the process at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from vdla.util.descendants import descendants, end

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

ENDINGS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
"""Signals that end a command, and the word that the command then prints."""
PATIENCE = 1.0
"""Seconds after a signal during which further signals are ignored: pressing Ctrl-C twice must not stop the
cleaning up.
"""
_AGAIN_SECONDS = 0.02


class Interrupts:
    """A context for the main thread, in which the first signal of `ENDINGS` raises KeyboardInterrupt.

    A second signal, `PATIENCE` seconds or more after the first, ends the process at once. Signals that the process has
    ignored from its start, or that have a handler already, are left alone. With `last`, the signals are ignored after
    the block, so that nothing interrupts the end of the process. Otherwise the previous handlers are restored after the
    block.
    """

    def __init__(self, *, last: bool) -> None:
        self.number: int | None = None
        """Number of the first signal that arrived; None if none arrived yet."""
        self.processes: dict[int, int] = {}
        """Descendants of this process at the time of the first signal, by process number (`util.descendants`)."""
        self._last = last
        self._since = 0.0
        self._before: dict[int, Any] = {}
        self._hook: Callable[[UnraisableHookArgs], object] = sys.unraisablehook

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._hook, sys.unraisablehook = sys.unraisablehook, self._unraisable
            for number in ENDINGS:
                before = signal.getsignal(number)
                if before in (signal.SIG_DFL, signal.default_int_handler):
                    self._before[number] = before
                    signal.signal(number, self._arrived)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_IGN if self._last else before)
        sys.unraisablehook = self._hook

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.number is None:
            self.number, self._since = number, now
            self.processes = descendants()
            raise KeyboardInterrupt
        if now - self._since >= PATIENCE:
            end({**self.processes, **descendants()})
            end_at_once(ENDINGS[signal.Signals(self.number)], 128 + self.number)

    def _unraisable(self, problem: UnraisableHookArgs) -> None:
        """Raises KeyboardInterrupt again a little later if `problem` is a KeyboardInterrupt. Python calls this function
        for exceptions in destructors and callbacks, and drops these exceptions.
        """
        if self.number is None or not issubclass(problem.exc_type, KeyboardInterrupt):
            self._hook(problem)
            return
        signal.signal(signal.SIGALRM, self._again)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)

    def _again(self, number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt


def end_at_once(words: str, code: int) -> None:
    """Prints a line, `words`, on standard error and ends this process with exit code `code` without cleaning up."""
    try:
        os.write(2, f"{words}\n".encode())
    finally:
        os._exit(code)
