"""Updates all generated parts of the pages that are out of date: results, tables, pictures, tutorials, notebooks.

    python benchmarks/pages.py [--check] [--without PART ...]           make pages

The parts, in this order:

    results    files of results with other cycles than the simulator gives now: the file's own command is run again
    tables     tables and pictures of the pages (benchmarks/readme.py)
    tutorials  outputs of docs/tutorials (tests/helpers/tutorials.py)
    notebooks  outputs of notebooks, except those of cells that measure times (notebooks/run_notebooks.py)

With --check nothing is written: results and tables are compared, and exit code 1 says that something differs; the tests
compare tutorials and notebooks. Times are not measured again: use `make bench` on an idle computer.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time

from vdla.benchmarks.harness.command_line import CHECK, Given, Option, run_script
from vdla.benchmarks.harness.exact import stale
from vdla.benchmarks.harness.page import read_files
from vdla.benchmarks.harness.results import RESULTS, ROOT

PARTS = {
    "tables": "benchmarks/readme.py",
    "tutorials": "tests/helpers/tutorials.py",
    "notebooks": "notebooks/run_notebooks.py",
}
"""The script that updates each generated part of the pages, in the order in which they run; the part `results` has no
script of its own.
"""


OPTIONS = (
    CHECK,
    Option(
        "--without",
        "leave out these parts",
        nargs="+",
        default=[],
        choices=("results", *PARTS),
        metavar="PART",
    ),
)


def main(options: Given) -> int:
    """Runs every part except those of `--without`; each prints the names of the files that it wrote. With `--check`
    only results and tables are compared, and nothing is written. Returns whether a part failed or found a difference.
    """
    wrong = "results" not in options.without and _results(options.check)
    for part, script in PARTS.items():
        if part in options.without or (options.check and part != "tables"):
            continue
        began = time.monotonic()
        check = ["--check"] if options.check else []
        done = subprocess.run([sys.executable, script, *check], cwd=ROOT, check=False)
        print(f"{part}: {time.monotonic() - began:.0f} s", flush=True)
        wrong |= done.returncode != 0
    return wrong


def _results(check: bool) -> bool:
    """Updates the files of results. If newly simulated cycles differ from a file's cycles, the file is outdated, and
    the command that wrote it runs again. With `check`, no command runs. Returns whether any file is still outdated.
    Raises CalledProcessError if a command fails.
    """
    files = read_files(RESULTS)
    found = stale(files)
    for item in found:
        print(item, flush=True)
    if check or not found:
        return bool(found)
    for name in dict.fromkeys(item.file for item in found):
        command = shlex.split(files[name]["written"]["command"])
        print(f"results: {shlex.join(command)}", flush=True)
        subprocess.run([sys.executable, *command[1:]], cwd=ROOT, check=True)
    left = stale(read_files(RESULTS))
    for item in left:
        print(f"still: {item}", flush=True)
    return bool(left)


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
