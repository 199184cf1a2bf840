"""Where text goes: one JSON object alone on standard output, or tables there; progress always on standard error."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import typer
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from vdla.util.printable import printable

from ..report.console import PlainConsole


def print_json(document: Mapping[str, Any]) -> None:
    """Writes `document` as the one JSON object of this run; NaN and infinities are refused."""
    json.dump(document, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def json_bytes(document: Mapping[str, Any]) -> bytes:
    """`document` as the bytes of a JSON file."""
    return (json.dumps(document, indent=2, allow_nan=False) + "\n").encode()


def text_console() -> PlainConsole:
    """The console for results meant for people. A pipe or file gets full-width tables, not folded ones."""
    return PlainConsole() if sys.stdout.isatty() else PlainConsole(width=160)


def note(text: str) -> None:
    """A line for people on standard error, where it never disturbs a JSON object."""
    print(printable(text), file=sys.stderr)


def end_failed(text: str) -> NoReturn:
    """Ends the command with 1 over a check that failed: a line on standard error, red on a terminal."""
    sys.stdout.flush()
    console = PlainConsole(stderr=True)
    console.print(f"error: {text}", style="bold red", soft_wrap=True)
    raise typer.Exit(1)


class Steps:
    """The running commentary of a long command, on standard error: a bar a step, or a line a step, or nothing."""

    def __init__(self, progress: Progress | None, lines: bool = False) -> None:
        """`progress` shows bars; without it, `lines` prints the beginning of each step."""
        self._progress = progress
        self._lines = lines
        self._task: TaskID | None = None

    def begin(self, text: str, total: int | None = None) -> None:
        """Ends the step before and begins the one called `text`, of `total` parts if that is known."""
        if self._progress is None:
            if self._lines:
                note(f"{text} ...")
            return
        self.end()
        self._task = self._progress.add_task(printable(text), total=total)

    def advance(self) -> None:
        """One part of the current step is done."""
        if self._progress is not None and self._task is not None:
            self._progress.advance(self._task)

    def reach(self, done: int, total: int) -> None:
        """The current step, whose parts were not known when it began, has `done` of `total`."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, total=total)

    def rename(self, text: str) -> None:
        """The current step goes on under another name; lines have its first one."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, description=printable(text))

    def end(self) -> None:
        """Ends the current step."""
        if self._progress is None or self._task is None:
            return
        task = self._progress.tasks[self._progress.task_ids.index(self._task)]
        total = task.total or 1
        self._progress.update(self._task, total=total, completed=total)
        self._task = None


def step_columns() -> tuple[ProgressColumn, ...]:
    """What a bar of a step shows."""
    return SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()


@contextlib.contextmanager
def steps(always: bool = False) -> Iterator[Steps]:
    """A Steps with bars when standard error is a terminal; elsewhere silent, or with `always` in lines."""
    console = PlainConsole(stderr=True)
    if not console.is_terminal:
        yield Steps(None, lines=always)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        reporter = Steps(progress)
        yield reporter
        reporter.end()
