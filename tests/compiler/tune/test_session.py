"""Tuning runs over several tasks: known measurements are not repeated, and a resumed search continues as if
uninterrupted.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.records.record import Record, Task
from vdla.compiler.templates.space import Axis, CostEstimates, Space
from vdla.compiler.tune.measure.trial import Result
from vdla.compiler.tune.runs.session import Job, Plan, tune
from vdla.compiler.tune.search.strategies import strategy_of


def space(rows: int) -> Space:
    def cost(columns):
        return CostEstimates(limits={}, bound=np.ones(len(columns["rows"])), quantities={}, effective=columns)

    axes = (
        Axis(name="rows", values=tuple(range(1, rows + 1))),
        Axis(name="threads", values=(1, 2, 4)),
    )
    return Space(template="conv2d", axes=axes, cost=cost, floor=1.0, slack=1e9)


def measure(candidates):
    """Yields (index, result) of made-up candidates, in an order unlike the input's, as from several workers; some
    candidates fail.
    """
    for index in sorted(range(len(candidates)), key=lambda k: candidates[k]["rows"] * 7 % 5):
        rows, threads = candidates[index]["rows"], candidates[index]["threads"]
        works = rows * threads % 11 != 3
        yield (
            index,
            Result(cost=100.0 + (rows - 9) ** 2 / threads) if works else Result(cost=np.inf, error="no"),
        )


def jobs(strategy: str, known: list[Record], first: bool) -> list[Job]:
    made = []
    for rows in (4, 20, 30):  # The first is exhausted after twelve trials.
        task = Task(workload={"template": "conv2d", "rows": rows}, target={"kind": "vdla", "digest": "0"})
        made.append(
            Job(
                name=str(rows),
                task=task,
                space=space(rows),
                measure=measure,
                strategy=strategy_of(strategy),
                first={"rows": 3, "threads": 2} if first else None,
                known={record.trial: record for record in known if record.task == task},
            )
        )
    return made


def run(known: list[Record], trials: int, stop: int | None = None, **plan) -> tuple[list[Record], list]:
    """Tunes made-up tasks, interrupted after `stop` records (None: not); returns the written records, and the points
    and costs of each task. `known`: records of earlier trials; `plan`: fields of `Plan` other than defaults, and
    `first`, an argument of `jobs`.
    """
    written: list[Record] = []

    def write(record: Record) -> None:
        written.append(dataclasses.replace(record, elapsed=0.0))
        if len(written) == stop:
            raise KeyboardInterrupt

    strategy, first = plan.pop("strategy", "random"), plan.pop("first", False)
    asked = Plan(trials=trials, strategy=strategy, **{"batch": 5, "seed": 3, "patience": 14} | plan)
    histories = tune(jobs(strategy, known, first), asked, write=write)
    return written, [(h.points.tolist(), h.costs.tolist()) for h in histories]


@settings(max_examples=examples(25), deadline=None)
@given(data=st.data(), strategy=st.sampled_from(["random", "genetic", "grid"]), first=st.booleans())
def test_an_interrupted_search_goes_on_as_if_it_had_not_stopped(data, strategy, first):
    whole, histories = run([], 70, strategy=strategy, first=first)
    before: list[Record] = []
    for stop in data.draw(st.lists(st.integers(1, 40), max_size=3)):
        written: list[Record] = []
        try:
            written, _ = run(before, 70, stop, strategy=strategy, first=first)
        except KeyboardInterrupt:
            written = whole[len(before) : len(before) + stop]
        before += written
        assert before == whole[: len(before)]
    rest, resumed = run(before, 70, strategy=strategy, first=first)
    assert before + rest == whole and resumed == histories


@pytest.mark.parametrize("trials", [1, 7, 23, 41])
def test_more_trials_go_on_from_fewer(trials):
    whole, histories = run([], 60, patience=None)
    before, _ = run([], trials, patience=None)
    rest, resumed = run(before, 60, patience=None)
    assert len(before) == trials and resumed == histories
    assert sorted(before + rest, key=repr) == sorted(whole, key=repr)


def test_trials_of_another_plan_count_each_once():
    """The records are from a run with another batch size, and some lines are lost: nothing is repeated, and the total
    number of trials is the same.
    """
    before, _ = run([], 40, patience=None)
    del before[3:20:4]
    rest, histories = run(before, 60, patience=None, batch=7)
    assert len(before) + len(rest) == 60 == sum(len(points) for points, _ in histories)
    for points, _ in histories:
        assert len({tuple(point) for point in points}) == len(points)
    names = [(record.task.key, record.trial) for record in before + rest]
    assert len(set(names)) == len(names)
    # Fewer trials than are known: all of them still count, and none is added.
    assert run(before, 10)[0] == []


def test_a_search_that_had_stalled_stays_so():
    before, histories = run([], 500, patience=6)
    assert len(before) < 90 and run(before, 500, patience=6) == ([], histories)
