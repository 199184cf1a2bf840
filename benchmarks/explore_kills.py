"""Studies killed with kill -9 at 20 moments and resumed: their records are compared with records of undisturbed
studies.

    python benchmarks/explore_kills.py [--kills 20] [--json] [--write]

`vdla explore` searches a small space on two small networks, with each strategy of `STRATEGIES` and with one and two
processes in turn. At a seeded moment (while it starts, at some byte of its records, while it writes the report) its
whole process group is killed, and the same command is given again. "same" counts the studies whose records.jsonl,
designs.csv and the front's machines equal, byte for byte, those of an undisturbed study of the same strategy; "twice"
counts evaluations that were repeated although their record was whole. With `--write` the figures go to
benchmarks/results/explore_kills.json.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from vdla.benchmarks.harness.command_line import OUTPUT, Given, Option, run_script
from vdla.benchmarks.harness.output import finish
from vdla.benchmarks.harness.vdla_command import ENTRY, size
from vdla.codesign import models

NETWORKS = ("mlp", "small_cnn")
SPACE = """base = "vta"
[fields]
block_in = [4, 8, 16, 32]
block_out = "block_in"
inp_buffer_bytes = { from = 2048, to = 32768, times = 2 }
acc_buffer_bytes = { from = 8192, to = 131072, times = 2 }
bus_bytes = [8, 16, 32]
"""
BUDGET, BATCH = 60, 10
STRATEGIES = ("model", "nsga2")
STARTING, SEARCHING, WRITING = "starting", "searching", "writing the report"
PARTS = {STARTING: 0.2, SEARCHING: 0.6, WRITING: 0.2}
"""The three phases of an exploration (starting, searching, writing the report), each with its share of the random
moments at which the process is killed.
"""
LONGEST = 600.0
"""Time limit of one `vdla explore` command, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The files of an exploration that was not killed; the seconds until its first record (`start`), and the seconds
    from its last record to its end (`end`).
    """

    records: bytes
    designs: bytes
    front: dict[str, bytes]
    start: float
    end: float


def command(folder: Path, study: Path, strategy: str, workers: int) -> list[str]:
    """The command line of `vdla explore` with the search `strategy` and that number of `workers`, as a user would type
    it, for the space and the networks in `folder` and the output folder `study`.
    """
    networks = [word for name in NETWORKS for word in ("--network", str(folder / f"{name}.onnx"))]
    options = {"--budget": BUDGET, "--batch": BATCH, "--strategy": strategy, "--workers": workers}
    words = [str(word) for pair in options.items() for word in pair]
    return [
        *(*ENTRY, "explore", str(folder / "space.toml"), "--json"),
        *("-o", str(study), "--no-pictures", "--layers", "4", *networks, *words),
    ]


def started(words: list[str]) -> subprocess.Popen[bytes]:
    """Starts the command `words` as the leader of a process group of its own; its output is dropped."""
    return subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


def ended(words: list[str]) -> dict[str, Any]:
    """Runs the command `words` to its end. Returns the JSON document that it prints; ends the benchmark if it fails."""
    done = subprocess.run(words, capture_output=True, timeout=LONGEST, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: ended with {done.returncode}\n{done.stderr.decode()}")
    return json.loads(done.stdout)


def study_files(study: Path) -> tuple[bytes, bytes, dict[str, bytes]]:
    """The contents of files that an exploration has left in its folder `study`: records, table of designs, and the
    machines of the Pareto front by file name.
    """
    front = {path.name: path.read_bytes() for path in (study / "front").glob("*.toml")}
    return (study / "records.jsonl").read_bytes(), (study / "designs.csv").read_bytes(), front


def uninterrupted(words: list[str], study: Path) -> Whole:
    """Runs the exploration `words`, which writes to the folder `study`, without killing it; returns its files, and the
    seconds of its phases.
    """
    begin, first, last, bytes_seen = time.monotonic(), 0.0, 0.0, 0
    process = started(words)
    while process.poll() is None:
        now = size(study / "records.jsonl")
        if now > bytes_seen:
            bytes_seen, last = now, time.monotonic()
            first = first or last
        time.sleep(0.005)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)}: ended with {process.returncode}")
    records, designs, front = study_files(study)
    return Whole(
        records=records, designs=designs, front=front, start=first - begin, end=time.monotonic() - last
    )


def searched(records: bytes) -> int:
    """Number of complete records of designs that the search chose in `records`, the bytes of records.jsonl.

    Records of later steps, in which designs of the front are tuned further, have another key and do not count.
    """
    keys = [json.loads(line)["study"] for line in records.splitlines(keepends=True) if line.endswith(b"\n")]
    return keys.count(keys[0]) if keys else 0


def killed(words: list[str], study: Path, whole: Whole, random: Random) -> str:
    """Starts the exploration `words`, which writes to the folder `study`, and kills its process group at a random
    moment. Returns the phase of the exploration (one of PARTS) that was running then. `whole`: the same exploration
    undisturbed.

    If the exploration ends before that moment, it is started again from the beginning, with an earlier moment.
    """
    (part,) = random.choices(list(PARTS), list(PARTS.values()))
    at = random.randrange(1, len(whole.records)) if part == SEARCHING else 0
    delay = {STARTING: whole.start, SEARCHING: 0.05, WRITING: whole.end}[part] * random.random()
    while True:
        process = started(words)
        wanted = {STARTING: 0, SEARCHING: at, WRITING: len(whole.records)}[part]
        while size(study / "records.jsonl") < wanted and process.poll() is None:
            time.sleep(0.001)
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        if process.wait() == -signal.SIGKILL:
            return part if size(study / "records.jsonl") or part == STARTING else STARTING
        delay /= 2
        for path in (study / "records.jsonl", study / "study.json"):
            path.unlink(missing_ok=True)


def measure(folder: Path, kills: int) -> dict[str, Any]:
    """Kills and resumes explorations in `folder`, `kills` times in all; returns all figures of the benchmark
    by name.
    """
    for name in NETWORKS:
        models.write(folder / f"{name}.onnx", name)
    (folder / "space.toml").write_text(SPACE)
    wholes: dict[str, Whole] = {}
    for strategy in STRATEGIES:
        study = folder / f"whole {strategy}"
        wholes[strategy] = uninterrupted(command(folder, study, strategy, 1), study)
    random, rows = Random(0), []
    for number in range(kills):
        strategy, workers = STRATEGIES[number % len(STRATEGIES)], 1 + number // 2 % 2
        study, whole = folder / f"study {number}", wholes[strategy]
        words = command(folder, study, strategy, workers)
        part = killed(words, study, whole, random)
        records = study / "records.jsonl"
        had = records.read_bytes() if records.exists() else b""
        evaluated = ended(words)["evaluated"]
        rows.append(
            {
                "strategy": strategy,
                "processes": workers,
                "killed while": part,
                "records then": had.count(b"\n"),
                "same": study_files(study) == (whole.records, whole.designs, whole.front),
                "twice": searched(had) + evaluated - searched(whole.records),
            }
        )
        print(rows[-1], file=sys.stderr, flush=True)
    return {
        "kills": kills,
        "same": sum(row["same"] for row in rows),
        "twice": sum(row["twice"] for row in rows),
        "records": {strategy: whole.records.count(b"\n") for strategy, whole in wholes.items()},
        "killed while": dict(Counter(row["killed while"] for row in rows)),
        "studies": rows,
    }


OPTIONS = (Option("--kills", "number of studies that are killed", int, 20), *OUTPUT)


def main(options: Given) -> int:
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), options.kills)
    same, twice = figures["same"], figures["twice"]
    lines = [f"{same} of {options.kills} studies have the same records; {twice} evaluations twice"]
    finish(options, "explore_kills", figures, lines=lines, packages=("xgboost-cpu", "optuna"))
    return same < options.kills or twice > 0


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
