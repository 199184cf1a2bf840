"""Synthesis of the designs of a front: synthesized figures replace predicted ones and are stored, the constraints are
checked again with them, and no design is synthesized twice.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vdla.codesign import models
from vdla.codesign.api.exploration import load_study
from vdla.codesign.explore import synthesize_front
from vdla.codesign.explore.evaluate import figures_of_machine
from vdla.codesign.explore.report.pictures import unpacked
from vdla.codesign.explore.syntheses import FILE, Synthesis
from vdla.codesign.technology.cell_model import shipped_cell_model
from vdla.codesign.technology.components import default_components
from vdla.hw.synthesis.tools import ToolError
from vdla.isa.config import Config

TOML = 'base = "tiny"\n[fields]\nblock_in = [4, 8]\nblock_out = "block_in"\nbus_bytes = [8, 16]\n'
DIGEST = "of a Liberty file"


def predicted(machine: Config) -> Any:
    return figures_of_machine(machine, default_components())


@pytest.fixture
def mapped(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the machines that were synthesized. A stand-in for synthesis gives areas 1% above and half the clock of
    the predictions.
    """
    found: list[str] = []

    def synthesize(machine: Config, *_: object) -> Synthesis:
        found.append(machine.name)
        area = {unit: 1.01 * size for unit, size in predicted(machine).area.items()}
        clock = predicted(machine).clock_mhz / 2
        return Synthesis(library="cells", sha256=DIGEST, node_nm=207, area=area, clock_mhz=clock, seconds=3.0)

    cells = SimpleNamespace(name=shipped_cell_model().library, digest=DIGEST)
    monkeypatch.setattr(synthesize_front, "find_library", lambda: cells)
    monkeypatch.setattr(synthesize_front, "timing_tool", lambda: "sta")
    monkeypatch.setattr(synthesize_front, "_synthesize", synthesize)
    return found


@pytest.fixture
def study(tmp_path: Path) -> tuple[object, ...]:
    (tmp_path / "space.toml").write_text(TOML)
    (tmp_path / "mlp.onnx").write_bytes(models.build("mlp").SerializeToString())
    return (
        *("explore", tmp_path / "space.toml", "--network", tmp_path / "mlp.onnx", "-o", tmp_path / "out"),
        *("--strategy", "exhaustive", "--objective", "cycles,area", "--no-pictures", "--layers", "0"),
    )


def test_what_is_synthesized_takes_the_place_of_predictions(
    vdla, study: tuple[object, ...], mapped: list[str], tmp_path: Path
):
    out = tmp_path / "out"
    ran = vdla(*study, "--synthesize", "2", "--json")
    assert (
        "2 of " in ran.err
        and "2 of them now, 6 s; against the model: area +1.0% to +1.0%, clock -50.0%" in ran.err
    )
    assert len(mapped) == 2
    # On the front, or beaten now that it is larger; whoever reads the study sees what was measured.
    designs = designs_of(out)
    known = {json.loads(line)["machine"] for line in (out / FILE).read_text().splitlines()}
    for design in designs:
        before = predicted(design.machine)
        times = 1.01 if design.machine.digest in known else 1.0
        assert design.figures.square_millimetres == pytest.approx(times * before.square_millimetres)
        assert design.objectives[1] == pytest.approx(times * before.square_millimetres)
        assert design.figures.rungs["area"].startswith("synthesis" if times > 1 else "model of")
        assert ("area" in design.figures.intervals) == (times == 1)
    data = data_of(out / "report.html")
    assert len(data["synthesis"]) == 2
    for place, item in data["synthesis"].items():
        assert item["area"][1] == pytest.approx(1.01 * item["area"][0], rel=1e-3)
        assert unpacked(data, data["figures"]["area"])[int(place)] == item["area"][1]
        assert item["clock_interval"][0] < item["clock"][0] < item["clock_interval"][1]
    assert "area (mm2)" in {rung["name"]: rung["figures"] for rung in data["ladder"]}["synthesis"]
    # Nothing is mapped twice, and a line that is damaged is made again.
    again = vdla("report", out, "--synthesize", "2", "--no-pictures", "--layers", "0")
    assert "0 of them now" in again.err and len(mapped) == 2
    (out / FILE).write_text("{")
    vdla("report", out, "--synthesize", "1", "--no-pictures", "--layers", "0")
    assert len(mapped) == 3


def test_a_limit_may_not_hold_any_more(vdla, study: tuple[object, ...], mapped: list[str], tmp_path: Path):
    vdla(*study, "--json").document()
    least = min(design.figures.square_millimetres for design in designs_of(tmp_path / "out"))
    limit = ("--constraint", f"area<{1.005 * least:.4f}mm2")
    document = vdla(*study, *limit, "--synthesize", "1", "--json").document()
    assert len(mapped) == 1 and document["front"] == []


def test_what_cannot_be_synthesized_is_one_line(
    vdla, study: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    table = vdla(*study, "--synthesize", "1", "--technology", "45nm-published")
    assert "is of another technology; leave out --technology" in table.message()

    def missing(package: str) -> str:
        raise ToolError(f"synthesis needs {package}")

    monkeypatch.setattr(synthesize_front, "tool_version", missing)
    assert "synthesis needs pyosys" in vdla(*study, "--synthesize", "1").message()
    assert not (tmp_path / "out").exists()


def designs_of(folder: Path) -> list[Any]:
    return list(load_study(folder).exploration.designs)


def data_of(page: Path) -> dict[str, Any]:
    found = re.search(r'id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    return json.loads(found[1])
