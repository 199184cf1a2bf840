"""GPU kernels and networks: checked against float64, then timed against torch where that is installed.

    python benchmarks/gpu.py [--device cuda:0|cuda:emulated] [--check-only] [--only NAME ...] [--update]
                             [--rounds N] [--library-convolutions] [--json]

First every operator, the layers C1-C12 and D1-D9, products of all precisions and five networks are checked. If all are
within the tolerances of `benchmarks/harness/gpu_suite.py`, layers, products and networks (batch 1) are timed by the
device's clock. Our kernels run in a CUDA graph. The peers are ways to run torch (cuDNN, cuBLAS): in a CUDA graph,
eager, and, for networks, compiled by torch.compile at max-autotune, also in a CUDA graph. Our kernels and each peer
take turns; a row has the medians of the ratios peer's time / our time: above 1 our kernels are faster. A peer's outputs
are compared with ours first; if they differ, nothing is written. Layers have equal pads on all sides, since torch would
run one more kernel for unequal pads. Our weights are prepared ahead of the timed calls: packed, and for Winograd
convolutions transformed. Repetitions of our graph overlap if the card supports it (programmatic dependent launch). TF32
is off on both sides, except in rows that say tf32.

At max-autotune, torch.compile also compiles Triton's convolutions, which takes ten minutes and more for ResNet-18. With
--library-convolutions, it uses only cuDNN's convolutions, and its column says so. All rows are written to
benchmarks/results/gpu-CARD.json at the end, or none. --only takes names of rows and of groups (convolutions, "depthwise
convolutions", products, operators, networks). The rows that it selects are written only with --update, which replaces
them in the card's file and leaves all other rows there. Each row has its date and commit.

Without a GPU, --device cuda:emulated runs the checks on this processor, in reduced shapes. Exit codes: 1 where a check
fails, 2 where it cannot run.
"""

from __future__ import annotations

import json
import re
import sys
from datetime import date
from pathlib import Path
from typing import Any

from vdla.benchmarks.harness.command_line import JSON, ONLY, ROUNDS, Given, Option, run_script
from vdla.benchmarks.harness.gpu_run import Platform
from vdla.benchmarks.harness.gpu_suite import (
    GpuRow,
    check_entry,
    checked_entries,
    choose_entries,
    geometric_means,
    measure_entry,
    timed_entries,
)
from vdla.benchmarks.harness.gpu_torch import find_torch
from vdla.benchmarks.harness.results import provenance
from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.runtime.cuda_core import open_device
from vdla.compiler.runtime.cuda_device import DeviceProperties, parse_device
from vdla.compiler.runtime.cuda_kind import device_target
from vdla.util.errors import UserError
from vdla.util.files import write_whole

RESULTS = Path(__file__).parent / "results"


OPTIONS = (
    Option("--device", "a GPU (cuda:0), or cuda:emulated", default="cuda:0"),
    Option("--arch", "architecture that cuda:emulated emulates", default="sm_90"),
    Option("--check-only", "check outputs, and time nothing", flag=True),
    ONLY.but(help="check and time only the rows and groups with these names"),
    Option("--update", "replace these rows in the card's results file, and leave its other rows", flag=True),
    ROUNDS.but(default=15),
    Option("--library-convolutions", "torch.compile uses only cuDNN's convolutions", flag=True),
    JSON,
)


def main(options: Given) -> int:
    if options.device == "cuda:emulated":
        return check(Platform(target=cuda_target(options.arch), device=None), options)
    with open_device(parse_device(options.device)) as device:
        properties = device.properties
        platform = Platform(target=device_target("cuda", properties), device=device)
        if failed := check(platform, options):
            return failed
        if not options.check_only:
            time_all(platform, properties, options)
    return 0


