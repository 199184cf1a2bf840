"""`vdla explore` as a new user runs it: 300 designs for ResNet-18 and MobileNet, from an empty folder to the report.

    python benchmarks/explore_campaign.py [--designs 300] [--workers 2] [--strategy model] [--folder DIR] [--write]

The two models are written first, which is not timed. Then one command is timed from start to end (wall clock): search,
evaluations in `--workers` processes, tables, layers of the designs on the front, pages, pictures. It starts without
records of earlier studies. "seconds until" are the seconds from the start to the first record, the last record, the
tables and the end. Figures are valid only if nothing else runs on the cores. With `--write` the figures go to
benchmarks/results/explore_campaign.json.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from vdla.benchmarks.harness.command_line import DESIGNS, FOLDER, OUTPUT, WORKERS, Given, Option, run_script
from vdla.benchmarks.harness.output import finish
from vdla.benchmarks.harness.vdla_command import ENTRY, size
from vdla.codesign import models

NETWORKS = ("resnet18", "mobilenet")
SPACE = """base = "vta"
[fields]
block_in = [8, 16, 32, 64]
block_out = "block_in"
inp_buffer_bytes = { from = 8192, to = 131072, times = 2 }
wgt_buffer_bytes = { from = 65536, to = 1048576, times = 2 }
acc_buffer_bytes = { from = 32768, to = 524288, times = 2 }
acc_banks = [2, 4, 8]
bus_bytes = [8, 16, 32, 64]
post_lanes = [2, 4, 8]
"""
LONGEST = 7200.0
"""Time limit of the measured `vdla explore` command, in seconds."""


def measure(folder: Path, designs: int, workers: int, strategy: str) -> dict[str, Any]:
    """Runs `vdla explore` for `designs` designs with `workers` processes and the search `strategy`; returns all figures
    of the benchmark by name. Files are in `folder`, which must not have a study yet.
    """
    for name in NETWORKS:
        models.write(folder / f"{name}.onnx", name)
    (folder / "space.toml").write_text(SPACE)
    study = folder / "study"
    if study.exists():
        raise SystemExit(f"{study}: exists; from nothing to the report needs a folder without it")
    networks = [word for name in NETWORKS for word in ("--network", str(folder / f"{name}.onnx"))]
    options = ("--budget", str(designs), "--workers", str(workers), "--strategy", strategy)
    words = ("explore", str(folder / "space.toml"), *networks, *options, "-o", str(study), "--json")
    begin, until = time.monotonic(), dict[str, float]()
    with (folder / "out.json").open("wb") as out, (folder / "err.txt").open("wb") as err:
        process = subprocess.Popen((*ENTRY, *words), stdout=out, stderr=err)
        seen = 0
        while process.poll() is None:
            now = time.monotonic() - begin
            if now > LONGEST:
                process.kill()
            written = size(study / "records.jsonl")
            if written > seen:
                seen, until["last record"] = written, now
                until.setdefault("first record", now)
            if size(study / "designs.csv"):
                until.setdefault("tables", now)
            time.sleep(0.1)
    until["end"] = time.monotonic() - begin
    if process.returncode:
        raise SystemExit(f"ended with {process.returncode}: {(folder / 'err.txt').read_text()}")
    found = json.loads((folder / "out.json").read_text())
    return {
        "networks": list(NETWORKS),
        "workers": workers,
        "strategy": strategy,
        "designs": found["designs"],
        "failed": found["failed"],
        "front": len(found["front"]),
        "seconds until": {
            name: round(seconds, 1) for name, seconds in sorted(until.items(), key=lambda i: i[1])
        },
        "bytes of the report": size(study / "report.html"),
        "command": " ".join(("vdla", *(Path(w).name if w.startswith(str(folder)) else w for w in words))),
    }


OPTIONS = (
    DESIGNS.but(default=300),
    WORKERS,
    Option("--strategy", "search strategy, as for vdla explore", default="model"),
    FOLDER.but(help="folder in which the study is stored"),
    *OUTPUT,
)


def main(options: Given) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        figures = measure(folder, options.designs, options.workers, options.strategy)
    lines = [json.dumps(figures)]
    finish(options, "explore_campaign", figures, lines=lines, packages=("xgboost-cpu", "optuna"))


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
