"""Background threads for long calls outside of Python, such as NVRTC compilations, while kernels are scheduled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

MOST_THREADS = 8
"""Largest number of threads. Eight threads compile sources as fast as the Python passes make them. Each compilation
takes about 100 MB of memory.
"""


@contextmanager
def background() -> Iterator[ThreadPoolExecutor]:
    """A pool of threads for a `with` block; its end waits for running work and cancels queued work."""
    pool = ThreadPoolExecutor(max_workers=max(1, min(MOST_THREADS, os.cpu_count() or 1)))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
