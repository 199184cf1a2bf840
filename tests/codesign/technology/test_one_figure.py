"""All commands report the same clock, latency and energy for one machine and one network."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import vdla as front_door
from vdla.codesign import models

CONFIG = "tiny"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a float network, samples of its inputs, and a space of one machine."""
    folder = tmp_path_factory.mktemp("one")
    (folder / "float.onnx").write_bytes(models.build("mlp", "float").SerializeToString())
    (name,) = [item.name for item in models.build("mlp", "float").graph.input]
    samples = np.random.default_rng(0).normal(size=(8, *models.sample_inputs("mlp", 1).shape[1:]))
    np.savez(folder / "samples.npz", **{name: samples.astype(np.float32)})
    (folder / "space.toml").write_text(f'base = "{CONFIG}"\n[fields]\nblock_in = [4]\n')
    return folder


@pytest.mark.parametrize("technology", ["models", "45nm-published"])
def test_every_command_has_the_same_figures(vdla, files: Path, tmp_path: Path, technology: str) -> None:
    how = ("--technology", technology)
    vdla(
        *("quantize", files / "float.onnx", "--calibration", files / "samples.npz", "--budget", 1, *how),
        *("--config", CONFIG, "-o", tmp_path / "q"),
    )
    model = tmp_path / "q" / "quantized.onnx"
    chosen = json.loads((tmp_path / "q" / "quantization.json").read_text())
    figures = {
        "quantize": (
            chosen["clock_hertz"],
            1e-3 * chosen["chosen"]["accelerator_ms"],
            chosen["chosen"]["accelerator_uj"],
        )
    }
    total = vdla("run", model, "--config", CONFIG, *how, "--json").document()["total"]
    figures["run"] = (total["clock_hertz"], total["seconds_at_clock"], total["energy_uj"])

    rows = vdla("compare", CONFIG, CONFIG, "--network", model, *how, "--json").document()["rows"]
    of = {row["name"]: row["first"] for row in rows if row["kind"] == "total"}
    figures["compare"] = (1e6 * of["clock"], 1e-3 * of["latency"], of["energy"])

    study = (
        "explore",
        files / "space.toml",
        "--network",
        model,
        "--budget",
        1,
        "--strategy",
        "exhaustive",
        *how,
    )
    explored = vdla(*study, "-o", tmp_path / "study", "--tune-front", 0, "--no-pictures", "--json").document()
    again = vdla("report", tmp_path / "study", "--no-pictures", "--json").document()
    for command, document in (("explore", explored), ("report", again)):
        (design,) = document["front"]
        figures[command] = (1e6 * design["clock_mhz"], 1e-3 * design["latency"], design["energy"])

    report = front_door.simulate(front_door.compile(str(model), config=CONFIG), technology=technology)
    figures["simulate"] = (report.clock.hertz, 1e-3 * report.latency, sum(report.energy.values()))
    comparison = front_door.compare(CONFIG, CONFIG, model, technology=technology)
    of = {row["name"]: row["first"] for row in comparison.rows if row["kind"] == "total"}
    figures["api compare"] = (1e6 * of["clock"], 1e-3 * of["latency"], of["energy"])

    divided = vdla("run", model, "--target", "vdla,llvm", "--config", CONFIG, *how, "--json").document()
    figures["divided"] = (divided["clock_hertz"], divided["total"]["accelerator_seconds"], total["energy_uj"])
    derived = vdla("config", CONFIG, *how, "--json").document()["derived"]
    figures["config"] = (1e6 * derived["clock_mhz"], total["seconds_at_clock"], total["energy_uj"])

    for command, found in figures.items():
        assert found == pytest.approx(figures["run"], rel=1e-12), (command, figures)
    source = "modelled" if technology == "models" else "assumed"
    assert {total["clock_is"], divided["clock_is"], chosen["clock_is"], derived["clock_is"]} == {source}
    assert chosen["rungs"]["accelerator_uj"] == explored["rungs"]["energy"] == total["energy_is"]
    assert chosen["rungs"]["accelerator_ms"] == explored["rungs"]["latency"]
