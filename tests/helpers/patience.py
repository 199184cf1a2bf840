"""Long time limits for tests, since on a busy machine other work may take the cores from a test for minutes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

LONG = 3600.0
"""Time limit in seconds; after it the awaited event is considered lost."""
TOOK_LONGER = f"took longer than {LONG:.3g} s"
"""The tuner's error message for a candidate that hung."""
HANGS = "VDLA_TEST_HANGS"
"""Environment variable with the folder in which a worker creates a file, named by its process id, when it hangs."""


def wait_for_busy_machines() -> None:
    """Sets the time limits of the tuner's candidates and of its workers to `LONG`, and switches off notes about long
    compilations.
    """
    from vdla.codesign.cli import output
    from vdla.compiler.tune.measure import backends, local_workers
    from vdla.util import long_compilation

    backends.TIMEOUT = local_workers.START_TIMEOUT = LONG
    output.SILENCE = long_compilation.SILENCE = LONG
    os.environ[long_compilation.QUIET] = "1"  # of other processes, which a busy machine may have compile


def say_that_this_hangs() -> None:
    """Called by a worker before it hangs: creates its file in the folder `HANGS`, if the variable is set."""
    if folder := os.environ.get(HANGS):
        (Path(folder) / str(os.getpid())).touch()


def says_that_it_hangs(process: int) -> bool:
    """Whether the worker with process id `process` has stated that it hangs."""
    return (Path(os.environ[HANGS]) / str(process)).exists()


def hear_interrupts() -> None:
    """Restores the default action of the signal SIGINT in a new process; it is passed as `preexec_fn`. A process that a
    shell runs in the background ignores SIGINT, and so do the processes that it starts. Tests that interrupt processes
    would then fail.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
