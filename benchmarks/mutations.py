"""200 mutations of the RTL by Yosys against co-simulation: how many are caught, and which survive.

    python benchmarks/mutations.py [--count 200] [--seed 1] [--programs 500] [--jobs 2] [--json] [--write]

The mutations are drawn from the design `tiny` and stand in one netlist; every one runs the same co-simulation
programs, the shortest first, until one ends in another way than on the simulator, or not at all. What no program
tells from the design is compared with it in ever larger parts (vdla.hw.synthesis.equivalence), which may prove it
equivalent. What is neither caught nor proven is a survivor, listed with its line of Verilog and with what the
comparisons came to. The first run builds the library (a minute). With `--write` the figures go to
benchmarks/results/mutations.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from vdla.codesign.faults.mutants import Verdict, expected_programs, run_mutants
from vdla.hw.synthesis.equivalence import Comparison, Outcome, prove_equivalent
from vdla.hw.synthesis.mutants import Mutants, Mutation, make_mutants
from vdla.hw.verilog import generate_verilog
from vdla.isa.config import load_config
from vdla.isa.program import write_whole

RESULTS = Path(__file__).parent / "results" / "mutations.json"


def measure(count: int, seed: int, programs: int, jobs: int, seconds: float) -> dict[str, Any]:
    """Every figure by name."""
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

    # Where the design itself differs, every mutation would count as caught.
    plain = run_mutants(mutants, [0], expected)[0]
    if plain.caught:
        raise SystemExit(
            f"the design without a mutation differs from the simulator in program {plain.program}: "
            f"{plain.difference}"
        )
    verdicts = run_mutants(mutants, range(1, count + 1), expected, jobs=jobs, done=done)
    caught = [verdict for verdict in verdicts if verdict.caught]
    left = [item for item, verdict in zip(mutants.mutations, verdicts, strict=True) if not verdict.caught]
    compared = _compare(mutants, left, jobs, seconds)
    equivalent, survivors = list[dict[str, Any]](), list[dict[str, Any]]()
    for item, comparisons in zip(left, compared, strict=True):
        if comparisons[-1].outcome is Outcome.PROVEN:
            equivalent.append(_row(item) | {"proof": str(comparisons[-1])})
        else:
            survivors.append(_row(item) | {"compared": [str(comparison) for comparison in comparisons]})
    return {
        "config": config.name,
        "mutations": count,
        "seed": seed,
        "programs": programs,
        "cycles_of_the_programs": sum(item.simulated.cycles for item in expected),
        "caught": len(caught),
        "caught_fraction": len(caught) / count,
        "proven_equivalent": len(equivalent),
        "caught_fraction_of_those_not_equivalent": len(caught) / (count - len(equivalent)),
        "caught_by_first_10_programs": sum((v.program or 0) < 10 for v in caught),
        "ways": dict(Counter((verdict.difference or "").split()[0] for verdict in caught).most_common()),
        "survivors": survivors,
        "equivalent": equivalent,
        "seconds": round(time.monotonic() - started, 1),
    }


def _compare(
    mutants: Mutants, left: Sequence[Mutation], jobs: int, seconds: float
) -> list[tuple[Comparison, ...]]:
    """For each mutation of `left` its comparisons with the design; the last is a proof if there is one."""

    def compare(mutation: Mutation) -> tuple[Comparison, ...]:
        comparisons = prove_equivalent(mutants, mutation, seconds=seconds)
        print(f"mutation {mutation.number}: {comparisons[-1]}", file=sys.stderr, flush=True)
        return comparisons

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        return list(pool.map(compare, left))


def _row(mutation: Mutation) -> dict[str, Any]:
    names = ("number", "mode", "path", "cell", "port", "bit", "code")
    return {name: getattr(mutation, name) for name in names}


def main() -> None:
    """Prints the figures, as JSON or for people."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--programs", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=40.0, help="of a comparison, once it is prepared")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/mutations.json")
    options = parser.parse_args()
    document = measure(options.count, options.seed, options.programs, options.jobs, options.seconds)
    if options.write:
        RESULTS.parent.mkdir(exist_ok=True)
        write_whole(RESULTS, (json.dumps(document, indent=2) + "\n").encode())
    if options.json:
        print(json.dumps(document, indent=2))
        return
    rest = document["mutations"] - document["proven_equivalent"]
    print(
        f"{document['caught']} of {document['mutations']} caught ({document['caught_fraction']:.1%}), "
        f"{document['proven_equivalent']} proven equivalent: {document['caught']} of {rest} "
        f"({document['caught_fraction_of_those_not_equivalent']:.1%})"
    )
    for survivor in document["survivors"]:
        print(f"  {survivor}")


if __name__ == "__main__":
    main()
