"""Measuring candidates on this processor in a process of its own, so that none can take the tuner along.

The process lives as long as its candidates behave. One that crashes it, takes too long or too much memory costs a
trial: it is killed, and another one started for the next candidate.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import inf
from types import TracebackType
from typing import Any

from vdla.isa.errors import UserError

from ...target.cpu.machine import CpuTarget
from ...templates.space import Values
from ...templates.workload_cpu import CpuWorkload
from .trial import Result

WORKER = (sys.executable, "-m", "vdla.compiler.tune.measure.measure_cpu_worker")
TIMEOUT = 10.0
"""Seconds for one candidate, on a machine that may be busy: a hundred times what one takes."""
START_TIMEOUT = 60.0
"""Seconds for a process' start, which reads libraries from disk."""
MEMORY = 8 << 30
"""Bytes of addresses for the process, LLVM's and numpy's included."""
SECONDS = 0.03
"""Thread CPU seconds of measuring a candidate."""


class MeasuringError(UserError):
    """Nothing can be measured here, whatever the candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTrial:
    """A measured candidate: the median of thread CPU `seconds` of a run (inf where it failed, then `error` says why).

    CPU seconds that it took: `compile_seconds` from knobs to machine code, `measure_seconds` with its inputs and the
    check of its results, `overhead_seconds` everything else in both processes, the start of a new one included.
    """

    seconds: float
    error: str | None
    compile_seconds: float
    measure_seconds: float
    overhead_seconds: float

    @property
    def result(self) -> Result:
        """The trial as searches know it."""
        spent = self.compile_seconds + self.measure_seconds + self.overhead_seconds
        return Result(cost=self.seconds, error=self.error, seconds=spent)


class CpuMeasurer:
    """Measures candidates on one thread, one after the other; `close`, or the end of a `with` block, ends its process.

    `timeout` are wall seconds for one candidate, `memory` bytes for the process, `seconds` of measuring; `worker` is
    the command that answers requests as `measure_cpu_worker` does.
    """

    def __init__(
        self,
        target: CpuTarget,
        *,
        timeout: float = TIMEOUT,
        memory: int = MEMORY,
        seconds: float = SECONDS,
        worker: Sequence[str] = WORKER,
    ) -> None:
        self._target = asdict(target)
        self._timeout = timeout
        self._memory = memory
        self._seconds = seconds
        self._worker = tuple(worker)
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        self._pending = b""
        self._reported = 0.0

    def __enter__(self) -> CpuMeasurer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process; a later `measure` starts another one."""
        self._end()
        self._stderr.close()

    def measure(self, workload: CpuWorkload, values: Values | None) -> CpuTrial:
        """One candidate: the knobs `values` of the workload's space (None: the template's defaults).

        MeasuringError where no process can be started.
        """
        begin = time.thread_time()
        request = {
            "workload": workload.to_dict(),
            "target": self._target,
            "knobs": None if values is None else dict(values),
            "seconds": self._seconds,
        }
        reply = self._ask(request)
        own = time.thread_time() - begin
        seconds = reply["seconds"]
        return CpuTrial(
            seconds=inf if seconds is None else seconds,
            error=reply["error"],
            compile_seconds=reply["compile"],
            measure_seconds=reply["measure"],
            overhead_seconds=reply["overhead"] + own,
        )

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        process = self._start() if self._process is None else self._process
        # The process' own alarm is the second line: it works where this one is gone.
        request["timeout"] = 2 * self._timeout
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = self._line(process, self._timeout)
        except BrokenPipeError:
            line = b""
        except BaseException:
            # An interrupted request must not be answered later, in the place of another one.
            self._end()
            raise
        if line is not None and line.endswith(b"\n"):
            reply = json.loads(line)
            self._reported += sum(reply[part] for part in ("compile", "measure", "overhead"))
            return reply
        spent = max(0.0, _cpu_seconds(process.pid) - self._reported)
        if line is None:
            error = f"took longer than {self._timeout:.3g} s"
        else:
            process.wait()
            error = f"ended the measuring process ({_manner(process.returncode)}){self._last_words()}"
        self._end()
        return {"seconds": None, "error": error, "compile": spent, "measure": 0.0, "overhead": 0.0}

    def _start(self) -> subprocess.Popen[bytes]:
        # Threads of numpy's matrix products would only wait for each other.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._stderr.seek(0)
        self._stderr.truncate()
        self._pending, self._reported = b"", 0.0
        self._process = subprocess.Popen(
            [*self._worker, str(self._memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=environment,
            # Ctrl-C is the tuner's to handle.
            start_new_session=True,
        )
        try:
            ready = self._line(self._process, START_TIMEOUT)
        except BaseException:
            self._end()
            raise
        if ready != b"ready\n":
            self._end()
            raise MeasuringError(f"the process that measures candidates does not start{self._last_words()}")
        return self._process

    def _line(self, process: subprocess.Popen[bytes], limit: float) -> bytes | None:
        """The next line of the process, what there was of it if the process ended, None if it took too long."""
        assert process.stdout is not None
        deadline = time.monotonic() + limit
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    return None
                chunk = os.read(process.stdout.fileno(), 1 << 16)
                if not chunk:
                    return self._pending
                self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        return line + b"\n"

    def _last_words(self) -> str:
        """The last line that the process wrote about itself, such as LLVM's reason to give up."""
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f": {last[:200]}" if last else ""

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                # What was not sent is lost, which is all that there is to say.
                with suppress(BrokenPipeError):
                    pipe.close()
        process.wait()


def _manner(code: int) -> str:
    if code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    return f"exit code {code}"


def _cpu_seconds(pid: int) -> float:
    """CPU seconds of a process so far; 0 where the system does not say."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0
