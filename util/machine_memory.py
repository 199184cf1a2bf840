"""Finds the size of main memory, so that work that needs more is refused before it allocates any."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def memory_problem(size: int) -> str | None:
    """An error message without subject ("needs 9 bytes ...") if the machine is known to have less memory than `size`
    bytes, else None."""
    there = machine_memory()
    if there is None or size <= there:
        return None
    return f"needs {size:,} bytes of memory to run, more than the {there:,} of this machine"


def machine_memory(group: Path = Path("/sys/fs/cgroup/memory.max")) -> int | None:
    """Bytes of main memory that this process may use: the machine's memory or the limit of the process's control group,
    which is in the file `group`, whichever is less; None if neither is known."""
    found: list[int] = []
    with contextlib.suppress(ValueError, OSError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with contextlib.suppress(ValueError, OSError):
        found.append(int(group.read_text()))
    return min((size for size in found if size > 0), default=None)
