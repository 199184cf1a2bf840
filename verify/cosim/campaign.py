"""Runs many co-simulation cases in several processes: for each machine (accelerator configuration), compiles its RTL to
a library, then runs its programs. Results come in the order in which cases end.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from vdla.hw.harness.dram.oracle import Oracle
from vdla.isa.config import Config
from vdla.util.descendants import descendants, end

from .cases import Case, plan
from .coverage import ENOUGH, Coverage, measure
from .memory_timings import TIMINGS
from .observe import Bin
from .work import CaseResult, Failure, build, minimize_case, run_cases, start_worker

_LAST_SECONDS = 5.0
"""Seconds for which worker processes may go on at the end of a campaign before they are killed."""
_CHUNK = 6
"""Number of cases in one task of a worker process, which returns all their results at once."""


def _ignore(*_: object) -> None:
    """A signal handler that does nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Callbacks of a campaign. `built` is called after each library is built, with its machine and the seconds that it
    took; `ran` after each case has run, with its result; `minimized` after a failure is minimized, with the failure.
    """

    built: Callable[[Config, float], None] = _ignore
    ran: Callable[[CaseResult], None] = _ignore
    minimized: Callable[[Failure], None] = _ignore


@dataclass(slots=True, kw_only=True)
class Campaign:
    """Results of all cases. `dram`: the memory of the RTL of machines with a DRAM, as in `run_both`. `failure`: the
    first mismatch, minimized. `lengths`: number of instructions of each program. `cycles`: simulated cycles of all
    programs together. `mutated`: number of cases with the field `mutated` set. `random_states`: number of cases that
    start with random registers. `by_machine`, `by_timing`: number of programs for each machine name and each memory
    timing. `counts`: number of programs that hit each coverage bin. `seconds`: duration of the campaign;
    `build_seconds`: sum of the times to build the libraries, several of which are built at a time.
    """

    machines: tuple[Config, ...]
    seed: int
    dram: Oracle | None = None
    lengths: list[int] = field(default_factory=list)
    cycles: int = 0
    mutated: int = 0
    random_states: int = 0
    by_machine: Counter[str] = field(default_factory=Counter)
    by_timing: Counter[str] = field(default_factory=Counter)
    counts: Counter[Bin] = field(default_factory=Counter)
    mismatches: list[CaseResult] = field(default_factory=list)
    failure: Failure | None = None
    seconds: float = 0.0
    build_seconds: float = 0.0

    @property
    def coverage(self) -> Coverage:
        """The coverage of the programs so far."""
        return measure(self.machines, self.counts)

    @property
    def holes(self) -> list[str]:
        """Coverage bins that make the run fail: reachable and empty, or hit although declared unreachable. An empty
        list if the campaign has fewer than ENOUGH programs.
        """
        if len(self.lengths) < ENOUGH:
            return []
        coverage = self.coverage
        return [f"{group}: {name}" for group, name in (*coverage.empty, *coverage.unexpected)]

    def document(self) -> dict[str, Any]:
        """The campaign's results as a JSON object."""
        return {
            "programs": len(self.lengths),
            "seed": self.seed,
            "instructions": sum(self.lengths),
            "median_instructions": statistics.median(self.lengths) if self.lengths else None,
            "mutated_programs": self.mutated,
            "random_state_programs": self.random_states,
            "cycles": self.cycles,
            "mismatches": len(self.mismatches),
            "mismatched": [
                {"case": item.case.name, "differences": list(item.differences[:5])}
                for item in self.mismatches[:20]
            ],
            "configurations": dict(self.by_machine),
            "timings": dict(self.by_timing),
            "coverage": self.coverage.document(),
            "coverage_holes": self.holes,
            "seconds": round(self.seconds, 1),
            "build_seconds": round(self.build_seconds, 1),
        }

    def add(self, result: CaseResult) -> None:
        """Adds the result of one case to the totals."""
        item = result.case
        self.lengths.append(result.instructions)
        self.cycles += result.cycles
        self.mutated += item.mutated
        self.random_states += item.random_state is not None
        self.by_machine[item.machine.name] += 1
        self.by_timing[TIMINGS[item.timing]] += 1
        self.counts.update(result.bins)
        if result.differences:
            self.mismatches.append(result)


