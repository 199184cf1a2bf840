"""Files of benchmark results: their provenance, and that reading a file returns the written figures."""

import subprocess
import sys
from pathlib import Path

import pytest

from vdla.benchmarks.harness import results


def test_what_is_written_comes_back_with_its_provenance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(
        sys, "argv", [str(results.ROOT / "benchmarks" / "network.py"), "--json", "/a/place/net.onnx"]
    )
    assert results.write_results("figures", {"rows": [1, 2.5]}, packages=("pytest", "no-such-package")) == (
        tmp_path / "results" / "figures.json"
    )
    document = results.read_results("figures")
    assert document["rows"] == [1, 2.5]
    written = document["written"]
    assert written["command"] == "python benchmarks/network.py --json net.onnx"
    assert "pytest" in written["versions"] and "no-such-package" not in written["versions"]
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=results.ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    assert head[:12] == written["commit"].removesuffix("+changes") or written["commit"] == "unknown"
    assert written["machine"]["cores"] >= 1 and len(written["date"]) == 10


def test_figures_that_json_cannot_say_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    with pytest.raises(ValueError, match="JSON"):
        results.write_results("figures", {"ratio": float("nan")})
    assert not list(tmp_path.iterdir())
