"""Reports of explorations: their figures, rewriting from records, interruption by Ctrl-C, and comparison of two
machines.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from patience import LONG, hear_interrupts

import vdla
from vdla.codesign import models
from vdla.codesign.explore import verify_front
from vdla.codesign.explore.evaluate import evaluate, from_json, to_json
from vdla.codesign.explore.metrics import intervals_of
from vdla.codesign.explore.networks import load_network
from vdla.codesign.explore.report import details
from vdla.codesign.explore.report.columns import column
from vdla.codesign.explore.report.data import Details, exploration_data
from vdla.codesign.explore.report.details import spread
from vdla.codesign.explore.report.history import history_of
from vdla.codesign.explore.report.layers import columns, figures_by_layer
from vdla.codesign.explore.report.pictures import unpacked
from vdla.codesign.explore.report.sensitivity import sensitivity
from vdla.codesign.technology.components import default_components, shipped_components
from vdla.codesign.technology.energy import energy_by_unit
from vdla.codesign.technology.rungs import TABLE
from vdla.hw.harness.engine import hardware
from vdla.isa.config import load_config
from vdla.isa.program_file import load_program

TOML = """base = "tiny"
[fields]
block_in = [4, 8]
block_out = "block_in"
bus_bytes = [8, 16]
inp_buffer_bytes = [128, 1024]
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "mlp.onnx"
    path.write_bytes(models.build("mlp").SerializeToString())
    return path


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("space") / "space.toml"
    path.write_text(TOML)
    return path


