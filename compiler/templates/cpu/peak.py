"""Lower bounds for kernels on a processor: cycles of register tiles with the most multipliers of any processor, and
bytes that every schedule moves.
"""

from __future__ import annotations

import numpy as np

from ...codegen.cpu.machine import CpuTarget

CLOCK_HERTZ = 6.0e9
"""Upper bound on any processor's clock. The true clock is unknown, and lower bounds in seconds must stay below measured
times.
"""
MEMORY_BYTES_CYCLE = 64.0
"""Largest number of bytes per cycle that a core loads from the memory level that holds a tensor at the start of a
kernel.
"""
LOOK_AHEAD = 640
"""Largest number of instructions in flight (Zen 5 448, Golden Cove 512, Apple's about 630)."""
SLACK = 2.5
"""Points (settings of the knobs) whose lower bound on time exceeds the least bound by more than this factor are not
searched: they use less than 0.4 of the multipliers.
"""
UNROLLED = (1, 2, 3, 4, 6, 8, 9, 12, 16, 24, 32, 48)
"""Candidate numbers of unrolled steps of a sum."""
FRAME = 4
"""Size of a tile's code outside of its unrolled steps, in units of a step: this code initializes sums, adds them to
other partial sums, and stores them.
"""
PART_SIZES = (64, 96, 128, 192, 256, 384, 512)
"""Candidate numbers of terms of a partial sum, approximate."""
MOST_STATEMENTS = 448
"""Largest product of vectors of sums and unrolled steps, added up over all loop nests of a program, unless the default
knobs have more. LLVM takes half a millisecond to compile each statement, and long code exceeds a processor's cache of
decoded operations.
"""

Sides = tuple[tuple[int | np.ndarray, np.ndarray], ...]
"""For each dimension of a result: its size, and the tile's size along it, int64 [n]. The last tile may be smaller."""


def units(target: CpuTarget) -> tuple[float, float]:
    """Upper bound on vector multiplications that start in a cycle, and lower bound on the latency, in cycles, of adding
    to a sum.

    The bounds are 2 multiplications and 4 cycles on x86-64 (Zen, Golden Cove); elsewhere up to 4 multiplications, and 2
    cycles with early forwarding of sums (Neoverse).
    """
    return (2.0, 4.0) if target.triple.startswith("x86_64") else (4.0, 2.0)


def least_cycles(
    target: CpuTarget, sides: Sides, vectors: np.ndarray, steps: float, chain: int | np.ndarray
) -> np.ndarray:
    """Lower bound in cycles on the time of all tiles' sums; `steps`: mean number of steps of each vector of sums.

    `vectors`, int64 [n]: vectors of sums for each element of a tile. `chain`: number of dependent steps before other
    sums start; a processor overlaps as many chains as `LOOK_AHEAD` instructions hold.
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
    """The kinds of tiles that cover a result: whole tiles, and smaller tiles at the ends of one or more dimensions. For
    each kind, a pair: elements of one tile (0 if there is no such tile), and number of tiles.
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
    """Total extent, along a dimension, of all copies of the code into which peeling cuts a loop: code for whole tiles
    and for smaller last tiles, in whole blocks and in the last block.

    `block`: block sizes, as `rounded_block` returns them.
    """
    whole = np.where(block < size, size // block, 0)
    rest = size - whole * block
    return tile * (whole > 0) + tile * (rest >= tile) + rest % tile


def rounded_block(wanted: np.ndarray, tile: np.ndarray, size: int) -> np.ndarray:
    """Block sizes near `wanted` rows or columns: the least multiple of the tile's size that is at least `wanted`, but
    at most `size`.
    """
    return np.minimum(-(-wanted // tile) * tile, size)


def block_sizes(size: int, *more: int) -> tuple[int, ...]:
    """Candidate sizes of blocks when `size` rows or columns are cut into blocks, ascending.

    They are all sizes up to 64; for each number of blocks, the least size above 64 that gives this number; some hundred
    sizes at equal distances up to `size`; and the sizes `more`.
    """
    if size <= 64:
        return tuple(range(1, size + 1))
    least = {-(-size // pieces) for pieces in range(1, size + 1)}
    return tuple(sorted({*least, *range(1, size, -(-size // 256)), *more}))
