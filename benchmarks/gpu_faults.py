"""Faults in scheduled GPU kernels: the check that refuses each of them, and the results of running the kernel without
checks.

    python benchmarks/gpu_faults.py [--only NAME ...] [--write]

Every fault is a change of the loop IR of a right kernel (vdla.verify.faults.gpu lists them). "check": the check of
`compiler.codegen.cuda.prepare` that refuses it. "numbers": the results of the faulty kernel, emulated on this processor
with all checks switched off. Needs no GPU. Exits 1 if a fault is neither refused nor changes results. With `--write`
the verdicts on all faults go to benchmarks/results/gpu_faults.json.
"""

from __future__ import annotations

from dataclasses import asdict

from vdla.benchmarks.harness.command_line import ONLY, WRITE, Given, run_script
from vdla.benchmarks.harness.results import write_results
from vdla.verify.faults.gpu import FAULTS, run_fault

OPTIONS = (ONLY.but(help="names of the faults to test", part=True), WRITE)


def main(options: Given) -> int:
    """Prints two lines for each fault: the check that refuses the faulty kernel with its message, and whether the
    kernel gives wrong results without checks. Returns the exit code: 1 if a fault is missed, else 0.
    """
    missed: list[str] = []
    rows: list[dict[str, str]] = []
    for fault in FAULTS:
        if options.only and fault.name not in options.only:
            continue
        verdict = run_fault(fault)
        if not verdict.check and not verdict.numbers:
            missed.append(fault.name)
        rows.append({"name": fault.name, "breaks": fault.breaks, **asdict(verdict)})
        print(f"{fault.name:32} check {verdict.check or '-':14} numbers {verdict.numbers or '-'}")
        print(f"    {verdict.message or fault.breaks}")
    if options.write:
        write_results("gpu_faults", {"faults": len(rows), "caught": len(rows) - len(missed), "rows": rows})
    print(f"missed: {', '.join(missed) or 'none'}")
    return 1 if missed else 0


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
