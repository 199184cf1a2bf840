"""Joint search of hardware and schedules: tuned machines are never slower, and tuning is recorded, resumed and
reproduced.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import vdla
from vdla.codesign import models
from vdla.codesign.explore.evaluate import Figures, NetworkFigures, from_json, to_json
from vdla.codesign.explore.study import Exploration
from vdla.util.errors import UserError

SMALL: dict[str, Any] = {
    "base": "tiny",
    "fields": {"inp_buffer_bytes": [128, 512, 2048], "acc_buffer_bytes": [512, 2048], "read_latency": 100},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "mlp.onnx"
    path.write_bytes(models.build("mlp").SerializeToString())
    return path


@pytest.fixture(scope="module")
def folder(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an exhaustive study whose front was tuned."""
    found = tmp_path_factory.mktemp("study")
    explored = vdla.explore(SMALL, model, strategy="exhaustive", folder=found)
    explored.save(found, layers=2)
    return found


def runs(found: vdla.Explored) -> list[NetworkFigures]:
    return [design.figures.networks["mlp"] for design in found.exploration.designs if design.objectives]


def test_trials_never_make_a_machine_slower_and_some_faster(model: Path):
    own = vdla.explore(SMALL, model, strategy="exhaustive", tune_front=0)
    tried = vdla.explore(SMALL, model, strategy="exhaustive", trials=4)
    pairs = list(zip(runs(own), runs(tried), strict=True))
    assert len(pairs) == 6 and all(after.default_cycles == before.cycles for before, after in pairs)
    assert all(after.cycles <= before.cycles for before, after in pairs)
    assert any(after.cycles < before.cycles for before, after in pairs)
    assert {row["default cycles (cycles)"] for row in tried.rows()} == {
        row["cycles (cycles)"] for row in own.rows()
    }
    assert "default cycles (cycles)" not in own.rows()[0]


def test_the_front_is_tuned_and_its_files_make_it_again(folder: Path, model: Path):
    found = vdla.codesign.api.exploration.load_study(folder)
    tuned = [design for design in found.front if design.figures.networks["mlp"].schedules]
    assert tuned
    document = json.loads((folder / "exploration.json").read_text())
    for design in tuned:
        records = folder / "front" / str(design.number) / "mlp.schedules.jsonl"
        machine = vdla.config(folder / "front" / f"{design.number}.toml")
        again = vdla.simulate(vdla.compile(model, config=machine, records=records))
        run = design.figures.networks["mlp"]
        assert again.cycles == run.cycles < vdla.simulate(vdla.compile(model, config=machine)).cycles
        (shown,) = [item for item in document["front"] if item["design"] == design.number]
        assert shown["networks"]["mlp"]["cycles"] == run.cycles
        assert shown["networks"]["mlp"]["default_cycles"] == run.default_cycles == run.before
    others = {design.number for design in found.exploration.designs} - {design.number for design in tuned}
    assert not any((folder / "front" / str(number)).exists() for number in others)


def test_a_study_goes_on_where_its_front_was_being_tuned(folder: Path, model: Path, tmp_path: Path):
    whole = (folder / "records.jsonl").read_bytes()
    study = json.loads((folder / "study.json").read_text())["study"]
    lines = whole.splitlines(keepends=True)
    of_front = [line for line in lines if json.loads(line)["study"] != study]
    assert len(of_front) > 1 and lines[-len(of_front) :] == of_front
    (tmp_path / "records.jsonl").write_bytes(b"".join(lines[:-1]) + lines[-1][:40])  # as kill -9 leaves it
    seen: list[tuple[int, int]] = []
    again = vdla.explore(
        SMALL,
        model,
        strategy="exhaustive",
        folder=tmp_path,
        tuning=lambda done, count: seen.append((done, count)),
    )
    assert again.exploration.evaluated == 0 and seen[-1] == (len(of_front), len(of_front))
    assert (tmp_path / "records.jsonl").read_bytes() == whole


def test_an_interrupted_tuning_keeps_what_there_is(model: Path):
    def stop(done: int, count: int) -> None:
        raise KeyboardInterrupt

    found = vdla.explore(SMALL, model, strategy="exhaustive", tuning=stop).exploration
    assert found.interrupted and len(found.designs) == 6
    assert sum(bool(design.figures.networks["mlp"].schedules) for design in found.designs) <= 1


def test_processes_find_the_same_schedules(model: Path):
    space = {**SMALL, "fields": {"inp_buffer_bytes": [128, 512], "read_latency": 100}}
    here, there = (
        vdla.explore(space, model, strategy="exhaustive", trials=2, workers=workers).exploration
        for workers in (1, 2)
    )
    assert [to_json(d.figures) for d in here.designs] == [to_json(d.figures) for d in there.designs]


def test_figures_with_schedules_are_written_and_read(folder: Path):
    found: Exploration = vdla.codesign.api.exploration.load_study(folder).exploration
    for design in found.front:
        value = json.loads(json.dumps(to_json(design.figures)))
        assert to_json(from_json(value)) == value
    assert not Figures(failed="why").no_slower_than(found.front[0].figures)


def test_more_trials_than_anybody_waits_for_are_refused(model: Path):
    with pytest.raises(UserError, match="2,000 trials of schedules: give a number from 0 to 1,000"):
        vdla.explore(SMALL, model, trials=2000)
