"""The cost of moving a tiled sum's operands: bytes from beyond the second-level cache, and copies of padded inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ....codegen.cpu.machine import CpuTarget
from ..partial_sums import REMOTE_BYTES_CYCLE, waits_for_weights
from .stages import Read, Sum

COPY_BYTES_CYCLE = 16.0
"""Bytes per cycle when copying an input into its padded form."""
NEAR_BYTES_CYCLE = 256.0
"""Bytes per cycle that a core gets from the second-level cache, for transfers that arithmetic does not hide: most are
hidden.
"""
CACHE_SHARE = 0.75
"""Share of a cache for the operands that a loop nest reads again."""
Lengths = Mapping[str, np.ndarray]
"""For each loop of a sum, its iterations at every point (setting of the knobs): int64 [points]."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Level:
    """A loop around a tile: the sum's loop `inner` along the same dimension, of `size` iterations, and the mean number
    of `trips` of the loop around the tile at every point (setting of the knobs).
    """

    inner: str
    size: int
    trips: np.ndarray


def box_bytes(read: Read, length: Lengths) -> np.ndarray:
    """Bytes of the bounding box of the elements that `length` iterations read, at every point (setting of the
    knobs): float64 [points].
    """
    total = np.full(len(next(iter(length.values()))), read.bits / 8)
    for steps, size in zip(read.steps, read.shape, strict=True):
        span = sum(abs(c) * (length[name] - 1) for name, c in steps) + 1.0
        total = total * np.minimum(span, size)
    return total


def waiting_cycles(target: CpuTarget, summed: Sum, tile: Lengths, nest: Sequence[Level]) -> np.ndarray:
    """Cycles of waiting for bytes from the second-level cache and from beyond that cache. `tile`: iterations inside a
    tile; `nest`: the loops around a tile, outermost first.
    """
    near, far = (CACHE_SHARE * size for size in target.cache_bytes)
    return (
        _moved_bytes(summed, tile, nest, near) / NEAR_BYTES_CYCLE
        + _moved_bytes(summed, tile, nest, far) / REMOTE_BYTES_CYCLE
    )


def _moved_bytes(summed: Sum, tile: Lengths, nest: Sequence[Level], room: float) -> np.ndarray:
    """Bytes that come from beyond a cache of `room` bytes.

    An iteration of a loop reads its operands again if the operands of one iteration exceed the cache. Otherwise the
    next iteration reads only new elements, or none of an operand that does not depend on the loop.
    """
    length = dict(tile)
    boxes = [box_bytes(read, length) for read in summed.reads]
    moved = list(boxes)
    for level in reversed(nest):
        near = sum(boxes) <= room
        length = _grown(length, level)
        larger = [box_bytes(read, length) for read in summed.reads]
        again = [np.where(near, new / old, level.trips) for new, old in zip(larger, boxes, strict=True)]
        # All operands of the loop stay in the cache: each element comes once.
        whole = sum(larger) <= room
        moved = [np.where(whole, new, m * a) for new, m, a in zip(larger, moved, again, strict=True)]
        boxes = larger
    return sum(moved, np.zeros(1))


def copying_cycles(
    target: CpuTarget, read: Read, tile: Lengths, nest: Sequence[Level], at: int
) -> np.ndarray:
    """Cycles of copying the data of `read`, with pads, in each iteration of loop number `at` of `nest` (-1: once ahead
    of all loops). The arguments are those of `waiting_cycles`.
    """
    length = dict(tile)
    for level in reversed(nest[at + 1 :]):
        length = _grown(length, level)
    box = box_bytes(read, length)
    times = np.ones(len(box))
    for level in nest[: at + 1]:
        times = times * level.trips
    # A small padded copy is still in the first-level cache when it is read.
    far = box >= CACHE_SHARE * target.cache_bytes[1] / 4
    return box * times * np.where(far, 2, 1) / COPY_BYTES_CYCLE


def waits(target: CpuTarget, summed: Sum, read: Read, tile: Mapping[str, int], lanes: int) -> bool:
    """Whether prefetching the weights `read` saves time (`partial_sums.waits_for_weights`). `tile`: iterations of each
    loop of the consumer (the nest that reads the sum) inside a tile; `lanes`: sums in a vector.
    """
    length = {a.inner: np.array([tile[a.name]]) for a in summed.axles}
    length |= {t.name: np.array([t.size]) for t in (*summed.terms, *summed.beside)}
    return waits_for_weights(
        target,
        panel=float(box_bytes(read, length)[0]),
        weights=prod(read.shape) * read.bits // 8,
        cycles=summed.work / (2 * lanes),
    )


def _grown(length: Lengths, level: Level) -> dict[str, np.ndarray]:
    return {**length, level.inner: np.minimum(length[level.inner] * level.trips, level.size)}
