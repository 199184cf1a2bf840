"""Studies (stored explorations) on a small network. Figures are exact and do not depend on the number of processes, an
interrupted study resumes with the same records, and the Pareto front is right.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
from campaign import representatives
from patience import LONG

import vdla
from vdla.codesign import models
from vdla.codesign.explore import search
from vdla.codesign.explore.evaluate import evaluate
from vdla.codesign.explore.front import hypervolume, pareto
from vdla.codesign.explore.networks import load_network
from vdla.codesign.explore.records import RecordsFile
from vdla.codesign.technology.components import load_components, shipped_components
from vdla.codesign.technology.events import count_events
from vdla.isa.config import load_config

SPACE = {
    "base": "tiny",
    "fields": {
        "block_in": [4, 8],
        "block_out": "block_in",
        "bus_bytes": [8, 16],
        "read_latency": [30, 100],
        "inp_buffer_bytes": [128, 1024, 4096],
    },
}
TOML = """base = "tiny"
[fields]
block_in = [4, 8]
block_out = "block_in"
bus_bytes = [8, 16]
read_latency = [30, 100]
inp_buffer_bytes = [128, 1024, 4096]
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "mlp.onnx"
    path.write_bytes(models.build("mlp").SerializeToString())
    return path


@pytest.mark.parametrize("technology", [None, "45nm-published"])
def test_figures_are_those_of_a_run(model: Path, technology: str | None):
    found = vdla.explore(
        SPACE, model, budget=4, strategy="random", seed=3, technology=technology, tune_front=0
    )
    for design in found.exploration.designs:
        if design.machine is None or design.objectives is None:
            continue
        report = vdla.simulate(vdla.compile(model, config=design.machine), technology=technology)
        figures = design.figures.networks["mlp"]
        assert figures.cycles == report.cycles
        assert figures.utilization == pytest.approx(report.utilization)
        # The table has no clock: the machine's own counts.
        assert technology is None or design.figures.clock_mhz == design.machine.clock_mhz
        assert design.objectives[0] == pytest.approx(report.latency)
        assert design.objectives[1] == pytest.approx(sum(report.energy.values()))


@pytest.mark.parametrize(
    "strategy",
    representatives(["nsga2", "tpe", "model", "random", "exhaustive"], 0, always=["nsga2", "model"]),
)
def test_a_study_depends_on_nothing_but_its_seed(model: Path, strategy: str):
    several = [
        vdla.explore(SPACE, model, budget=12, batch=4, strategy=strategy, seed=1, workers=workers).rows()
        for workers in ((1, 1, 2) if strategy == "random" else (1, 1))
    ]
    assert all(rows == several[0] for rows in several)
    fields = [
        tuple(row[name] for name in ("block_in", "bus_bytes", "read_latency", "inp_buffer_bytes"))
        for row in several[0]
    ]
    assert len({*fields}) == 12


def test_the_whole_space_and_its_front(model: Path):
    found = vdla.explore(SPACE, model, ("cycles", "area"), budget=1000, strategy="exhaustive")
    rows = found.rows()
    assert len(rows) == len(found.to_dataframe()) == 24
    good = [row for row in rows if row["feasible"]]
    front = [row for row in good if row["front"]]
    assert 1 <= len(front) < len(good)
    names = ("cycles (cycles)", "area (mm2)")
    for row in good:
        assert any(all(best[name] <= row[name] for name in names) for best in front)
    assert found.plot().axes[0].get_xlabel() == "cycles (cycles)"
    limited = vdla.explore(
        SPACE, model, ("cycles",), budget=24, strategy="exhaustive", constraints=["area<15mm2"]
    )
    assert all(design.figures.square_millimetres < 15 for design in limited.front)
    assert sum(d.feasible for d in limited.exploration.designs) == sum(row["area (mm2)"] < 15 for row in good)


def test_one_objective_constraint_or_file_needs_no_list(model: Path, tmp_path: Path):
    found = vdla.explore(SPACE, model, "cycles, area", budget=2, strategy="random", folder=tmp_path)
    again = vdla.explore(
        SPACE,
        model,
        ["cycles", "area"],
        constraints="area<100mm2",
        budget=2,
        strategy="random",
        records=tmp_path / "records.jsonl",
    )
    assert again.rows() == found.rows() and again.exploration.evaluated == 0
    with pytest.raises(vdla.UserError, match="give at least one network"):
        vdla.compare("tiny", "edge8", [])


def test_weights_count_a_network_several_times(model: Path):
    once = vdla.explore(SPACE, model, ("cycles",), budget=1, strategy="random")
    thrice = vdla.explore(SPACE, {model: 3.0}, ("cycles",), budget=1, strategy="random")
    assert thrice.rows()[0]["cycles (cycles)"] == 3 * once.rows()[0]["cycles (cycles)"]


