"""Sizes of chunks of trials: how many trials are sent to a worker at a time."""

from __future__ import annotations

CHUNK_SECONDS = (0.05, 1.0)
"""Least and largest number of seconds that a chunk of trials should take. The lower limit applies while there are
enough trials: each chunk costs client, scheduler and worker 5 to 10 CPU milliseconds. The upper limit bounds what is
lost if a worker dies: all trials of its chunk.
"""
_FIRST_CHUNK = (1, 8)
"""Least and largest number of trials in a chunk while the time of a trial is unknown."""


def chunk_limits(seconds: float | None) -> tuple[int, int]:
    """Least and largest number of trials in a chunk. `seconds`: the time of one trial (None: not known yet)."""
    if seconds is None:
        return _FIRST_CHUNK
    least, most = (max(1, round(limit / max(seconds, 1e-4))) for limit in CHUNK_SECONDS)
    return least, most


def chunks(count: int, workers: int, limits: tuple[int, int]) -> list[range]:
    """Divides `count` trials into chunks for `workers`, with sizes within `limits` where possible.

    In each round every worker gets a chunk of half of its share of the remaining trials. Once half a share is below the
    smallest allowed chunk, every worker gets its whole share. The first chunks are therefore large, and the last ones
    so small that all workers end at about the same time (factoring: Hummel, Schonberg and Flynn, Communications of the
    ACM 35(8), 1992).
    """
    least, most = limits
    found, start = [], 0
    while start < count:
        share = -(-(count - start) // max(1, workers))
        half = -(-share // 2)
        size = min(most, half if half >= least else share)
        for _ in range(max(1, workers)):
            end = min(start + size, count)
            if end > start:
                found.append(range(start, end))
            start = end
    return found
