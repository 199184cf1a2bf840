"""Trials on a GPU: many processes compile candidates, one has the device, checks their results and times them.

The device's process is one of `local_workers.py` like the others: it is killed when a kernel hangs, and ends by itself
after one that broke the device; the candidate has failed then, and the next one gets another process.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ...templates.space import Values
from .backends import Backend
from .descriptions import Description, describe_cuda_code, describe_cuda_device
from .trial import Result
from .trial_cuda import candidate_name


class CudaWorkers(Backend):
    """Measures tasks of the kind "cuda": `compilers` compile them, `timer` times them on GPU number `ordinal`.

    Both are closed with it. `timer` is asked for one candidate at a time.
    """

    def __init__(self, compilers: Backend, timer: Backend, *, ordinal: int = 0) -> None:
        self._compilers, self._timer, self._ordinal = compilers, timer, ordinal
        self._folder = tempfile.TemporaryDirectory(prefix="vdla-tune-")

    def close(self) -> None:
        """Ends the processes, and removes what was compiled."""
        with contextlib.ExitStack() as closing:
            closing.callback(self._folder.cleanup)
            closing.callback(self._compilers.close)
            closing.callback(self._timer.close)

    def finished(
        self, description: Description, points: Sequence[Values | None]
    ) -> Iterator[tuple[int, Result]]:
        """The results as they come; where points come again, which are compiled once, in the order of `points`."""
        folder = Path(self._folder.name)
        code = describe_cuda_code(description, folder)
        device = describe_cuda_device(description, folder, self._ordinal)
        names = [candidate_name(values) for values in points]
        first = {name: index for index, name in reversed(list(enumerate(names)))}
        distinct = sorted(first.values())
        compiled: dict[str, Result] = {}
        try:
            for k, result in self._compilers.finished(code, [points[index] for index in distinct]):
                compiled[names[distinct[k]]] = result
                if len(distinct) == len(points):
                    yield distinct[k], self._timed(device, points[distinct[k]], result)
            if len(distinct) < len(points):
                for index, name in enumerate(names):
                    yield index, self._timed(device, points[index], compiled[name])
        finally:
            for name in first:
                for suffix in (".tar", ".json"):
                    (folder / name).with_suffix(suffix).unlink(missing_ok=True)

    def _timed(self, device: Description, values: Values | None, compiled: Result) -> Result:
        if compiled.failed:
            return replace(compiled, cost=math.inf)
        (result,) = self._timer.measure(device, [values])
        return replace(
            result,
            seconds=compiled.seconds + result.seconds,
            compile_seconds=compiled.seconds,
            overhead_seconds=compiled.overhead_seconds + result.overhead_seconds,
        )
