"""Knobs of matrix products on tensor cores: what they must keep to, and defaults for any size from a simple account."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import ceil

from ...ir.types import DType
from ...target.cuda.machine import CudaTarget, Precision
from ...target.cuda.mma_fragments import COLUMNS, ROWS, WARP, depth_of

MOST_WARPS = 16
SHARED_BYTES_A_CYCLE = 128
"""Of a multiprocessor: 32 banks of 4 bytes (CUDA C++ Programming Guide, "Shared Memory")."""
CACHE_BYTES_A_CYCLE = 64
"""From the second level cache to one multiprocessor (L1's line fill width, "CUDA C++ Best Practices Guide")."""
LATENCY = 700
"""Cycles from the first copy of a block to its first product, and about as many after its last: an assumption."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """A product to find knobs for: its sizes, the type of its factors, and whether `ldmatrix` loads A and B."""

    rows: int
    columns: int
    depth: int
    batch: int
    dtype: DType
    matrix: tuple[bool, bool] = (True, True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """A tile of `rows` x `columns` a block, cut into such of `warp_rows` x `warp_columns` for its warps; slices of `depth`.

    `stages` slices are in shared memory at a time (1: none is fetched ahead); `group` rows of tiles are computed
    together where that divides their number.
    """

    rows: int
    columns: int
    depth: int
    warp_rows: int
    warp_columns: int
    stages: int
    group: int = 1

    @property
    def warps(self) -> tuple[int, int]:
        """Warps of a block below and beside one another."""
        return self.rows // self.warp_rows, self.columns // self.warp_columns

    def shared_bytes(self, factors: Factors) -> int:
        """Shared memory of a block: all stages, or the tile of results, which takes their place."""
        bits, total = factors.dtype, DType.INT32
        # Slices lie by rows of A and, transposed, of B where ldmatrix needs it; the difference is in the room alone.
        a = self.rows * room(self.depth, bits, matrix=factors.matrix[0])
        b = self.columns * room(self.depth, bits, matrix=factors.matrix[1])
        b = max(b, self.depth * room(self.columns, bits, matrix=factors.matrix[1]))
        a = max(a, self.depth * room(self.rows, bits, matrix=factors.matrix[0]))
        results = self.rows * room(self.columns, total, matrix=False) * 4
        return max(self.stages * (a + b) * bits.bits // 8, results)

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
        if self.stages < 1 or self.group < 1:
            return "there must be a stage and a row of tiles"
        return None


def room(size: int, dtype: DType, *, matrix: bool) -> int:
    """Elements from row to row of a tile in shared memory whose rows have `size`, so that accesses meet no bank twice.

    `ldmatrix` reads 8 rows of 16 bytes at a time: rows must begin at odd multiples of 16 bytes. Plain loads and stores of
    fragments touch 4 or 8 rows and 8 banks in each: rows must begin 8 banks apart.
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
    found = [k for k in _candidates(target, factors)]
    return min(found, key=lambda k: cycles(target, factors, k))


def cycles(target: CudaTarget, factors: Factors, knobs: Knobs) -> float:
    """About how long a product takes, in cycles of the card's clock.

    A slice takes the longest of its products on the tensor cores, of its fragments' way from shared memory, and of its
    way from the second level cache, if enough is in flight; blocks that are on a multiprocessor together share these.
    All multiprocessors take as many rounds of blocks as the last one.
    """
    blocks = ceil(factors.rows / knobs.rows) * ceil(factors.columns / knobs.columns) * factors.batch
    slices = ceil(factors.depth / knobs.depth)
    peak = target.peak(precision(factors.dtype)) / (target.multiprocessors * target.clock)
    size = factors.dtype.bits / 8
    area, edge = knobs.rows * knobs.columns, knobs.rows + knobs.columns
    down, beside = knobs.warps
    multiply = 2 * area * knobs.depth / peak
    fragments = (knobs.rows * beside + knobs.columns * down) * knobs.depth * size / SHARED_BYTES_A_CYCLE
    fetch = edge * knobs.depth * size / CACHE_BYTES_A_CYCLE
    resident = min(
        target.shared_bytes_per_multiprocessor // (knobs.shared_bytes(factors) + 1024),
        target.registers_per_multiprocessor // (down * beside * WARP * knobs.registers),
        target.threads_per_multiprocessor // (down * beside * WARP),
    )
    waves = ceil(blocks / target.multiprocessors)
    together = max(1, min(resident, waves))
    # A tensor core is kept busy by two warps of its quarter of a multiprocessor, about.
    busy = min(1.0, together * down * beside / 8)
    slice_cycles = max(multiply / busy, fragments, fetch)
    ahead = (knobs.stages - 1) * slice_cycles * together
    stall = max(0.0, LATENCY - ahead) / together if knobs.stages > 1 else LATENCY / together
    results = area * 8 / CACHE_BYTES_A_CYCLE
    return waves * (slices * (slice_cycles + stall * 0.5) + results) + 2 * LATENCY


def precision(dtype: DType) -> Precision:
    """What the target's tables call products of a type."""
    if dtype.is_integer:
        return "int8"
    return "tf32" if dtype is DType.FLOAT32 else "float16"


def _candidates(target: CudaTarget, factors: Factors) -> list[Knobs]:
    found: list[Knobs] = []
    unit = depth_of(factors.dtype)
    for rows, columns in product((16, 32, 64, 128, 256), repeat=2):
        for warp_rows, warp_columns in product((16, 32, 64), (16, 32, 64)):
            for steps, stages in ((2, 4), (2, 3), (4, 3), (4, 4), (4, 2)):
                knobs = Knobs(
                    rows=rows,
                    columns=columns,
                    depth=steps * unit,
                    warp_rows=warp_rows,
                    warp_columns=warp_columns,
                    stages=stages,
                    group=_group(factors, rows),
                )
                if legal(target, factors, knobs) and knobs.warps[0] * knobs.warps[1] <= MOST_WARPS:
                    found.append(knobs)
    return found


def legal(target: CudaTarget, factors: Factors, knobs: Knobs) -> bool:
    """Whether knobs fit together and a block of them fits a multiprocessor."""
    if knobs.obstacle(factors.dtype, matrix=factors.matrix) is not None:
        return False
    threads = knobs.warps[0] * knobs.warps[1] * WARP
    return (
        knobs.shared_bytes(factors) <= target.shared_bytes_per_block
        and knobs.registers <= 255
        and threads * knobs.registers <= target.registers_per_multiprocessor
    )


def _group(factors: Factors, rows: int) -> int:
    """Rows of tiles that go together: the greatest divisor of their number up to 8."""
    count = ceil(factors.rows / rows)
    return max(g for g in range(1, 9) if count % g == 0)
