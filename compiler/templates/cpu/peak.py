"""What no kernel on a processor beats: cycles of register tiles on the fastest units, and compulsory bytes."""

from __future__ import annotations

import numpy as np

from ...codegen.cpu.machine import CpuTarget

CLOCK_HERTZ = 6.0e9
"""No processor's clock is faster; the true one is unknown, so that bounds in seconds stay below any measurement."""
MEMORY_BYTES_CYCLE = 64.0
"""Bytes a cycle that a core gets at most from wherever a tensor lies when a kernel starts."""
LOOK_AHEAD = 640
"""Instructions in flight at most (Zen 5 448, Golden Cove 512, Apple's about 630)."""
SLACK = 2.5
"""Points whose bound is more than so many times the least one are left out: they use less than 0.4 of the units."""
UNROLLED = (1, 2, 3, 4, 6, 8, 9, 12, 16, 24, 32, 48)
"""Steps of a sum that are written out."""
FRAME = 4
"""Steps' worth of code around a tile's steps: its sums start, join those of other parts, and are stored."""
PART_SIZES = (64, 96, 128, 192, 256, 384, 512)
"""Terms that are added in a row, about."""
MOST_STATEMENTS = 448
"""Vectors of sums times steps written out, of all kernels of a program, unless the defaults have more. LLVM takes half
a millisecond for each, and much code leaves the cache that processors have for decoded operations."""

Sides = tuple[tuple[int | np.ndarray, np.ndarray], ...]
"""For each dimension of a result its size and a tile's, int64 [n]; what does not divide is a smaller tile."""


def units(target: CpuTarget) -> tuple[float, float]:
    """Multiplications of vectors that start in a cycle, and cycles until a sum can be added to again.

    Two and four on x86-64 (Zen, Golden Cove); elsewhere up to four, and two where sums are handed on early (Neoverse).
    """
    return (2.0, 4.0) if target.triple.startswith("x86_64") else (4.0, 2.0)


def least_cycles(
    target: CpuTarget, sides: Sides, vectors: np.ndarray, steps: float, chain: int | np.ndarray
) -> np.ndarray:
    """Cycles below which no program gets that sums up tiles, each of its vectors of sums in `steps` steps (a mean).

    Each element of a tile is `vectors` vectors, int64 [n]. `chain` steps wait for each other; then other sums start,
    with as many of which a processor overlaps them as it can look ahead.
    """
    rate, latency = units(target)
    cycles = np.zeros(len(vectors))
    for tile, count in ragged_tiles(sides):
        sums = tile * vectors
        # Every step loads something besides.
        overlapped = 1 + LOOK_AHEAD / (chain * (sums + 1))
        cycles += count * np.maximum(sums / rate, latency / overlapped) * (tile > 0)
    return cycles * steps


def ragged_tiles(sides: Sides) -> list[tuple[np.ndarray, np.ndarray]]:
    """The kinds of tiles of a box: elements of one (0 where the kind is empty) and how many there are."""
    kinds = [(np.int64(1), np.int64(1))]
    for size, tile in sides:
        whole, rest = size // tile, size % tile
        kinds = [
            (length * part, count * number)
            for length, count in kinds
            for part, number in ((tile, whole), (rest, np.minimum(rest, 1)))
        ]
    return [(np.asarray(tile), np.asarray(count)) for tile, count in kinds]


def written_out(size: int, block: np.ndarray, tile: np.ndarray) -> np.ndarray:
    """The sides of all kernels that peeling leaves of a dimension, added up: whole and ragged tiles of whole and last
    blocks, as `rounded_block` has them."""
    whole = np.where(block < size, size // block, 0)
    rest = size - whole * block
    return tile * (whole > 0) + tile * (rest >= tile) + rest % tile


def rounded_block(wanted: np.ndarray, tile: np.ndarray, size: int) -> np.ndarray:
    """The least multiple of a tile that holds the `wanted` positions; `size`, where that is all of them."""
    return np.minimum(-(-wanted // tile) * tile, size)


def block_sizes(size: int, *more: int) -> tuple[int, ...]:
    """Sizes of blocks into which to cut `size` positions: all, and of many the least for each number of blocks and some
    hundred in equal steps."""
    if size <= 64:
        return tuple(range(1, size + 1))
    least = {-(-size // pieces) for pieces in range(1, size + 1)}
    return tuple(sorted({*least, *range(1, size, -(-size // 256)), *more}))
