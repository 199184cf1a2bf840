"""Fixtures and hooks for all tests: the command line in this process, tests that run only in campaigns, missing system
tools.
"""

import gc
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from campaign import CAMPAIGN
from patience import wait_for_busy_machines
from shipped import FOLDER
from system_tools import SystemTools, missing_tools

from vdla.codesign.cli.main import main
from vdla.codesign.cli.process import OBJECTS_BETWEEN_COLLECTIONS

# Tests that need another framework: `make test-torch`, `test-jax` and `test-tensorflow` run them in environments of
# their own.
collect_ignore = ["pytorch", "jax", "tensorflow"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--campaign", action="store_true", help="also run the tests marked `campaign` (make campaign)"
    )


def pytest_configure(config: pytest.Config) -> None:
    # As for commands: programs are trees, and most tests compile.
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    if config.getoption("--campaign"):
        os.environ[CAMPAIGN] = "1"
    # `make test` draws the same examples each time, campaigns others. Hypothesis has a deadline of 0.2 s for each.
    fresh = config.getoption("--campaign")
    hypothesis.settings.register_profile("vdla", derandomize=not fresh, deadline=None)
    hypothesis.settings.load_profile("vdla")
    wait_for_busy_machines()
    if not hasattr(config, "workerinput"):
        folder = tempfile.mkdtemp(prefix="vdla-test-models-")
        os.environ[FOLDER] = folder
        config.add_cleanup(partial(shutil.rmtree, folder, ignore_errors=True))
    if missing := missing_tools():
        config.pluginmanager.register(SystemTools(missing), "system_tools")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--campaign"):
        left = [item for item in items if item.get_closest_marker("campaign")]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if not item.get_closest_marker("campaign")]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Exit code, standard output and standard error of one call of the command line."""

    code: int
    out: str
    err: str

    def document(self) -> dict[str, Any]:
        """The JSON object on standard output; asserts exit code 0."""
        assert self.code == 0, self.err
        return json.loads(self.out)

    def failed(self) -> dict[str, Any]:
        """The JSON object of a run whose check failed; asserts exit code 1 and one line about the failure."""
        assert self.code == 1, (self.code, self.err)
        lines = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1 and "the numbers of this run are wrong" in lines[0], self.err
        assert "Traceback" not in self.err
        document = json.loads(self.out)
        assert document["check"]["passed"] is False
        return document

    def message(self) -> str:
        """The error line of a refused call; asserts exit code 2, nothing on standard output, and no traceback."""
        (line,) = self.messages()
        return line

    def messages(self) -> list[str]:
        """The error lines of a call that is refused for several mistakes, with line ends; asserts the same as
        `message`.
        """
        assert self.code == 2, (self.code, self.out, self.err)
        assert self.out == ""
        assert self.err.startswith("error: "), self.err
        assert "Traceback" not in self.err
        return self.err.splitlines(keepends=True)


Vdla = Callable[..., Outcome]


@pytest.fixture
def vdla(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Vdla:
    def call(*arguments: str | Path) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["vdla", *map(str, arguments)])
        capsys.readouterr()
        code: int | str | None = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return Outcome(int(code or 0), captured.out, captured.err)

    return call
