"""Runs a command as a process, from start to end: signals, standard streams, messages, exit code."""

from __future__ import annotations

import atexit
import contextlib
import errno
import gc
import io
import os
import signal
import sys
from collections.abc import Mapping

from vdla.util.descendants import descendants, end

from .interrupts import ENDINGS, Interrupts
from .streams import OutputLostError, guard_streams

OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""Number of new objects after which Python's garbage collector searches for reference cycles. With the default, 700,
the search took 5% of the time of a compilation. The compiler's programs are trees, without reference cycles; fewer
searches cost a command a few megabytes of memory.
"""
USER_ERROR = 2
"""Exit code of a command that ended because of a user's mistake, a full disk or lost output."""
READER_GONE = 128 + signal.SIGPIPE
"""Exit code if the reader of standard output has gone, as in `vdla ... | head -1`. A program that the signal SIGPIPE
ends has the same code.
"""


class Stopped(Exception):
    """Raised to end the command with the exit code USER_ERROR; the message is the reason, usually in one line."""


def run_process(program: bool) -> int:
    """Runs the command line in `sys.argv`, prints its messages and returns the exit code.

    With `program`, this process exists only for this command: its standard streams and signal handlers are replaced,
    and if a signal ended the command, the process ends here. Exceptions that are defects of the toolkit are not caught.
    """
    with Interrupts(last=program) as interrupts:
        try:
            code = _run(program)
        except KeyboardInterrupt:
            code = _interrupted(interrupts.number)
        except Exception:
            # Libraries turn an interrupted import into exceptions of their own.
            if interrupts.number is None:
                raise
            code = _interrupted(interrupts.number)
        if interrupts.number is not None and code:
            code = 128 + interrupts.number
    if interrupts.number is not None and program:
        _leave(code, {**interrupts.processes, **descendants()})
    return code


def _run(program: bool) -> int:
    try:
        if program:
            guard_streams()
            gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
        elif isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        from .commands import run_command

        code = run_command(sys.argv[1:])
        sys.stdout.flush()
    except Stopped as stop:
        with contextlib.suppress(OutputLostError):
            sys.stdout.flush()
        print(f"error: {stop}", file=sys.stderr)
        return USER_ERROR
    except OutputLostError as lost:
        if lost.errno == errno.EPIPE:
            return READER_GONE
        print(f"error: {lost}", file=sys.stderr)
        return USER_ERROR
    return code


def _interrupted(number: int | None) -> int:
    number = signal.SIGINT if number is None else number
    with contextlib.suppress(OutputLostError):
        sys.stdout.flush()
    print(ENDINGS[signal.Signals(number)], file=sys.stderr)
    return 128 + number


def _leave(code: int, processes: Mapping[int, int]) -> None:
    """Kills the `processes` (descendants of this process, as `util.descendants` returns them), runs the functions
    registered with atexit, and ends this process with exit code `code`.

    Threads that still compute are neither waited for nor disturbed: a normal exit of Python would unload libraries that
    these threads use.
    """
    end(processes)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OutputLostError, ValueError):
            stream.flush()
    os._exit(code)
