"""Trials in chunks: how many one worker is handed at a time."""

from __future__ import annotations

CHUNK_SECONDS = (0.05, 1.0)
"""A chunk takes about so long at least, if there are trials enough, since client, scheduler and worker spend 5 to 10
CPU milliseconds on each, and at most, which is what is lost with its worker."""
_FIRST_CHUNK = (1, 8)
"""Trials of a chunk, at least and at most, as long as it is unknown how long they take."""


def chunk_limits(seconds: float | None) -> tuple[int, int]:
    """How many trials a chunk has at least and at most, of so many seconds each (None: unknown yet)."""
    if seconds is None:
        return _FIRST_CHUNK
    least, most = (max(1, round(limit / max(seconds, 1e-4))) for limit in CHUNK_SECONDS)
    return least, most


def chunks(count: int, workers: int, limits: tuple[int, int]) -> list[range]:
    """`count` trials in chunks, within `limits` as far as they go: to every worker half of its share of what is left,
    and so on; what would be too small then is shared evenly.

    So the first are large, and the last small enough that all workers end at about the same time (factoring: Hummel,
    Schonberg and Flynn, Communications of the ACM 35(8), 1992).
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
