import numpy as np

from vdla.compiler.tune.runs.session import has_stalled
from vdla.compiler.tune.search.history import History


def history(*costs: float) -> History:
    return History(points=np.zeros((len(costs), 1), np.int64), costs=np.array(costs, dtype=np.float64))


def test_a_search_stalls_when_its_last_trials_brought_nothing() -> None:
    assert has_stalled(history(9, 5, 6, 7, 5), patience=3)
    assert not has_stalled(history(9, 5, 6, 7, 4), patience=3)
    assert not has_stalled(history(9, 6, 5, 7, 6), patience=3)
    assert not has_stalled(history(5, 6, 7), patience=3)


def test_an_improvement_below_the_threshold_does_not_count() -> None:
    assert has_stalled(history(1000, 1001, 999.5), patience=2, improvement=0.001)
    assert not has_stalled(history(1000, 1001, 998.5), patience=2, improvement=0.001)


def test_failures_are_no_reason_to_stop() -> None:
    inf = np.inf
    assert not has_stalled(history(inf, inf, inf, inf), patience=2)
    assert not has_stalled(history(inf, inf, inf, 7), patience=2)
    assert has_stalled(history(inf, 7, inf, inf), patience=2)
