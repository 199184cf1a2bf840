"""Trials on a GPU. Many processes compile candidates; one process owns the device, checks the candidates' results and
times them.

All processes are workers of `local_workers.py`. If a kernel hangs, the device's process is killed. If a kernel breaks
the device, the process ends itself. In both cases the candidate counts as failed, and the next candidate gets a new
process.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...templates.columns import Values
from .backends import Backend
from .descriptions import Description, canonical, describe_cuda_code, describe_cuda_device
from .trial import Result
from .trial_cuda import candidate_name

KEPT = 8
"""Number of compiled candidates of a task that stay on disk. They are the fastest candidates, and are measured again at
the end of a run.
"""


class CudaWorkers(Backend):
    """Measures candidates on GPU number `ordinal`: the backend `compilers` compiles candidates, the backend `timer`
    times them on the device.

    `close` closes both backends. `timer` gets one candidate at a time.
    """

    def __init__(self, compilers: Backend, timer: Backend, *, ordinal: int = 0) -> None:
        self._compilers, self._timer, self._ordinal = compilers, timer, ordinal
        self._folder = tempfile.TemporaryDirectory(prefix="vdla-tune-")
        self._tasks: dict[str, _Task] = {}

    def close(self) -> None:
        """Ends the processes, and removes all compiled candidates."""
        self._tasks.clear()
        with contextlib.ExitStack() as closing:
            closing.callback(self._folder.cleanup)
            closing.callback(self._compilers.close)
            closing.callback(self._timer.close)

    def finished(
        self, description: Description, points: Sequence[Values | None]
    ) -> Iterator[tuple[int, Result]]:
        """Measures `points` (candidates by their knob values), and yields (index, result) of each in the order of
        completion. A point that occurs several times is compiled once and timed each time; if there is such a point,
        all results come in the order of `points`.
        """
        task = self._task(description)
        names = [candidate_name(values) for values in points]
        first = {name: index for index, name in reversed(list(enumerate(names)))}
        compiled = {name: _NO_WORK for name in first if name in task.kept}
        missing = [
            index for name, index in sorted(first.items(), key=lambda item: item[1]) if name not in compiled
        ]
        in_turns = len(first) < len(points)
        try:
            if not in_turns:
                for name in list(compiled):
                    yield first[name], self._timed(task, name, points[first[name]], compiled[name])
            for k, result in self._compilers.finished(task.code, [points[index] for index in missing]):
                index = missing[k]
                compiled[names[index]] = result
                if not in_turns:
                    yield index, self._timed(task, names[index], points[index], result)
            if in_turns:
                for index, name in enumerate(names):
                    yield index, self._timed(task, name, points[index], compiled[name])
        finally:
            task.discard([name for name in first if name not in task.kept])

    def _task(self, description: Description) -> _Task:
        key = hashlib.sha256(canonical(description).encode()).hexdigest()[:16]
        if key not in self._tasks:
            folder = Path(self._folder.name) / key
            folder.mkdir()
            self._tasks[key] = _Task(
                folder=folder,
                code=describe_cuda_code(description, folder),
                device=describe_cuda_device(description, folder, self._ordinal),
            )
        return self._tasks[key]

    def _timed(self, task: _Task, name: str, values: Values | None, compiled: Result) -> Result:
        if compiled.failed:
            return compiled
        (result,) = self._timer.measure(task.device, [values])
        task.keep(name, result.cost)
        return replace(
            result,
            seconds=compiled.seconds + result.seconds,
            compile_seconds=compiled.seconds,
            overhead_seconds=compiled.overhead_seconds + result.overhead_seconds,
        )


_NO_WORK = Result(cost=0.0)
"""The result of compiling a candidate that an earlier call has already compiled."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Task:
    """A tuning task on a GPU. `folder`: the folder of its compiled candidates. `code`, `device`: descriptions of the
    compiling step and of the timing step. `kept`: measured seconds of the candidates that stay in the folder.
    """

    folder: Path
    code: Description
    device: Description
    kept: dict[str, float] = field(default_factory=dict)

    def keep(self, name: str, seconds: float) -> None:
        """Lists the candidate `name` in `kept` if it is one of the `KEPT` fastest; the slowest candidate of a full list
        is then removed from it. A failed candidate (`seconds` inf) is removed from the list. Files stay until
        `discard`.
        """
        if not math.isfinite(seconds):
            self.kept.pop(name, None)
            return
        self.kept[name] = seconds
        if len(self.kept) > KEPT:
            del self.kept[max(self.kept, key=lambda other: self.kept[other])]

    def discard(self, names: Sequence[str]) -> None:
        """Deletes files from the folder: the files of the candidates `names`, and of all candidates not in `kept`."""
        for path in self.folder.iterdir():
            if path.stem in names or path.stem not in self.kept:
                path.unlink(missing_ok=True)
