import subprocess
import sys

import numpy as np
import pytest
from made_up_space import cost, matrix_space

from vdla.compiler.tune.search.cost_model import CostModel, MissingTunerError, Samples, merits
from vdla.compiler.tune.search.point_features import point_features
from vdla.util.errors import UserError


def samples(seed: int, count: int, **extents: int) -> Samples:
    space = matrix_space(**extents)
    points = space.sample(np.random.default_rng(seed), count)
    return Samples(features=point_features(space, points)[1], costs=cost(space, points))


def agreement(scores: np.ndarray, costs: np.ndarray) -> float:
    """The fraction of pairs of points that scores and costs rank in the same order; a high score means a low cost."""
    better = (costs[:, None] < costs[None]) & np.isfinite(costs)[:, None]
    return float((scores[:, None] > scores[None])[better].mean())


def test_scores_order_points_that_were_not_measured() -> None:
    unseen = samples(1, 400)
    few, many = (CostModel().fit([samples(0, count)], seed=0).scores(unseen.features) for count in (16, 200))
    assert agreement(many, unseen.costs) > 0.85
    assert agreement(many, unseen.costs) > agreement(few, unseen.costs) > 0.7


def test_scores_have_no_chance_in_them() -> None:
    measured, unseen = samples(0, 60), samples(1, 50).features
    first, again = (CostModel().fit([measured], seed=5).scores(unseen) for _ in range(2))
    assert np.array_equal(first, again)
    assert CostModel().fit([measured], seed=5).scores(unseen[:0]).shape == (0,)


def test_failed_trials_are_the_worst() -> None:
    measured = samples(0, 200)
    # What has two threads fails.
    threads = point_features(matrix_space(), np.empty((0, 7), np.int64))[0].index("threads")
    failed = measured.features[:, threads] > 0
    costs = np.where(failed, np.inf, measured.costs)
    unseen = samples(1, 200)
    told, untold = (
        CostModel().fit([Samples(features=measured.features, costs=c)], seed=0).scores(unseen.features)
        for c in (costs, measured.costs)
    )
    fails = unseen.features[:, threads] > 0
    assert fails[np.argsort(-told)[:30]].mean() < 0.1
    assert fails[np.argsort(-untold)[:30]].mean() > 0.5
    assert merits(np.array([4.0, np.inf, 1.0, 2.0])).tolist() == [-2.0, -3.0, 0.0, -1.0]
    assert merits(np.array([np.inf, np.inf])).tolist() == [0.0, 0.0]


def test_other_workloads_teach_what_few_trials_do_not() -> None:
    others = [
        samples(k, 150, rows=rows, columns=columns) for k, (rows, columns) in enumerate([(60, 90), (128, 64)])
    ]
    own, unseen = samples(7, 8), samples(1, 400)
    alone = CostModel().fit([own], seed=0).scores(unseen.features)
    helped = CostModel().fit([*others, own], seed=0).scores(unseen.features)
    strangers = CostModel().fit(others, seed=0).scores(unseen.features)
    assert agreement(helped, unseen.costs) > agreement(alone, unseen.costs) + 0.03
    assert agreement(strangers, unseen.costs) > agreement(alone, unseen.costs)


def test_a_missing_extra_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingTunerError, match=r'pip install "vdla\[tune\]"') as caught:
        CostModel().fit([samples(0, 4)], seed=0)
    assert isinstance(caught.value, UserError) and "\n" not in str(caught.value)


def test_importing_the_searches_imports_no_xgboost() -> None:
    code = "import sys, vdla.compiler.tune.search.thompson_search; sys.exit('xgboost' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
