"""The example in hw/bench.md, run as the page shows it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "hw" / "bench.md"


@pytest.fixture
def blocks() -> list[str]:
    found = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(found) == 2
    return found


def run_script(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "run_example.py").write_text(text, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, "run_example.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.system_tools("g++")
def test_the_example_runs(blocks: list[str], tmp_path: Path) -> None:
    (tmp_path / "bench_example.py").write_text(blocks[0], encoding="utf-8")
    outcome = run_script(tmp_path, blocks[1])
    assert outcome.returncode == 0, outcome.stderr
    for simulator in ("verilator", "icarus"):
        log = (tmp_path / "results" / simulator / "bench.log").read_text()
        assert re.search(r"the ALU worked from cycle \d+ to \d+", log)
        assert "PASS=1 FAIL=0" in log
        assert f"passed on {simulator}: eight_vectors_plus_five" in outcome.stdout


@pytest.mark.system_tools("g++")
def test_a_bench_that_fails_says_what(blocks: list[str], tmp_path: Path) -> None:
    """The example with a wrong expectation must be reported as a failure."""
    wrong = blocks[0].replace("values + 5", "values + 6")
    assert wrong != blocks[0]
    (tmp_path / "bench_example.py").write_text(wrong, encoding="utf-8")
    outcome = run_script(tmp_path, blocks[1].replace('("verilator", "icarus")', '("verilator",)'))
    assert outcome.returncode == 1
    assert "BenchFailed: bench_example.py: failed: eight_vectors_plus_five" in outcome.stderr
    assert re.search(
        r"memory: 32 of 4096 bytes differ, first byte 256: expected 252, there is 251", outcome.stderr
    )
