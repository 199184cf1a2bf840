"""One-line mutants of the Python sources, drawn at random by lines: how many the tests notice, and which survive.

    python benchmarks/python_mutants.py [--count 100] [--seed 1] [--jobs 2] [--limit 240] [--covering FILE] [--write]

The mutants are drawn, and a clone of HEAD is tested once with coverage by test of the mutants' files (twenty minutes
on two cores; `--covering` keeps that data in a file, or reads it from there). Then each mutant is written into a clone
of its own, and the tests that execute its line run, the fastest first, for at most LIMIT seconds, until one fails. A
mutant whose tests hang for as long is noticed.
Coverage sees no line that numba compiles or that another process executes: for such a line the tests of the mutant's
own folder run. Survivors are listed with their lines; only a reader can tell which of them mean the same as the
original. With `--write` the result goes to benchmarks/results/python_mutants.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

from vdla.benchmarks.harness.python_mutants import Mutant, draw
from vdla.benchmarks.harness.results import ROOT, write_results

RESULTS_NAME = "python_mutants"
TESTS_AT_MOST = 400
"""Tests of one mutant: those beyond are slower than all of these."""

Covering = Mapping[str, Mapping[str, Sequence[str]]]
"""By file and line, the tests that execute the line."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a mutant's tests ended: "noticed", "hung" (noticed too) or "survived"."""

    mutant: Mutant
    text: str
    ended: str
    tests: int


def environment(clone: Path) -> dict[str, str]:
    """The variables of a test run that imports the clone's packages."""
    return dict(os.environ, PYTHONPATH=str(clone), OPENBLAS_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")


def clone_of_head(folder: Path) -> Path:
    """A clone of the repository as committed."""
    command = ["git", "clone", "--quiet", "--shared", str(ROOT), str(folder)]
    subprocess.run(command, check=True)
    return folder


def measure_covering(paths: Sequence[str], jobs: int) -> dict[str, dict[str, list[str]]]:
    """Runs all tests of a clone and tells which execute which line of these files, the fastest test first.

    Coverage of all files would take three times as long.
    """
    with tempfile.TemporaryDirectory() as folder:
        clone = clone_of_head(Path(folder) / "clone")
        data, times, settings = clone / ".coverage", clone / "times.xml", clone / "coverage.ini"
        included = "".join(f"\n    {clone / path}" for path in sorted(set(paths)))
        settings.write_text(f"[run]\ninclude = {included}\n", encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            str(jobs),
            "--dist",
            "worksteal",
            f"--junitxml={times}",
        ]
        command += ["--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report="]
        subprocess.run(command, cwd=clone, env=environment(clone), check=False)
        return _covering(clone, data, _seconds(times))


def _seconds(junit: Path) -> dict[str, float]:
    """Seconds by the test's file and name, from pytest's report."""
    from xml.etree import ElementTree

    return {
        f"{case.get('classname')}.{case.get('name')}": float(case.get("time", 0))
        for case in ElementTree.parse(junit).iter("testcase")
    }


def _covering(clone: Path, data: Path, seconds: Mapping[str, float]) -> dict[str, dict[str, list[str]]]:
    from coverage import CoverageData

    measured = CoverageData(str(data))
    measured.read()

    def slowness(test: str) -> float:
        file, _, name = test.partition("::")
        return seconds.get(f"{file.removesuffix('.py').replace('/', '.')}.{name.replace('::', '.')}", 0.0)

    found: dict[str, dict[str, list[str]]] = {}
    for path in measured.measured_files():
        by_line = measured.contexts_by_lineno(path)
        name = Path(path).relative_to(clone.resolve()).as_posix()
        found[name] = {
            str(line): sorted({test.partition("|")[0] for test in tests if test}, key=slowness)
            for line, tests in by_line.items()
        }
    return found


def tests_of(mutant: Mutant, covering: Covering) -> list[str]:
    """Tests that execute the mutant's statement, the fastest first; the folder's tests where none is known to."""
    lines = covering.get(mutant.path, {})
    tests: dict[str, None] = {}
    for line in range(mutant.line, mutant.statement - 1, -1):
        tests.update(dict.fromkeys(lines.get(str(line), ())))
    if tests:
        return list(tests)[:TESTS_AT_MOST]
    parts = Path(mutant.path).parent.parts
    for depth in range(len(parts), 0, -1):
        folder = Path("tests", *parts[:depth])
        if (ROOT / folder).is_dir():
            return [folder.as_posix()]
    return ["tests"]


def try_mutant(clone: Path, mutant: Mutant, covering: Covering, limit: float) -> Outcome:
    """Runs the mutant's tests in a clone, whose file is as before afterwards."""
    path = clone / mutant.path
    source = path.read_text(encoding="utf-8")
    tests = tests_of(mutant, covering)
    path.write_text(mutant.apply(source), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command, cwd=clone, env=environment(clone), capture_output=True, timeout=limit, check=False
        )
        ended = "survived" if done.returncode == 0 else "noticed"
    except subprocess.TimeoutExpired:
        ended = "hung" if len(tests) < TESTS_AT_MOST else "survived"
    finally:
        path.write_text(source, encoding="utf-8")
    return Outcome(mutant, mutant.describe(source), ended, len(tests))


def campaign(mutants: Sequence[Mutant], covering: Covering, jobs: int, limit: float) -> list[Outcome]:
    """Tries all mutants, `jobs` at a time, and prints each as it ends."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        clones: Queue[Path] = Queue()
        for index in range(jobs):
            clones.put(clone_of_head(Path(folder) / str(index)))

        def attempt(mutant: Mutant) -> Outcome:
            clone = clones.get()
            try:
                outcome = try_mutant(clone, mutant, covering, limit)
            finally:
                clones.put(clone)
            print(f"{outcome.ended:9} {outcome.text}", flush=True)
            return outcome

        return list(pool.map(attempt, mutants))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=240, help="seconds of one mutant's tests")
    parser.add_argument("--covering", type=Path, help="file of the coverage by test: read, or made")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    mutants = draw(ROOT, arguments.count, arguments.seed)
    if arguments.covering and arguments.covering.exists():
        covering = json.loads(arguments.covering.read_text(encoding="utf-8"))
    else:
        covering = measure_covering([mutant.path for mutant in mutants], arguments.jobs)
        if arguments.covering:
            arguments.covering.write_text(json.dumps(covering), encoding="utf-8")
    outcomes = campaign(mutants, covering, arguments.jobs, arguments.limit)
    survivors = [outcome for outcome in outcomes if outcome.ended == "survived"]
    noticed = len(outcomes) - len(survivors)
    print(f"{noticed} of {len(outcomes)} one-line mutants noticed; {len(survivors)} survived")
    if arguments.write:
        figures = {"seed": arguments.seed, "mutants": len(outcomes), "noticed": noticed}
        figures |= {"survivors": [outcome.text for outcome in survivors]}
        write_results(RESULTS_NAME, figures)


if __name__ == "__main__":
    main()
