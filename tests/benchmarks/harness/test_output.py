"""The common output of benchmarks: figures as lines, as JSON, and in a file of results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vdla.benchmarks.harness import output, results
from vdla.benchmarks.harness.command_line import OUTPUT, parse
from vdla.benchmarks.harness.output import finish, listed, measure_all


def test_rows_are_printed_as_they_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []

    def measure(case: int) -> int:
        seen.append(capsys.readouterr().out)
        return case * case

    assert measure_all((2, 3), measure, "row {}".format, quiet=False) == [4, 9]
    assert seen == ["", "row 4\n"] and capsys.readouterr().out == "row 9\n"
    assert measure_all((2, 3), measure, "row {}".format, quiet=True) == [4, 9]
    assert seen[2:] == ["", ""] and not capsys.readouterr().out


def test_figures_are_printed_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    monkeypatch.setattr(output, "ROOT", tmp_path)
    figures = {"cycles": 7, "rows": [1, 2]}
    finish(parse("", OUTPUT, []), "figures", figures, lines=listed(figures))
    assert capsys.readouterr().out == "cycles: 7\nrows: [1, 2]\n"
    finish(parse("", OUTPUT, ["--json"]), "figures", figures, lines=listed(figures), shown=figures["rows"])
    assert json.loads(capsys.readouterr().out) == [1, 2]
    assert not list(tmp_path.iterdir())
    finish(parse("", OUTPUT, ["--write"]), "figures", figures)
    assert capsys.readouterr() == ("", "wrote figures.json\n")
    assert results.read_results("figures")["rows"] == [1, 2]
