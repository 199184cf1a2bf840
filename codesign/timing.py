"""Measures the time of calls: thread CPU time of functions on one thread, wall time of functions on several threads.
Functions that are compared take turns in one process.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

Timed = Callable[[], object]
Clock = Callable[[], float]

REPEAT = 5
"""Default number of calls of a measured function; the median of their times is the result."""
LEAST_SECONDS = 0.01
"""Least duration of one measurement in seconds; shorter calls are repeated within a measurement."""
_LOOK = 0.01
_LONGEST_WAIT = 1.0


def median_seconds(function: Timed, repeat: int = REPEAT) -> float:
    """Median thread CPU seconds of `repeat` calls of `function`, after one call that is not counted."""
    function()
    times = []
    for _ in range(repeat):
        begin = time.thread_time()
        function()
        times.append(time.thread_time() - begin)
    return statistics.median(times)


def clock_of(threads: int) -> Clock:
    """The clock for a function on `threads` threads: for one thread, its CPU time, which other programs do not affect;
    for several, wall time.
    """
    return time.thread_time if threads == 1 else time.perf_counter


def interleaved(
    clock: Clock, runs: Sequence[Timed], rounds: int, *, least: float = 0.0, alone: bool = False
) -> list[list[float]]:
    """Seconds, by `clock`, of each function in `runs` in each of `rounds` rounds; the functions take turns.

    Every function is first called once without being counted. A function that takes less than `least` seconds is
    repeated, and the mean of its repetitions is taken. `alone` is for functions with their own threads, which spin for
    a while before they sleep: each turn then waits until the threads of the previous function sleep, and begins with
    one uncounted call that wakes the function's threads.
    """
    counts = []
    for run in runs:
        run()
        counts.append(max(1, int(least / max(_seconds(clock, run, 1), 1e-7))))
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for run, count, seconds in zip(runs, counts, times, strict=True):
            if alone:
                wait_until_idle()
                run()
            seconds.append(_seconds(clock, run, count))
    return times


def _seconds(clock: Clock, run: Timed, repeat: int) -> float:
    start = clock()
    for _ in range(repeat):
        run()
    return (clock() - start) / repeat


def wait_until_idle() -> None:
    """Waits until no thread of this process computes any more, at most a second."""
    end = time.perf_counter() + _LONGEST_WAIT
    while time.perf_counter() < end:
        start = time.process_time()
        time.sleep(_LOOK)
        if time.process_time() - start < _LOOK / 10:
            return


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    """Median, over the rounds of a measurement, of numerator / denominator."""
    return statistics.median(a / b for a, b in zip(numerators, denominators, strict=True))
