"""The verdicts on seeded faults: `--update` tries the missing ones alone, and each row has its own commit."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vdla.benchmarks import faults
from vdla.benchmarks.harness import results
from vdla.verify.faults.fault import Fault
from vdla.verify.faults.table import FAULTS


def row(fault: Fault, **more: Any) -> dict[str, Any]:
    return {**faults.described(fault), "breaks": fault.breaks, "caught": True, "program": 0, **more}


def test_an_update_tries_missing_and_changed_faults_and_keeps_the_other_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, changed, *missing = FAULTS[:4]
    gone = {**row(kept), "name": "a fault that is not in the table"}
    path = tmp_path / "faults.json"
    rows = [gone, row(changed, faulty="another line"), row(kept, difference="memory")]
    path.write_text(json.dumps({"written": {"commit": "before"}, "rows": rows}))
    tried: list[str] = []

    def judge(fault: Fault, programs: int) -> SimpleNamespace:
        tried.append(fault.name)
        if fault is missing[-1]:
            raise KeyboardInterrupt
        return SimpleNamespace(program=3, difference="cycles")

    for module in (faults, results):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setattr(faults, "FAULTS", FAULTS[:4])
    monkeypatch.setattr(faults, "run_fault", judge)
    monkeypatch.setattr(faults, "provenance", lambda *_: {"commit": "now"})
    options: Any = SimpleNamespace(update=True, only=(), programs=1, json=False, write=False)
    with pytest.raises(KeyboardInterrupt):
        faults.main(options)
    assert tried == [changed.name, *(fault.name for fault in missing)]
    found = json.loads(path.read_text())
    assert (found["faults"], found["caught"]) == (3, 3)
    assert [(item["name"], item["commit"]) for item in found["rows"]] == [
        (kept.name, "before"),
        (changed.name, "now"),
        (missing[0].name, "now"),
    ]
    assert found["rows"][0]["difference"] == "memory" and found["rows"][1]["faulty"] == changed.faulty
    tried.clear()
    with pytest.raises(KeyboardInterrupt):
        faults.main(options)
    assert tried == [missing[-1].name]
