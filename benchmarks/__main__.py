"""Lists the benchmarks, or runs one as `python benchmarks/NAME.py` does.

    python -m vdla.benchmarks [--group bench|campaign]
    python -m vdla.benchmarks NAME [ARGUMENT ...]

A row shows the name, the files that --write makes in benchmarks/results, and what a run needs. --group lists only the
names that `make bench` or `make campaign` runs.
"""

from __future__ import annotations

import sys
from importlib import import_module

from vdla.benchmarks.harness.catalogue import BENCH, BENCHMARKS, CAMPAIGN, members
from vdla.benchmarks.harness.command_line import Given, Option, run_script
from vdla.benchmarks.harness.results import ROOT

NAMES = tuple(row.name for row in BENCHMARKS)
OPTIONS = (
    Option(
        "name",
        "benchmark to run; all further words are its arguments",
        nargs="*",
        metavar="NAME",
        known=NAMES,
        kind="benchmark",
    ),
    Option("--group", "list only the names of the benchmarks in this group", choices=(BENCH, CAMPAIGN)),
)


def main(options: Given) -> None:
    if options.group:
        print(*(row.name for row in members(options.group)))
        return
    for row in BENCHMARKS:
        needs = f" ({row.needs})" if row.needs else ""
        print(f"{row.name:18} {row.about}{needs}{' -> ' if row.results else ''}{row.results}")


def run_named(name: str, words: list[str]) -> None:
    """Runs the benchmark `name` with the arguments `words` as `python benchmarks/NAME.py` does; files of results record
    that command.
    """
    sys.argv = [str(ROOT / "benchmarks" / f"{name}.py"), *words]
    module = import_module(f"vdla.benchmarks.{name}")
    run_script(module.__doc__, module.OPTIONS, module.main)


if __name__ == "__main__":
    match sys.argv[1:]:
        case [name, *words] if name in NAMES:
            run_named(name, words)
        case _:
            run_script(__doc__, OPTIONS, main)
