"""`vdla bench`: rows as text while they are measured, one JSON object, and one line if ONNX Runtime is missing."""

from __future__ import annotations

import json
import sys

import pytest

from vdla.benchmarks.harness.case import RATIO_IS


def test_rows_in_json(vdla) -> None:
    document = vdla(
        "bench", "--suite", "paper", "--only", "D9,language_model", "--rounds", "3", "--json"
    ).document()
    assert [row["name"] for row in document["rows"]] == ["D9", "language_model"]
    for row in document["rows"]:
        assert row["threads"] == 1 and row["ours_ms"] > 0 and row["error"] <= 1e-5
    assert document["ratio_is"] == RATIO_IS and document["clock"] == "thread CPU time"
    assert document["interrupted"] is False and document["peer"].startswith("onnxruntime ")
    assert set(document["geometric_means"]) == {"depthwise convolutions", "networks"}


def test_rows_as_text_on_two_threads(vdla) -> None:
    outcome = vdla("bench", "--only", "D9", "--only", "D8", "--rounds", "1", "--threads", "2")
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert "2 threads, wall time" in lines[0] and RATIO_IS in lines[1]
    assert [line.split()[0] for line in lines if line.startswith("D")] == ["D8", "D9"]
    assert lines[-1].startswith("geometric mean of depthwise convolutions: ")


def test_what_was_measured_before_an_interruption_is_told(vdla, monkeypatch: pytest.MonkeyPatch) -> None:
    import vdla.benchmarks.harness.suite as suite

    measured = suite.measured

    def one_only(entry, **options):
        if entry.name != "D8":
            raise KeyboardInterrupt
        return measured(entry, **options)

    monkeypatch.setattr(suite, "measured", one_only)
    arguments = ("bench", "--only", "D8,D9", "--rounds", "1")
    text = vdla(*arguments)
    assert text.code == 130 and "D8 " in text.out and "D9" not in text.out
    assert "geometric mean of depthwise convolutions" in text.out
    assert text.err == "interrupted after 1 of 2 rows\n"
    outcome = vdla(*arguments, "--json")
    document = json.loads(outcome.out)
    assert outcome.code == 130 and document["interrupted"] is True
    assert [row["name"] for row in document["rows"]] == ["D8"]


def test_without_the_peer_one_line_says_what_to_install(vdla, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert 'pip install "vdla[check]"' in vdla("bench", "--only", "D9").message()


def test_the_other_suite_has_rows_of_its_own(vdla) -> None:
    arguments = ("bench", "--suite", "others", "--rounds", "1", "--json")
    (row,) = vdla(*arguments, "--only", "2000x128x33").document()["rows"]
    assert row["name"] == "2000x128x33" and row["error"] <= 1e-5
    assert "no row 'C1'" in vdla(*arguments, "--only", "C1").message()


def test_unknown_rows_are_refused(vdla) -> None:
    assert "no row 'C0'" in vdla("bench", "--only", "C1,C0", "--json").message()
