"""One-line mutants of the Python sources, on random lines: the number that the tests notice, and the survivors.

    python benchmarks/python_mutants.py [--count 100] [--seed 1] [--jobs 2] [--limit 240] [--covering FILE] [--write]

The mutants are drawn. Then all tests run once in a clone of HEAD, and it is recorded which lines of the mutants' files
each test executes (twenty minutes on two cores; `--covering` stores this coverage in a file, or reads it from there).
Then each mutant is written into a clone, and the tests that execute its line run until one fails. Fast tests and tests
of the mutant's own folder run first. Together, the tests take at most LIMIT seconds (measured without a mutant). A
mutant counts as hung, and as noticed, if its tests take several times as long as without the mutant.

Some lines run only once, when their module is imported, and set names. A mutant in such a line is tried with the tests
that execute a line which reads one of the names. If no line reads a name, it is tried with the tests that execute any
line of the file. Coverage does not record lines that numba compiles or another process executes: for these lines, the
tests of the mutant's own folder and those of networks run. Survivors are listed with their lines; only a reader can
decide which of them are equivalent to the original. With `--write` the result goes to
benchmarks/results/python_mutants.json.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

from vdla.benchmarks.harness.command_line import COUNT, JOBS, SEED, WRITE, Given, Option, run_script
from vdla.benchmarks.harness.python_mutants import Mutant, draw, readers_of
from vdla.benchmarks.harness.results import ROOT, write_results
from vdla.codesign.network_cache import PART as NETWORKS_PART
from vdla.util.user_cache import cache_directory

FIRST = 60
"""Number of tests that run in a process of their own before all other tests of a mutant; most mutants fail one of
these.
"""
NETWORKS = ("tests/compiler/test_networks.py", "tests/compiler/test_cpu_networks.py")
OWN_EARLIER = 4
"""Factor that lets tests in the folder nearest to the mutated file run earlier. Tests run in the order of their
seconds, fastest first; the seconds of tests in this folder are divided by the factor.
"""
SLOWER, START = 3, 120
"""A mutant hangs if its tests take more than SLOWER times their usual time plus START seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Covering:
    """`lines`: the tests that execute each line, by file and line number (as text); `seconds`: time of every test that
    passed without a mutant.
    """

    lines: Mapping[str, Mapping[str, Sequence[str]]]
    seconds: Mapping[str, float]

    @classmethod
    def read(cls, path: Path) -> Covering:
        """The coverage in the JSON file `path`, as written by `write`."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def write(self, path: Path) -> None:
        """Writes the coverage to `path` as JSON."""
        path.write_text(json.dumps({"lines": self.lines, "seconds": self.seconds}), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of running the tests for a mutant: "noticed", "hung" (which counts as noticed), "survived", or "untried".

    "untried" means that pytest cannot find the chosen tests, not even in the source without the mutation. `text`: the
    mutant in words; `tests`: number of tests chosen for it.
    """

    mutant: Mutant
    text: str
    ended: str
    tests: int


