"""Partitioning of random graphs into regions: no cyclic dependences, and no two regions of one side could be merged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdla.compiler.graph.phases import assign_phases


@st.composite
def graphs(draw) -> tuple[list[bool], list[set[int]]]:
    sides = draw(st.lists(st.booleans(), max_size=14))
    before = [
        draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set()
        for index in range(len(sides))
    ]
    return sides, before


def reaches(edges: set[tuple[int, int]], start: int, end: int, *, through_another: bool) -> bool:
    """Whether a path of `edges` leads from region `start` to region `end`. With `through_another`, only paths that
    contain a third region count.
    """
    seen = {start}
    waiting = [start]
    while waiting:
        here = waiting.pop()
        for a, b in edges:
            if a != here or b in seen or (b == end and through_another and here == start):
                continue
            if b == end:
                return True
            seen.add(b)
            waiting.append(b)
    return False


@given(graphs())
def test_regions_are_in_order_convex_and_maximal(graph: tuple[list[bool], list[set[int]]]) -> None:
    sides, before = graph
    phases = assign_phases(sides, before)
    edges = {
        (phases[a], phases[b]) for b, origins in enumerate(before) for a in origins if phases[a] != phases[b]
    }
    side = dict(zip(phases, sides, strict=True))
    assert all(side[phase] == on for phase, on in zip(phases, sides, strict=True))
    # Each edge leads onwards: regions run one after another, and a path that leaves one never returns.
    assert all(a < b for a, b in edges)
    for a in side:
        for b in side:
            if a < b and side[a] == side[b]:
                assert reaches(edges, a, b, through_another=True), "two regions could be one"


@pytest.mark.parametrize(
    ("sides", "before", "launches"),
    [
        ("AAA", [[], [0], [1]], 1),
        ("ACA", [[], [0], [1]], 2),
        # A sum of what the accelerator made before and after the CPU's node cannot join both.
        ("ACA", [[], [0], [0, 1]], 2),
        # One branch begins on the CPU, the other one ends there: one launch serves both.
        ("ACCA", [[], [0], [], [2]], 1),
        ("CC", [[], [0]], 0),
        ("", [], 0),
    ],
)
def test_the_number_of_launches_is_least(sides: str, before: list[list[int]], launches: int) -> None:
    phases = assign_phases([side == "A" for side in sides], before)
    assert len({phase for phase, side in zip(phases, sides, strict=True) if side == "A"}) == launches
