"""Knobs of matrix products by warpgroups (sm_90a): what they must keep to, and defaults from a simple account."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from ...ir.types import DType
from ...target.cuda.bulk_copies import MOST_BOX
from ...target.cuda.machine import CudaTarget
from ...target.cuda.mma_fragments import GROUP_ROWS, MOST_GROUP_COLUMNS, WARPGROUP
from ...target.cuda.shared_memory import MBARRIER
from ...target.cuda.wgmma import CORE, DEPTH, SWIZZLES, row_elements
from .gemm_mma_knobs import (
    CACHE_BYTES_A_CYCLE,
    LATENCY,
    LAUNCH,
    MOST_REGISTERS,
    SHARED_BYTES_A_CYCLE,
    Factors,
    precision,
    room,
)

MOST_GROUPS = 4
"""Warpgroups of a block: each has a warp on every quarter of a multiprocessor, and more than a few have too few
registers for their sums."""
CORE_LINES = CORE + 1
"""Lines from one core matrix to the next: with one more than there are, copies of 16 bytes meet no bank twice."""
OVERLAPPED = 2
"""Slices of bulk copies whose slots are not filled anew: products of one are under way, those of the other begin."""
MOST_SUMS = 128
"""Of a thread, in defaults with bulk copies: what was measured has no more."""
OTHER_REGISTERS = 40
"""Registers of a thread beside its sums: an assumption."""
TURN = 150
"""Cycles from the last product of a slice to the first one of the next, in which tensor cores rest unless another block
has work for them, or products of the slice before are under way: an assumption."""
BULK_BYTES_A_CYCLE = 64
"""What bulk copies bring from the second level cache to a multiprocessor: its port."""
BULK_TURN = 120
"""Cycles of a slice of bulk copies beside its products and its way: a barrier, and products too few to fill a rest."""
BULK_LATENCY, BULK_TRIP = 900, 700
"""Cycles from a block's beginning to its first product where bulk copies bring the factors, and about as many at its
end; and from a copy's issue to its arrival."""
BULK_RESULT_BYTES_A_CYCLE = 64
"""Of a block's results, 8 bytes each, through shared memory and to the device's. These five were fitted to times of
fp16 products of 1024 to 8192 on an H100 in eleven settings; at 1.7 GHz `cycles` are off by a tenth, root mean square.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """A block's tile of `rows` x `columns`, cut into warpgroups' of `group_rows` x `group_columns`, slices of `depth`.

    A warpgroup multiplies 64 rows by all of its columns at once. `stages` slices are in shared memory at a time (1:
    none is fetched ahead); `group` rows of tiles are computed together where that divides their number; `splits` blocks
    share the depth of a tile. With `bulk` one thread has the hardware copy a slice, and products of a slice are under
    way while threads wait for the next one; otherwise all threads copy.
    """

    rows: int
    columns: int
    depth: int
    group_rows: int
    group_columns: int
    stages: int
    group: int = 1
    splits: int = 1
    bulk: bool = False

    @property
    def groups(self) -> tuple[int, int]:
        """Warpgroups of a block below and beside one another."""
        return self.rows // self.group_rows, self.columns // self.group_columns

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.groups[0] * self.groups[1] * WARPGROUP

    @property
    def registers(self) -> int:
        """Registers of a thread."""
        return self.group_rows * self.group_columns // WARPGROUP + OTHER_REGISTERS

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block: all stages, or the tile of results, which takes their place."""
        factors = self.stages * (self.rows + self.columns) * self.depth * 2
        if self.bulk:
            # One mbarrier for each slice that is on its way.
            factors += (self.stages - OVERLAPPED) * MBARRIER
        else:
            factors = factors * CORE_LINES // CORE
        results = self.rows * int(room(self.columns, DType.FLOAT32, matrix=False)) * 4
        return max(factors, results if self.splits == 1 else 0)

    def obstacle(self) -> str | None:
        """Why these knobs do not fit together; None if they do."""
        if self.group_rows % GROUP_ROWS or self.group_rows < 1:
            return f"{self.group_rows} rows of a warpgroup are not made of {GROUP_ROWS}"
        if self.group_columns % CORE or not 1 <= self.group_columns <= MOST_GROUP_COLUMNS:
            return f"{self.group_columns} columns of a warpgroup are no multiple of {CORE} up to {MOST_GROUP_COLUMNS}"
        if self.rows % self.group_rows or self.columns % self.group_columns or min(self.groups) < 1:
            return f"tiles of warpgroups do not divide a block's, {self.rows}x{self.columns}"
        if self.depth % DEPTH or self.depth < 1:
            return f"slices of {self.depth} are not made of {DEPTH}, the depth of a wgmma"
        if self.threads > 1024:
            return f"{self.threads} threads are more than a block may have (1024)"
        if min(self.stages, self.group, self.splits) < 1:
            return "there must be a stage, a row of tiles and a split"
        return self._bulk_obstacle() if self.bulk else None

    def _bulk_obstacle(self) -> str | None:
        if self.depth * 2 not in SWIZZLES:
            rows = ", ".join(str(n // 2) for n in SWIZZLES)
            return f"slices of {self.depth} are not {rows} deep, as swizzled rows are"
        if row_elements(self.group_columns) is None:
            return f"{self.group_columns} columns of a warpgroup are not made of {SWIZZLES[-1] // 2}, a swizzled row"
        if max(self.rows, self.columns) > MOST_BOX:
            return f"{self.rows}x{self.columns} tiles are larger than boxes of bulk copies ({MOST_BOX})"
        if self.stages <= OVERLAPPED:
            return f"{self.stages} stages are too few: products of {OVERLAPPED} slices are under way"
        return None


def resident(target: CudaTarget, knobs: Knobs) -> int:
    """How many blocks a multiprocessor holds at a time; 0 for those that are too large."""
    if knobs.registers > MOST_REGISTERS or knobs.shared_bytes > target.shared_bytes_per_block:
        return 0
    return min(
        # A kilobyte of each block's shared memory is the system's.
        target.shared_bytes_per_multiprocessor // (knobs.shared_bytes + 1024),
        target.registers_per_multiprocessor // (knobs.threads * knobs.registers),
        target.threads_per_multiprocessor // knobs.threads,
    )


def cycles(target: CudaTarget, factors: Factors, knobs: Knobs) -> float:
    """About how long a product takes, in cycles of the card's clock; infinite for what does not fit.

    A slice takes the longest of its products on the tensor cores, of their way from shared memory, and of its way from
    the second level cache; blocks that are on a multiprocessor together share these and fill one another's rests.
    """
    held = resident(target, knobs)
    if not held:
        return float("inf")
    tiles = -(-factors.rows // knobs.rows) * -(-factors.columns // knobs.columns) * factors.batch
    slices = -(-factors.depth // (knobs.depth * knobs.splits))
    waves = -(-tiles * knobs.splits // target.multiprocessors)
    together = min(held, waves)
    peak = target.peak(precision(factors.dtype)) / (target.multiprocessors * target.clock)
    below, beside = knobs.groups
    multiply = 2 * knobs.rows * knobs.columns * knobs.depth / peak
    # Each product of 64 rows reads these rows and all of its columns.
    reads = knobs.rows * beside + knobs.columns * below * (knobs.group_rows // GROUP_ROWS)
    read = (reads + knobs.rows + knobs.columns) * knobs.depth * 2 / SHARED_BYTES_A_CYCLE
    fetched = (knobs.rows + knobs.columns) * knobs.depth * 2
    if knobs.bulk:
        latency, ahead = BULK_LATENCY, knobs.stages - OVERLAPPED
        one_slice = max(multiply, read, fetched / BULK_BYTES_A_CYCLE, BULK_TRIP / (ahead * together))
        one_slice += BULK_TURN / together
        results = knobs.rows * knobs.columns * 8 / BULK_RESULT_BYTES_A_CYCLE
    else:
        latency = LATENCY
        results = knobs.rows * knobs.columns * 8 / CACHE_BYTES_A_CYCLE
        one_slice = max(multiply, read, fetched / CACHE_BYTES_A_CYCLE) + TURN / together
        one_slice += max(0.0, latency - (knobs.stages - 1) * one_slice * together) / together / 2
    total = waves * (slices * one_slice + results) + 2 * latency
    if knobs.splits > 1:
        elements = factors.rows * factors.columns * factors.batch * (knobs.splits + 1)
        total += LAUNCH + elements * 4 / (CACHE_BYTES_A_CYCLE * target.multiprocessors)
    return total


def choose_knobs(target: CudaTarget, factors: Factors, *, bulk: bool = False) -> Knobs:
    """Defaults: those for which `cycles` is least, of equals those with the deepest slices, then the most stages."""
    found: list[Knobs] = []
    widths = (16, 32, 64, 96, 128, 192, 256) if bulk else (8, 16, 32, 64, 128, 256)
    stages = (3, 4, 5, 6, 8) if bulk else (2, 3, 4)
    tiles = product((1, 2), (1, 2), (64, 128), widths, (32, 64), stages, (1, 2, 4, 8, 16))
    for below, beside, rows, columns, depth, stages, splits in tiles:
        if bulk and (
            max(below * rows, beside * columns) > MOST_BOX or rows * columns > MOST_SUMS * WARPGROUP
        ):
            continue
        if below * beside > MOST_GROUPS or (splits > 1 and factors.depth < 4 * depth * splits):
            continue
        count = -(-factors.rows // (below * rows))
        # The greatest power of two up to 8 that divides the rows of tiles.
        group = min(8, count & -count) if factors.batch == 1 else 1
        found.append(
            Knobs(
                rows=below * rows,
                columns=beside * columns,
                depth=depth,
                group_rows=rows,
                group_columns=columns,
                stages=stages,
                group=group,
                splits=splits,
                bulk=bulk,
            )
        )
    return min(found, key=lambda knobs: (cycles(target, factors, knobs), -knobs.depth, -knobs.stages))
