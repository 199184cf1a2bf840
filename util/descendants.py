"""Finds and kills the descendants of a process, so that none outlives an interrupted command.

Compilers start processes, and workers start compilers; killing a process does not end the processes that it started.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterable, Mapping


def descendants(of: Iterable[int] | None = None) -> dict[int, int]:
    """Maps the process number of each descendant to its start time in clock ticks, which distinguishes the process from
    a later one with the same number. `of`: the process numbers of the ancestors, by default this process. Empty if the
    system has no /proc.

    Multiprocessing's resource tracker is left out: it ends by itself after removing semaphores.
    """
    parents: dict[int, tuple[int, int]] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit() and (found := _parent_and_start(int(name))) is not None:
                parents[int(name)] = found
    roots = {os.getpid()} if of is None else set(of)
    family = set(roots)
    size = 0
    while len(family) > size:
        size = len(family)
        family |= {number for number, (parent, _) in parents.items() if parent in family}
    tracker = getattr(sys.modules.get("multiprocessing.resource_tracker"), "_resource_tracker", None)
    return {number: parents[number][1] for number in family - roots - {getattr(tracker, "_pid", None)}}


def end(processes: Mapping[int, int]) -> None:
    """Kills every process in `processes`, a result of `descendants`, that still runs."""
    for number, start in processes.items():
        found = _parent_and_start(number)
        if found is not None and found[1] == start:
            with contextlib.suppress(OSError):
                os.kill(number, signal.SIGKILL)


def _parent_and_start(number: int) -> tuple[int, int] | None:
    try:
        with open(f"/proc/{number}/stat", "rb") as file:
            # The name of the program, in parentheses, may contain any character.
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[1]), int(fields[19])
    except (OSError, IndexError):
        return None
