"""Finds idle loops: all their iterations except the first do nothing, so they may be reordered with other loops."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from ..ir.bounds import Interval, interval, loop_ranges
from ..ir.stmt import For, Node


def _chain(node: Node) -> list[For]:
    """The loops of the perfect nest with root `node`, outermost first; empty if `node` is not a loop."""
    found: list[For] = []
    while isinstance(node, For):
        found.append(node)
        node = node.body
    return found


def loops_with_work(names: AbstractSet[str], around: Sequence[For], body: Node, inside: int) -> list[str]:
    """The sorted names of the loops among `names` that are not provably idle. An idle loop does nothing in all
    iterations but the first. `around`: the loops around `body`, outermost first; loops before position `inside` never
    count as idle.
    """
    return sorted(names - _idle_loops((*around, *_chain(body)), inside))


def _idle_loops(nest: Sequence[For], inside: int) -> set[str]:
    """The names of the idle loops of a perfect nest, among the loops from position `inside` on. A loop is idle if all
    its iterations except the first do nothing, because some inner loop has no iterations in them.

    For example, j is idle here (the primitive `guard` makes such loops):

            for j in range(32):
                for j.in in range(min(1, 1 - j)):
    """
    found: set[str] = set()
    for position, loop in enumerate(nest[inside:], inside):
        last = interval(loop.extent, loop_ranges(nest[:position])).high
        for place in range(position + 1, len(nest)):
            ranges = loop_ranges(nest[:place]) | {loop.name: Interval(1, None if last is None else last - 1)}
            most = interval(nest[place].extent, ranges).high
            if most is not None and most <= 0:
                found.add(loop.name)
                break
    return found
