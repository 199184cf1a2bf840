"""Python's search for cycles of objects that nobody holds, paused where objects are made by the million."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pauses Python's collector of cyclic garbage in a block, or in a function that it decorates.

    The block must not make many cycles: they stay until its end. The loop IR is trees; collections took 3% of a
    compilation, a third of it where the collector visited all objects of the process.
    """
    if not gc.isenabled():  # by a caller, who will turn it on again
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
