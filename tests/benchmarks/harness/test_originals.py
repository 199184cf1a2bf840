"""The benchmark of 24 published networks in float32: its rows, resuming from the committed rows, and its table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vdla.benchmarks.harness import originals, results
from vdla.benchmarks.harness.originals import figures, measured, originals_text
from vdla.benchmarks.harness.results import ROOT

WRITTEN = {
    "commit": "abc",
    "date": "2026-01-02",
    "machine": {"processor": "P", "cores": 2, "system": "Linux"},
    "versions": {"onnxruntime": "1.0"},
    "command": "python benchmarks/cpu_networks.py --originals --write",
}


def row(name: str, ratio: float, **fields: Any) -> dict[str, Any]:
    """A row of the file of results, with made-up figures; `ratio`: our time / ONNX Runtime's time."""
    made = {"name": name, "size": 224, "ours_ms": 1.5, "peer_ms": 2.0, "ratio": ratio, "error": 2e-6}
    return made | {"check": "end to end", "compile_s": 0.75, "commit": "abc"} | fields


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Names of the networks that the benchmark asks to measure; in place of measuring, rows are made up. Results go to
    a temporary folder, with commit "abc".
    """
    names: list[str] = []

    def measure(name: str, rounds: int) -> dict[str, Any]:
        names.append(name)
        return row(name, 0.5 * rounds)

    monkeypatch.setattr(originals, "measure_original", measure)
    monkeypatch.setattr(originals, "provenance", lambda: {"commit": "abc"})
    for module in (originals, results):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    return names


def test_mean_and_worst_are_of_the_ratios() -> None:
    found = figures([row("a", 0.5), row("b", 2.0, check="wrong"), row("c", 1.0)])
    assert (found["networks"], found["right"], found["geomean"], found["worst"]) == (3, 2, 1.0, 2.0)


def test_what_was_broken_off_goes_on(asked: list[str], tmp_path: Path) -> None:
    begun = measured(["vgg11", "alexnet", "unet"], 1, write=True, again=False)
    assert [next(begun)["name"], next(begun)["name"]] == ["vgg11", "alexnet"]
    rows = list(measured(["vgg11", "alexnet", "unet"], 2, write=True, again=False))
    assert asked == ["vgg11", "alexnet", "unet"]
    assert [(r["name"], r["ratio"]) for r in rows] == [("vgg11", 0.5), ("alexnet", 0.5), ("unet", 1.0)]
    kept = json.loads((tmp_path / "cpu_originals.json").read_text())
    # In the order of the table, however they were asked for.
    assert [r["name"] for r in kept["rows"]] == ["alexnet", "vgg11", "unet"]
    assert (kept["networks"], kept["worst"]) == (3, 1.0)


@pytest.mark.parametrize(("commit", "again"), [("def", False), ("abc+changes", False), ("abc", True)])
def test_rows_of_other_code_are_measured_anew(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, commit: str, again: bool
) -> None:
    list(measured(["unet"], 1, write=True, again=False))
    monkeypatch.setattr(originals, "provenance", lambda: {"commit": commit})
    (found,) = measured(["unet"], 2, write=True, again=again)
    assert asked == ["unet", "unet"]
    assert (found["ratio"], found["commit"]) == (1.0, commit)


def test_the_table_has_a_line_a_network() -> None:
    rows = [row("unet", 0.75), row("mixer", 1.25, check="wrong")]
    text = originals_text({**figures(rows), "written": WRITTEN})
    assert "1 of 2 networks right; our time over the peer's: geometric mean 0.97, at most 1.25." in text
    assert "| `unet` | 224x224 | 1.50 ms | 2.00 ms | 0.75 | 2.0e-06 | 0.8 s of CPU |" in text
    assert "| `mixer` | 224x224 | 1.50 ms | 2.00 ms | 1.25 | 2.0e-06, wrong |" in text
    assert text.endswith("commit abc, 2026-01-02, P, 2 cores, ONNX Runtime 1.0")
    mixed = [row("unet", 0.75), row("mixer", 1.25, commit="def")]
    assert originals_text({**figures(mixed), "written": WRITTEN}).endswith("; rows of commits abc, def")


def test_the_command_measures_a_network() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "cpu_networks.py"), "--rounds", "1"]
    done = subprocess.run(
        [*command, "--originals", "shufflenet_v2"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    first, last = done.stdout.splitlines()
    assert first.startswith("shufflenet_v2 ")
    assert "(end to end)" in first
    assert last.startswith("1 networks: geometric mean ")
