"""Tests on a computer without some system programs: they are reported as not run, in one line that names the programs,
and fail under CI.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from system_tools import TABLE, read_tools

ROOT = Path(__file__).parents[1]

CONFTEST = """
from system_tools import SystemTools, Tool

def pytest_configure(config):
    config.addinivalue_line("markers", "system_tools(command)")
    names = {"no-such-tool": "a-package", "nor-this": "another"}
    missing = {name: Tool(name, package, "what the tool is for") for name, package in names.items()}
    config.pluginmanager.register(SystemTools(missing))
"""
TESTS = """
import shutil
import pytest

@pytest.fixture(scope="module")
def made():
    assert shutil.which("no-such-tool")

def test_without_a_tool(): pass
def test_that_asks(): assert shutil.which("no-such-tool")
def test_that_does_with_less(): shutil.which("no-such-tool")
@pytest.mark.system_tools("no-such-tool")
def test_that_asks_elsewhere(): assert False
def test_of_a_fixture(made): pass
def test_of_the_same_fixture(made): pass
WRONG
"""


def run_pytest(folder: Path, ci: str, wrong: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(TESTS.replace("WRONG", wrong))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests/helpers"), "CI": ci}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
    ]
    return subprocess.run(
        [*command, "-c", os.devnull, str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_asked_for_a_missing_tool_is_not_run(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, ci="")
    *_, line, closing = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout
    assert line == (
        "NOT RUN (4 tests): what the tool is for (a-package, another); as root: apt-get install a-package another"
    )
    assert closing.startswith("2 passed, 4 skipped in ")


def test_other_failures_stay_failures(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, ci="0", wrong="def test_wrong(): assert False")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("1 failed, 2 passed, 4 skipped in ")


def test_under_ci_they_fail(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, ci="true")
    *_, line, closing = done.stdout.splitlines()
    assert done.returncode == 1
    assert line.startswith("NOT RUN (failed under CI): what the tool is for (a-package, another)")
    assert closing.startswith("2 failed, 2 passed, 2 errors in ")


def test_set_up_says_what_will_not_run_where_it_may_not_install(tmp_path: Path) -> None:
    # A path with what the script itself needs, and one of the tools.
    for name in ("bash", "dirname", "id", "make"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    done = subprocess.run(
        [tmp_path / "bash", ROOT / ".ci" / "setup.sh"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    (line,) = done.stdout.splitlines()
    assert done.stderr == ""
    assert line.startswith("NOT RUN: ")
    assert line.endswith(
        "as root: apt-get install gcc g++ perl iverilog qemu-user chromium-headless-shell opensta"
    )
    rows = read_tools(TABLE.read_text(encoding="utf-8"))
    commands = [row for row in rows if not row.command.startswith("/")]
    assert all(line.count(row.kinds) == (row.command != "make") for row in commands)
    assert "(g++, perl)" in line
