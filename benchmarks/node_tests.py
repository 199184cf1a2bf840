"""The ONNX backend's node tests on this processor: which operators give right results, wrong results, or are refused.

    python benchmarks/node_tests.py [NAME ...] [--json] [--write] [--messages]

NAME is an operator or the name of a case; without names all cases of the installed `onnx` package are run, except cases
of training, strings, sequences and optional values, which are only counted. A case is right if `vdla.compile` (target
`llvm`) compiles it and all outputs have the expected shape, type and, within the case's tolerances, values; it is
refused if a UserError is raised, and crashed if any other exception is. `share` is the share of right cases if cases
are unchanged. Many cases have parameters (axes, pads, a shape) that are inputs here, while models have them as
constants. These cases are compiled when the values of the parameters arrive; `right_at_run` is the number of these
cases that are right. For `share_fixed`, a case also counts as right if it is right with its parameters as constants, as
with `vdla.compile(constants=...)` and `--constant NAME=VALUE,...`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from vdla.benchmarks.harness.command_line import OUTPUT, Given, Option, run_script
from vdla.benchmarks.harness.node_cases import (
    EXCLUDED_KINDS,
    VERDICTS,
    Judged,
    NodeCase,
    apart,
    cause_of,
    judge,
    judge_fixed,
    node_cases,
)
from vdla.benchmarks.harness.output import finish
from vdla.util.errors import UserError


def measure(cases: Sequence[NodeCase]) -> tuple[list[tuple[Judged, Judged | None]], Counter[str]]:
    """Runs the node tests `cases`. Returns two verdicts on each test, and the number of tests that are not run, by
    kind. The first verdict is on the unchanged test. If that test is refused and has parameters, the second verdict is
    on the test with its parameters as constants; otherwise it is None.
    """
    rows: list[tuple[Judged, Judged | None]] = []
    left: Counter[str] = Counter(dict.fromkeys(EXCLUDED_KINDS, 0))
    for number, case in enumerate(cases):
        if kind := apart(case):
            left[kind] += 1
            continue
        judged = judge(case)
        rows.append((judged, judge_fixed(case) if judged.verdict == "refused" else None))
        if sys.stderr.isatty():
            print(f"\r{number + 1} of {len(cases)}", end="", file=sys.stderr, flush=True)
    return rows, left


def figures(rows: Sequence[tuple[Judged, Judged | None]], left: Counter[str]) -> dict[str, Any]:
    """The results as a JSON object: shares, numbers of node tests in total and by operator, causes of refusals, and
    every test that is wrong or crashed. `rows`, `left`: the two results of `measure`.
    """
    plain = Counter(judged.verdict for judged, _ in rows)
    fixed = sum(other is not None and other.verdict == "right" for _, other in rows)
    operators: dict[str, dict[str, int]] = {}
    for judged, other in rows:
        of = operators.setdefault(judged.operator, {**dict.fromkeys(VERDICTS, 0), "right_fixed": 0})
        of[judged.verdict] += 1
        of["right_fixed"] += other is not None and other.verdict == "right"
    broken = [
        {"name": item.name, "verdict": item.verdict, "fixed": item.fixed, "message": item.message}
        for pair in rows
        for item in pair
        if item is not None and item.verdict in ("wrong", "crashed")
    ]
    causes = Counter(
        cause_of((judged if other is None else other).message)
        for judged, other in rows
        if judged.verdict == "refused" and (other is None or other.verdict == "refused")
    )
    return {
        "cases": len(rows),
        "apart": dict(left),
        **{verdict: plain[verdict] for verdict in VERDICTS},
        "right_at_run": sum(judged.verdict == "right" and judged.at_run for judged, _ in rows),
        "right_fixed": fixed,
        "share": round(plain["right"] / len(rows), 4) if rows else 0.0,
        "share_fixed": round((plain["right"] + fixed) / len(rows), 4) if rows else 0.0,
        "broken": broken,
        "causes": dict(causes.most_common()),
        "operators": dict(sorted(operators.items())),
    }


def text(document: dict[str, Any]) -> str:
    """The results of the node tests, `document` as `figures` returns it, as lines of text."""
    lines = [f"{'operator':28}{'right':>7}{'+ fixed':>9}{'wrong':>7}{'refused':>9}{'crashed':>9}"]
    lines += [
        f"{name:28}{of['right']:7}{of['right_fixed']:9}{of['wrong']:7}{of['refused']:9}{of['crashed']:9}"
        for name, of in document["operators"].items()
    ]
    lines.append("refused, also with parameters as constants, by cause:")
    lines += [f"{count:6}  {cause}" for cause, count in document["causes"].items()]
    for item in document["broken"]:
        lines.append(f"{item['verdict']}: {item['name']}: {item['message']}")
    apart_text = ", ".join(f"{count} {kind}" for kind, count in document["apart"].items())
    lines.append(f"set apart: {apart_text}")
    lines.append(
        f"right {document['right']} of {document['cases']} ({document['share']:.1%}), "
        f"of these {document['right_at_run']} compiled when values of parameters arrived, wrong {document['wrong']}, "
        f"refused {document['refused']}, crashed {document['crashed']}; with parameters as constants "
        f"{document['right'] + document['right_fixed']} ({document['share_fixed']:.1%})"
    )
    return "\n".join(lines)


OPTIONS = (
    Option("names", "operators or cases (default: all cases)", nargs="*", metavar="NAME", part=True),
    *OUTPUT,
    Option("--messages", "print the message of each case that is not right", flag=True),
)


def main(options: Given) -> None:
    cases = list(node_cases())
    if names := set(options.names):
        cases = [case for case in cases if case.name in names or case.operator in names]
        if not cases:
            raise UserError(f"there is no case or operator {', '.join(sorted(names))}")
    rows, left = measure(cases)
    document = figures(rows, left)
    if options.messages:
        for pair in rows:
            for item in pair:
                if item is not None and item.verdict != "right":
                    shown = " (parameters as constants)" if item.fixed else ""
                    print(f"{item.name}{shown}: {item.verdict}: {item.message}", file=sys.stderr)
    finish(options, "node_tests", document, lines=[text(document)])


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
