"""Divides a graph whose nodes run on one of two sides (accelerator, CPU) into regions: as few as possible, without
cyclic dependencies.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence


def assign_phases(accelerated: Sequence[bool], predecessors: Sequence[Collection[int]]) -> tuple[int, ...]:
    """The phase of each node; phases run one after another and alternate between the two sides (accelerator, CPU).

    `accelerated`: whether each node is on the accelerator's side; `predecessors`: the nodes that come before each node.
    Every node is in the first phase of its side in which all its predecessors are available. So the nodes of a phase
    form a convex region: a path that leaves it leads to later phases only. The first phase is on the side that gives
    the accelerator fewer phases or, if that is equal, fewer phases in all. So every phase but the first depends on the
    phase before it, and the regions are maximal: between two regions of one side a path leads through the other side,
    and joining them would close a cycle.
    """
    candidates = [_phases(accelerated, predecessors, first) for first in (True, False)]

    def cost(phases: tuple[int, ...]) -> tuple[int, int]:
        launches = {phase for phase, on in zip(phases, accelerated, strict=True) if on}
        return len(launches), len(set(phases))

    return min(candidates, key=cost)


def _phases(
    accelerated: Sequence[bool], predecessors: Sequence[Collection[int]], first: bool
) -> tuple[int, ...]:
    """The phase of each node. Phases are numbered in the order in which they run; 0, 2, ... run on the accelerator if
    `first`, else on the CPU.
    """
    phases: list[int] = []
    for on, before in zip(accelerated, predecessors, strict=True):
        parity = 0 if on == first else 1
        earliest = max((phases[index] for index in before), default=0)
        phases.append(earliest + (earliest - parity) % 2)
    return tuple(phases)
