"""Waiting without limits that a busy machine exceeds: other work may take the cores from a test for minutes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

LONG = 3600.0
"""Seconds after which what a test waits for will not come any more."""
TOOK_LONGER = f"took longer than {LONG:.3g} s"
"""What the tuner says of a candidate that hung."""
HANGS = "VDLA_TEST_HANGS"
"""The variable that names a folder in which workers say that they hang."""


def wait_for_busy_machines() -> None:
    """Candidates of the tuner and processes that measure them get `LONG`, and nothing says that it takes long."""
    from vdla.codesign.cli import output
    from vdla.compiler.tune.measure import backends, local_workers
    from vdla.util import long_compilation

    backends.TIMEOUT = local_workers.START_TIMEOUT = LONG
    output.SILENCE = long_compilation.SILENCE = LONG
    os.environ[long_compilation.QUIET] = "1"  # of other processes, which a busy machine may have compile


def say_that_this_hangs() -> None:
    """For workers, before they hang."""
    if folder := os.environ.get(HANGS):
        (Path(folder) / str(os.getpid())).touch()


def says_that_it_hangs(process: int) -> bool:
    """Whether the worker of this number has said so."""
    return (Path(os.environ[HANGS]) / str(process)).exists()


def hear_interrupts() -> None:
    """For `preexec_fn` of processes that get SIGINT: a shell's background processes ignore it, and so would these."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
