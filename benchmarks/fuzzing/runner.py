"""Runs fuzzing cases in worker processes. A case that hangs, crashes or takes all memory is reported, and the other
cases continue.

A worker reads the kind, seed and index of a case from a line and answers with a line of JSON; it runs many cases in
sequence.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType

from .outcome import Outcome

LIMIT = 20.0
"""Wall-clock seconds after which a fuzzing case counts as hung."""
START = 1800.0
"""Seconds that a process may take to start: numba may have to compile the simulator."""
COMMAND = (sys.executable, "-m", "vdla.benchmarks.fuzzing.worker")
_LAST = 6000
"""Largest number of characters of a process's last output that is reported with the fuzzing case that ended the
process.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one fuzzing case, which is identified by its kind, seed and index."""

    kind: str
    seed: int
    index: int
    outcome: Outcome
    seconds: float


class CaseProcess:
    """A process that runs fuzzing cases; if a case ends the process, a new one is started. Use it in a `with`
    statement.
    """

    def __init__(self, limit: float = LIMIT, command: Sequence[str] = COMMAND) -> None:
        self._limit = limit
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process

    def __enter__(self) -> CaseProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()
        self._said.close()

    def run(self, kind: str, seed: int, index: int) -> Result:
        """Runs the fuzzing case `index` of `kind` in the process, and returns a result even if the case ends the
        process or does not end in time.
        """
        process = self._process or self._start()
        assert process.stdin is not None
        started = time.monotonic()
        process.stdin.write(f"{kind} {seed} {index}\n".encode())
        process.stdin.flush()
        line = self._line(process, self._limit)
        seconds = time.monotonic() - started
        if line is None:
            # This signal makes the process print where it is before it ends.
            process.send_signal(signal.SIGUSR1)
            time.sleep(0.5)
            outcome = Outcome("hang", _innermost(self._last()))
            self._stop()
        elif not line:
            code = process.wait()
            outcome = Outcome("crash", f"ended with {code}: {self._last()}")
            self._stop()
        else:
            outcome = Outcome(**json.loads(line))
        return Result(kind=kind, seed=seed, index=index, outcome=outcome, seconds=seconds)

    def _start(self) -> subprocess.Popen[bytes]:
        self._said.seek(0)
        self._said.truncate()
        self._process = process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
        if not self._line(process, START):
            last = self._last()
            self._stop()
            raise RuntimeError(f"a process for cases did not start within {START:.0f} s: {last}")
        return process

    def _line(self, process: subprocess.Popen[bytes], limit: float) -> bytes | None:
        """The next line that the process writes; empty if the process ended, None after `limit` seconds."""
        assert process.stdout is not None
        ends = time.monotonic() + limit
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, ends - time.monotonic())):
                    return None
                part = os.read(process.stdout.fileno(), 1 << 16)
                if not part:
                    return b""
                line += part
        return line

    def _last(self) -> str:
        self._said.flush()
        end = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, end - _LAST))
        return self._said.read().decode(errors="replace").strip()

    def _stop(self) -> None:
        if (process := self._process) is None:
            return
        self._process = None
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _innermost(dump: str) -> str:
    """The four innermost calls of a process's main thread as text, from `dump`, the output of faulthandler."""
    calls = [
        line.strip() for line in dump.rpartition("most recent call first")[2].splitlines() if "File" in line
    ]
    return " < ".join(calls[:4])


def run_cases(
    kind: str,
    seed: int,
    indices: Iterable[int],
    *,
    workers: int = 1,
    limit: float = LIMIT,
    done: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """Runs the fuzzing cases `indices` of one kind on `workers` processes, each case for up to `limit` seconds; returns
    their results sorted by index. `done` is called with each result as soon as it is there.
    """
    waiting = list(reversed(list(indices)))
    results: list[Result] = []

    def work() -> None:
        with CaseProcess(limit) as process:
            while waiting:
                try:
                    index = waiting.pop()
                except IndexError:
                    return
                result = process.run(kind, seed, index)
                results.append(result)
                done(result)

    with ThreadPoolExecutor(max_workers=workers) as pool:
        running = [pool.submit(work) for _ in range(workers)]
        try:
            for one in running:
                one.result()
        except BaseException:
            waiting.clear()
            raise
    return sorted(results, key=lambda result: result.index)
