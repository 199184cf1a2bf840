"""Trials in worker processes of this machine: a crash or hang of a worker never ends the search.

Every wait has a limit. A process has `START_TIMEOUT` seconds to start and to load a task, and another time-out for each
candidate. A process that takes longer is killed and replaced, and its candidate counts as failed. If a process ends by
itself, its candidate is tried once more, since the candidate may not be the cause. A candidate whose process ends twice
counts as failed. Other candidates that were queued for an ended process go to other processes. Tasks stay loaded
between calls.
"""

from __future__ import annotations

import math
import selectors
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from ...templates.columns import Values
from . import backends
from .backends import Backend, BackendError
from .descriptions import Description, TaskError, canonical
from .trial import Result, result_from_dict
from .worker_process import COMMAND, WorkerProcess

START_TIMEOUT = 300.0
"""Seconds for a process to start and to load a task. (On a busy machine, compiling code on first use takes a minute.)
"""
PATIENCE = 10.0
"""If no process has answered for this number of seconds, `notify` receives a line on the state of each process."""
_ENDS = 2
"""A candidate counts as failed once this many processes have ended while running it."""
_STARTS = 3
"""If this number of processes in succession end before they measure anything, trials cannot continue."""


class _Other(Enum):
    START = "to start"
    LOAD = "to load the task"


@dataclass(slots=True, eq=False)
class _Seat:
    """A worker process. `owes`: the requests that the process has not answered yet, oldest first. Requests are trials
    (by index), the start of the process, and loads of tasks. `since`: the time at which the wait for the answer to the
    oldest request began. `tasks`: canonical texts of the tasks that the process was asked to load.
    """

    process: WorkerProcess
    owes: deque[int | _Other] = field(default_factory=lambda: deque([_Other.START]))
    since: float = field(default_factory=time.monotonic)
    tasks: set[str] = field(default_factory=set)

    def expect(self, answer: int | _Other) -> None:
        if not self.owes:
            self.since = time.monotonic()
        self.owes.append(answer)

    @property
    def trials(self) -> list[int]:
        return [item for item in self.owes if not isinstance(item, _Other)]


def _ignore(_: str) -> None:
    """Default of `notify`: drops the message."""


