"""Backends that run trials: the interface that a search uses, and the simplest backend, which runs trials in this
process.

`local_workers.py` runs trials in processes of this machine, `dask_workers.py` on other machines. If costs are cycles,
all backends give equal results for equal candidates.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

from vdla.util.closing import Closing
from vdla.util.errors import UserError

from ...templates.columns import Values
from .descriptions import Description, Measure, canonical, load
from .trial import Result

TIMEOUT = 30.0
"""Default time-out of one candidate in seconds: a hundred times as long as the slowest candidates take on an idle
machine. It is read when workers are created. Tests run on busy machines, and set a longer time-out.
"""


class BackendError(UserError):
    """Raised if trials cannot continue: workers do not start, or the scheduler is gone. Results of finished trials are
    not lost.
    """


class Backend(Closing, ABC):
    """Measures candidates. When a `with` block ends, also after an error, the backend is closed and all trials are
    ended.
    """

    @abstractmethod
    def finished(
        self, description: Description, points: Sequence[Values | None]
    ) -> Iterator[tuple[int, Result]]:
        """Measures `points` (candidates by their knob values); yields (index, result) of each in order of completion.

        If a candidate fails, even by ending its process, its result has the reason. If the caller ends the iteration
        early, the remaining candidates are abandoned. Raises UserError if the description is not a valid task,
        BackendError if trials cannot continue.
        """

    def measure(self, description: Description, points: Sequence[Values | None]) -> list[Result]:
        """The results of `points` (candidates by their knob values), in the order of `points`. Raises UserError and
        BackendError, as `finished` does.
        """
        results = dict(self.finished(description, points))
        return [results[index] for index in range(len(points))]


class InProcess(Backend):
    """Runs trials one after the other in this process: a candidate that crashes or hangs also ends or blocks this
    process.

    `load` turns a task's description into the function that measures its candidates.
    """

    def __init__(self, load: Callable[[Description], Measure] = load) -> None:
        self._load = load
        self._tasks: dict[str, Measure] = {}

    def finished(
        self, description: Description, points: Sequence[Values | None]
    ) -> Iterator[tuple[int, Result]]:
        """Measures `points` (candidates by their knob values); yields (index, result) of each, in order."""
        key = canonical(description)
        if key not in self._tasks:
            self._tasks[key] = self._load(description)
        for index, values in enumerate(points):
            yield index, attempt(self._tasks[key], values)

    def close(self) -> None:
        """Drops the loaded tasks."""
        self._tasks.clear()


def attempt(measure: Measure, values: Values | None) -> Result:
    """Runs one trial. Any exception of `measure` makes it a failed trial, so that no search ends because of one
    candidate.
    """
    try:
        return measure(values)
    except Exception as error:
        return Result(cost=math.inf, error=f"defect: {type(error).__name__}: {error}".splitlines()[0])