def data_of(page: Path) -> dict[str, Any]:
    found = re.search(r'id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_layers_sum_to_the_network(model: Path):
    components = shipped_components()
    for source in (model.read_bytes(), models.build("small_cnn").SerializeToString()):
        network = load_network(source)
        machine = load_config("tiny")
        run = evaluate(machine, [network], components).networks[network.name]
        layers = figures_by_layer(machine, network, lambda c, e: energy_by_unit(c, e, components))
        table = columns(layers)
        assert sum(table["cycles"]) == run.cycles
        assert sum(sum(kind) for kind in table["dram"].values()) == run.dram_bytes
        assert sum(table["gemm"]) + sum(sum(c) for c in table["stalls"].values()) == run.cycles
        for unit, value in run.energy.items():
            assert sum(layer.energy[unit] for layer in layers) == pytest.approx(value)


def test_packed_columns_are_unpacked_unchanged():
    for values in ([3] * 9, [1, 2, 1, 2, 1, 2, 2, 2, 1], list(range(9)), [None, 1.5] * 9, ["a"] * 4):
        data = {"count": len(values)}
        assert unpacked(data, json.loads(json.dumps(column(values)))) == values
    assert unpacked({"count": 0}, column([])) == []


def test_sensitivity_finds_the_terms_of_a_product():
    random = np.random.default_rng(0)
    sides, sizes, idle = (random.integers(0, n, 300) for n in (3, 12, 2))
    figure = np.array([1.0, 4.0, 2.0])[sides] * 1.1**sizes
    fields = {
        "side": [8 << int(s) for s in sides],
        "size": [int(s) for s in sizes],
        "idle": [int(s) for s in idle],
    }
    found = sensitivity(fields, figure.tolist())
    assert found is not None and found.explained > 0.99
    side, size, none = found.effects
    assert (side.field, size.field, none.field) == ("side", "size", "idle")
    assert side.factor == pytest.approx(4, rel=0.02) and none.factor == pytest.approx(1, abs=0.02)
    assert dict(side.levels)[16] / dict(side.levels)[8] == pytest.approx(4, rel=0.02)
    assert side.share + size.share == pytest.approx(1, abs=0.1) and none.share < 0.001
    # Twelve sizes are joined to eight levels.
    assert len(size.levels) == 8 and size.factor == pytest.approx(1.1**11, rel=0.2)
    assert sensitivity(fields, [1.0] * 300) is None
    assert sensitivity({"side": [1, 2]}, [1.0, 2.0]) is None


def test_sensitivity_counts_fields_that_always_change_together_as_one():
    random = np.random.default_rng(0)
    sides, buses = (random.integers(0, n, 100) for n in (3, 2))
    rows = [4 << int(s) for s in sides]
    figure = 2.0**sides * 1.5**buses
    fields = {
        "block_in": rows,
        "block_out": rows,
        "columns": [256 // r for r in rows],
        "bus": [int(b) for b in buses],
    }
    following = {
        "tile": [512 * r for r in rows],
        "both": [r + int(b) for r, b in zip(rows, buses, strict=True)],
    }
    found = sensitivity(fields, figure.tolist(), following)
    assert found is not None
    array, bus = found.effects
    assert array.field == "block_in, block_out, columns, tile" and bus.field == "bus"
    assert [label for label, _ in array.levels] == [f"{n}, {n}, {256 // n}, {512 * n}" for n in (4, 8, 16)]
    assert array.factor == pytest.approx(4, rel=0.02) and array.share > 0.5
    square = sensitivity({"block_in": rows, "block_out": rows}, figure.tolist())
    assert square is not None and [label for label, _ in square.effects[0].levels] == [4, 8, 16]


def test_the_history_of_an_exhaustive_search_grows_to_1(model: Path):
    found = vdla.explore(
        {"base": "tiny", "fields": {"block_in": [4, 8], "block_out": "block_in", "bus_bytes": [8, 16]}},
        model,
        ("latency", "area"),
        budget=4,
        strategy="exhaustive",
    ).exploration
    history = history_of(found)
    assert history.designs == (1, 2, 3, 4) and history.volume[-1] == 1
    assert list(history.volume) == sorted(history.volume) and history.objectives == ("latency", "area")
    assert history.best[0][-1] == min(d.objectives[0] for d in found.designs if d.objectives)
    best = {*np.argmin([found.study.minimized(d) for d in found.front], axis=0).tolist()}
    assert {found.front[place].number for place in best} <= {d.number for d in spread(found, 2)}
    assert len(spread(found, 2)) == min(2, len(found.front))


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_report_is_written_again_from_the_records(
    vdla, model: Path, space: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    out = tmp_path / "out"
    vdla(
        "explore", space, "--network", model, "-o", out, "--strategy", "exhaustive", "--no-pictures", "--json"
    ).document()
    first = {name: (out / name).read_bytes() for name in ("report.html", "designs.csv", "study.json")}
    data = data_of(out / "report.html")
    assert data["count"] == 9 and data["labels"][-1] == "tiny" and data["chosen"]["b"] == 8
    assert {unpacked(data, data["state"])[8]} == {data["states"].index("reference")}
    table = pd.read_parquet(out / "designs.parquet")
    assert len(table) == 8 and table["front"].sum() == len([*(out / "front").glob("*.toml")])
    (out / "front" / "77.toml").write_text("of an older front")
    outcome = vdla("report", out, "--no-pictures", "--json")
    assert outcome.document()["designs"] == 8
    evaluated = re.compile(rb'"evaluated":\d+')
    assert evaluated.sub(b"", (out / "report.html").read_bytes()) == evaluated.sub(b"", first["report.html"])
    assert (out / "designs.csv").read_bytes() == first["designs.csv"]
    assert not (out / "front" / "77.toml").exists()
    # A study that was killed has no list of points: what its records name is reported.
    study = json.loads(first["study.json"])
    del study["points"], study["interrupted"]
    (out / "study.json").write_text(json.dumps(study))
    outcome = vdla("report", out, "--no-pictures", "--layers", "0", "--json")
    lines = map(json.loads, (out / "records.jsonl").read_text().splitlines())
    ran = sum(line["study"] == study["study"] for line in lines)
    assert outcome.document()["designs"] == ran and outcome.document()["interrupted"]
    for wrong, message in (
        ({"format": 9}, "is not a study"),
        ({"points": [[9, 0, 0]]}, "[9, 0, 0] is not a point of its space"),
        ({"study": "0" * 16}, "have changed since"),
        ({"networks": [{**study["networks"][0], "file": str(tmp_path / "gone.onnx")}]}, "gone.onnx"),
    ):
        (out / "study.json").write_text(json.dumps(study | wrong))
        assert message in vdla("report", out).message()
    assert "has no study.json" in vdla("report", tmp_path).message()
    (out / "study.json").write_bytes(first["study.json"])
    with monkeypatch.context() as patch:
        patch.setattr(details, "_layers", interrupt)
        (out / "layers.jsonl").unlink()
        stopped = vdla("report", out, "--no-pictures")
    assert stopped.code == 130 and "the report lacks the layers of " in stopped.err
    # What a finished study has lost is told, and a report of nothing replaces none.
    records = (out / "records.jsonl").read_bytes()
    (out / "records.jsonl").write_bytes(records.splitlines(keepends=True)[0])
    lost = vdla("report", out, "--no-pictures", "--layers", "0")
    assert "7 of 8 designs have no record" in lost.err and lost.code == 0
    (out / "records.jsonl").unlink()
    assert "has no design of the study" in vdla("report", out).message()


def test_the_command_writes_every_picture(vdla, model: Path, space: Path, tmp_path: Path):
    vdla(
        "explore", space, "--network", model, "-o", tmp_path, "--strategy", "exhaustive", "--json"
    ).document()
    for name in ("front", "parallel", "sensitivity", "history", "layers", "compare"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG"), name


def test_a_space_in_which_nothing_runs_has_a_page(model: Path):
    fields = {"block_in": [4, 8], "block_out": "block_in", "extensions": [[]]}
    found = vdla.explore({"base": "tiny", "fields": fields}, model, budget=2, strategy="exhaustive")
    data = exploration_data(found.exploration, Details())
    assert data["chosen"] is None and data["history"]["designs"] == [] and not data["sensitivity"]["figures"]
    assert "mlp" in found.to_html(layers=0)


def test_figures_do_not_depend_on_weights(model: Path):
    """Figures of a design do not depend on the weights with which an exploration adds the energies of several networks;
    the interval of the weighted energy is computed from the figures afterwards.
    """
    machine, components = load_config("tiny"), default_components()
    networks = [
        load_network(model.read_bytes(), name="a"),
        load_network(models.build("small_cnn").SerializeToString()),
    ]
    networks[1] = replace(networks[1], name="b", weight=50.0)
    figures = evaluate(machine, networks, components)
    assert figures == evaluate(machine, [replace(item, weight=1.0) for item in networks], components)
    assert "energy" not in to_json(figures)["intervals"]
    only = {name: replace(figures, networks={name: figures.networks[name]}) for name in "ab"}
    alone = [intervals_of(item, {name: 1.0})["energy"] for name, item in only.items()]
    both = intervals_of(figures, {"a": 1e-9, "b": 1.0})["energy"]
    assert both == pytest.approx(alone[1]) and alone[0] != pytest.approx(alone[1], rel=1e-6)


@pytest.mark.parametrize("extensions", [["post", "patch"], []])
def test_the_ladder_names_no_rung_that_no_figure_stands_on(model: Path, extensions: list[str]):
    """The "ladder" of a report lists, for each source of figures from measurements to estimates, the figures that come
    from it. The list must be empty for a source that no figure uses. Here, no figure comes from the source "table"; and
    without extensions all designs fail, so that no figure comes from the models.
    """
    fields = {"bus_bytes": [8, 16], "inp_buffer_bytes": [8, 1024], "extensions": [extensions]}
    found = vdla.explore(
        {"base": "tiny", "fields": fields}, model, budget=4, strategy="exhaustive"
    ).exploration
    ladder = {rung["name"]: rung["figures"] for rung in exploration_data(found, Details())["ladder"]}
    assert ladder["table"] == [] and bool(ladder["model with interval"]) == bool(extensions)


def test_intervals_and_origins_of_figures_are_kept(model: Path):
    found = vdla.explore(
        {"base": "tiny", "fields": {"bus_bytes": [8, 16]}}, model, budget=2, strategy="exhaustive"
    )
    first, second = found.exploration.designs
    known = replace(
        first.figures, intervals={"area": (0.9, 1.2)}, rungs={"area": "model with interval, from synthesis"}
    )
    assert from_json(json.loads(json.dumps(to_json(known)))) == known
    table = replace(second.figures, intervals={}, rungs={"area": TABLE})
    designs = (replace(first, figures=known), replace(second, figures=table))
    data = exploration_data(replace(found.exploration, designs=designs), Details())
    area = first.figures.square_millimetres
    assert unpacked(data, data["low"]["area"])[0] == pytest.approx(0.9 * area, rel=1e-3)
    assert unpacked(data, data["high"]["area"]) == [pytest.approx(1.2 * area, rel=1e-3), None]
    assert unpacked(data, data["rungs"]["area"]) == [known.rungs["area"], TABLE]
    # What a picture says below itself holds for all of its designs.
    said = {metric["name"]: metric["rung"] for metric in data["metrics"]}
    assert said["area"] == f"{known.rungs['area']} or {TABLE}"
    on = {rung["name"]: rung["figures"] for rung in data["ladder"]}
    assert "area (mm2)" in on["model with interval"] and "area (mm2)" in on["table"]


def test_ctrl_c_leaves_a_whole_report(model: Path, tmp_path: Path):
    # Thousands of designs: however late the signal comes, the search is not over.
    sizes = ", ".join(str(128 << step) for step in range(9))
    fields = "".join(f"{name}_buffer_bytes = [{sizes}]\n" for name in ("uop", "inp", "wgt", "acc"))
    space = tmp_path / "space.toml"
    space.write_text(f'base = "tiny"\n[fields]\n{fields}')
    command = [
        *(sys.executable, "-c", "from vdla.codesign.cli.main import main; main()", "explore", str(space)),
        *("--network", str(model), "-o", str(tmp_path / "out"), "--strategy", "random", "--batch", "1"),
        *("--budget", "6000", "--no-pictures"),
    ]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_interrupts,
    )
    records = tmp_path / "out" / "records.jsonl"
    while process.poll() is None and not (records.exists() and records.read_bytes().count(b"\n") >= 2):
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=LONG)
    assert process.returncode == 130 and "to continue from the records" in said, said
    data = data_of(tmp_path / "out" / "report.html")
    assert data["study"]["interrupted"] and data["count"] >= 2


def test_two_machines_side_by_side(vdla, model: Path, tmp_path: Path):
    page = tmp_path / "both.html"
    document = vdla("compare", "tiny", "edge8", "--network", model, "--html", page, "--json").document()
    by_name = {(row["kind"], row["name"]): row for row in document["rows"]}
    for side in ("first", "second"):
        assert sum(row[f"cycles {side}"] for row in document["layers"]) == by_name["mlp", "cycles"][side]
    assert {"block_in", "wgt_buffer_bytes"} <= {row["field"] for row in document["fields"]}
    cycles, energy, area = document["explanation"]
    fewer = by_name["mlp", "cycles"]["first"] - by_name["mlp", "cycles"]["second"]
    assert (
        cycles.startswith(f"cycles of mlp: {fewer:,} fewer (")
        and "GEMM -" in cycles
        and "by layer: " in cycles
    )
    assert energy.startswith("energy of mlp: ") and area.startswith("area: ") and " mm2 more" in area
    data = data_of(page)
    assert data["kind"] == "comparison" and data["labels"] == ["tiny", "edge8"]
    text = vdla("compare", "tiny", "edge8", "--network", model).out
    assert "edge8 against tiny:" in text and "layers whose cycles differ most" in text
    assert "is an input" in vdla("compare", "tiny", "edge8", "--network", model, "--html", model).message()


def test_comparisons_in_python(model: Path):
    found = vdla.compare("tiny", vdla.config("tiny", name="other", read_latency=200), model)
    assert [row["field"] for row in found.compared.fields] == ["read_latency"]
    assert len(found.to_dataframe("layers")) == len(found.layers) > 0
    assert set(found.to_dataframe()["kind"]) == {"total", "mlp", "area"}
    assert found.explanation[-1] == "area: equal"
    same = vdla.compare("tiny", "tiny", model)
    assert same.explanation == ["cycles of mlp: equal", "energy of mlp: equal", "area: equal"]
    assert same.compared.labels == ("tiny (A)", "tiny (B)") and "tiny (A)" in same.to_html()


@pytest.mark.system_tools("g++", "perl", "make")
def test_a_verified_front(vdla, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # The second call generates the same Verilog.
    monkeypatch.setattr(verify_front, "rtl_files", cache(verify_front.rtl_files))
    # FIFOs of tiny's own sizes: the RTL is that of tiny, which many tests load.
    fields = "read_latency = [30, 100]\nload_fifo_bytes = [2048]\nstore_fifo_bytes = [512]\n"
    (tmp_path / "space.toml").write_text(f'base = "tiny"\n[fields]\n{fields}')
    out = tmp_path / "out"
    study = ("explore", tmp_path / "space.toml", "--network", model, "-o", out, "--strategy", "exhaustive")
    outcome = vdla(*study, "--objective", "cycles", "--no-pictures", "--verify-front", "9")
    assert outcome.code == 0 and "1 of 1 designs of the front co-simulated: 0 mismatches" in outcome.err
    data = data_of(out / "report.html")
    (verified,) = data["verified"].values()
    assert verified["mismatches"] == 0 and verified["networks"] == ["mlp"]
    folder = out / "front" / "0"
    assert verified["cycles"] == json.loads((folder / "cosim.json").read_text())["cycles"]
    program = load_program(folder / "mlp.npz")
    assert program.config.digest == load_config(out / "front" / "0.toml").digest
    assert hardware(program.config) == hardware(load_config("tiny"))
    assert "module vdla" in (folder / "vdla.v").read_text() and (folder / "vdla.h").exists()
    # What was co-simulated is not again.
    with monkeypatch.context() as patch:
        patch.setattr(verify_front, "run_on_rtl", None)
        again = vdla("report", out, "--no-pictures", "--verify-front", "1")
    assert again.code == 0 and "0 mismatches" in again.err
    wrong = json.loads((folder / "cosim.json").read_text()) | {"mismatches": 3, "first": "cycles"}
    (folder / "cosim.json").write_text(json.dumps(wrong))
    outcome = vdla("report", out, "--no-pictures")
    assert outcome.code == 1 and "RTL and simulator differ: design 0: 3 mismatches; cycles" in outcome.err