class LocalWorkers(Backend):
    """Measures candidates in `count` worker processes, which are started on demand.

    `timeout`: wall-clock seconds for one candidate (None: `backends.TIMEOUT`). `start_timeout`: seconds for a process
    to start and to load a task (None: `START_TIMEOUT`). `notify` receives a line on the pending work when no trial has
    finished for a while. `command`: the command line that starts a worker.
    """

    def __init__(
        self,
        count: int,
        *,
        timeout: float | None = None,
        start_timeout: float | None = None,
        notify: Callable[[str], None] = _ignore,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._count = count
        self._timeout = backends.TIMEOUT if timeout is None else timeout
        self._start_timeout = START_TIMEOUT if start_timeout is None else start_timeout
        self._notify = notify
        self._command = tuple(command)
        self._seats: list[_Seat] = []
        self._unused_starts = 0

    def close(self) -> None:
        """Kills all worker processes; the next measurement starts new ones."""
        while self._seats:
            self._seats.pop().process.end()

    def finished(
        self, description: Description, points: Sequence[Values | None]
    ) -> Iterator[tuple[int, Result]]:
        """Measures `points` (candidates by their knob values); yields (index, result) of each in order of completion.
        While the caller handles a result, each process already has its next trial.
        """
        batch = _Batch(canonical(description), points)
        try:
            while batch.left:
                self._staff(batch)
                self._hand_out(batch)
                yield from self._results(batch)
        finally:
            # Abandoned by the caller or by Ctrl-C: late answers must not count for the next call.
            for seat in [seat for seat in self._seats if seat.owes]:
                self._dismiss(seat)

    def _staff(self, batch: _Batch) -> None:
        for _ in range(min(self._count, batch.left) - len(self._seats)):
            self._seats.append(_Seat(WorkerProcess(self._command)))
        for seat in self._seats:
            if batch.task not in seat.tasks:
                seat.process.send({"load": batch.task})
                seat.expect(_Other.LOAD)
                seat.tasks.add(batch.task)

    def _hand_out(self, batch: _Batch) -> None:
        able = [seat for seat in self._seats if len(seat.trials) == len(seat.owes)]
        # A second trial for each process bridges the time until its answer is read; the last trials go to
        # idle processes.
        for most in (1, 2):
            for seat in able:
                enough = 1 if most == 1 else len(self._seats) + 1
                if len(seat.owes) < most and len(batch.waiting) >= enough:
                    index = batch.waiting.popleft()
                    values = batch.points[index]
                    numbers = None if values is None else {name: int(v) for name, v in values.items()}
                    seat.process.send({"task": batch.task, "values": numbers, "timeout": self._timeout})
                    seat.expect(index)

    def _results(self, batch: _Batch) -> Iterator[tuple[int, Result]]:
        """Waits until a process answers, ends or exceeds its time-out. Yields (index, result) of each trial that is
        then complete.
        """
        now = time.monotonic()
        busy = [seat for seat in self._seats if seat.owes]
        wait = min([PATIENCE, *(self._deadline(seat) - now for seat in busy)])
        with selectors.DefaultSelector() as selector:
            # Idle processes too: one that was killed meanwhile must not get a trial.
            for seat in self._seats:
                selector.register(seat.process, selectors.EVENT_READ, seat)
            ready = [key.data for key, _ in selector.select(max(0.0, wait))]
        looked = time.monotonic()
        for seat in ready:
            yield from self._answers(batch, seat)
        if not ready and wait == PATIENCE:
            self._notify(self._waited_for(batch))
        # The caller may have paused for long since `looked`: a process is late only if its limit had passed by then
        # and it has not answered since.
        for seat in [seat for seat in busy if seat not in ready and looked >= self._deadline(seat)]:
            if not _has_answered(seat):
                yield from self._late(batch, seat)

    def _answers(self, batch: _Batch, seat: _Seat) -> Iterator[tuple[int, Result]]:
        answers = seat.process.receive()
        if answers is None:
            yield from self._ended(batch, seat)
            return
        for answer in answers:
            owed = seat.owes.popleft()
            seat.since = time.monotonic()
            if "refused" in answer:
                seat.tasks.discard(batch.task)
                raise TaskError(answer["refused"])
            if not isinstance(owed, _Other):
                self._unused_starts = 0
                yield batch.finish(owed, result_from_dict(answer))

    def _ended(self, batch: _Batch, seat: _Seat) -> Iterator[tuple[int, Result]]:
        how = self._dismiss(seat)
        if not seat.owes:
            return
        first = seat.owes[0]
        if isinstance(first, _Other):
            self._failed_start(f"ended before it was ready {first.value} ({how})")
        else:
            batch.ends[first] += 1
        batch.give_back(seat.trials)
        if not isinstance(first, _Other) and batch.ends[first] >= _ENDS:
            yield batch.fail(first, f"ended the process that measured it ({how})", 0.0)

    def _late(self, batch: _Batch, seat: _Seat) -> Iterator[tuple[int, Result]]:
        seconds = time.monotonic() - seat.since
        self._dismiss(seat)
        first = seat.owes[0]
        batch.give_back(seat.trials)
        if isinstance(first, _Other):
            self._failed_start(f"took longer than {self._start_timeout:.3g} s {first.value}")
        else:
            yield batch.fail(first, f"took longer than {self._timeout:.3g} s", seconds)

    def _failed_start(self, why: str) -> None:
        self._unused_starts += 1
        if self._unused_starts >= _STARTS:
            raise BackendError(
                f"a process that measures candidates {why}, and so did {_STARTS - 1} before it"
            )

    def _deadline(self, seat: _Seat) -> float:
        return seat.since + (self._start_timeout if isinstance(seat.owes[0], _Other) else self._timeout)

    def _dismiss(self, seat: _Seat) -> str:
        self._seats.remove(seat)
        return seat.process.end()

    def _waited_for(self, batch: _Batch) -> str:
        now = time.monotonic()
        parts = []
        for seat in self._seats:
            if seat.owes:
                first = seat.owes[0]
                what = first.value if isinstance(first, _Other) else f"for trial {first}"
                parts.append(f"process {seat.process.pid} {what} since {now - seat.since:.0f} s")
        return f"{batch.left} trials left; waiting: {', '.join(parts)}; {len(batch.waiting)} have not begun"


def _has_answered(seat: _Seat) -> bool:
    """Whether an answer of the process, or its end, waits to be read."""
    with selectors.DefaultSelector() as selector:
        selector.register(seat.process, selectors.EVENT_READ)
        return bool(selector.select(0.0))


class _Batch:
    """The trials of one call of `LocalWorkers.finished`. `waiting`: indices of the trials that wait. `ends`: the number
    of processes that have ended during each trial. `left`: the number of trials without a result.
    """

    def __init__(self, task: str, points: Sequence[Values | None]) -> None:
        self.task = task
        self.points = points
        self.waiting = deque(range(len(points)))
        self.ends = Counter[int]()
        self.left = len(points)

    def finish(self, index: int, result: Result) -> tuple[int, Result]:
        self.left -= 1
        return index, result

    def fail(self, index: int, error: str, seconds: float) -> tuple[int, Result]:
        self.waiting.remove(index)
        return self.finish(index, Result(cost=math.inf, error=error, seconds=seconds))

    def give_back(self, indices: Sequence[int]) -> None:
        self.waiting.extendleft(reversed(indices))
