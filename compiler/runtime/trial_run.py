"""Runs code from a file once in a process of its own, so that a crash becomes a message.

A damaged or foreign object may crash LLVM's loader, access other memory, or never end.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from typing import NoReturn

LEAST_SECONDS = 10.0
"""Constant part, in seconds, of the time limit of a trial run. The limit is generous because the run accesses memory
pages for the first time.
"""
LEAST_OPERATIONS_PER_SECOND = 2e8
"""Assumed least speed of a machine. The time limit of a trial run grows with the number of operations divided by this
speed.
"""
_MOST_BYTES = 4096
"""Length in bytes of the longest message that is read from the trial process."""


def run_in_trial(action: Callable[[], object], *, operations: int = 0) -> str | None:
    """Runs `action` in a forked copy of this process. Returns the reason if it fails or crashes there, else None.

    `operations`: number of operations that the action computes, for its time limit.
    """
    seconds = LEAST_SECONDS + operations / LEAST_OPERATIONS_PER_SECOND
    reads, writes = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # Newer versions of Python warn that the copy lacks this process's threads, but it does not need any.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _act(action, writes)
    os.close(writes)
    said: bytes | None = None
    try:
        said = _read_all(reads, time.monotonic() + seconds)
    finally:
        os.close(reads)
        if said is None:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if said is None:
        return f"does not end within {seconds:.0f} seconds"
    if os.WIFSIGNALED(status):
        return f"crashes ({signal.Signals(os.WTERMSIG(status)).name})"
    return said.decode(errors="replace") or None


def _act(action: Callable[[], object], writes: int) -> NoReturn:
    """Runs `action` in the child process and exits, always with status 0. Writes the text of an exception to the file
    descriptor `writes`, the end of a pipe; discards LLVM's messages on standard error.
    """
    try:
        faulthandler.disable()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nowhere, standard)
        action()
    except BaseException as error:
        os.write(writes, f"{type(error).__name__}: {error}".encode(errors="replace")[:_MOST_BYTES])
    finally:
        os._exit(0)


def _read_all(reads: int, deadline: float) -> bytes | None:
    """All bytes from a pipe (file descriptor `reads`) until it is closed; None if it is not closed before `deadline`, a
    time of `time.monotonic`.
    """
    said = b""
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([reads], [], [], left)[0]:
            break
        part = os.read(reads, _MOST_BYTES)
        if not part:
            return said
        said += part
    return None
