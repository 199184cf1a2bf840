from dataclasses import replace

import numpy as np

from vdla.compiler.tune.runs.task_scheduler import Task, TaskScheduler
from vdla.compiler.tune.search.history import History


def task(costs: list[float], *, weight: float = 1.0, floor: float = 10.0) -> Task:
    history = History(points=np.zeros((len(costs), 1), np.int64), costs=np.array(costs, dtype=float))
    return Task(history=history, weight=weight, floor=floor)


SCHEDULER = TaskScheduler(warm_up=4, window=4)


def test_every_task_is_warmed_up_first() -> None:
    tasks = [task([50.0] * 4), task([50.0] * 2), task([]), task([50.0] * 3)]
    assert SCHEDULER.next_task(tasks) == 2
    assert SCHEDULER.next_task([tasks[0], replace(tasks[2], finished=True)]) == 0
    assert SCHEDULER.next_task([replace(item, finished=True) for item in tasks]) is None
    assert SCHEDULER.next_task([]) is None


def test_the_next_trials_go_where_most_can_be_saved() -> None:
    stalled, improving = [30.0] * 12, [60.0] * 8 + [50.0, 45.0, 40.0, 30.0]
    assert SCHEDULER.next_task([task(stalled), task(improving)]) == 1
    assert SCHEDULER.next_task([task(stalled), task(stalled, weight=3)]) == 1
    at_the_floor, above = task([10.0] * 12), task([12.0] * 12)
    assert SCHEDULER.next_task([at_the_floor, above]) == 1
    assert SCHEDULER.gain(at_the_floor) == 0
    # Equal prospects: the one with fewer trials.
    assert SCHEDULER.next_task([task([30.0] * 12), task([30.0] * 6)]) == 1


def test_a_task_far_slower_than_its_rival_gets_fewer_trials() -> None:
    best, behind = task([30.0] * 2), replace(task([70.0]), rival=30.0)
    # Neither what is far behind is warmed up, nor does it count that it comes nearer.
    assert behind.is_behind and SCHEDULER.next_task([behind, best]) == 1
    near = replace(task([50.0]), rival=30.0)
    assert not near.is_behind and SCHEDULER.next_task([near, task([30.0] * 4)]) == 0
    falling = task([90.0] * 8 + [80.0, 70.0, 60.0, 50.0])
    assert SCHEDULER.gain(falling) > SCHEDULER.gain(task([30.0] * 12))
    assert 0 < SCHEDULER.gain(replace(falling, rival=30.0)) < SCHEDULER.gain(task([30.0] * 12))
    # Nothing has run: nothing is known.
    assert not replace(task([]), rival=1.0).is_behind


def test_a_task_whose_trials_fail_gets_more_but_not_all() -> None:
    inf = np.inf
    assert SCHEDULER.next_task([task([12.0] * 8), task([inf] * 8)]) == 1
    assert SCHEDULER.next_task([task([12.0] * 8), task([inf] * 1000)]) == 0


def test_trials_spread_by_what_they_bring() -> None:
    """Made-up tasks approach their lower bounds at different speeds: the total cost falls faster than with equal shares
    of trials.
    """

    def cost(k: int, trial: int) -> float:
        return 10 + (5, 100, 30)[k] * float(np.exp(-trial / (4, 40, 15)[k]))

    weights = (1, 2, 5)

    def total(trials: list[int]) -> float:
        return sum(weight * cost(k, n) for k, (weight, n) in enumerate(zip(weights, trials, strict=True)))

    trials = [0, 0, 0]
    while sum(trials) < 150:
        tasks = [
            task([cost(k, n) for n in range(1, trials[k] + 1)], weight=weight)
            for k, weight in enumerate(weights)
        ]
        turn = SCHEDULER.next_task(tasks)
        assert turn is not None
        trials[turn] += 4
    assert total(trials) < 0.9 * total([50, 50, 50])
    assert trials[0] < trials[2] < trials[1]
