"""System programs that tests call, and the treatment of tests whose program is missing.

.ci/system_tools lists the programs. If one is missing, a test is reported as not run if it searched for the program
(with `shutil.which` in this process), or if it is marked `system_tools("COMMAND")` (for searches in another process)
and failed. Under CI=true it stays a failure.
"""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TABLE = Path(__file__).parents[2] / ".ci" / "system_tools"
NOT_RUN = "NOT RUN: needs "


@dataclass(frozen=True, slots=True)
class Tool:
    command: str
    package: str
    kinds: str


def read_tools(text: str) -> tuple[Tool, ...]:
    """The tools in the text of .ci/system_tools, one for each command."""
    rows = (line.split(maxsplit=2) for line in text.splitlines() if line and not line.startswith("#"))
    return tuple(
        Tool(command, package, kinds) for names, package, kinds in rows for command in names.split(",")
    )


def missing_tools() -> dict[str, Tool]:
    """The tools of .ci/system_tools that are not installed, by command."""
    tools = read_tools(TABLE.read_text(encoding="utf-8"))
    return {tool.command: tool for tool in tools if not _installed(tool.command)}


def _installed(command: str) -> bool:
    """Whether a command is on the path or, for a file pattern (an absolute path), whether a file matches it."""
    return bool(glob.glob(command)) if command.startswith("/") else shutil.which(command) is not None


def in_ci(environment: Mapping[str, str]) -> bool:
    return environment.get("CI", "").lower() not in ("", "0", "false")


class SystemTools:
    """A pytest plugin for a computer on which the tools `missing` are not installed."""

    def __init__(self, missing: Mapping[str, Tool]) -> None:
        self._missing = missing
        self._asked: set[str] = set()
        # A fixture that failed raises the same exception for every test that uses it.
        self._failures: list[tuple[BaseException, frozenset[str]]] = []
        self._which = shutil.which

    def pytest_configure(self) -> None:
        def which(cmd: Any, *arguments: Any, **named: Any) -> str | None:
            if cmd in self._missing:
                self._asked.add(cmd)
            return self._which(cmd, *arguments, **named)

        shutil.which = which

    def pytest_unconfigure(self) -> None:
        shutil.which = self._which

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._asked = {
            name for mark in item.iter_markers("system_tools") for name in mark.args if name in self._missing
        }

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        report = yield
        if report.failed and call.excinfo is not None:
            raised = call.excinfo.value
            needed = set(self._asked)
            for failure, tools in self._failures:
                if failure is raised:
                    needed |= tools
            if needed:
                self._failures.append((raised, frozenset(needed)))
                if not in_ci(os.environ):
                    report.outcome = "skipped"
                    packages = sorted({self._missing[name].package for name in needed})
                    report.longrepr = (str(item.path), item.location[1], NOT_RUN + ", ".join(packages))
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Any:
        """Prints one line on tests that were not run, after all other sections and directly above pytest's
        last line.
        """
        result = yield
        count = sum(NOT_RUN in str(report.longrepr) for report in terminalreporter.stats.get("skipped", ()))
        packages = dict.fromkeys(tool.package for tool in self._missing.values())
        lacking: dict[str, dict[str, None]] = {}
        for tool in self._missing.values():
            lacking.setdefault(tool.kinds, {})[tool.package] = None
        kinds = [f"{kind} ({', '.join(needed)})" for kind, needed in lacking.items()]
        left = "failed under CI" if in_ci(os.environ) else f"{count} tests"
        terminalreporter.write_line(
            f"NOT RUN ({left}): {'; '.join(kinds)}; as root: apt-get install {' '.join(packages)}"
        )
        return result