def environment(clone: Path) -> dict[str, str]:
    """The variables of a test run that imports the clone's packages and uses the caches beside it."""
    own = {"PYTHONPATH": str(clone), "XDG_CACHE_HOME": str(caches_of(clone))}
    return {**os.environ, **own, "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def caches_of(clone: Path) -> Path:
    """The folder, beside the clone of the repository, with the caches that its tests use."""
    return clone.with_name(f"{clone.name}.cache")


def clone_of_head(folder: Path) -> Path:
    """Clones the repository at HEAD into `folder` and returns it; beside it, a copy of the user's caches except
    compiled networks. If compiled networks were in the cache, coverage would not show which tests need the compiler's
    lines.
    """
    command = ["git", "clone", "--quiet", "--shared", str(ROOT), str(folder)]
    subprocess.run(command, check=True)
    known = cache_directory(NETWORKS_PART).parent
    if known.is_dir():
        left_out = shutil.ignore_patterns(NETWORKS_PART)
        shutil.copytree(known, caches_of(folder) / known.name, symlinks=True, ignore=left_out)
    return folder


def measure_covering(paths: Sequence[str], jobs: int) -> Covering:
    """Runs all tests of a clone in `jobs` processes; returns which tests execute which line of the files `paths`, and
    the seconds of the tests that pass. Coverage of all files would take three times as long.
    """
    with tempfile.TemporaryDirectory() as folder:
        clone = clone_of_head(Path(folder) / "clone")
        data, times, settings = clone / ".coverage", clone / "times.xml", clone / "coverage.ini"
        included = "".join(f"\n    {clone / path}" for path in sorted(set(paths)))
        settings.write_text(f"[run]\ninclude = {included}\n", encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-n", str(jobs), "--dist", "worksteal"]
        command += [f"--junitxml={times}", "-o", "junit_family=xunit1"]
        command += ["--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report="]
        subprocess.run(command, cwd=clone, env=environment(clone), check=False)
        return Covering(lines=_covering(clone, data), seconds=seconds_of(times))


def seconds_of(junit: Path) -> dict[str, float]:
    """The seconds of each test that passed, by FILE::NAME, from pytest's report `junit`. The names leave out test
    classes, because the project has none.
    """
    from xml.etree import ElementTree

    return {
        f"{case.get('file')}::{case.get('name')}": float(case.get("time", 0))
        for case in ElementTree.parse(junit).iter("testcase")
        if case.find("failure") is None and case.find("error") is None and case.find("skipped") is None
    }


def _covering(clone: Path, data: Path) -> dict[str, dict[str, list[str]]]:
    from coverage import CoverageData

    measured = CoverageData(str(data))
    measured.read()
    found: dict[str, dict[str, list[str]]] = {}
    for path in measured.measured_files():
        name = Path(path).relative_to(clone.resolve()).as_posix()
        found[name] = {
            str(line): sorted({test.partition("|")[0] for test in tests if test})
            for line, tests in measured.contexts_by_lineno(path).items()
        }
    return found


def tests_of(mutant: Mutant, source: str, covering: Covering, limit: float = float("inf")) -> list[str]:
    """The tests of `covering` to run for a mutant, in order. Together they take at most `limit` seconds, unless the
    first one alone takes more. `source`: the text of the file without the mutant.

    The first of these groups that is not empty is taken: tests that execute the mutated statement; tests that execute a
    line that reads a name which the statement sets; tests that execute any line of the file; tests in the nearest
    folder and tests of networks.
    """
    lines = covering.lines.get(mutant.path, {})

    def at(numbers: Iterable[int]) -> set[str]:
        return {test for number in numbers for test in lines.get(str(number), ()) if test in covering.seconds}

    own = _folder_of(mutant.path)
    found = (
        at(range(mutant.statement, mutant.line + 1))
        or at(readers_of(source, mutant.statement))
        or at(map(int, lines))
        or {test for test in covering.seconds if test.startswith((f"{own}/", *NETWORKS))}
    )

    def turn(test: str) -> tuple[float, str]:
        seconds = covering.seconds[test]
        return seconds / OWN_EARLIER if test.startswith(f"{own}/") else seconds, test

    chosen: list[str] = []
    for test in sorted(found, key=turn):
        limit -= covering.seconds[test]
        if limit < 0 and chosen:
            break
        chosen.append(test)
    return chosen


def _folder_of(path: str) -> str:
    """The folder of tests that is nearest to a source file."""
    parts = Path(path).parent.parts
    folders = (Path("tests", *parts[:depth]) for depth in range(len(parts), 0, -1))
    return next((folder.as_posix() for folder in folders if (ROOT / folder).is_dir()), "tests")


def try_mutant(clone: Path, mutant: Mutant, covering: Covering, limit: float) -> Outcome:
    """Writes the mutant into the clone, runs its tests (those that `tests_of` takes from `covering` for `limit`
    seconds) until one fails, and restores the file; returns the outcome.
    """
    path = clone / mutant.path
    source = path.read_text(encoding="utf-8")
    tests = tests_of(mutant, source, covering, limit)
    ended = "survived"
    path.write_text(mutant.apply(source), encoding="utf-8")
    try:
        for some in (tests[:FIRST], tests[FIRST:]):
            if some and ended == "survived":
                ended = _run(clone, some, START + SLOWER * sum(covering.seconds[test] for test in some))
    finally:
        # The file gets a new time, so that machine code of the mutant that numba cached counts as outdated.
        path.write_text(source, encoding="utf-8")
    if ended == "not found":
        ended = "noticed" if _run(clone, tests, START, "--collect-only") == "survived" else "untried"
    return Outcome(mutant, mutant.describe(source), ended, len(tests))


def _run(clone: Path, tests: Sequence[str], seconds: float, *more: str) -> str:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *more, *tests]
    try:
        done = subprocess.run(
            command, cwd=clone, env=environment(clone), capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return "hung"
    # 1: a test failed; 2: a module of tests could not be imported; others include that a test was not found.
    return {0: "survived", 1: "noticed", 2: "noticed"}.get(done.returncode, "not found")


def campaign(mutants: Sequence[Mutant], covering: Covering, jobs: int, limit: float) -> list[Outcome]:
    """Tries all mutants, `jobs` at a time and each in a clone of HEAD that no other uses; prints each result and
    returns them in the order of `mutants`. `covering`: which tests execute which line; `limit`: most seconds of the
    tests of one mutant, as measured without it.
    """
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


OPTIONS = (
    COUNT.but(default=100),
    SEED.but(default=1),
    JOBS,
    Option("--limit", "most seconds of the tests of one mutant, as measured without the mutant", float, 240),
    Option(
        "--covering", "file of the coverage by test; read if it exists, else written", Path, metavar="FILE"
    ),
    WRITE,
)


def main(options: Given) -> None:
    mutants = draw(ROOT, options.count, options.seed)
    if options.covering and options.covering.exists():
        covering = Covering.read(options.covering)
    else:
        covering = measure_covering([mutant.path for mutant in mutants], options.jobs)
        if options.covering:
            covering.write(options.covering)
    outcomes = campaign(mutants, covering, options.jobs, options.limit)
    survivors = [outcome for outcome in outcomes if outcome.ended == "survived"]
    noticed = sum(outcome.ended in ("noticed", "hung") for outcome in outcomes)
    print(f"{noticed} of {len(outcomes)} one-line mutants noticed; {len(survivors)} survived")
    if options.write:
        figures = {"seed": options.seed, "mutants": len(outcomes), "noticed": noticed}
        figures |= {"survivors": [outcome.text for outcome in survivors]}
        write_results("python_mutants", figures)


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
