"""Measuring candidates on the CPU: timed and checked in another process; a failed candidate costs only its
own trial.
"""

from __future__ import annotations

import json
import math
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from patience import TOOK_LONGER

from vdla.benchmarks.harness.cpu_trials import CpuMeasurer
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.ops.blocked_convolution import blocked_convolution
from vdla.compiler.te.ops.convolution import Convolution
from vdla.compiler.templates.cpu.table import CPU
from vdla.compiler.templates.cpu.workload import SketchCpu

WORKER = Path(__file__).parents[2] / "helpers" / "faulty_cpu_worker.py"
TARGET = host_target()
WORKLOAD = SketchCpu(
    operator="conv2d",
    constants=("W",),
    expression=blocked_convolution(
        Convolution(
            batch=1,
            channels=8,
            height=65,
            width=7,
            filters=16,
            window=Window(kernel=(3, 3), pads=(1, 1, 1, 1)),
        ),
        block_in=8,
        block_out=16,
    ),
)
DEFAULT = CPU.default(TARGET, WORKLOAD)


def measurer(faults=None, **options):
    command = {} if faults is None else {"command": (sys.executable, str(WORKER), json.dumps(faults))}
    return CpuMeasurer(TARGET, **command, **options)


def candidate(block):
    return {**DEFAULT, "tile.0": 1, "tile.1": 4, "block.0": block}


def test_legal_candidates_are_measured_in_one_process_others_refused():
    with measurer() as m:
        default = m.measure(WORKLOAD, None)
        points = CPU.space(TARGET, WORKLOAD).sample(np.random.default_rng(0), 3)
        trials = [m.measure(WORKLOAD, CPU.space(TARGET, WORKLOAD).values(point)) for point in points]
        none = m.measure(WORKLOAD, {"rows": 1})
        unfit = m.measure(WORKLOAD, {**DEFAULT, "tile.0": 13, "tile.1": 7})
    for trial in (default, *trials):
        assert trial.error is None
        assert 0 < trial.seconds < trial.measure_seconds
        assert trial.compile_seconds > 0 and trial.measure_seconds > 0
    # Only the first trial has the start of the process in it, and what is compiled on first use.
    assert default.overhead_seconds > max(trial.overhead_seconds for trial in trials)
    assert none.error == "ValueError: sketch_cpu has no knob rows"
    assert unfit.error is not None and "the vector registers" in unfit.error
    result = default.result
    assert result.cost == default.seconds
    assert result.seconds == default.compile_seconds + default.measure_seconds


@pytest.mark.usefixtures("hangs_are_late")
def test_a_candidate_that_goes_wrong_costs_one_trial():
    faults = {"2": "abort", "4": "hang", "8": "memory", "16": "wrong"}
    with measurer(faults) as m:
        trials = {u: m.measure(WORKLOAD, candidate(u)) for u in (1, 2, 4, 8, 16, 32, 64)}
    failed = {u: trial.error for u, trial in trials.items() if trial.error is not None}
    assert failed.keys() == {2, 4, 8, 16}
    assert failed[2] == "ended the process that measured it (SIGABRT: LLVM ERROR: out of luck)"
    assert failed[4] == TOOK_LONGER
    assert failed[8].startswith("defect: ") and "MemoryError" in failed[8]
    assert failed[16].startswith("ValueError: wrong results: off by 0.5")
    assert all(math.isinf(trials[u].seconds) and trials[u].result.failed for u in failed)
    assert all(math.isfinite(trials[u].seconds) for u in (1, 32, 64))


def test_an_interrupted_trial_is_not_taken_for_the_next_one():
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with measurer({"4": "hang"}) as m:
            m.measure(WORKLOAD, candidate(1))
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                m.measure(WORKLOAD, candidate(4))
            # Another process, whose first answer is to this.
            trial = m.measure(WORKLOAD, {"rows": 1})
            assert "no knob" in (trial.error or "") and trial.overhead_seconds > 0.1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
