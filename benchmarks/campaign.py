"""All checks that take too long for `make test`: every case of every test, and the long checks of RTL, simulator and
kernels.

    python benchmarks/campaign.py [STEP ...]          make campaign CAMPAIGN="cosim faults"

Without names all steps run, and their results go to benchmarks/results/campaign.json; each step writes its own figures
there, too. A step's output is printed at once; the summary is last. Exits 1 if a step fails, after all have run. Takes
hours on two cores.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass

from vdla.benchmarks.harness.catalogue import CAMPAIGN, members
from vdla.benchmarks.harness.command_line import Given, Option, run_script
from vdla.benchmarks.harness.results import ROOT, write_results


@dataclass(frozen=True, slots=True)
class Step:
    """A step called `name`: Python with the command line `arguments`, run in the root of the repository. It fails if
    the exit code is not 0. `about`: one line of text on what it does.
    """

    name: str
    about: str
    arguments: tuple[str, ...]


STEPS = (
    Step("tests", "every case of every test", ("-m", "pytest", "-n", "2", "-q", "--campaign")),
    *(Step(row.name, row.about, (row.path, "--write")) for row in members(CAMPAIGN)),
    Step("mutations_8x8", "mutations of a machine nothing was tuned on", (
        "benchmarks/mutations.py", "--machine", "8x8, all extensions", "--seeds", "2", "--write",
    )),
)  # fmt: skip
NAMES = tuple(step.name for step in STEPS)
ABOUT = "; ".join(f"{step.name}, {step.about}" for step in STEPS)
OPTIONS = (
    Option(
        "steps", f"steps to run (default: all): {ABOUT}", nargs="*", metavar="STEP", known=NAMES, kind="step"
    ),
)


def main(options: Given) -> int:
    """Runs the steps whose names are given (or all), and prints the result of each; results of all steps are also
    written to benchmarks/results. Returns the exit code: 1 if a step failed, else 0.
    """
    rows = [_run(step) for step in STEPS if step.name in options.steps or not options.steps]
    if len(rows) == len(STEPS):
        write_results("campaign", {"steps": rows})
    print()
    for row in rows:
        print(f"{'passed' if row['passed'] else 'FAILED'}  {row['step']:14} {row['minutes']:6.1f} min")
    failed = sum(not row["passed"] for row in rows)
    print(f"{len(rows) - failed} passed, {failed} failed")
    return bool(failed)


def _run(step: Step) -> dict[str, str | bool | float]:
    print(f"== {step.name}: {step.about}", flush=True)
    started = time.monotonic()
    done = subprocess.run([sys.executable, *step.arguments], cwd=ROOT, check=False)
    minutes = round((time.monotonic() - started) / 60, 1)
    return {"step": step.name, "about": step.about, "passed": done.returncode == 0, "minutes": minutes}


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
