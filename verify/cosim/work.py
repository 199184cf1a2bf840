"""Functions that worker processes run: build a machine's library, run cases, minimize a failure."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from dataclasses import dataclass

from vdla.hw.harness.dram.oracle import Oracle
from vdla.hw.harness.engine import prepare_library
from vdla.isa.config import Config

from .cases import Case, Launch, launch
from .compare import Outcome, run_both
from .coverage import machine_bin
from .minimize import minimize
from .observe import Bin, observe


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """Result of a case (one program on one machine): numbers of instructions and cycles, the coverage bins that it hit,
    differences between simulator and RTL.
    """

    case: Case
    instructions: int
    cycles: int
    bins: frozenset[Bin]
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Failure:
    """The first mismatch of a campaign, minimized. `original_instructions`: number of instructions before minimizing.
    `runs`: number of runs of simulator and RTL that minimizing took.
    """

    case: Case
    config: Config
    launch: Launch
    outcome: Outcome
    original_instructions: int
    runs: int


def start_worker(temporary: str) -> None:
    """Prepares a worker process: it ignores Ctrl-C, since the parent process ends it (compilers that it started still
    get the signal), and puts its temporary files into the folder `temporary`.
    """
    os.environ["TMPDIR"] = tempfile.tempdir = temporary
    signal.signal(signal.SIGINT, lambda *_: None)


def build(machine: Config) -> float:
    """Builds the library of `machine` if it does not exist; returns the seconds that it took. Raises BuildError."""
    started = time.perf_counter()
    prepare_library(machine)
    return time.perf_counter() - started


def run_case(item: Case, dram: Oracle | None = None) -> CaseResult:
    """Runs one case on simulator and RTL; returns its differences and coverage bins. `dram`: as in `run_both`."""
    start = launch(item)
    outcome = run_both(item.config, start, dram)
    bins: set[Bin] = {machine_bin(item.machine, item.timing, item.random_state is not None)}
    if outcome.simulated is not None:
        bins |= observe(item.config, start.program, outcome.simulated, start.uop)
    return CaseResult(
        case=item,
        instructions=len(start.program.instructions),
        cycles=0 if outcome.simulated is None else outcome.simulated.cycles,
        bins=frozenset(bins),
        differences=outcome.differences,
    )


def run_cases(items: list[Case], dram: Oracle | None = None) -> list[CaseResult]:
    """Runs cases of one machine, and returns their results in the same order. `dram`: as in `run_both`."""
    return [run_case(item, dram) for item in items]


def minimize_case(item: Case, dram: Oracle | None = None) -> Failure:
    """Minimizes program and initial state of a case on which simulator and RTL differ. `dram`: as in `run_both`."""
    start = launch(item)

    def differs(config: Config, candidate: Launch) -> bool:
        return bool(run_both(config, candidate, dram).differences)

    smallest = minimize(item.config, start, differs)
    return Failure(
        case=item,
        config=smallest.config,
        launch=smallest.launch,
        outcome=run_both(smallest.config, smallest.launch, dram),
        original_instructions=len(start.program.instructions),
        runs=smallest.runs,
    )
