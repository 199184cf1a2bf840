"""Tuning records for tests: tasks, a record and its line of JSON, and files of several records."""

from __future__ import annotations

from pathlib import Path

from vdla.compiler.records.line import record_line
from vdla.compiler.records.record import Record, Task

WORKLOAD = {"template": "conv2d", "height": 56, "kernel": [3, 3], "relu": True}
VDLA = {"kind": "vdla", "config": "vta", "digest": "ed06"}
LLVM = {"kind": "llvm", "triple": "x86_64-linux-gnu", "cpu": "znver5", "digest": "77aa"}
TASK = Task(workload=WORKLOAD, target=VDLA)
LINE = (
    b'{"version":1,"workload":{"height":56,"kernel":[3,3],"relu":true,"template":"conv2d"},'
    b'"target":{"config":"vta","digest":"ed06","kind":"vdla"},"knobs":{"rows":4,"threads":2},"cost":7040.0,'
    b'"unit":"cycles","error":null,"trial":3,"seed":1,"strategy":"model","elapsed":0.25}\n'
)


def trial(number: int = 3, cost: float | None = 7040.0, task: Task = TASK, **changes) -> Record:
    fields = {
        "task": task,
        "knobs": {"rows": 4, "threads": 2},
        "cost": cost,
        "error": None if cost is not None else "does not fit",
        "trial": number,
        "seed": 1,
        "strategy": "model",
        "elapsed": 0.25,
    }
    return Record(**{**fields, **changes})


def file_of(tmp_path: Path, *records: Record, name: str = "r.jsonl") -> Path:
    path = tmp_path / name
    path.write_bytes(b"".join(map(record_line, records)))
    return path
