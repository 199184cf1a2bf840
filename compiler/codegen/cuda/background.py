"""What takes long outside of Python, such as NVRTC's compilations, on threads while the next kernels are scheduled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

MOST_THREADS = 8
"""Enough for NVRTC to keep up with the passes, which are Python; each of its compilations takes some 100 MB."""


@contextmanager
def background() -> Iterator[ThreadPoolExecutor]:
    """Threads for the block; whoever leaves it early waits for what is running, but not for what has not begun."""
    pool = ThreadPoolExecutor(max_workers=max(1, min(MOST_THREADS, os.cpu_count() or 1)))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
