"""A process that measures candidates: requests on standard input, answers on standard output, a JSON object a line.

    (start)                                            {"ready": its pid}
    {"load": task}                                     {"loaded": true} or {"refused": why}
    {"task": task, "values": {...}, "timeout": s}      Result.to_dict()

`task` is a description's canonical text (`descriptions.py`); it is loaded once. If costs are this process's own time,
the load includes one uncounted trial of the template's default, so that the first candidate is not charged for code
that is compiled on first use. Output of candidates goes to standard error. The process ends when its input ends.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from vdla.util.errors import UserError

from .backends import attempt
from .descriptions import CODE, DEVICE, Description, Measure, load

Load = Callable[[Description], Measure]


def serve(load: Load) -> None:
    """Answers requests from standard input until it ends. `load` makes the function that measures a task's candidates
    from the task's description.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The signal's default action ends the process: a Python handler would wait for a candidate that hangs.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    tasks: dict[str, Measure] = {}

    def answer(values: dict[str, Any]) -> None:
        answers.write(json.dumps(values) + "\n")
        answers.flush()

    told = 0.0
    answer({"ready": os.getpid()})
    for line in sys.stdin.buffer:
        request = json.loads(line)
        match request:
            case {"load": task}:
                answer(_load(load, tasks, task))
            case {"task": task, "values": values, "timeout": timeout}:
                # Normally the parent's time-out comes first; if the parent is gone, this time-out ends the
                # process.
                signal.setitimer(signal.ITIMER_REAL, 2 * timeout)
                result = attempt(tasks[task], values)
                signal.setitimer(signal.ITIMER_REAL, 0)
                spent = time.process_time()
                answer(replace(result, overhead_seconds=max(0.0, spent - told - result.seconds)).to_dict())
                told = spent


def _load(load: Load, tasks: dict[str, Measure], task: str) -> dict[str, Any]:
    try:
        description = json.loads(task)
        tasks[task] = load(description)
    except UserError as error:
        return {"refused": str(error)}
    kind = description["kind"]
    _, _, step = kind.partition(" ")
    if kind == "llvm" or step == CODE:
        _limit_memory()
    if step not in (CODE, DEVICE):
        # Not for GPUs: this process's time is not their cost, and the template's default may break the device.
        attempt(tasks[task], None)
    return {"loaded": True}


def _limit_memory() -> None:
    """Limits this process's address space, because LLVM or NVRTC could take all memory for loops that are unrolled very
    often.
    """
    from .trial_cpu import MEMORY

    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(
        resource.RLIMIT_AS, (MEMORY if most == resource.RLIM_INFINITY else min(MEMORY, most), most)
    )


if __name__ == "__main__":
    serve(load)
