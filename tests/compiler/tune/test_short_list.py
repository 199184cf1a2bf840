"""The second stage of a search. The search first makes a short list of candidates by cheap features. These candidates
are lowered to programs, ranked again by features of the programs, and only the best are measured.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import numpy as np
import pytest
from campaign import fresh_seed
from made_up_space import cost, matrix_space

from vdla.codesign.workload_names import accelerator_workload, cpu_workload
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.ir.stmt import Program
from vdla.compiler.records.record import Record, Task
from vdla.compiler.schedule import LegalityError
from vdla.compiler.templates.cpu.table import CPU
from vdla.compiler.templates.space import Space
from vdla.compiler.tune.measure.measure_vdla import AcceleratorTask
from vdla.compiler.tune.program_features.machine import MACHINE_FEATURES
from vdla.compiler.tune.program_features.program import FEATURES, Read, program_features
from vdla.compiler.tune.program_features.reading import kept, read_points, read_scheduled, read_vdla
from vdla.compiler.tune.search.cost_model import CostModel, MissingTunerError
from vdla.compiler.tune.search.history import History, Strategy
from vdla.compiler.tune.search.model_search import ModelSearch
from vdla.compiler.tune.search.point_features import examine
from vdla.compiler.tune.search.short_list import MOST_SAMPLES, ShortList, joined
from vdla.compiler.tune.search.strategies import LEARNING, strategy_of
from vdla.compiler.tune.search.thompson_search import ThompsonSearch
from vdla.compiler.tune.search.transfer import LOWERED, samples_from
from vdla.isa.config import load_config

SPACE = matrix_space()
QUICK = CostModel(pairs=16, rounds=20)


def lucky(points: np.ndarray) -> np.ndarray:
    """Whether each of `points` [n, axes] belongs to the cheap half, chosen pseudo-randomly so that a cost model cannot
    predict it.
    """
    mixed = points.astype(np.uint64) @ np.arange(3, 3 + 2 * points.shape[1], 2, dtype=np.uint64)
    return (mixed * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(63) == 1


def costs_of(points: np.ndarray) -> np.ndarray:
    return cost(SPACE, points) * np.where(lucky(points), 1.0, 1.5)


def reader(log: list[Mapping[str, int]]) -> Read:
    """A function that returns made-up program features of a point: whether it is `lucky`, and a constant. It adds each
    point that it is called with to `log`.
    """

    def read(values: Mapping[str, int]) -> np.ndarray:
        log.append(values)
        return np.array([float(lucky(SPACE.point(values)[None])[0]), 1.0])

    return kept(read)


def proposed(strategy: Strategy, seed: int, batches: int) -> History:
    history = History.empty(SPACE)
    for _ in range(batches):
        points = strategy.propose(SPACE, history, np.random.default_rng([seed, len(history)]), 8)
        history = history.with_trials(points, costs_of(points))
    return history


def searches(short_list: ShortList) -> dict[str, Strategy]:
    """Both kinds of model-based search, with smaller populations than by default."""
    return {
        "model": ModelSearch(starts=96, short_list=short_list),
        "thompson": ThompsonSearch(starts=96, members=3, short_list=short_list),
    }


@pytest.mark.parametrize("name", ["model", "thompson"])
def test_what_programs_show_decides_and_only_short_lists_are_read(name: str) -> None:
    log: list[Mapping[str, int]] = []
    short_list = ShortList(read=reader(log), model=QUICK, times=3)
    history = proposed(searches(short_list)[name], 3, 6)
    # Three times eight to choose from, of which half are lucky; a few are drawn at random all the same.
    assert lucky(history.points[24:]).sum() >= 17
    # Nothing twice; all that was measured, and of each batch after the first a list.
    assert len(log) == len({tuple(values.items()) for values in log}) <= 8 + 5 * (24 + 8)


@pytest.mark.parametrize("name", ["model", "thompson"])
def test_a_search_goes_on_as_if_it_had_not_stopped(name: str) -> None:
    first, second = (searches(ShortList(read=reader([]), model=QUICK))[name] for _ in range(2))
    seed = fresh_seed(5)
    history = proposed(first, seed, 4)
    half = History(points=history.points[:24], costs=history.costs[:24])
    again = second.propose(SPACE, half, np.random.default_rng([seed, 24]), 8)
    assert np.array_equal(again, history.points[24:]), seed


def test_training_samples_are_the_best_trials_and_failures_among_them_no_obstacle() -> None:
    measured = examine(SPACE, SPACE.sample(np.random.default_rng(0), MOST_SAMPLES + 40))
    costs = costs_of(measured.points)
    costs[::9] = np.inf
    short_list = ShortList(read=lambda values: np.full(2, np.nan), model=QUICK)
    (samples,) = short_list.training_samples(SPACE, measured, costs)
    assert samples.features.shape == (MOST_SAMPLES, measured.features.shape[1] + 2)
    assert sorted(samples.costs) == sorted(costs)[:MOST_SAMPLES]
    scores = QUICK.fit([samples], seed=0).scores(joined(SPACE, measured.take(slice(9)), short_list.read))
    assert np.isfinite(scores).all()
    assert short_list.training_samples(SPACE, measured, np.full(len(measured), np.inf)) == []
    # No two ran: what is listed is measured in the order of the estimates.
    failed = History(points=measured.points[:8], costs=np.full(8, np.inf))
    for strategy in searches(short_list).values():
        assert len(strategy.propose(SPACE, failed, np.random.default_rng(0), 8)) == 8


def test_strategies_take_a_list_by_their_names() -> None:
    short_list = ShortList(read=reader([]))
    for name in LEARNING:
        assert strategy_of(name, short_list=short_list).short_list is short_list
        assert strategy_of(name).short_list is None


def test_a_missing_extra_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    points = SPACE.sample(np.random.default_rng(0), 8)
    strategy = strategy_of("evolution", short_list=ShortList(read=reader([])))
    with pytest.raises(MissingTunerError, match=r'pip install "vdla\[tune\]"') as caught:
        strategy.propose(SPACE, History(points=points, costs=costs_of(points)), np.random.default_rng(0), 8)
    assert "\n" not in str(caught.value)


def some_values(own: Space, count: int) -> list[dict[str, int]]:
    rng = np.random.default_rng(fresh_seed(6))
    return [own.values(point) for point in own.sample(rng, count)]


def test_readers_read_what_is_compiled() -> None:
    target = host_target()
    workload = cpu_workload("dense:8,16,32", target)
    read = read_points(CPU, target, workload)
    for values in some_values(CPU.space(target, workload), 3):
        compiled = CPU.schedule(target, workload, values, workload.program()).program
        assert np.array_equal(read(values), program_features(compiled))
    config = load_config("tiny")
    task = AcceleratorTask.of(config, accelerator_workload("conv2d:8,16,32,3,1", config))
    found = [read_vdla(task)(values) for values in some_values(task.space, 3)]
    assert all(row.shape == (len(FEATURES) + len(MACHINE_FEATURES),) for row in found)
    assert np.isfinite(found).all()
    # Copies, and the tokens of instructions, are there.
    assert all(row[FEATURES.index("copies.issued")] > 0 for row in found)
    assert all(row[len(FEATURES) + MACHINE_FEATURES.index("machine.instructions.GEMM")] > 0 for row in found)


def test_what_cannot_be_lowered_has_no_features() -> None:
    program = cpu_workload("dense:2,8,16", host_target()).program()

    def refuse(values: Mapping[str, int]) -> Program:
        raise LegalityError("no such loop", program, "")

    row = read_scheduled(refuse)({"a": 1})
    assert row.shape == (len(FEATURES),) and np.isnan(row).all()


def test_programs_of_records_teach_too() -> None:
    target = host_target()
    own, other = (cpu_workload(text, target) for text in ("dense:2,8,16", "dense:4,8,32"))
    task = Task(workload=other.to_dict(), target=target.described)
    points = CPU.space(target, other).sample(np.random.default_rng(0), 2 * LOWERED)
    records = [
        Record(
            task=task,
            knobs=CPU.space(target, other).values(point),
            cost=float(k + 1),
            trial=k,
            seed=0,
            strategy="random",
            elapsed=0.0,
        )
        for k, point in enumerate(points)
    ]
    asked: list[Mapping[str, int]] = []

    def read_of(workload):
        assert workload == other
        return lambda values: (asked.append(values), np.array([7.0, 8.0]))[1]

    (plain,) = samples_from(records, CPU, target, own)
    (group,) = samples_from(records, CPU, target, own, read_of)
    assert len(asked) == len(group.costs) == LOWERED and group.costs.tolist() == plain.costs[::2].tolist()
    assert np.array_equal(group.features[:, :-2], plain.features[::2])
    assert (group.features[:, -2:] == [7.0, 8.0]).all()
