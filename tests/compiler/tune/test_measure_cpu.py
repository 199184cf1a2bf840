"""Candidates on the processor: measured and checked in another process; those that go wrong cost one trial each."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from vdla.compiler.target.cpu.machine import host_target
from vdla.compiler.te.blocks import Window
from vdla.compiler.templates.tasks_cpu import default_values, space
from vdla.compiler.templates.workload_cpu import Conv2dCpu
from vdla.compiler.tune.measure.measure_cpu import CpuMeasurer, MeasuringError

WORKER = Path(__file__).parents[2] / "helpers" / "faulty_cpu_worker.py"
TARGET = host_target()
WORKLOAD = Conv2dCpu(
    batch=1,
    channels=8,
    height=6,
    width=7,
    filters=16,
    window=Window(kernel=(3, 3), pads=(1, 1, 1, 1)),
    block_in=8,
    block_out=16,
)
DEFAULT = default_values(TARGET, WORKLOAD)


def measurer(faults=None, **options):
    worker = {} if faults is None else {"worker": (sys.executable, str(WORKER), json.dumps(faults))}
    return CpuMeasurer(TARGET, seconds=0.001, **worker, **options)


def candidate(unroll):
    return {**DEFAULT, "columns": 4, "unroll": unroll}


def test_legal_candidates_are_measured_in_one_process_others_refused():
    with measurer() as m:
        default = m.measure(WORKLOAD, None)
        points = space(TARGET, WORKLOAD).sample(np.random.default_rng(0), 3)
        trials = [m.measure(WORKLOAD, space(TARGET, WORKLOAD).values(point)) for point in points]
        none = m.measure(WORKLOAD, {"rows": 1})
        unfit = m.measure(WORKLOAD, {**DEFAULT, "rows": 6, "columns": 7, "inner": 1})
    for trial in (default, *trials):
        assert trial.error is None
        assert 0 < trial.seconds < 0.01
        assert trial.compile_seconds > 0 and trial.measure_seconds > 0
    # Only the first trial has the start of the process in it.
    assert default.overhead_seconds > 0.1 > max(trial.overhead_seconds for trial in trials)
    assert none.error == "ValueError: conv2d_cpu has no knob column_block, or no value was given for it"
    assert unfit.error is not None and "the registers" in unfit.error
    result = default.result
    assert result.cost == default.seconds and result.seconds > default.overhead_seconds


def test_a_candidate_that_goes_wrong_costs_one_trial():
    faults = {"2": "abort", "3": "hang", "6": "memory", "8": "wrong"}
    with measurer(faults, timeout=1.5) as m:
        trials = {u: m.measure(WORKLOAD, candidate(u)) for u in (1, 2, 3, 6, 8, 9, 12)}
    failed = {u: trial.error for u, trial in trials.items() if trial.error is not None}
    assert failed.keys() == {2, 3, 6, 8}
    assert failed[2] == "ended the measuring process (SIGABRT): LLVM ERROR: out of luck"
    assert failed[3] == "took longer than 1.5 s"
    assert failed[6].startswith("MemoryError")
    assert failed[8].startswith("ValueError: wrong results: off by 0.5")
    assert all(math.isinf(trials[u].seconds) and trials[u].result.failed for u in failed)
    assert all(math.isfinite(trials[u].seconds) for u in (1, 9, 12))


def test_an_interrupted_trial_is_not_taken_for_the_next_one():
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with measurer({"3": "hang"}) as m:
            m.measure(WORKLOAD, candidate(1))
            process = m._process.pid
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(KeyboardInterrupt):
                m.measure(WORKLOAD, candidate(3))
            with pytest.raises(ProcessLookupError):
                os.kill(process, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_process_that_does_not_start_is_no_fault_of_a_candidate():
    with (
        CpuMeasurer(TARGET, worker=(sys.executable, "-c", "raise SystemExit('no numpy here')")) as m,
        pytest.raises(MeasuringError, match="does not start: no numpy here"),
    ):
        m.measure(WORKLOAD, None)
