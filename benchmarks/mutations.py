"""200 mutations of the RTL by Yosys against co-simulation: how many are caught, and which survive.

    python benchmarks/mutations.py [--count 200] [--seed 1] [--programs 300] [--jobs 2] [--json]

The mutations are drawn from the design `tiny` and stand in one netlist; every one runs the same co-simulation
programs until one ends in another way than on the simulator, or not at all. Survivors are explained in
benchmarks/results/mutations.md. The first run builds the library (a minute).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from typing import Any

from vdla.codesign.faults.mutants import Verdict, expected_programs, run_mutants
from vdla.hw.synthesis.mutants import make_mutants
from vdla.hw.verilog import generate_verilog
from vdla.isa.config import load_config


def measure(count: int, seed: int, programs: int, jobs: int) -> dict[str, Any]:
    config = load_config("tiny")
    started = time.monotonic()
    mutants = make_mutants(
        generate_verilog(config, trace_ports=True), count=count, seed=seed, report=lambda text: None
    )
    expected = expected_programs(config, programs, campaign=seed)
    finished = 0

    def done(verdict: Verdict) -> None:
        nonlocal finished
        finished += 1
        if not verdict.caught or finished % 20 == 0:
            print(f"{finished} done; {verdict}", file=sys.stderr, flush=True)

    verdicts = run_mutants(mutants, range(count + 1), expected, jobs=jobs, done=done)
    if verdicts[0].caught:
        raise SystemExit(
            f"the design without a mutation differs from the simulator: {verdicts[0].difference}"
        )
    caught = [verdict for verdict in verdicts[1:] if verdict.caught]
    survivors = [
        {
            "number": mutation.number,
            "mode": mutation.mode,
            "path": mutation.path,
            "cell": mutation.cell,
            "port": mutation.port,
            "bit": mutation.bit,
            "code": mutation.code,
        }
        for mutation, verdict in zip(mutants.mutations, verdicts[1:], strict=True)
        if not verdict.caught
    ]
    return {
        "config": config.name,
        "mutations": count,
        "seed": seed,
        "programs": programs,
        "cycles_of_the_programs": sum(item.simulated.cycles for item in expected),
        "caught": len(caught),
        "caught_fraction": len(caught) / count,
        "caught_by_first_10_programs": sum((v.program or 0) < 10 for v in caught),
        "ways": dict(Counter((verdict.difference or "").split()[0] for verdict in caught).most_common()),
        "survivors": survivors,
        "seconds": round(time.monotonic() - started, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    document = measure(arguments.count, arguments.seed, arguments.programs, arguments.jobs)
    if arguments.json:
        print(json.dumps(document, indent=2))
        return
    print(f"{document['caught']} of {document['mutations']} caught ({document['caught_fraction']:.1%})")
    for survivor in document["survivors"]:
        print(f"  {survivor}")


if __name__ == "__main__":
    main()
