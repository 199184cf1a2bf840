"""Divides a graph into regions. Each node runs on one of two sides (accelerator, CPU), and so does each region. There
are as few regions as possible, and they do not depend on each other in cycles.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence


def assign_phases(accelerated: Sequence[bool], predecessors: Sequence[Collection[int]]) -> tuple[int, ...]:
    """The number of each node's phase. Phases run one after another and alternate between accelerator and CPU.

    `accelerated`: whether each node runs on the accelerator; `predecessors`: indices of the nodes that must run before
    each node. A node is in the earliest phase of its side that comes no earlier than the phases of its predecessors.
    Both sides are tried for the first phase. The side with fewer phases of the accelerator is chosen; if both give
    equally many, the side with fewer phases in all.

    The nodes of a phase form one region; a path that leaves the region leads to later phases only. Two regions of one
    side cannot be joined, since a path from the first to the second leads through the other side.
    """
    candidates = [_phases(accelerated, predecessors, first) for first in (True, False)]

    def cost(phases: tuple[int, ...]) -> tuple[int, int]:
        launches = {phase for phase, on in zip(phases, accelerated, strict=True) if on}
        return len(launches), len(set(phases))

    return min(candidates, key=cost)


def _phases(
    accelerated: Sequence[bool], predecessors: Sequence[Collection[int]], first: bool
) -> tuple[int, ...]:
    """For each node, in the order of `accelerated`, the number of its phase. Phases run by ascending number. Phases 0,
    2, ... run on the accelerator if `first` is true, else on the CPU. `accelerated`: whether each node runs on the
    accelerator. `predecessors`: for each node, the indices of the nodes that must run before it; these have lower
    indices.
    """
    phases: list[int] = []
    for on, before in zip(accelerated, predecessors, strict=True):
        parity = 0 if on == first else 1
        earliest = max((phases[index] for index in before), default=0)
        phases.append(earliest + (earliest - parity) % 2)
    return tuple(phases)
