import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from vdla.codesign.report.split import split_categories
from vdla.codesign.report.traffic import KINDS, Traffic, explain_excess


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 2)), min_size=1, max_size=30),
    st.lists(st.integers(0, 300), max_size=6),
)
def test_split_is_a_count_of_cycles(pieces: list[tuple[int, int]], inner: list[int]) -> None:
    each = np.concatenate([np.full(length, category) for length, category in pieces])
    stop = np.cumsum([length for length, _ in pieces])
    start = stop - [length for length, _ in pieces]
    category = np.array([category for _, category in pieces])
    boundaries = np.array([0, *sorted(min(cut, len(each)) for cut in inner), len(each)])
    split = split_categories(start, stop, category, 3, boundaries)
    for row, (low, high) in enumerate(itertools.pairwise(boundaries)):
        assert split[row].tolist() == [int((each[low:high] == c).sum()) for c in range(3)]
    assert split.sum() == len(each)


@given(st.data())
def test_explanations_sum_up(data: st.DataObject) -> None:
    moved = {kind: data.draw(st.integers(0, 1000)) for kind in KINDS}
    distinct = {kind: data.draw(st.integers(0, moved[kind])) for kind in KINDS}
    compulsory = {kind: data.draw(st.integers(0, 1000)) for kind in ("inp", "wgt", "par", "operand", "out")}
    excess = explain_excess(Traffic(moved=moved, distinct=distinct), compulsory)
    assert sum(compulsory.values()) + sum(excess.values()) == sum(moved.values())
    assert all(excess.values())


def test_reasons_have_names() -> None:
    moved = dict.fromkeys(KINDS, 0) | {
        "inp": 120,
        "wgt": 64,
        "out": 32,
        "uop": 8,
        "instruction": 16,
        "par": 128,
    }
    distinct = dict(moved) | {"inp": 90}
    compulsory = {"inp": 100, "wgt": 48, "out": 32, "par": 64}
    assert explain_excess(Traffic(moved=moved, distinct=distinct), compulsory) == {
        "instructions": 16,
        "micro-ops": 8,
        "wgt padding": 16,
        "inp read again": 30,
        "inp skipped": -10,
        "scales and padded channels": 64,
    }
