"""Python's search for cycles of objects that nobody holds, paused where objects are made by the million."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Inside of the block, or of a function that it decorates, nothing looks for cycles of objects.

    What is made there must not be many cycles: they stay until the end. The loop IR is trees, and looking through them
    again and again took 3% of a compilation, a third of one where all objects of the process were looked at.
    """
    if not gc.isenabled():  # by a caller, who will turn it on again
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
