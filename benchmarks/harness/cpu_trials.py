"""Compiles and times candidate schedules on this computer's processor, one at a time, and reports the seconds of each
step (compilation, measurement, overhead). Benchmarks of search strategies call this module directly, without the
tuner's session around it.

The candidates run in worker processes (`local_workers.py`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from vdla.compiler.codegen.cpu.machine import CpuTarget
from vdla.compiler.templates.columns import Values
from vdla.compiler.templates.cpu.workload import CpuWorkload
from vdla.compiler.tune.measure.descriptions import describe
from vdla.compiler.tune.measure.local_workers import LocalWorkers
from vdla.compiler.tune.measure.trial import Result
from vdla.compiler.tune.measure.worker_process import COMMAND
from vdla.util.closing import Closing


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTrial:
    """A measured candidate. `asking_seconds`: overhead of this process, the CPU seconds that its thread spent from the
    request to the result.
    """

    result: Result
    asking_seconds: float

    @property
    def seconds(self) -> float:
        """The median, over runs of the candidate, of thread CPU seconds; inf if it failed."""
        return self.result.cost

    @property
    def error(self) -> str | None:
        """The reason why the candidate failed; None if it did not."""
        return self.result.error

    @property
    def compile_seconds(self) -> float:
        """Thread CPU seconds to compile the candidate, from its knobs to machine code."""
        return self.result.compile_seconds

    @property
    def measure_seconds(self) -> float:
        """Thread CPU seconds to generate inputs, run the candidate and check its results."""
        return self.result.seconds - self.result.compile_seconds

    @property
    def overhead_seconds(self) -> float:
        """CPU seconds of all other work than compilation and measuring: in the measuring process (including the start
        of a new process), and in this process while it waits for a measurement.
        """
        return self.result.overhead_seconds + self.asking_seconds


class CpuMeasurer(Closing):
    """Measures candidates on one thread, one after the other; the end of a `with` block ends the measuring process.

    `timeout`: wall-clock seconds for one candidate (None: the default of LocalWorkers). `command`: the command line
    that starts the process.
    """

    def __init__(
        self, target: CpuTarget, *, timeout: float | None = None, command: Sequence[str] = COMMAND
    ) -> None:
        self._target = target
        self._workers = LocalWorkers(1, timeout=timeout, command=command)

    def close(self) -> None:
        """Ends the measuring process; the next `measure` starts a new one."""
        self._workers.close()

    def measure(self, workload: CpuWorkload, values: Values | None) -> CpuTrial:
        """Measures one candidate: the knobs `values` of the workload's space (None: the template's defaults). Returns
        its time, or the reason of its failure.

        Raises BackendError if no process can be started, TaskError for a processor other than this one.
        """
        begin = time.thread_time()
        (result,) = self._workers.measure(describe(self._target, workload), [values])
        return CpuTrial(result=result, asking_seconds=time.thread_time() - begin)
