"""Schedules of operators without reuse: a contiguous loop in vectors, outer loops in pieces of equal work."""

from __future__ import annotations

from collections.abc import Sequence

from ...codegen.cpu.machine import CpuTarget
from ...ir.types import DType
from ...schedule import Schedule
from ...te.blocks import ceil_div
from .borders import peel_ragged

VECTORS = 4
"""Vectors of one step of a vectorized loop: enough independent work to hide the latency of one."""
GRAIN = 8192
"""Least elements in a chunk of a parallel loop: several microseconds of work, many times a fork's cost."""


def vector_width(target: CpuTarget, size: int, vectors: int = VECTORS) -> int:
    """Iterations of a contiguous loop to vectorize at once: up to `vectors` whole vectors, at least one."""
    lanes = target.lanes(DType.FLOAT32)
    return lanes * max(1, min(vectors, size // lanes))


def vectorize_loop(s: Schedule, target: CpuTarget, loop: str, size: int, vectors: int = VECTORS) -> str:
    """Vectorizes a contiguous loop of `size` iterations and peels the remainder; returns the outer loop."""
    outer, inner = s.split(loop, vector_width(target, size, vectors))
    s.vectorize(inner)
    peel_ragged(s, outer)
    return outer


def parallel_grains(s: Schedule, loops: Sequence[tuple[str, int]], work: int) -> None:
    """Makes the outermost of `loops` (name and iterations, nested in this order) with enough iterations parallel.

    `work`: elements of one iteration of the innermost loop. Iterations of fewer than `GRAIN` elements are grouped into
    chunks of `GRAIN`; a nest of fewer than two chunks stays serial.
    """
    inside = work
    for _, size in loops:
        inside *= size
    if inside < 2 * GRAIN:
        return
    best: tuple[int, str] | None = None
    for name, size in loops:
        inside //= size
        if inside < GRAIN:
            piece = ceil_div(GRAIN, inside)
            chunks = ceil_div(size, piece)
            if best is None or chunks > best[0]:
                if piece < size:
                    name, _ = s.split(name, piece)
                best = (chunks, name)
            break
        if best is None or size > best[0]:
            best = (size, name)
        if size >= 4:
            break
    if best is not None and best[0] > 1:
        s.parallel(best[1])
