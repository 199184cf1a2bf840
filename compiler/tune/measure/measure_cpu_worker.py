"""The process that compiles and times candidates on this processor: requests and replies are JSON, one a line.

A request: {"workload": {...}, "target": {...}, "knobs": {"rows": 2, ...} or null for the defaults, "seconds": s}, where
s is how much thread CPU time to spend on measuring. The reply: {"seconds": median or null, "error": null or why,
"compile": thread CPU seconds, "measure": thread CPU seconds}. Other output of this process, and of LLVM, goes to
standard error. It ends by itself where a request takes longer than its "timeout", and when its input does.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache
from typing import Any, BinaryIO

import numpy as np

from ...ir.types import DType
from ...schedule.pack import pack_arrays
from ...target.cpu.kernel import BoundKernel, aligned_copy, aligned_empty, build
from ...target.cpu.machine import CpuTarget
from ...templates.tasks_cpu import knobs_obstacle, schedule, space
from ...templates.workload_cpu import CpuWorkload, workload_from_dict
from .reference_cpu import expected, inputs

Evaluate = Callable[[dict[str, Any]], dict[str, Any]]
TOLERANCE = 1e-5
"""Of a candidate's results, relative to the reference's greatest: float32 sums of some thousand terms, in parts."""
WRONG = "wrong results"
"""How the error of a candidate begins that computes something else."""
LEAST_SAMPLE = 2e-4
"""Seconds that one reading of the clock covers at least."""
SAMPLES = (3, 25)
"""Readings at least, and at most."""


def evaluate(request: dict[str, Any]) -> dict[str, Any]:
    """Compiles, checks and times one candidate. Whatever is wrong with it is the reply's "error"."""
    begin = time.thread_time()
    compiled = begin
    try:
        text = json.dumps(request["workload"], sort_keys=True)
        target = target_from_dict(request["target"])
        workload = workload_from_dict(request["workload"])
        knobs = request["knobs"]
        if knobs is not None and (obstacle := knobs_obstacle(space(target, workload), knobs)) is not None:
            raise ValueError(obstacle)
        scheduled = schedule(target, workload, workload.program(), knobs)
        kernel = build(scheduled.program, target)
        compiled = time.thread_time()
        arrays, reference = _known(text)
        shapes = {p.name: p.shape for p in kernel.program.parameters}
        packed = pack_arrays(scheduled.trace, arrays)
        bound_arrays = {name: aligned_copy(array, shapes[name]) for name, array in packed.items()}
        output = workload.program().parameters[-1].name
        result = aligned_empty(shapes[output], DType.FLOAT32.numpy)
        result[...] = np.nan
        bound = kernel.bind({**bound_arrays, output: result})
        bound()
        if (reason := _difference(result, reference)) is not None:
            raise ValueError(reason)
        seconds = _time(bound, float(request["seconds"]))
        error = None
    except Exception as problem:
        # Whatever it is, a bug of a pass included, costs one trial.
        seconds, error = None, f"{type(problem).__name__}: {problem}".splitlines()[0]
    end = time.thread_time()
    compiled = compiled if compiled > begin else end
    return {"seconds": seconds, "error": error, "compile": compiled - begin, "measure": end - compiled}


def target_from_dict(values: dict[str, Any]) -> CpuTarget:
    """The target of a JSON object that `dataclasses.asdict` made of one. ValueError where it is none."""
    if values.keys() != {field.name for field in fields(CpuTarget)}:
        raise ValueError("this is no description of a processor")
    level1, level2 = values["cache_bytes"]
    return CpuTarget(**{**values, "cache_bytes": (level1, level2)})


@lru_cache(maxsize=4)
def _known(workload: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The arrays of a workload, in JSON, and its results, computed once for all of its candidates."""
    made: CpuWorkload = workload_from_dict(json.loads(workload))
    arrays = inputs(made)
    return arrays, expected(made, arrays)


def _difference(result: np.ndarray, reference: np.ndarray) -> str | None:
    """Why results are wrong; None where they are right."""
    finite = np.isfinite(reference)
    if not np.array_equal(np.where(finite, 0, result), np.where(finite, 0, reference), equal_nan=True):
        return f"{WRONG}: not finite where they should be, or the other way round"
    limit = TOLERANCE * max(float(np.abs(reference[finite]).max(initial=0.0)), 1e-30)
    error = np.abs(result - reference)[finite].max(initial=0.0)
    return None if error <= limit else f"{WRONG}: off by {error:.3g}, {limit:.3g} would be right"


def _time(bound: BoundKernel, budget: float) -> float:
    """The median of thread CPU seconds of one run, after the one that checked the results."""
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


def serve(requests: BinaryIO, replies: BinaryIO, evaluate: Evaluate) -> None:
    """Says that it is ready, and answers requests until there are no more.

    Each reply tells in "overhead" what else of this process' CPU time went by, its start included.
    """
    replies.write(b"ready\n")
    replies.flush()
    seen = 0.0
    for line in requests:
        request = json.loads(line)
        # The signal ends the process, wherever it is: nobody is left to wait for it if the tuner itself was killed.
        signal.setitimer(signal.ITIMER_REAL, request["timeout"])
        reply = evaluate(request)
        signal.setitimer(signal.ITIMER_REAL, 0)
        spent = time.process_time()
        reply["overhead"] = max(0.0, spent - seen - reply["compile"] - reply["measure"])
        seen = spent
        replies.write(json.dumps(reply).encode() + b"\n")
        replies.flush()


def main(evaluate: Evaluate = evaluate) -> None:
    """Serves on standard input and output; the last argument is how many bytes of memory it may use."""
    limit = int(sys.argv[-1])
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, replies, evaluate)


if __name__ == "__main__":
    main()
