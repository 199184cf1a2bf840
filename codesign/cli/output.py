"""Output of commands: either one JSON object or tables on standard output; progress always on standard error."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
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

SILENCE = 10.0
"""Seconds without output after which a command without a terminal prints the name of its current step. The pause before
each further line grows by `SILENCE`.
"""


@dataclass(slots=True)
class Talk:
    """Amount of output on standard error. `quiet` (-q): only errors; `verbose` (-v): each step, and details that are
    otherwise only counted.
    """

    quiet: bool = False
    verbose: bool = False
    spoke: float = 0.0
    """Time (time.monotonic) at which the last note was printed on standard error."""


talk = Talk()
"""The amount of output of the command that runs in this process; the options -q and -v set the fields."""


def print_json(document: Mapping[str, Any]) -> None:
    """Prints `document` as the only JSON object of this run. Raises ValueError for NaN and infinities."""
    json.dump(document, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def json_bytes(document: Mapping[str, Any]) -> bytes:
    """`document` as the bytes of a JSON file."""
    return (json.dumps(document, indent=2, allow_nan=False) + "\n").encode()


def text_console() -> PlainConsole:
    """The console for results as text. In a pipe or file, it is 160 characters wide."""
    return PlainConsole() if sys.stdout.isatty() else PlainConsole(width=160)


def note(text: str) -> None:
    """Prints a line on standard error, so that standard output has only results; prints nothing with -q."""
    talk.spoke = time.monotonic()
    if not talk.quiet:
        print(printable(text), file=sys.stderr)


def print_error(text: str) -> None:
    """Prints the reason why a command fails on standard error, also with -q."""
    print(printable(f"error: {text}"), file=sys.stderr)


@contextlib.contextmanager
def never_silent(doing: Callable[[], str | None]) -> Iterator[None]:
    """While the block of this context runs, prints a note after each period without output: the text that `doing()`
    returns, and the seconds since the block began. If `doing()` returns None, nothing is printed.

    The first period is `SILENCE` seconds; each further period is longer by `SILENCE`, so that the notes of an hour's
    work do not fill a page.
    """
    ended = threading.Event()
    began = talk.spoke = time.monotonic()

    def watch() -> None:
        patience = SILENCE
        while not ended.wait(max(0.05, talk.spoke + patience - time.monotonic())):
            now = time.monotonic()
            if now - talk.spoke >= patience and (text := doing()) is not None:
                note(f"{text} ({now - began:.0f} s so far)")
                patience += SILENCE

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def end_failed(text: str) -> NoReturn:
    """Ends the command with exit code 1 because a check failed: prints a line on standard error, red on a terminal."""
    sys.stdout.flush()
    console = PlainConsole(stderr=True)
    console.print(f"error: {text}", style="bold red", soft_wrap=True)
    raise typer.Exit(1)


class Steps:
    """Progress of a long command on standard error: shows each step as a bar or as a line, or shows nothing."""

    def __init__(self, progress: Progress | None, lines: bool = False) -> None:
        """`progress`: the display on which steps are shown as bars. If it is None and `lines` is set, a line is printed
        when a step begins.
        """
        self._progress = progress
        self._lines = lines
        self._task: TaskID | None = None
        self.doing: str | None = None
        """Name of the current step; None before the first step."""

    def begin(self, text: str, total: int | None = None) -> None:
        """Ends the current step and begins the step called `text`, with `total` parts if that is known."""
        self.doing = text
        if self._progress is None:
            if self._lines:
                note(f"{text} ...")
            return
        self.end()
        self._task = self._progress.add_task(printable(text), total=total)

    def advance(self) -> None:
        """Counts one more part of the current step as done, which moves its progress bar."""
        if self._progress is not None and self._task is not None:
            self._progress.advance(self._task)

    def reach(self, done: int, total: int) -> None:
        """Sets the progress of the current step to `done` of `total` parts; for steps whose number of parts was not
        known when they began.
        """
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, total=total)

    def rename(self, text: str) -> None:
        """Gives the current step another name on its bar; a printed line is not changed."""
        self.doing = text
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, description=printable(text))

    def end(self) -> None:
        """Ends the current step."""
        self.doing = None
        if self._progress is None or self._task is None:
            return
        task = self._progress.tasks[self._progress.task_ids.index(self._task)]
        total = task.total or 1
        self._progress.update(self._task, total=total, completed=total)
        self._task = None


def step_columns() -> tuple[ProgressColumn, ...]:
    """The columns of a step's progress bar: spinner, name of the step, bar, elapsed time."""
    return SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()


@contextlib.contextmanager
def steps(always: bool = False) -> Iterator[Steps]:
    """A context with a `Steps`. On a terminal without -v, steps are shown as bars. Otherwise there are no bars: a note
    is printed after each period without output (`never_silent`) and, with `always` or -v, also a line for each step.
    With -q nothing is printed.
    """
    console = PlainConsole(stderr=True)
    if talk.quiet:
        yield Steps(None)
        return
    if talk.verbose or not console.is_terminal:
        reporter = Steps(None, lines=always or talk.verbose)
        with never_silent(lambda: reporter.doing):
            yield reporter
        return
    with Progress(*step_columns(), console=console, transient=True) as progress:
        reporter = Steps(progress)
        yield reporter
        reporter.end()
