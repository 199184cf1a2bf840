"""Faults in scheduled GPU kernels: what refuses each of them, and what the numbers show where nothing does.

    python benchmarks/gpu_faults.py [--only NAME ...]

Every fault is a change of the loop IR of a right kernel (vdla.codesign.faults.gpu lists them). "check": the check of
`compiler.target.cuda.prepare` that refuses it. "numbers": the results of the faulty kernel, emulated on this machine
with all checks switched off. Needs no GPU. Exits 1 if a fault is seen by neither.
"""

from __future__ import annotations

import argparse
import sys

from vdla.codesign.faults.gpu import FAULTS, run_fault


def main() -> None:
    """Prints a line for each fault, with the message below it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", metavar="NAME", help="names of faults")
    arguments = parser.parse_args()
    missed: list[str] = []
    for fault in FAULTS:
        if arguments.only and fault.name not in arguments.only:
            continue
        verdict = run_fault(fault)
        if not verdict.check and not verdict.numbers:
            missed.append(fault.name)
        print(f"{fault.name:32} check {verdict.check or '-':14} numbers {verdict.numbers or '-'}")
        print(f"    {verdict.message or fault.breaks}")
    print(f"missed: {', '.join(missed) or 'none'}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
