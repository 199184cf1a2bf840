"""A case: a computation (layer, product or network) in two versions, ours and the peer's (the library compared with).
Measuring a case gives a row of results.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from vdla.codesign.timing import LEAST_SECONDS, Timed, clock_of, interleaved, ratio

RATIO_IS = "our speed over the peer's: the peer's time / ours, median over the rounds; above 1 ours is faster"
"""The meaning of `ratio` in all rows of `vdla bench`."""


def _first(times: Sequence[float]) -> float:
    return times[0]


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A computation to time on `threads` threads in two versions, ours and the peer's (the library compared with).

    `operations`: number of arithmetic operations (a multiply-add counts as two). `error`: largest difference of the
    outputs, relative to the largest value of the peer's output. `ours`, `peer`: the calls of each side that are timed;
    `ours_time`, `peer_time`: functions from the seconds of these calls to the seconds that count for this side (by
    default, the seconds of the first call). `close`: ends the threads.
    """

    name: str
    threads: int
    operations: float
    error: float
    ours: tuple[Timed, ...]
    peer: tuple[Timed, ...]
    ours_time: Callable[[Sequence[float]], float] = _first
    peer_time: Callable[[Sequence[float]], float] = _first
    close: Callable[[], None] = _nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The result of measuring a case, ours against the peer's library. Times are medians in milliseconds; `ratio`: the
    peer's time over ours; `gflops`: billions of operations per second of our side.
    """

    name: str
    ours_ms: float
    peer_ms: float
    ratio: float
    threads: int
    gflops: float
    error: float

    def to_dict(self) -> dict[str, Any]:
        """The row as a JSON object."""
        return asdict(self)


def measure(case: Case, rounds: int) -> Row:
    """Measures a case in `rounds` rounds: our runs and the peer's (the library compared with) alternate, and each round
    gives one ratio of the two times. Returns the medians.
    """
    times = interleaved(
        clock_of(case.threads),
        [*case.ours, *case.peer],
        rounds,
        least=LEAST_SECONDS,
        alone=case.threads > 1,
    )
    rounds_of_all = list(zip(*times, strict=True))
    ours = [case.ours_time(seconds[: len(case.ours)]) for seconds in rounds_of_all]
    theirs = [case.peer_time(seconds[len(case.ours) :]) for seconds in rounds_of_all]
    seconds = statistics.median(ours)
    return Row(
        name=case.name,
        ours_ms=round(seconds * 1e3, 4),
        peer_ms=round(statistics.median(theirs) * 1e3, 4),
        ratio=round(ratio(theirs, ours), 3),
        threads=case.threads,
        gflops=round(case.operations / seconds / 1e9, 1),
        error=case.error,
    )


def relative_error(ours: np.ndarray, theirs: np.ndarray) -> float:
    """max |ours - theirs| / max |theirs|."""
    difference = np.abs(ours.astype(np.float64) - theirs.astype(np.float64)).max()
    return float(difference / max(np.abs(theirs.astype(np.float64)).max(), 1e-30))