def run_campaign(
    machines: Sequence[Config],
    programs: int,
    seed: int,
    *,
    jobs: int,
    listener: Listener | None = None,
    dram: Oracle | None = None,
) -> Campaign:
    """Runs `programs` cases in total, spread over `machines`, in `jobs` processes, and minimizes the first mismatch.
    Returns the results, also if there are mismatches. `seed`: seed of the campaign (`cases.case`). `listener`: its
    functions are called at each step. `dram`: the memory of the RTL of machines with a DRAM, as in `run_both`.

    Raises the errors of worker processes: BuildError if a tool is missing, ModuleNotFoundError without the RTL's Python
    packages.
    """
    listener = Listener() if listener is None else listener
    started = time.perf_counter()
    campaign = Campaign(machines=tuple(machines), seed=seed, dram=dram)
    groups = plan(machines, programs, seed)
    with _pool(jobs) as pool:
        for result in _work(pool, groups, jobs, campaign, listener):
            campaign.add(result)
            listener.ran(result)
    campaign.seconds = time.perf_counter() - started
    return campaign


@contextlib.contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of worker processes; if the block ends early, kills them and their children."""
    context = multiprocessing.get_context("spawn")
    # This process removes the folder of temporary files, because a killed worker removes nothing.
    with tempfile.TemporaryDirectory(prefix="vdla-cosim-", ignore_cleanup_errors=True) as place:
        pool = ProcessPoolExecutor(
            max_workers=jobs, mp_context=context, initializer=start_worker, initargs=(place,)
        )
        try:
            yield pool
        except BaseException:
            workers = list((pool._processes or {}).values())
            # Compilers and their children would outlive the workers.
            started = descendants([worker.pid for worker in workers if worker.pid is not None])
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.terminate()
            end(started)
            for worker in workers:
                worker.join(_LAST_SECONDS)
            raise
        pool.shutdown()


def _work(
    pool: ProcessPoolExecutor,
    groups: list[list[Case]],
    jobs: int,
    campaign: Campaign,
    listener: Listener,
) -> Iterator[CaseResult]:
    """Yields the result of each case, in the order in which cases end. `groups`: the cases of each machine, which start
    when the machine's library is built; at most `jobs` libraries are built at the same time. Sets `failure` and
    `build_seconds` of `campaign`, and calls `built` and `minimized` of `listener`.
    """
    unbuilt = [group for group in groups if group]
    building: dict[Future[float], list[Case]] = {}
    running: set[Future[list[CaseResult]]] = set()
    minimizing: Future[Failure] | None = None

    def build_next() -> None:
        if unbuilt:
            group = unbuilt.pop(0)
            building[pool.submit(build, group[0].machine)] = group

    for _ in range(jobs):
        build_next()
    while building or running or minimizing is not None:
        waited: set[Future[Any]] = {*building, *running} | ({minimizing} if minimizing is not None else set())
        done, _ = wait(waited, return_when=FIRST_COMPLETED)
        for future in done:
            if future in building:
                group = building.pop(future)
                campaign.build_seconds += future.result()
                listener.built(group[0].machine, future.result())
                for start in range(0, len(group), _CHUNK):
                    running.add(pool.submit(run_cases, group[start : start + _CHUNK], campaign.dram))
                build_next()
            elif minimizing is not None and future is minimizing:
                failure = campaign.failure = future.result()
                minimizing = None
                listener.minimized(failure)
            else:
                running.discard(future)
                for result in future.result():
                    if result.differences and not campaign.mismatches:
                        minimizing = pool.submit(minimize_case, result.case, campaign.dram)
                    yield result
