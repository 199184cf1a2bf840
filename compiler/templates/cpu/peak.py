"""Lower bounds for kernels on a processor: cycles of register tiles on the fastest units, and compulsory bytes."""

from __future__ import annotations

import numpy as np

from ...codegen.cpu.machine import CpuTarget

CLOCK_HERTZ = 6.0e9
"""Upper bound on any processor's clock. The true clock is unknown, and lower bounds in seconds must stay below measured
times.
"""
MEMORY_BYTES_CYCLE = 64.0
"""Most bytes per cycle that a core loads from the memory level that holds a tensor at the start of a kernel."""
LOOK_AHEAD = 640
"""Most instructions in flight (Zen 5 448, Golden Cove 512, Apple's about 630)."""
SLACK = 2.5
"""Points whose lower bound exceeds the least bound by more than this factor are not searched: they use less than 0.4 of
the multipliers.
"""
UNROLLED = (1, 2, 3, 4, 6, 8, 9, 12, 16, 24, 32, 48)
"""Candidate numbers of unrolled steps of a sum."""
FRAME = 4
"""Size of a tile's code outside of its unrolled steps, in steps: sums are initialized, added to other partial sums, and
stored.
"""
PART_SIZES = (64, 96, 128, 192, 256, 384, 512)
"""Candidate numbers of terms of a partial sum, approximate."""
MOST_STATEMENTS = 448
"""Most vectors of sums times unrolled steps, over all kernels of a program, unless the default knobs have more. LLVM
takes half a millisecond to compile each, and long code exceeds a processor's cache of decoded operations.
"""

Sides = tuple[tuple[int | np.ndarray, np.ndarray], ...]
"""For each dimension of a result: its size, and the tile's size along it, int64 [n]. The last tile may be smaller."""


def units(target: CpuTarget) -> tuple[float, float]:
    """Upper bound on vector multiplications that start in a cycle, and lower bound on the latency, in cycles, of adding
    to a sum.

    Two multiplications and four cycles on x86-64 (Zen, Golden Cove); elsewhere up to four, and two cycles with early
    forwarding of sums (Neoverse).
    """
    return (2.0, 4.0) if target.triple.startswith("x86_64") else (4.0, 2.0)


def least_cycles(
    target: CpuTarget, sides: Sides, vectors: np.ndarray, steps: float, chain: int | np.ndarray
) -> np.ndarray:
    """Lower bound in cycles for the sums of all tiles, each vector of sums in `steps` steps (a mean).

    `vectors`, int64 [n]: vectors of sums for each element of a tile. `chain`: dependent steps before other sums start;
    a processor overlaps as many chains as LOOK_AHEAD instructions hold.
    """
    rate, latency = units(target)
    cycles = np.zeros(len(vectors))
    for tile, count in ragged_tiles(sides):
        sums = tile * vectors
        # Every step also has a load.
        overlapped = 1 + LOOK_AHEAD / (chain * (sums + 1))
        cycles += count * np.maximum(sums / rate, latency / overlapped) * (tile > 0)
    return cycles * steps


def ragged_tiles(sides: Sides) -> list[tuple[np.ndarray, np.ndarray]]:
    """The kinds of tiles that cover a box: whole tiles, and smaller ones at the ends of one or more dimensions. For
    each kind (elements of a tile, 0 if it is empty; number of tiles).
    """
    kinds = [(np.int64(1), np.int64(1))]
    for size, tile in sides:
        whole, rest = size // tile, size % tile
        kinds = [
            (length * part, count * number)
            for length, count in kinds
            for part, number in ((tile, whole), (rest, np.minimum(rest, 1)))
        ]
    return [(np.asarray(tile), np.asarray(count)) for tile, count in kinds]


def unrolled_extent(size: int, block: np.ndarray, tile: np.ndarray) -> np.ndarray:
    """Total extent, along a dimension, of the code of all kernels into which peeling cuts a loop: whole and smaller
    last tiles, of whole blocks and of the last block.

    `block`: block sizes, as `rounded_block` returns them.
    """
    whole = np.where(block < size, size // block, 0)
    rest = size - whole * block
    return tile * (whole > 0) + tile * (rest >= tile) + rest % tile


def rounded_block(wanted: np.ndarray, tile: np.ndarray, size: int) -> np.ndarray:
    """Block sizes near `wanted` positions: the least multiple of the tile that is at least `wanted`, but at most
    `size`.
    """
    return np.minimum(-(-wanted // tile) * tile, size)


def block_sizes(size: int, *more: int) -> tuple[int, ...]:
    """Candidate sizes of blocks when `size` positions are cut into blocks: all sizes up to 64; beyond, for each number
    of blocks the least size, some hundred sizes in equal steps, and the sizes `more`.
    """
    if size <= 64:
        return tuple(range(1, size + 1))
    least = {-(-size // pieces) for pieces in range(1, size + 1)}
    return tuple(sorted({*least, *range(1, size, -(-size // 256)), *more}))
