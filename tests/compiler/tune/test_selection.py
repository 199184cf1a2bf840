import numpy as np

from vdla.compiler.tune.search.selection import select_diverse

LINE = np.arange(10.0)[:, None]
NOTHING = np.empty((0, 1))


def test_with_diversity_0_the_best_are_chosen_in_order() -> None:
    scores = np.array([3.0, 1, 4, 1, 5, 9, 2, 6, 5, 3])
    assert select_diverse(LINE, scores, NOTHING, 4, 0.0).tolist() == [5, 7, 4, 8]
    assert sorted(select_diverse(LINE, scores, NOTHING, 20, 0.0).tolist()) == list(range(10))
    assert select_diverse(LINE[:0], scores[:0], NOTHING, 3, 1.0).tolist() == []


def test_of_equally_good_points_those_far_from_all_others_are_chosen() -> None:
    places = np.array([[0.0, 0], [0.1, 0], [0, 0.1], [1, 1], [1, 0.9], [0, 2]])
    scores = np.array([1.0, 0.99, 0.98, 0.97, 0.96, 0.0])
    assert select_diverse(places, scores, np.empty((0, 2)), 2, 1.0).tolist() == [0, 3]
    # What is like a measured point is not worth measuring.
    assert select_diverse(places, scores, places[:1], 1, 1.0).tolist() == [3]


def test_distances_beyond_far_count_alike() -> None:
    places = np.array([[0.0, 0, 0], [1, 1, 0], [9, 9, 9]])
    scores = np.array([2.0, 1.1, 1.0])
    assert select_diverse(places, scores, np.empty((0, 3)), 2, 5.0).tolist() == [0, 1]
