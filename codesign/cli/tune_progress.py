"""Progress of `vdla tune`: best cost so far, trials per second, time left."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
)

from vdla.util.printable import printable

from ..report.console import PlainConsole
from ..report.numbers import figure
from .output import never_silent, note, talk

if TYPE_CHECKING:
    from vdla.compiler.tune.runs.in_place import Move
    from vdla.compiler.tune.runs.session import Trial

LINE_SECONDS = 10.0
"""Seconds between two printed lines if standard error is no terminal, so that no bar is shown."""


class TuneProgress:
    """Shows progress on standard error: a bar on a terminal, elsewhere a line every few seconds."""

    def __init__(self, total: int, bar: Progress | None) -> None:
        self._total = total
        self._done = self._known = 0
        self._bar = bar
        self._task: TaskID | None = None
        self._began = self._told = time.monotonic()
        if bar is not None:
            self._task = bar.add_task("tuning", total=total, best="", rate="", left="")

    def doing(self) -> str:
        """The current state as text, printed after a period of silence."""
        return f"tuning: {self._done} of {self._total} trials"

    def resumed(self, trials: int) -> None:
        """Adds `trials`, the number of trials made before an interruption, to the trials that are done. The rate of
        trials per second does not include them.
        """
        self._known += trials
        self._done += trials
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._done)

    def trial(self, trial: Trial) -> None:
        """Shows the end of a trial of a single workload."""
        self._show(trial.name, f"best {figure(trial.best, 6)} {trial.record.task.unit}")

    def move(self, move: Move) -> None:
        """Shows the end of a trial of one node inside its network (a change of the node's schedule)."""
        self._show(move.node, f"network {move.best:,.0f} cycles")

    def _show(self, name: str, best: str) -> None:
        self._done += 1
        now = time.monotonic()
        rate = (self._done - self._known) / max(now - self._began, 1e-9)
        left = f"{max(0, self._total - self._done) / rate:.0f} s left"
        if self._bar is not None and self._task is not None:
            self._bar.update(
                self._task,
                completed=self._done,
                description=printable(name, 40),
                best=best,
                rate=f"{rate:.1f}/s",
                left=left,
            )
        elif now - self._told >= LINE_SECONDS:
            self._told = now
            note(f"{self._done} of {self._total} trials, {rate:.1f}/s, {left}; {name}: {best}")


@contextlib.contextmanager
def tune_progress(total: int) -> Iterator[TuneProgress]:
    """A context with the progress of `total` trials."""
    console = PlainConsole(stderr=True)
    if talk.quiet or not console.is_terminal:
        progress = TuneProgress(total, None)
        with never_silent(progress.doing):
            yield progress
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}", markup=False),
        TextColumn("{task.fields[left]}", markup=False),
        TextColumn("{task.fields[best]}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield TuneProgress(total, bar)