def check(platform: Platform, options: Given) -> int:
    reduced = platform.device is None
    known = (*checked_entries(reduced=reduced), *([] if reduced else timed_entries()))
    chosen = {entry.name for entry in choose_entries(known, options.only)}
    failures = 0
    results: list[dict[str, Any]] = []
    for entry in checked_entries(reduced=reduced):
        if entry.name not in chosen:
            continue
        try:
            outcome = check_entry(platform, entry, reduced=reduced)
        except UserError:
            raise
        except Exception as error:  # An error in one kernel must not end the checks of the others.
            print(
                f"{entry.name:28} {entry.precision:9} {type(error).__name__}: {first_line(error)}", flush=True
            )
            failures, results = failures + 1, [*results, {"name": entry.name, "error": None, "allowed": None}]
            continue
        failures += not outcome.good
        results.append({"name": entry.name, "error": outcome.error, "allowed": outcome.allowed})
        if not options.json or not outcome.good:
            verdict = "good" if outcome.good else "WRONG"
            print(
                f"{entry.name:28} {entry.precision:9} error {outcome.error:.1e} of {outcome.allowed:.1e}  {verdict}",
                file=sys.stderr if options.json else sys.stdout,
                flush=True,
            )
    if options.json and (reduced or options.check_only):
        print(json.dumps({"checks": results}))
    if failures:
        print(f"error: {failures} of {len(results)} checks failed; nothing was timed", file=sys.stderr)
    return 1 if failures else 0


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["no reason given"])[0]


def time_all(platform: Platform, properties: DeviceProperties, options: Given) -> None:
    torch = find_torch()
    if torch is None:
        print("torch is not installed: ours is timed alone", file=sys.stderr)
    rows: list[GpuRow] = []
    every = timed_entries()
    chosen = [
        entry
        for entry in every
        if entry in choose_entries((*every, *checked_entries(reduced=False)), options.only)
    ]
    for entry in chosen:
        row = measure_entry(
            platform, torch, entry, options.rounds, library_convolutions=options.library_convolutions
        )
        rows.append(row)
        if not options.json:
            peers = "  ".join(
                f"{name} {milliseconds:.4f} ms, ratio {row.ratios[name]:.2f}"
                for name, milliseconds in row.peers_ms.items()
            )
            print(
                f"{row.name:24} {row.ours_ms:9.4f} ms {row.gflops:10.1f} GFLOP/s {row.of_peak:6.1%}  {peers}",
                flush=True,
            )
    path = RESULTS / f"gpu-{re.sub('[^A-Za-z0-9]+', '-', properties.name).strip('-').lower()}.json"
    written_by = provenance(("torch", "nvidia-cuda-nvrtc"))
    written = rows_to_dicts(rows, date.today().isoformat(), written_by["commit"])
    if options.update:
        written = merged(path, written, [entry.name for entry in every])
    means = geometric_means(written)
    document = {
        "written": written_by,
        "prepared_ahead": "ours: packed weights, those of Winograd convolutions transformed",
        "repetitions_overlap": "ours, by programmatic dependent launch",
        "card": properties.name,
        "compute_capability": ".".join(map(str, properties.capability)),
        "multiprocessors": properties.multiprocessors,
        "clock_hz": properties.clock_hz,
        "memory_bytes": properties.memory_bytes,
        "memory_bytes_per_second": properties.memory_bandwidth,
        "driver": properties.driver,
        "torch": None if torch is None else torch.__version__,
        "date": date.today().isoformat(),
        "rounds": options.rounds,
        "geometric_means": means,
        "rows": written,
    }
    if options.json:
        print(json.dumps(document))
    else:
        for group, peers in means.items():
            for peer, mean in peers.items():
                print(f"geometric mean, {group}, against {peer}: {mean:.3f}")
    if options.update or len(chosen) == len(every):
        RESULTS.mkdir(exist_ok=True)
        write_whole(path, (json.dumps(document, indent=1) + "\n").encode())
        print(f"wrote {path}", file=sys.stderr)


def rows_to_dicts(rows: list[GpuRow], measured: str, commit: str) -> list[dict[str, Any]]:
    """Rows as dicts, each with the date `measured` and the commit of its measurement."""
    return [{**row.to_dict(), "date": measured, "commit": commit} for row in rows]


def merged(path: Path, rows: list[dict[str, Any]], order: list[str]) -> list[dict[str, Any]]:
    """Merges the new rows `rows` into the rows of the results file at `path`: a new row replaces the old row with the
    same name. `order`: names of all rows to return, in this order. A missing file counts as empty. Raises UserError if
    the file cannot be read.
    """
    try:
        held = json.loads(path.read_text())["rows"]
    except FileNotFoundError:
        held = []
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{path}: cannot be updated: {error}; move it away") from None
    by_name = {row["name"]: row for row in (*held, *rows)}
    return [by_name[name] for name in order if name in by_name]


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
