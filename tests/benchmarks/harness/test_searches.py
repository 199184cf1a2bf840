"""The searches that tuning studies compare: each differs from the full search in the one part that its name states."""

from __future__ import annotations

import json
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
from made_up_space import cost, matrix_space

from vdla.benchmarks.harness.results import RESULTS
from vdla.benchmarks.harness.searches import BATCH, FULL, SEARCHES
from vdla.compiler.templates.columns import ESTIMATE, Columns
from vdla.compiler.templates.space import CostEstimates, Space
from vdla.compiler.tune.search.history import History

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "tuning.py"


def estimated_space() -> Space:
    """The space of a matrix product with an estimate of each point's cost added to its quantities: the estimate equals
    the lower bound of the cost.
    """
    space = matrix_space()

    def cost(columns: Columns) -> CostEstimates:
        found = space.cost(columns)
        return replace(found, quantities={**found.quantities, ESTIMATE: found.bound})

    return replace(space, cost=cost)


def first_batch(name: str, space: Space) -> np.ndarray:
    return SEARCHES[name].make(()).propose(space, History.empty(space), np.random.default_rng(1), BATCH)


def second_batch(name: str, space: Space, history: History) -> np.ndarray:
    return SEARCHES[name].make(()).propose(space, history, np.random.default_rng(2), BATCH)


def test_all_with_the_first_points_begin_alike_and_the_others_at_random() -> None:
    space = estimated_space()
    first = first_batch(FULL, space)
    for name in ("estimate", "random+first", "genetic+first"):
        assert np.array_equal(first_batch(name, space), first), name
    drawn = first_batch("random", space)
    for name in ("genetic", "model-first"):
        assert np.array_equal(first_batch(name, space), drawn), name
    assert not np.array_equal(first, drawn)


def test_the_estimate_alone_learns_nothing_and_the_model_does() -> None:
    space = estimated_space()
    points = first_batch(FULL, space)
    costs = cost(space, points)
    history = History(points=points, costs=costs)
    backwards = History(points=points, costs=costs.max() + costs.min() - costs)
    for name, same in (("estimate", True), ("random+first", True), (FULL, False), ("model-first", False)):
        one, other = (second_batch(name, space, seen) for seen in (history, backwards))
        assert np.array_equal(one, other) == same, name


def test_the_committed_study_has_every_search_and_its_summary() -> None:
    study = json.loads((RESULTS / "tuning_vdla.json").read_text())
    namespace = runpy.run_path(str(BENCHMARK))
    assert {run["strategy"] for run in study["runs"]} == set(SEARCHES)
    figures = json.loads(json.dumps(namespace["summary"](study["runs"])))
    assert study["summary"] == figures
    assert set(figures["fewer_than"]) == set(SEARCHES) - {FULL}
