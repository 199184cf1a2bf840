"""How the benchmarks take the time of a call."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

REPEAT = 5
"""Calls of which the median counts, unless told."""


def median_seconds(function: Callable[[], object], repeat: int = REPEAT) -> float:
    """Median thread CPU seconds of `repeat` calls of `function`, after one that is not counted."""
    function()
    times = []
    for _ in range(repeat):
        begin = time.thread_time()
        function()
        times.append(time.thread_time() - begin)
    return statistics.median(times)
