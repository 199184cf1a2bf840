"""Pauses Python's collector of cyclic garbage while millions of objects are created."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pauses Python's collector of cyclic garbage in a block, or in a function that it decorates.

    The block must not create many cycles, which would stay in memory until its end. The loop IR consists of trees.
    Collections took 3% of the time of a compilation, and a third if the collector visited all objects of the process.
    """
    if not gc.isenabled():  # paused by a caller, who will turn it on again
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
