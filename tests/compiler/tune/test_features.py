import numpy as np
from made_up_space import matrix_space

from vdla.compiler.tune.search.point_features import GUESS, choose, examine, join, point_features


def test_features_are_logarithms_and_comparable_across_workloads() -> None:
    space = matrix_space()
    points = space.draw(np.random.default_rng(0), 500)
    names, features = point_features(space, points)
    estimates = space.cost(space.columns(points))
    assert features.shape == (500, len(names)) and len(set(names)) == len(names)
    assert np.isfinite(features).all()
    for column in (GUESS, names.index("bound/floor")):
        assert np.allclose(2 ** features[:, column] * space.floor, estimates.bound)
    for name, quantity in estimates.quantities.items():
        assert np.allclose(2 ** features[:, names.index(name)], quantity)
        assert np.allclose(2 ** features[:, names.index(f"{name}/floor")] * space.floor, quantity)
    # Axes with values from 1 on are their logarithms, numbers of choices from 0 on those of the next.
    rows, order = (estimates.effective[name] for name in ("rows", "order"))
    assert np.allclose(2 ** features[:, names.index("rows")], rows)
    assert np.allclose(2 ** features[:, names.index("order")], order + 1)
    assert point_features(matrix_space(rows=30, depth=7), points[:0])[0] == names


def test_programs_are_equal_where_effective_values_are() -> None:
    space = matrix_space(rows=4, columns=6, depth=3)
    points = space.draw(np.random.default_rng(1), 2000)
    effective = space.cost(space.columns(points)).effective
    rows = np.stack([effective[axis.name] for axis in space.axes], axis=1)
    _, expected = np.unique(rows, axis=0, return_inverse=True)
    _, found = np.unique(examine(space, points).programs, return_inverse=True)
    assert len(np.unique(expected)) < len(np.unique(points, axis=0))
    # The same partition: one number of one for each of the other.
    assert len(np.unique(np.stack([expected.ravel(), found.ravel()]), axis=1).T) == len(np.unique(expected))
    assert len(np.unique(found)) == len(np.unique(expected))


def test_candidates_are_taken_joined_and_chosen_row_by_row() -> None:
    space = matrix_space()
    first, second = (examine(space, space.draw(np.random.default_rng(seed), 6)) for seed in (0, 1))
    mask = np.array([True, False, True, False, False, True])
    both = choose(mask, first, second)
    expected = examine(space, np.where(mask[:, None], first.points, second.points))
    for name in ("points", "legal", "programs", "features"):
        assert np.array_equal(getattr(both, name), getattr(expected, name))
    joined = join([first, second])
    assert len(joined) == 12
    assert np.array_equal(joined.take(slice(6, 12)).programs, second.programs)
    assert joined.legal_ones().legal.all() and len(joined.legal_ones()) == joined.legal.sum()
