"""The parent's side of a worker process (`worker.py`): starts the process, exchanges lines of JSON with it,
kills it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from .backends import BackendError

WORKER = "vdla.compiler.tune.measure.worker"
"""Name of the module that worker processes run."""


def command_of(module: str) -> tuple[str, ...]:
    """The command line that runs a worker's module; option -P keeps the current folder out of the import path."""
    return (sys.executable, "-P", "-m", module)


COMMAND = command_of(WORKER)
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_LONGEST = 200
_LAST_SECONDS = 1.0
_KILLED_SECONDS = 60.0


class WorkerProcess:
    """A worker process in its own session. So Ctrl-C reaches only the parent, and a kill includes the worker's
    children.

    If the parent is killed, the worker's standard input ends, and the worker ends itself.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `end`)
        self._read = b""
        self._ending = False
        # Threads of numpy's matrix products would only wait for each other.
        environment = {**os.environ, **dict.fromkeys(_ONE_THREAD, "1")}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=environment,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def fileno(self) -> int:
        """The file descriptor of the process's standard output, for a selector. It is readable when `receive` will not
        block.
        """
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def send(self, request: Mapping[str, Any]) -> None:
        """Sends a request. If the process has ended, the next `receive` returns None."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()

    def receive(self) -> list[dict[str, Any]] | None:
        """The answers that have arrived; waits until some bytes have arrived. None if the process has ended."""
        found = os.read(self.fileno(), 1 << 16)
        if not found:
            self._ending = True
            return None
        *lines, self._read = (self._read + found).split(b"\n")
        return [json.loads(line) for line in lines]

    def end(self) -> str:
        """Kills the process, unless it is ending by itself, and returns a short text on how it ended.

        Raises BackendError if it does not end after the kill: it then hangs in a driver, and no signal can stop it.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        if self._ending:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_LAST_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        try:
            code = self._process.wait(_KILLED_SECONDS)
        except subprocess.TimeoutExpired:
            raise BackendError(
                f"the measuring process {self._process.pid} was killed but does not end, because a driver blocks it; "
                "restart this machine, or reset its device"
            ) from None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        words = self._last_words()
        self._stderr.close()
        return f"{_manner(code)}: {words}" if words else _manner(code)

    def _last_words(self) -> str:
        """The last line on the process's standard error, such as the name of an exception or LLVM's reason to
        give up.
        """
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, self._stderr.tell() - 4096))
        lines = self._stderr.read().decode(errors="replace").split("\n")
        return next((line.strip()[:_LONGEST] for line in reversed(lines) if line.strip()), "")


def _manner(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
