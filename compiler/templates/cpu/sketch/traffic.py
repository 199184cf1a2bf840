"""The cost of moving a tiled sum's operands: bytes from beyond the second-level cache, and copies of padded inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ....codegen.cpu.machine import CpuTarget
from .stages import Read, Sum

REMOTE_BYTES_CYCLE = 8.0
"""Bytes per cycle that a core gets from beyond the second-level cache, for transfers that arithmetic does not hide."""
WAITING_SHARE = 0.05
"""Prefetches are used only if waiting for weights would take at least this share of the arithmetic's time: otherwise
the instructions of the prefetches cost more than they save.
"""
COPY_BYTES_CYCLE = 16.0
"""Bytes per cycle when copying an input into its padded form."""
NEAR_BYTES_CYCLE = 1024.0
"""Bytes from the second-level cache for which the model charges one cycle. Processors are slower, but arithmetic hides
most of these transfers.
"""
STREAM_SHARE = 0.5
"""Waiting for packed weights from beyond the second-level cache counts only this share, because processors prefetch
this stream. (3x3, 512 channels on 28 x 28: blocks of 4 rows, which read all weights 7 times, are 8% faster than one
block, which reads the input for each panel of weights.)
"""
CACHE_SHARE = 0.75
"""Share of a cache for the operands that a loop nest reads again."""
PAGE_BYTES = 4096
NEAR_PAGES = 64
"""Number of memory pages in a processor's first-level translation buffer (Zen 64 to 72, Golden Cove 96)."""
INPUT_PAGE_CYCLES, WEIGHT_PAGE_CYCLES = 25.0, 8.0
"""Cycles to enter a page of the input, and a page of weights, if a tile uses more than `NEAR_PAGES` pages. A stream of
input data restarts in each page, a stream of weights continues. For 1x1 convolutions on 28 x 28 with 512, 768, 1024 and
2048 channels, tiles with sums in registers take 0.92, 1.05, 1.14 and 1.25 of the time of tiles with sums in memory.
"""
Lengths = Mapping[str, np.ndarray]
"""For each loop of a sum, its iterations at every point (setting of the knobs): int64 [points]."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Level:
    """A loop around a tile. `inner`: the sum's loop along the same dimension; `size`: number of iterations of `inner`.
    `trips`: mean number of iterations of this outer loop at every point (setting of the knobs), [points].
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


def waiting_cycles(
    target: CpuTarget, reads: Sequence[Read], tile: Lengths, nest: Sequence[Level], stream: str
) -> np.ndarray:
    """Cycles of waiting for bytes from the second-level cache and from beyond that cache. `reads`: operands of the sum;
    `tile`: iterations inside a tile; `nest`: the loops around a tile, outermost first; `stream`: the buffer of packed
    weights, which are read in the order in which they are stored.
    """
    near, far = (CACHE_SHARE * size for size in target.cache_bytes)
    total = sum(_moved_bytes(reads, tile, nest, near), np.zeros(1)) / NEAR_BYTES_CYCLE
    for read, moved in zip(reads, _moved_bytes(reads, tile, nest, far), strict=True):
        total = total + moved * (STREAM_SHARE if read.buffer == stream else 1) / REMOTE_BYTES_CYCLE
    return total


def _moved_bytes(
    reads: Sequence[Read], tile: Lengths, nest: Sequence[Level], room: float
) -> list[np.ndarray]:
    """For each operand, the bytes that come from beyond a cache of `room` bytes; `tile`, `nest`: see `waiting_cycles`.

    If the operands of one iteration of a loop exceed the cache, every iteration reads its operands again. Otherwise the
    next iteration reads only elements that are new; an operand that does not depend on the loop has none.
    """
    length = dict(tile)
    boxes = [box_bytes(read, length) for read in reads]
    moved = list(boxes)
    for level in reversed(nest):
        near = _kept(sum(boxes, np.zeros(1)), room)
        length = _grown(length, level)
        larger = [box_bytes(read, length) for read in reads]
        # All operands of the loop stay in the cache: each element comes once.
        whole = _kept(sum(larger, np.zeros(1)), room)
        moved = [
            whole * new + (1 - whole) * m * (near * new / old + (1 - near) * level.trips)
            for new, old, m in zip(larger, boxes, moved, strict=True)
        ]
        boxes = larger
    return moved


def _kept(bytes_: np.ndarray, room: float) -> np.ndarray:
    """Share of `bytes_` that stays in a cache of `room` bytes until the next read: 1 up to `room`, 0 from 2 `room`."""
    return np.clip(2 - bytes_ / room, 0, 1)


def copying_cycles(
    target: CpuTarget, read: Read, tile: Lengths, nest: Sequence[Level], at: int
) -> np.ndarray:
    """Cycles of copying the data of `read`, with pads, in each iteration of loop number `at` of `nest` (-1: once ahead
    of all loops). `nest`: the loops around a tile, outermost first. `tile`: iterations inside a tile.
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


def paging_cycles(data: Read, panel: np.ndarray, tile: Lengths) -> np.ndarray:
    """Cycles that a tile waits when it enters memory pages: pages of the input `data`, and of `panel` bytes of packed
    weights. 0 if all pages of the tile fit the translation buffer. `tile`: iterations of each loop inside a tile.
    """
    stride = data.bits / 8
    bytes_, near, planes = np.full(len(panel), stride), np.ones(len(panel)), np.zeros(len(panel))
    for steps, size in zip(reversed(data.steps), reversed(data.shape), strict=True):
        span = np.minimum(sum(abs(c) * (tile[name] - 1) for name, c in steps) + 1.0, size)
        bytes_ = bytes_ * span
        if stride <= PAGE_BYTES:
            near = near + stride * (span - 1) / PAGE_BYTES
        elif size > 1:
            planes = np.maximum(planes, 1) * span
        stride *= size
    # Positions that are less than a page apart are read as one memory stream; further ones begin a page each.
    inputs = bytes_ / PAGE_BYTES + near * planes
    weights = panel / PAGE_BYTES
    waited = inputs * INPUT_PAGE_CYCLES + weights * WEIGHT_PAGE_CYCLES
    return np.where(inputs + weights > NEAR_PAGES, waited, 0.0)


def waits(target: CpuTarget, summed: Sum, read: Read, tile: Mapping[str, int], lanes: int) -> bool:
    """Whether prefetching the weights `read` saves time. `tile`: a tile's iterations of each loop of the consumer (the
    nest that reads the sum), and a partial sum's iterations of reduction loops. `lanes`: sums in a vector.

    True if each tile reloads more weights than the first-level cache holds: a panel (packed weights of one tile) or,
    with partial sums, a part of the panel. Prefetches then save 3 to 10% on a Zen 5 and 5 to 25% on a Golden Cove. Also
    true for weights from beyond the second-level cache that few output pixels use.
    """
    length = {a.inner: np.array([tile[a.name]]) for a in summed.axles}
    length |= {t.name: np.array([tile.get(t.name, t.size)]) for t in (*summed.terms, *summed.beside)}
    if box_bytes(read, length)[0] > target.cache_bytes[0]:
        return True
    weights = prod(read.shape) * read.bits // 8
    far = weights > target.cache_bytes[1] * 0.75
    return far and weights / REMOTE_BYTES_CYCLE > WAITING_SHARE * summed.work / (2 * lanes)


def _grown(length: Lengths, level: Level) -> dict[str, np.ndarray]:
    return {**length, level.inner: np.minimum(length[level.inner] * level.trips, level.size)}
