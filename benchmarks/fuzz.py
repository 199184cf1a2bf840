"""Damaged files of every kind, killed and interrupted commands, outputs that cannot be written: one verdict for each
case.

    python benchmarks/fuzz.py [--kinds models programs ...] [--count 10000] [--seed 0] [--workers 2] [--write]
    python benchmarks/fuzz.py --kinds models --seed 0 --case 4711        one case alone, with all its output

Kinds float_graphs, qdq_graphs, attributes and tflite_graphs draw valid graphs over every operator of the importers'
tables. For each operator they also print and write the number of cases with the operator, and the share of these cases
that is refused because of it. A case must be refused in one line, or run with right results (`vdla run` compares
outputs with ONNX Runtime or the interpreter; tflite_graphs are compared with LiteRT; three of four cases of tflite are
damaged). Tracebacks, crashes, cases that take longer than 20 s or all memory, and wrong numbers are failures: each is
printed with the command that repeats it, and the exit code is 1. Without --count each kind has its own number of cases.
With --write the numbers of cases by verdict go to benchmarks/results/fuzz.json and replace those of the same kind.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from vdla.benchmarks.fuzzing.commands import CALLS
from vdla.benchmarks.fuzzing.outcome import FAILURES, VERDICTS
from vdla.benchmarks.fuzzing.runner import LIMIT, Result, run_cases
from vdla.benchmarks.fuzzing.streams import MATRIX
from vdla.benchmarks.harness.command_line import COUNT, SEED, WORKERS, WRITE, Given, Option, run_script
from vdla.benchmarks.harness.results import RESULTS, read_results, write_results

NAME = "fuzz"
COUNTS = {
    "models": 10_000,
    "float_graphs": 10_000,
    "qdq_graphs": 10_000,
    "attributes": 10_000,
    "configurations": 1_000,
    "programs": 2_000,
    "archives": 500,
    "records": 500,
    "inputs": 500,
    "tflite": 3_000,
    "tflite_graphs": 2_000,
    "kills": 60,
    "streams": MATRIX,
    "interrupts": 20 * len(CALLS),
}
LIMITS = {"kills": 120.0, "streams": 900.0, "interrupts": 120.0, "tflite": 60.0, "tflite_graphs": 60.0}
"""Time limits in seconds of one fuzzing case, for the kinds of cases that take long. Cases of "kills", "streams" and
"interrupts" start new commands, some with empty caches (Yosys alone takes minutes). Cases of "tflite" and
"tflite_graphs" compile a graph up to four times and simulate an accelerator, or run a network whose damaged shape has a
gigabyte.
"""


OPTIONS = (
    Option("--kinds", "kinds of cases to run", choices=COUNTS, nargs="+", default=list(COUNTS)),
    COUNT.but(help="number of cases of each kind (default: each kind's own number)"),
    Option("--first", "index of the first case", int, 0),
    Option("--case", "run only the case with this index", int),
    SEED,
    WORKERS.but(help="number of processes that run cases"),
    WRITE,
)


def main(options: Given) -> int:
    """Runs the fuzzing cases of the chosen kinds, one after the other; returns the exit code, 1 if a case failed."""
    failed = 0
    for kind in options.kinds:
        if options.case is None:
            count = options.count or COUNTS[kind]
            indices = range(options.first, options.first + count)
        else:
            indices = range(options.case, options.case + 1)
        row = measure(kind, options.seed, indices, options.workers, show=options.case is not None)
        failed += len(row["failures"])
        counts = ", ".join(f"{row[verdict]} {verdict}" for verdict in VERDICTS if row[verdict])
        print(f"{kind}: {row['cases']} cases in {row['seconds']:.0f} s: {counts}", flush=True)
        if options.case is None and row["operators"]:
            print(_refusals(row["operators"]), flush=True)
        if options.write and row["cases"] >= COUNTS[kind]:
            _write(row)
        elif options.write:
            print(f"{kind}: not written: the page shows {COUNTS[kind]:,} cases or more")
    return bool(failed)


def measure(kind: str, seed: int, indices: range, workers: int, *, show: bool) -> dict[str, Any]:
    """Runs the fuzzing cases `indices` of one kind in up to `workers` processes; returns the number of cases by
    verdict, and the failures, which are also printed. `show`: prints verdict and detail of all other cases, too.
    """
    started = time.monotonic()
    failures: list[dict[str, Any]] = []
    slowest = 0.0
    counts: Counter[str] = Counter()
    operators: Counter[str] = Counter()
    blamed: Counter[str] = Counter()

    def done(result: Result) -> None:
        nonlocal slowest
        counts[result.outcome.verdict] += 1
        operators.update(result.outcome.operators)
        blamed.update(result.outcome.blamed)
        slowest = max(slowest, result.seconds)
        if result.outcome.verdict in FAILURES:
            again = f"python benchmarks/fuzz.py --kinds {kind} --seed {seed} --case {result.index}"
            failures.append(
                {"verdict": result.outcome.verdict, "detail": result.outcome.detail, "again": again}
            )
            print(f"{result.outcome.verdict}: {result.outcome.detail}\n    {again}", flush=True)
        elif show:
            print(f"{result.outcome.verdict}: {result.outcome.detail}")

    run_cases(
        kind, seed, indices, workers=min(workers, len(indices)), limit=LIMITS.get(kind, LIMIT), done=done
    )
    return {
        "kind": kind,
        "seed": seed,
        "first": indices.start,
        "cases": len(indices),
        **{verdict: counts[verdict] for verdict in VERDICTS},
        "slowest_seconds": round(slowest, 1),
        "seconds": round(time.monotonic() - started, 1),
        "failures": failures,
        "operators": {name: [operators[name], blamed[name]] for name in sorted(operators)},
    }


def _refusals(operators: dict[str, list[int]]) -> str:
    """A text for the kinds of cases that draw random graphs: the number of operators that occurred and, for each
    operator because of which graphs were rejected, the share of rejected graphs among the graphs with this operator.
    `operators`: by name of the operator, [number of graphs with the operator, number of graphs that were rejected
    because of the operator].
    """
    least = min(operators, key=lambda name: operators[name][0])
    lines = [f"  {len(operators)} operators, {least} the fewest times: {operators[least][0]}"]
    lines += [
        f"  {name:40} refused {refused / cases:6.1%} of {cases}"
        for name, (cases, refused) in sorted(operators.items(), key=lambda item: -item[1][1] / item[1][0])
        if refused
    ]
    return "\n".join(lines)


def _write(row: dict[str, Any]) -> None:
    known = read_results(NAME)["kinds"] if (RESULTS / f"{NAME}.json").exists() else []
    rows = [other for other in known if other["kind"] != row["kind"]] + [row]
    write_results(NAME, {"kinds": sorted(rows, key=lambda item: list(COUNTS).index(item["kind"]))})


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
