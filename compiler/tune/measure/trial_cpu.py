"""One trial on this processor: a candidate is compiled, its results are checked, and its thread CPU time is measured.

A trial may crash or hang its process, which is therefore a worker of `local_workers.py`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from math import inf
from typing import Any

import numpy as np

from ...codegen.cpu.kernel import BoundKernel, build
from ...codegen.cpu.machine import CpuTarget
from ...codegen.cpu.memory import aligned_copy, aligned_empty
from ...ir.types import DType
from ...schedule.pack import pack_arrays
from ...templates.cpu.table import CPU
from ...templates.cpu.workload import CpuWorkload
from ...templates.space import knobs_obstacle
from .reference import expected, inputs
from .trial import Result, results_obstacle

SECONDS = 0.03
"""Thread CPU seconds to be spent on timing a candidate. A slow kernel takes longer, since it runs at least SAMPLES[0]
times.
"""
MEMORY = 8 << 30
"""Limit of a measuring process's address space in bytes, LLVM and numpy included."""
TOLERANCE = 1e-5
"""Tolerance of a candidate's results, relative to the reference's greatest magnitude. It allows for the rounding of
float32 sums of several thousand terms.
"""
LEAST_SAMPLE = 2e-4
"""Least seconds between two readings of the clock. A kernel that takes less time runs several times in between."""
SAMPLES = (3, 25)
"""Least and largest number of readings of the clock while one candidate is timed."""


def evaluate(target: CpuTarget, workload: CpuWorkload, values: Mapping[str, int] | None) -> Result:
    """Compiles, checks and times one candidate with the knobs `values` (None: the template's defaults). The cost of the
    result is the median seconds of a run.

    Any exception becomes the result's error.
    """
    begin = time.thread_time()
    compiled: float | None = None
    try:
        if (
            values is not None
            and (obstacle := knobs_obstacle(CPU.space(target, workload), values)) is not None
        ):
            raise ValueError(obstacle)
        scheduled = CPU.schedule(target, workload, values)
        kernel = build(scheduled.program, target)
        compiled = time.thread_time()
        arrays, reference = _known(workload)
        shapes = {p.name: p.shape for p in kernel.program.parameters}
        packed = pack_arrays(scheduled.trace, arrays)
        bound_arrays = {name: aligned_copy(array, shapes[name]) for name, array in packed.items()}
        output = workload.program().parameters[-1].name
        result = aligned_empty(shapes[output], DType.FLOAT32.numpy)
        result[...] = np.nan
        bound = kernel.bind({**bound_arrays, output: result})
        bound()
        if (reason := results_obstacle(result, reference, TOLERANCE)) is not None:
            raise ValueError(reason)
        cost, error = _time(bound, SECONDS), None
    except Exception as problem:
        # Any exception, a bug of a pass included, makes only this trial fail.
        cost, error = inf, f"{type(problem).__name__}: {problem}".splitlines()[0]
    end = time.thread_time()
    until = end if compiled is None else compiled
    return Result(cost=cost, error=error, seconds=end - begin, compile_seconds=until - begin)


def target_from_dict(values: dict[str, Any]) -> CpuTarget:
    """The CpuTarget with the fields `values`, a JSON object made by `dataclasses.asdict`. Raises ValueError for an
    object with other fields.
    """
    if values.keys() != {field.name for field in fields(CpuTarget)}:
        raise ValueError(
            f"its target needs exactly the fields {', '.join(f.name for f in fields(CpuTarget))}"
        )
    level1, level2 = values["cache_bytes"]
    return CpuTarget(**{**values, "cache_bytes": (level1, level2)})


@lru_cache(maxsize=4)
def _known(workload: CpuWorkload) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The input arrays of a workload and its expected result, computed once for all of its candidates."""
    program = workload.program()
    arrays = inputs(program)
    return arrays, expected(program, arrays)


def _time(bound: BoundKernel, budget: float) -> float:
    """The median of the thread CPU seconds of one run. `budget`: seconds for all runs together; slow kernels exceed it,
    since they run a least number of times (`SAMPLES`). The run that checked the results is not counted.
    """
    begin = time.thread_time()
    bound()
    once = max(time.thread_time() - begin, 1e-7)
    repeat = max(1, int(LEAST_SAMPLE / once))
    least, most = SAMPLES
    samples: list[float] = []
    for _ in range(min(most, max(least, int(budget / (once * repeat))))):
        begin = time.thread_time()
        for _ in range(repeat):
            bound()
        samples.append((time.thread_time() - begin) / repeat)
    return statistics.median(samples)