def of_study(folder: Path, model: Path) -> list[str]:
    (folder / "space.toml").write_text(TOML)
    return [
        *("explore", str(folder / "space.toml"), "--network", str(model), "-o", str(folder / "out")),
        *("--strategy", "random", "--budget", "24", "--batch", "4", "--no-pictures"),
    ]


def test_a_killed_study_goes_on_with_the_same_records(vdla, model: Path, tmp_path: Path):
    whole = tmp_path / "whole"
    whole.mkdir()
    assert vdla(*of_study(whole, model)).code == 0
    expected = (whole / "out" / "records.jsonl").read_bytes()
    killed = tmp_path / "killed"
    killed.mkdir()
    command = [sys.executable, "-c", "from vdla.codesign.cli.main import main; main()"]
    command += of_study(killed, model)
    records = killed / "out" / "records.jsonl"
    for wanted in (1, 5):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + LONG
        while time.monotonic() < deadline and process.poll() is None:
            if records.exists() and records.read_bytes().count(b"\n") >= wanted:
                break
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
    with records.open("ab") as file:
        file.write(b'{"format": 1, "study"')  # A line of which a killed process wrote half.
    assert vdla(*of_study(killed, model)).code == 0
    assert records.read_bytes() == expected
    assert (killed / "out" / "designs.csv").read_bytes() == (whole / "out" / "designs.csv").read_bytes()


def test_command_files_and_refusals(vdla, model: Path, tmp_path: Path):
    (tmp_path / "space.toml").write_text(TOML)
    out = tmp_path / "out"
    study = ("explore", tmp_path / "space.toml", "--network", model, "-o", out, "--strategy", "random")
    document = vdla(*study, "--budget", "6", "--objective", "latency,area", "--json").document()
    assert document["designs"] == 6 and document["evaluated"] == 6 - document["failed"]
    assert document["rungs"]["cycles"] == "exact simulation" and document["rungs"]["area"].startswith(
        "model of"
    )
    best = document["front"][0]
    machine = load_config(out / "front" / f"{best['design']}.toml")
    assert machine.block_in == best["fields"]["block_in"]
    assert tomllib.loads((out / "front" / f"{best['design']}.toml").read_text())["memory"]
    assert (out / "front.png").read_bytes().startswith(b"\x89PNG")
    plain = ("--no-pictures", "--layers", "0")
    again = vdla(*study, "--budget", "8", "--objective", "latency,area", "--json", *plain).document()
    assert again["designs"] == 8 and again["evaluated"] <= 2
    shared = (
        "explore",
        tmp_path / "space.toml",
        "--network",
        model,
        "-o",
        tmp_path / "other",
        "--strategy",
        "random",
    )
    used = vdla(*shared, "--budget", "6", "--records", out / "records.jsonl", "--json", *plain).document()
    assert used["evaluated"] == 0
    table = vdla(*study, "--budget", "6", *plain).out
    assert "designs that no other one beats" in table and "wires" in table
    for arguments in (
        (*study, "--objective", "speed"),
        (*study, "--constraint", "area<2parsec"),
        (*study, "--strategy", "luck"),
        ("explore", tmp_path / "none.toml", "--network", model, "-o", out),
        ("explore", tmp_path / "space.toml", "--network", tmp_path / "none.onnx", "-o", out),
        ("explore", tmp_path / "space.toml", "--network", f"{model}*x", "-o", out),
        (*study, "--records", tmp_path / "none.jsonl"),
        (*study, "--technology", tmp_path / "space.toml"),
        ("compare", "tiny", "nobody", "--network", model),
    ):
        outcome = vdla(*arguments)
        assert outcome.code == 2 and outcome.err.count("\n") == 1, outcome
    (out / "records.jsonl").write_text('{"format": 1}\n')
    outcome = vdla(*study)
    assert outcome.code == 2 and "records.jsonl:1: is not a record" in outcome.err


def test_what_cannot_begin_leaves_no_folder(
    vdla, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "space.toml").write_text(TOML)
    study = ("explore", tmp_path / "space.toml", "--network", model, "-o", tmp_path / "out")
    assert "no strategy" in vdla(*study, "--strategy", "luck").message()
    monkeypatch.setattr(search, "find_spec", lambda name: None)
    assert "pip install 'vdla[explore]'" in vdla(*study).message()
    assert not (tmp_path / "out").exists()


