"""Studies that compare tuning searches: figures from their records, and plots."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.codesign.report.cycle_breakdown import LayerAccount, RunAccount, TotalAccount
from vdla.codesign.report.study import Run, Study, StudyError, read_study, spread, study_of
from vdla.codesign.report.study_plots import (
    curves_png,
    gained_png,
    needed_png,
    searches,
    shares_png,
    speeds_png,
    taught,
)
from vdla.util.user_files import FileError


def entry(strategy: str, curve: list[list[float]], *, seed: int = 0, layer: str = "C2", **more: Any) -> dict:
    return {"layer": layer, "strategy": strategy, "seed": seed, "trials": 16, "curve": curve, **more}


DOCUMENT = {
    "config": "vta",
    "near": 1.02,
    "summary": {},
    "runs": [
        entry("evolution", [[1, 200.0], [3, 101.0]]),
        entry("evolution", [[2, 150.0], [9, 103.0]], seed=1),
        entry("random", [[1, 200.0], [16, 102.5]]),
        entry("genetic", [[1, 200.0], [4, 130.0]]),
        entry("evolution", [[1, 100.0]], transfer=True),
        entry("evolution", [], layer="C3"),
    ],
}
STUDY = study_of(DOCUMENT)


def size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG")
    return struct.unpack(">II", png[16:24])


def test_trials_that_a_search_needs_are_to_near_the_best_of_all_runs() -> None:
    assert STUDY.layers == ("C2", "C3") and STUDY.config == "vta"
    assert STUDY.best_known("C2") == 100.0 and math.isinf(STUDY.best_known("C3"))
    # 101 is within 2%, 103 and 102.5 are not; a run that never got there counts with all its trials.
    assert STUDY.needed("C2", "evolution") == [3, None]
    assert STUDY.counted("C2", "evolution") == [3, 16]
    assert STUDY.needed("C2", "random") == [None]
    assert STUDY.needed("C2", "evolution", transfer=True) == [1]
    assert STUDY.needed("C2", "grid") == STUDY.counted("C2", "grid") == []


def test_spread_is_least_median_and_largest_and_infinite_before_the_first_success() -> None:
    found = spread(STUDY.of("C2", "evolution"))
    assert found.low[[0, 1, 2, 8]].tolist() == [200, 150, 101, 101]
    assert found.high[[0, 1, 2, 8]].tolist() == [math.inf, 200, 150, 103]
    assert found.median[[1, 2, 15]].tolist() == [175, 125.5, 102] and len(found.median) == 16


@settings(max_examples=25, deadline=None)
@given(st.lists(st.one_of(st.floats(1, 1e9), st.just(math.inf)), min_size=1, max_size=40))
def test_a_curve_of_improvements_says_what_all_costs_say(costs: list[float]) -> None:
    best = np.minimum.accumulate(costs)
    steps = [k for k in range(len(costs)) if best[k] < (best[k - 1] if k else math.inf)]
    run = Run(
        layer="C2",
        strategy="random",
        transfer=False,
        seed=0,
        trials=len(costs),
        curve=tuple((k + 1, float(best[k])) for k in steps),
    )
    assert run.best_so_far(1000).tolist() == best.tolist() and run.best == best[-1]
    assert run.best_so_far(3).tolist() == best[:3].tolist()
    if math.isfinite(run.best):
        assert run.trials_until(run.best) == 1 + costs.index(run.best)
    assert run.trials_until(0.5) is None


@pytest.mark.parametrize(
    "runs",
    [
        [{"layer": "C2"}],
        [entry("random", [[2, 5.0], [2, 4.0]])],
        [entry("random", [[1, 5.0], [2, 6.0]])],
        [entry("random", [[17, 5.0]])],
        [entry("random", [[1, 5.0, 6.0]])],
        [entry("random", [[1, math.nan]])],
        7,
    ],
)
def test_what_is_no_study_is_refused_by_name(tmp_path: Path, runs: object) -> None:
    path = tmp_path / "study.json"
    path.write_text(json.dumps({"runs": runs}))
    with pytest.raises(StudyError, match=r"study\.json is not a study .* write it anew: python x\.py"):
        read_study(path, "python x.py")


def test_a_study_that_is_not_there_says_what_writes_it(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"study\.json does not exist yet; write it with: python x\.py"):
        read_study(tmp_path / "study.json", "python x.py")
    with pytest.raises(FileError, match="cannot read the study"):
        read_study(tmp_path, "python x.py")
    (tmp_path / "study.json").write_text(json.dumps(DOCUMENT))
    assert read_study(tmp_path / "study.json", "python x.py") == STUDY


def test_searches_have_the_models_first_and_one_model_needs_no_other_name() -> None:
    assert [(item.label, item.strategy) for item in searches(STUDY)] == [
        ("model", "evolution"),
        ("genetic", "genetic"),
        ("random", "random"),
    ]
    assert taught(STUDY).runs(STUDY, "C2") == (STUDY.runs[4],)
    two = study_of({"runs": [entry("model", [[1, 2.0]]), entry("evolution", [[1, 2.0]])]})
    assert [item.label for item in searches(two)] == ["model (evolution)", "model (model)"]
    with pytest.raises(StudyError, match="no runs with transfer"):
        taught(two)


def test_curves_are_drawn_for_any_number_of_layers() -> None:
    every = (*searches(STUDY), taught(STUDY))
    # C3 has no successful trial, and no run of most searches.
    both = size(curves_png(STUDY, every, floors={"C2": 99.0, "C3": 1.0}))
    one = STUDY.only(["C2"])
    assert one.runs == STUDY.runs[:5] and one.config == "vta"
    assert size(curves_png(one, every, trials=8)) == both
    assert curves_png(one, every) == curves_png(one, every) != curves_png(one, every[:1])
    assert size(needed_png(STUDY, every))[1] > size(needed_png(one, every))[1]


def test_speeds_are_drawn_beside_the_peers() -> None:
    study = Study(runs=STUDY.runs, peer_seconds={"C2": 90.0, "C3": 1.0}, flops={"C2": 1e12, "C3": 1e12})
    slow = Study(runs=STUDY.runs, peer_seconds={"C2": 45.0, "C3": 1.0}, flops=study.flops)
    assert speeds_png(study, searches(study)) != speeds_png(slow, searches(slow))


def test_shares_of_points_are_drawn_with_failures_and_marks() -> None:
    costs = {"C2": np.array([3.0, 1.0, math.inf, 2.0])}
    marked = shares_png(costs, {"C2": 1.0}, {"C2": {"floor": 0.9, "default": 1.5}})
    assert marked != shares_png(costs, {"C2": 1.0}, {"C2": {"floor": 0.9}})


def account(cycles: tuple[int, ...]) -> RunAccount:
    layers = tuple(
        LayerAccount(
            name=f"layer{number}",
            op="Convolution",
            members=(),
            macs=256,
            started=0,
            begin=0,
            end=taken,
            roofline_cycles=90.0,
            bound="compute",
            gemm_cycles=taken,
            stalls={},
            dram={},
            compulsory_bytes=0,
            excess={},
        )
        for number, taken in enumerate(cycles)
    )
    total = TotalAccount(
        macs=1,
        cycles=sum(cycles),
        roofline_cycles=90.0 * len(cycles),
        instructions=1,
        dram_read_bytes=0,
        dram_write_bytes=0,
        clock_hertz=1e8,
        seconds_at_clock=1.0,
        compile_seconds=0.0,
        simulate_seconds=0.0,
    )
    return RunAccount(model="x", config="vta", total=total, layers=layers, check=None)


def test_gains_and_losses_of_layers_are_drawn_and_no_change_too() -> None:
    before, after = account((100, 120, 80)), account((100, 95, 82))
    assert gained_png(before, after) != gained_png(before, before) == gained_png(before, before)
    with pytest.raises(ValueError, match="shorter"):
        gained_png(before, account((100, 120)))
