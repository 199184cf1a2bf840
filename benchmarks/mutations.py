"""Mutations of the RTL, made by Yosys: the number that co-simulation catches, and the mutations that survive.

    python benchmarks/mutations.py [--machine tiny] [--seeds 2 3 4] [--count 200] [--programs 500] [--jobs 2] [--json]
                                   [--write]

A campaign is one machine and one seed, which draws the mutations and the programs. One netlist contains all mutations.
Each mutation runs the same co-simulation programs, the shortest first, until a program's result differs from the
simulator's, or a program does not end. Then the mutation is caught. A mutation that no program catches is compared with
the design in ever larger parts (vdla.hw.synthesis.equivalence), which may prove that the two are equivalent. A mutation
that is neither caught nor proven equivalent is a survivor, listed with its line of Verilog and the results of the
comparisons.

The campaign of `tiny` with seed 1 proves nothing, because the programs were improved until they caught its mutations.
Seeds 2, 3 and 4 and the machine `EIGHT` (an accelerator configuration of 8x8 with all extensions) were never used for
improvements. The first campaign of a machine builds its library (a minute or more). With `--write` each campaign goes
to benchmarks/results/mutations.json as it ends, in place of the campaign of the same machine and seed.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from vdla.benchmarks.harness.command_line import (
    COUNT,
    JOBS,
    OUTPUT,
    PROGRAMS,
    SEEDS,
    Given,
    Option,
    run_script,
)
from vdla.benchmarks.harness.results import RESULTS, provenance, read_results, write_results
from vdla.hw.synthesis.equivalence import Comparison, Outcome, prove_equivalent
from vdla.hw.synthesis.mutants import Mutants, Mutation, make_mutants
from vdla.hw.verilog import generate_verilog
from vdla.isa.config import KIB, Config, load_config
from vdla.isa.extensions import EXTENSIONS
from vdla.verify.faults.mutants import Verdict, expected_programs, run_mutants

NAME = "mutations"
TUNED_ON = ("tiny", 1)
"""The campaign whose mutations were used to improve the co-simulation programs, as (machine, seed)."""
EIGHT = "8x8, all extensions"


def machine(name: str) -> Config:
    """The machine `name`: a preset, or `EIGHT`, whose array has twice the sides of `tiny`'s. The co-simulation programs
    were not improved on mutations of `EIGHT`.
    """
    if name != EIGHT:
        return load_config(name)
    return replace(
        load_config("tiny"),
        name=EIGHT,
        block_in=8,
        block_out=8,
        inp_buffer_bytes=4 * KIB,
        wgt_buffer_bytes=8 * KIB,
        acc_buffer_bytes=8 * KIB,
        acc_banks=2,
        extensions=EXTENSIONS,
    )


def measure(
    config: Config, count: int, seed: int, programs: int, jobs: int, seconds: float
) -> dict[str, Any]:
    """Draws `count` mutations of the Verilog of `config` and `programs` random programs, both with `seed`, and runs
    each mutated machine beside the simulator, `jobs` machines at a time. Mutations that no program catches are compared
    with the design; a comparison takes at most `seconds`. Returns the campaign's figures by name. Raises SystemExit if
    the design without a mutation already differs from the simulator.
    """
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

    # If the unchanged design differs, every mutation would count as caught.
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
        "programs_were_improved_on_it": (config.name, seed) == TUNED_ON,
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
    """For each mutation in `left`, its comparisons with the design; if one proves equivalence, it is the last.

    `mutants`: the design with all its mutations; `jobs`: number of mutations compared at a time; `seconds`: time limit
    of one comparison.
    """

    def compare(mutation: Mutation) -> tuple[Comparison, ...]:
        comparisons = prove_equivalent(mutants, mutation, seconds=seconds)
        print(f"mutation {mutation.number}: {comparisons[-1]}", file=sys.stderr, flush=True)
        return comparisons

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        return list(pool.map(compare, left))


def _row(mutation: Mutation) -> dict[str, Any]:
    names = ("number", "mode", "path", "cell", "port", "bit", "code")
    return {name: getattr(mutation, name) for name in names}


def keep(campaign: dict[str, Any]) -> Path:
    """Writes the figures of one campaign (a machine and a seed), with provenance, to benchmarks/results/mutations.json,
    which also holds campaigns of other machines and seeds; returns the file's path.
    """
    held = []
    if (RESULTS / f"{NAME}.json").exists():
        held = read_results(NAME)["campaigns"]
    key = (campaign["config"], campaign["seed"])
    others = [item for item in held if (item["config"], item["seed"]) != key]
    rows = sorted([*others, {"measured": provenance(), **campaign}], key=lambda c: (c["config"], c["seed"]))
    return write_results(NAME, {"campaigns": rows})


def line(campaign: dict[str, Any]) -> str:
    """The figures of one campaign (a machine and a seed) as a line of text."""
    rest = campaign["mutations"] - campaign["proven_equivalent"]
    return (
        f"{campaign['config']}, seed {campaign['seed']}: {campaign['caught']} of {campaign['mutations']} caught "
        f"({campaign['caught_fraction']:.1%}), {campaign['proven_equivalent']} proven equivalent: "
        f"{campaign['caught']} of {rest} ({campaign['caught_fraction_of_those_not_equivalent']:.1%})"
    )


OPTIONS = (
    Option("--machine", f"machine: a preset, or {EIGHT!r}", default="tiny"),
    SEEDS.but(default=[2, 3, 4], nargs="+", help="seeds of the mutations, one campaign for each"),
    COUNT.but(default=200),
    PROGRAMS.but(default=500),
    JOBS,
    Option("--seconds", "seconds of a comparison, without its preparation", float, 40.0),
    *OUTPUT,
)


def main(options: Given) -> None:
    config = machine(options.machine)
    campaigns = []
    for seed in options.seeds:
        campaign = measure(config, options.count, seed, options.programs, options.jobs, options.seconds)
        campaigns.append(campaign)
        if options.write:
            keep(campaign)
        if not options.json:
            print(line(campaign), flush=True)
            for survivor in campaign["survivors"]:
                print(f"  {survivor}")
    if options.json:
        print(json.dumps({"campaigns": campaigns}, indent=2))


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
