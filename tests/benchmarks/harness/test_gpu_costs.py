"""Cost models of the GPU templates, compared with committed times measured on a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from vdla.benchmarks.harness.gpu_costs import (
    Measured,
    TilesError,
    judge,
    mean_regret,
    measured_in,
    read_tiles,
)
from vdla.codesign.workload_models import cuda_workloads
from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.records.record import Record, Task
from vdla.compiler.templates.gpu.table import GPU

TILES = Path(__file__).parents[3] / "benchmarks" / "results" / "gpu-tiles-nvidia-h100-80gb-hbm3.json"
TARGET = cuda_target("sm_90a")


def some_of(tmp_path: Path, template: str, count: int) -> Path:
    document = json.loads(TILES.read_text())
    document["tasks"] = [task for task in document["tasks"] if task["template"] == template][:count]
    path = tmp_path / "tiles.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(("template", "most"), [("conv2d_cuda", 1.12), ("gemm_cuda", 1.1)])
def test_cost_models_prefer_fast_knobs(tmp_path: Path, template: str, most: float) -> None:
    judgements = [judge(each) for each in read_tiles(some_of(tmp_path, template, 8))]
    assert len(judgements) == 8
    assert mean_regret(judgements) <= most
    assert all(0.5 < j.bias < 2 for j in judgements)


@pytest.mark.parametrize("layer", ["C2", "C6", "C9", "C12"])
def test_winograds_method_is_taken_where_it_was_faster(layer: str) -> None:
    assert cuda_workloads(f"conv2d:{layer}", TARGET)[0].template == "winograd_cuda"


def test_regret_compares_the_cost_models_choice_with_the_best() -> None:
    (workload,) = cuda_workloads("conv2d:C3", TARGET)
    space = GPU.space(TARGET, workload)
    points = space.sample(np.random.default_rng(0), 4)
    knobs = space.columns(points)
    order = np.argsort(space.cost(knobs).quantities["estimate"])
    seconds = np.empty(4)
    seconds[order] = [3e-6, 2e-6, 4e-6, 8e-6]
    judgement = judge(Measured(name="C3", target=TARGET, workload=workload, knobs=knobs, seconds=seconds))
    assert judgement.best == 2e-6 and judgement.regret == pytest.approx(1.5)


def test_records_of_the_tuner_are_candidates() -> None:
    (workload,) = cuda_workloads("conv2d:C3", TARGET)
    knobs = GPU.default(TARGET, workload)
    task = Task(workload=workload.to_dict(), target=TARGET.described)
    fields = {"task": task, "trial": 0, "seed": 0, "strategy": "random", "elapsed": 1.0}
    records = [
        Record(**fields, knobs=knobs, cost=2e-6),
        Record(**fields, knobs=knobs, cost=None, error="wrong"),
        Record(**fields, knobs={}, cost=1e-6),
    ]
    (measured,) = measured_in(records, TARGET)
    assert measured.workload == workload
    assert measured.seconds.tolist() == [2e-6]


@pytest.mark.parametrize(
    "text", ["", "[]", '{"arch": "sm_90a", "card": "x", "tasks": [{}]}', '{"arch": "sm_90a"}']
)
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tiles.json"
    path.write_text(text)
    with pytest.raises(TilesError, match="is no file of measured candidates"):
        read_tiles(path)
    with pytest.raises(TilesError, match="No such file"):
        read_tiles(tmp_path / "missing.json")
