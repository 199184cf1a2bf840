"""The catalogue of benchmarks: it has every script of benchmarks/ and every file of results, and runs a script by its
name.
"""

from __future__ import annotations

import os
import subprocess
import sys

from vdla.benchmarks.harness.catalogue import BENCH, BENCHMARKS, maker_of, members
from vdla.benchmarks.harness.results import RESULTS, ROOT
from vdla.codesign.cli.process import READER_GONE


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "vdla.benchmarks", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_every_script_has_a_row_and_every_file_a_script() -> None:
    scripts = sorted(path.stem for path in (ROOT / "benchmarks").glob("[!_]*.py"))
    assert [row.name for row in BENCHMARKS] == scripts
    assert not [path.name for path in RESULTS.iterdir() if maker_of(path.stem) is None]


def test_files_that_a_script_makes_name_it() -> None:
    for path in RESULTS.iterdir():
        maker = maker_of(path.stem)
        text = path.read_text(encoding="utf-8")[:4000]
        if '"command"' in text:
            assert maker is not None and f"python {maker.path}" in text, path.name


def test_names_are_listed_and_run() -> None:
    assert run("--group", BENCH).stdout.split() == [row.name for row in members(BENCH)]
    listed = run().stdout.splitlines()
    assert [line.split()[0] for line in listed] == [row.name for row in BENCHMARKS]
    helped = run("demo", "--help")
    assert helped.returncode == 0 and helped.stdout.startswith("usage: demo.py [-h] [--write]")
    unknown = run("cosmi")
    assert unknown.returncode == 2 and "there is no benchmark cosmi; there are accuracy, " in unknown.stderr


def test_a_reader_that_ends_first_gets_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "vdla.benchmarks"]
    done = subprocess.run(command, cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (READER_GONE, "")
