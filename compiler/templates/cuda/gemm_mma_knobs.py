"""Knobs of matrix products on tensor cores: what they must keep to, and defaults for any size from a simple account."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import ceil

from ...ir.types import DType
from ...target.cuda.machine import CudaTarget, Precision
from ...target.cuda.mma_fragments import COLUMNS, ROWS, WARP, depth_of

MOST_WARPS = 16
MOST_REGISTERS = 255
"""Of a thread (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability")."""
SHARED_BYTES_A_CYCLE = 128
"""Of a multiprocessor: 32 banks of 4 bytes (CUDA C++ Programming Guide, "Shared Memory")."""
CACHE_BYTES_A_CYCLE = 32
"""From the second level cache to one of all multiprocessors: half of the 64 that NVIDIA's Ampere tuning guide gives to
an idle one, as an assumption."""
HOPPER_SHARE = 0.62
"""What `mma.sync` reaches of a Hopper card's peak, which takes wgmma (Luo et al., "Dissecting the NVIDIA Hopper
Architecture through Microbenchmarking", 2024, measure 62.9% on average)."""
LATENCY = 700
"""Cycles from the first copy of a block to its first product, and about as many after its last: an assumption."""
LAUNCH = 4000
"""Cycles that a second kernel costs beside its work: an assumption."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """A product to find knobs for: its sizes and the type of its factors.

    Of A and of B: whether `ldmatrix` loads them, and whether neighbours in memory are neighbours in depth.
    """

    rows: int
    columns: int
    depth: int
    batch: int
    dtype: DType
    matrix: tuple[bool, bool] = (True, True)
    along_depth: tuple[bool, bool] = (True, False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """A block's tile of `rows` x `columns`, cut into such of `warp_rows` x `warp_columns`, in slices of `depth`.

    `stages` slices are in shared memory at a time (1: none is fetched ahead); `group` rows of tiles are computed
    together where that divides their number; `splits` blocks share the depth of a tile.
    """

    rows: int
    columns: int
    depth: int
    warp_rows: int
    warp_columns: int
    stages: int
    group: int = 1
    splits: int = 1

    @property
    def warps(self) -> tuple[int, int]:
        """Warps of a block below and beside one another."""
        return self.rows // self.warp_rows, self.columns // self.warp_columns

    def shared_bytes(self, factors: Factors) -> int:
        """Shared memory of a block: all stages, or the tile of results, which takes their place."""
        elements = 0
        for size, matrix, along in zip(
            (self.rows, self.columns), factors.matrix, factors.along_depth, strict=True
        ):
            lines, length = (size, self.depth) if along else (self.depth, size)
            elements += lines * room(length, factors.dtype, matrix=matrix)
        results = self.rows * room(self.columns, DType.INT32, matrix=False) * 4 if self.splits == 1 else 0
        return max(self.stages * elements * factors.dtype.bits // 8, results)

    @property
    def registers(self) -> int:
        """Registers of a thread that sums and fragments take, and about as many more as addresses do."""
        sums = self.warp_rows * self.warp_columns // WARP
        return sums + self.warp_rows // ROWS * 4 + self.warp_columns // COLUMNS * 2 + 40

    def obstacle(self, dtype: DType, *, matrix: tuple[bool, bool]) -> str | None:
        """Why these knobs do not fit together; None if they do."""
        step = COLUMNS * 2 if matrix[1] else COLUMNS
        if self.warp_rows % ROWS or self.warp_columns % step or min(self.warp_rows, self.warp_columns) < 1:
            return f"a warp's tile of {self.warp_rows}x{self.warp_columns} is not made of {ROWS}x{step}"
        if self.rows % self.warp_rows or self.columns % self.warp_columns:
            return f"tiles of warps do not divide a block's, {self.rows}x{self.columns}"
        if self.depth % depth_of(dtype) or self.depth < 1:
            return f"slices of {self.depth} are not made of {depth_of(dtype)}, the depth of an mma of {dtype}"
        warps = self.warps[0] * self.warps[1]
        if warps > 32:
            return f"{warps} warps are more than a block may have (32)"
        if self.rows % warps:
            return f"{warps} warps cannot share {self.rows} rows of results"
        if min(self.stages, self.group, self.splits) < 1:
            return "there must be a stage, a row of tiles and a split"
        return None


def room(size: int, dtype: DType, *, matrix: bool) -> int:
    """Elements from row to row of a tile in shared memory whose rows have `size`, so that accesses meet no bank twice.

    `ldmatrix` reads 8 rows of 16 bytes at a time: rows must begin at odd multiples of 16 bytes. Plain loads and stores
    of fragments touch 4 or 8 rows and 8 banks in each: rows must begin 8 banks apart.
    """
    bits = dtype.bits
    if matrix:
        pieces = -(-size * bits // 128)
        return (pieces | 1) * 128 // bits
    words = -(-size * bits // 32)
    words += (8 - words) % 32 if words > 8 else (8 - words) % 8
    return words * 32 // bits


def choose_knobs(target: CudaTarget, factors: Factors) -> Knobs:
    """Defaults: the tiles for which `cycles` is least."""
    return min(_candidates(target, factors), key=lambda k: cycles(target, factors, k))


def cycles(target: CudaTarget, factors: Factors, knobs: Knobs) -> float:
    """About how long a product takes, in cycles of the card's clock.

    A slice takes the longest of its products on the tensor cores, of its fragments' way from shared memory, and of its
    way from the second level cache, if enough is in flight; blocks that are on a multiprocessor together share these.
    All multiprocessors take as many rounds of blocks as the last one.
    """
    blocks = ceil(factors.rows / knobs.rows) * ceil(factors.columns / knobs.columns)
    blocks *= factors.batch * knobs.splits
    slices = ceil(factors.depth / (knobs.depth * knobs.splits))
    peak = target.peak(precision(factors.dtype)) / (target.multiprocessors * target.clock)
    if target.capability >= (9, 0):
        peak *= HOPPER_SHARE
    size = factors.dtype.bits / 8
    area, edge = knobs.rows * knobs.columns, knobs.rows + knobs.columns
    down, beside = knobs.warps
    multiply = 2 * area * knobs.depth / peak
    fragments = (
        (knobs.rows * beside + knobs.columns * down + edge) * knobs.depth * size / SHARED_BYTES_A_CYCLE
    )
    fetch = edge * knobs.depth * size / CACHE_BYTES_A_CYCLE
    waves = ceil(blocks / target.multiprocessors)
    together = max(1, min(resident(target, factors, knobs), waves))
    # A tensor core is kept busy by two warps of its quarter of a multiprocessor, about.
    busy = min(1.0, together * down * beside / 8)
    ways = (multiply / busy, fragments, fetch)
    # What runs beside one another is never wholly hidden.
    slice_cycles = 0.75 * max(ways) + 0.25 * sum(ways)
    ahead = (knobs.stages - 1) * slice_cycles * together
    stall = max(0.0, LATENCY - ahead) / together
    results = area * 8 / CACHE_BYTES_A_CYCLE
    total = waves * (slices * (slice_cycles + stall / 2) + results) + 2 * LATENCY
    if knobs.splits > 1:
        elements = factors.rows * factors.columns * factors.batch * (knobs.splits + 1)
        total += LAUNCH + elements * 4 / (CACHE_BYTES_A_CYCLE * target.multiprocessors)
    return total


def resident(target: CudaTarget, factors: Factors, knobs: Knobs) -> int:
    """How many blocks a multiprocessor holds at a time; 0 for those that are too large."""
    threads = knobs.warps[0] * knobs.warps[1] * WARP
    # A kilobyte of each block's shared memory is the system's (CUDA C++ Programming Guide, "Shared Memory", 8.x on).
    return min(
        target.shared_bytes_per_multiprocessor // (knobs.shared_bytes(factors) + 1024),
        target.registers_per_multiprocessor // (threads * knobs.registers),
        target.threads_per_multiprocessor // threads,
    )


def precision(dtype: DType) -> Precision:
    """What the target's tables call products of a type."""
    if dtype.is_integer:
        return "int8"
    return "tf32" if dtype is DType.FLOAT32 else "float16"


def _candidates(target: CudaTarget, factors: Factors) -> list[Knobs]:
    found: list[Knobs] = []
    unit = depth_of(factors.dtype)
    for rows, columns in product((16, 32, 64, 128, 256), repeat=2):
        tiles = ceil(factors.rows / rows) * ceil(factors.columns / columns) * factors.batch
        for warp_rows, warp_columns, (steps, stages), splits in product(
            (16, 32, 64), (16, 32, 64), ((2, 3), (2, 4), (4, 2), (4, 3), (4, 4)), (1, 2, 4, 8, 16)
        ):
            depth = steps * unit
            if splits > 1 and (tiles > target.multiprocessors or factors.depth < 4 * depth * splits):
                continue
            knobs = Knobs(
                rows=rows,
                columns=columns,
                depth=depth,
                warp_rows=warp_rows,
                warp_columns=warp_columns,
                stages=stages,
                group=_group(factors, rows),
                splits=splits,
            )
            if legal(target, factors, knobs) and knobs.warps[0] * knobs.warps[1] <= MOST_WARPS:
                found.append(knobs)
    return found


def legal(target: CudaTarget, factors: Factors, knobs: Knobs) -> bool:
    """Whether knobs fit together and a block of them fits a multiprocessor."""
    return (
        knobs.obstacle(factors.dtype, matrix=factors.matrix) is None
        and knobs.shared_bytes(factors) <= target.shared_bytes_per_block
        and knobs.registers <= MOST_REGISTERS
        and resident(target, factors, knobs) >= 1
    )


def _group(factors: Factors, rows: int) -> int:
    """Rows of tiles that go together: the greatest divisor of their number up to 8."""
    count = ceil(factors.rows / rows)
    return max(g for g in range(1, 9) if count % g == 0)