def test_a_study_that_finds_nothing_says_so(vdla, model: Path, tmp_path: Path):
    (tmp_path / "space.toml").write_text('base = "tiny"\n[fields]\nextensions = [[]]\n')
    study = ("explore", tmp_path / "space.toml", "-o", tmp_path / "out", "--strategy", "random")
    outcome = vdla(*study, "--network", model)
    assert outcome.code == 2 and outcome.err.count("\n") == 1, outcome
    assert "none of 1 designs runs all networks; the first failed: mlp: " in outcome.err
    for weight in ("nan", "inf", "0"):
        outcome = vdla(*study, "--network", f"{model}*{weight}")
        assert outcome.code == 2 and "must be a number from 1e-09 to 1e+09" in outcome.err
    (tmp_path / "space.toml").write_text(TOML)
    # The search by models knows areas beforehand, and names nothing that is too large where something is not.
    for strategy in ("random", "model"):
        options = ("--budget", "4", "--constraint", "area<0.001mm2", "--no-pictures", "--strategy", strategy)
        limited = vdla(*study, "--network", model, *options)
        assert "no design meets area<0.001mm2; design " in limited.out


def test_a_folder_has_one_study_at_a_time(vdla, model: Path, tmp_path: Path):
    (tmp_path / "space.toml").write_text(TOML)
    study = ("explore", tmp_path / "space.toml", "--network", model, "-o", tmp_path, "--strategy", "random")
    with RecordsFile(tmp_path / "records.jsonl"):
        outcome = vdla(*study, "--budget", "2")
    assert outcome.code == 2 and "another process is writing records to it" in outcome.err


def test_compare(vdla, model: Path):
    rows = vdla("compare", "tiny", "edge8", "--network", model, "--json").document()["rows"]
    by_name = {(row["kind"], row["name"]): row for row in rows}
    assert by_name["total", "cycles"]["ratio"] < 1 < by_name["total", "area"]["ratio"]
    energy = [row["first"] for row in rows if row["kind"] == "mlp" and row["name"].startswith("energy: ")]
    assert sum(energy) == pytest.approx(by_name["total", "energy"]["first"])
    area = [row["second"] for row in rows if row["kind"] == "area"]
    assert sum(area) == pytest.approx(by_name["total", "area"]["second"])
    assert "ratio" in vdla("compare", "tiny", "edge8", "--network", model).out


def test_events_are_the_simulators(model: Path):
    for source in (models.build("small_cnn"), models.build("dqn")):
        report = vdla.simulate(vdla.compile(source, config="tiny"))
        events = count_events(report.program, report.simulation)
        assert events.gemm + events.depthwise == report.simulation.units["compute"].busy["gemm"]
        assert sum(events.read.values()) == report.simulation.dram_read_bytes
        assert events.stored * report.config.out_bytes == events.written == report.simulation.dram_write_bytes
        assert events.window_reads >= events.stored > 0


def test_a_machine_that_cannot_run_a_network_is_a_record_with_its_reason(model: Path):
    figures = evaluate(vdla.config("tiny", extensions=()), [load_network(model)], shipped_components())
    assert figures.failed is not None and figures.failed.startswith("mlp: ") and "'post'" in figures.failed
    assert not figures.networks and not figures.area


def test_components_are_checked(tmp_path: Path):
    shipped = shipped_components()
    assert all(shipped.sources.values()) and shipped.area["int8_multiply"] == 282
    # The sizes of the source: 64 bits from 8 KiB, 32 KiB and 1 MiB.
    for kib, picojoules in ((8, 10), (32, 20), (1024, 100)):
        assert shipped.sram_energy(kib * 1024, 8) == pytest.approx(picojoules, rel=0.14)
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\nnode = "7 nm"\nleft_out = "all"\n')
    with pytest.raises(vdla.UserError, match=r"mine.toml: has no table \[int8_multiply\]"):
        load_components(path)


def test_fronts_and_hypervolume_by_definition():
    random = np.random.default_rng(0)
    for objectives, count in itertools.product((1, 2, 3), (1, 7, 25)):
        values = random.integers(0, 6, (count, objectives)).astype(float)
        expected = [
            not any((other <= row).all() and (other < row).any() for other in values) for row in values
        ]
        assert pareto(values).tolist() == expected
        # Unit cells of a grid that some point dominates.
        cells = np.array(list(itertools.product(range(6), repeat=objectives)))
        counted = sum(((values <= cell).all(axis=1)).any() for cell in cells)
        assert hypervolume(values, [6.0] * objectives) == pytest.approx(counted)
    assert hypervolume(np.empty((0, 2)), [1.0, 1.0]) == 0
    assert hypervolume(np.array([[2.0, 2.0]]), [1.0, 1.0]) == 0
