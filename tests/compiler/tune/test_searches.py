"""Properties that all search strategies have, on a made-up space whose costs are all known."""

import numpy as np
import pytest
from made_up_space import cost, matrix_space

from vdla.compiler.templates.space import EmptySpaceError, Space
from vdla.compiler.tune.search.baselines import GridSearch, RandomSearch
from vdla.compiler.tune.search.genetic import GeneticSearch
from vdla.compiler.tune.search.history import History, Strategy
from vdla.compiler.tune.search.model_search import ModelSearch, evolutionary_search
from vdla.compiler.tune.search.novelty import flat_points
from vdla.compiler.tune.search.point_features import examine
from vdla.compiler.tune.search.thompson_search import ThompsonSearch

STRATEGIES: dict[str, Strategy] = {
    "random": RandomSearch(),
    "grid": GridSearch(),
    "genetic": GeneticSearch(population=8, elites=2),
    "model": ModelSearch(),
    "evolution": evolutionary_search(),
    "thompson": ThompsonSearch(members=3),
}
SPACE = matrix_space()
SMALL = matrix_space(rows=3, columns=2, depth=2, capacity=200)
WITHIN = 1.02
TRIALS = 1000
"""Number of random trials that is too small to come near the best cost; usually about twenty thousand trials would be
needed.
"""
SEEDS = range(3)


def every_point(space: Space) -> np.ndarray:
    return flat_points(space, np.arange(space.size))


def search(
    strategy: Strategy, space: Space, seed: int, trials: int, *, batch: int = 8, target: float = -np.inf
) -> History:
    history = History.empty(space)
    while len(history) < trials and history.best > target:
        generator = np.random.default_rng([seed, len(history)])
        points = strategy.propose(space, history, generator, min(batch, trials - len(history)))
        if not len(points):
            break
        history = history.with_trials(points, cost(space, points))
    return history


@pytest.fixture(scope="module")
def best() -> float:
    points = every_point(SPACE)
    return float(np.where(SPACE.legal(points), cost(SPACE, points), np.inf).min())


@pytest.mark.parametrize("name", STRATEGIES)
def test_proposals_are_legal_new_and_decided_by_history_and_seed(name: str) -> None:
    history = search(STRATEGIES[name], SPACE, 1, 48)
    assert history.points.shape == (48, len(SPACE.axes)) and history.points.dtype == np.int64
    assert SPACE.legal(history.points).all()
    assert len(np.unique(examine(SPACE, history.points).programs)) == 48
    # Stopped after half of the trials and resumed.
    half = History(points=history.points[:24], costs=history.costs[:24])
    again = STRATEGIES[name].propose(SPACE, half, np.random.default_rng([1, 24]), 8)
    assert np.array_equal(again, history.points[24:32])


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_small_space_is_exhausted_program_by_program(name: str) -> None:
    known = examine(SMALL, every_point(SMALL)).legal_ones()
    history = search(STRATEGIES[name], SMALL, 0, 1000, batch=32)
    measured = examine(SMALL, history.points).programs
    assert 50 < len(measured) == len(np.unique(measured)) < len(known)
    assert set(measured.tolist()) == set(known.programs.tolist())


@pytest.mark.parametrize("name", STRATEGIES)
def test_failed_trials_stop_nothing(name: str) -> None:
    history = History.empty(SPACE)
    for _ in range(3):
        points = STRATEGIES[name].propose(SPACE, history, np.random.default_rng(len(history)), 8)
        assert len(points) == 8
        history = history.with_trials(points, np.full(8, np.inf))
    mixed = np.where(np.arange(24) % 2, np.inf, cost(SPACE, history.points))
    mended = History(points=history.points, costs=mixed)
    assert len(STRATEGIES[name].propose(SPACE, mended, np.random.default_rng(0), 8)) == 8


def test_a_space_without_a_legal_point_says_which_limit_excludes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vdla.compiler.templates.space.MOST_TRIES", 1 << 14)
    space = matrix_space(rows=5, columns=5, depth=5, capacity=1)
    with pytest.raises(EmptySpaceError, match="respects the limit of the buffer"):
        ModelSearch().propose(space, History.empty(space), np.random.default_rng(0), 8)
    assert GridSearch().propose(space, History.empty(space), np.random.default_rng(0), 8).shape == (0, 7)


def test_the_grid_is_the_same_for_all_seeds_and_covers_all_axes() -> None:
    first, second = (search(GridSearch(), SPACE, seed, 96).points for seed in (0, 1))
    assert np.array_equal(first, second)
    for k, axis in enumerate(SPACE.axes):
        assert len(np.unique(first[:, k])) >= min(6, len(axis.values)), axis.name


def test_random_points_are_not_enough(best: float) -> None:
    random = [search(RandomSearch(), SPACE, seed, TRIALS, batch=100, target=WITHIN * best) for seed in SEEDS]
    assert np.median([history.best for history in random]) > WITHIN * best


@pytest.mark.parametrize("name", ["model", "evolution", "thompson"])
def test_a_model_needs_a_quarter_of_the_trials(name: str, best: float) -> None:
    target = WITHIN * best
    learned = [search(STRATEGIES[name], SPACE, seed, TRIALS // 4, target=target) for seed in SEEDS]
    assert np.median([history.best for history in learned]) <= target


def test_at_equal_trials_random_is_behind_the_genetic_algorithm_and_that_behind_the_model() -> None:
    names = ("random", "genetic", "model")
    bests = [np.median([search(STRATEGIES[name], SPACE, seed, 64).best for seed in SEEDS]) for name in names]
    assert bests[0] > bests[1] > bests[2]
