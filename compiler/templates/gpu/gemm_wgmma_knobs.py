"""Knobs of matrix products by warpgroups (sm_90a): their limits, and defaults from a simple cost model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...codegen.cuda.architectures import REGISTERS_PER_THREAD
from ...codegen.cuda.bulk_copies import MOST_BOX
from ...codegen.cuda.machine import GpuTarget
from ...codegen.cuda.mma_fragments import GROUP_ROWS, MOST_GROUP_COLUMNS, WARPGROUP, depth_of
from ...codegen.cuda.shared_memory import MBARRIER
from ...codegen.cuda.wgmma import CORE, SWIZZLES, columns_of, row_elements
from ...ir.types import HALVES, DType
from .gemm_mma_knobs import (
    CACHE_BYTES_A_CYCLE,
    LATENCY,
    LAUNCH,
    Factors,
    Number,
    group_of,
    precision,
    room,
    setting,
    slices_of,
    tiles,
)
from .multiprocessor import SHARED_BYTES_CYCLE, resident_blocks

MOST_GROUPS = 4
"""Largest number of warpgroups of a block. Each has a warp on every quarter of a multiprocessor; with more warpgroups,
a thread would have too few registers for its sums.
"""
CORE_LINES = CORE + 1
"""Distance from one core matrix to the next in shared memory, in lines of 16 bytes: one more than the lines of a core
matrix, so that copies of 16 bytes have no bank conflicts.
"""
OVERLAPPED = 2
"""Number of slices in shared memory that tensor cores may read at a time with bulk copies: products of one slice are
still in flight when products of the next slice begin.
"""
MOST_SUMS = 128
"""Largest number of sums of a thread in default knobs with bulk copies; larger numbers were not measured."""
OTHER_REGISTERS = 40
"""Registers of a thread besides its sums: an assumption."""
TURN = 150
"""Cycles between the last product of a slice and the first product of the next slice. In these cycles tensor cores are
idle, except for products of another block or products of the previous slice that are not finished yet. An assumption.
"""
BULK_BYTES_A_CYCLE = 64
"""Bytes per cycle of bulk copies from the second-level cache to a multiprocessor: the width of its port."""
BULK_TURN = 120
"""Cycles of each slice fetched by bulk copies, in addition to products and transfer: a barrier, and idle tensor cores.
Fitted.
"""
BULK_LATENCY, BULK_TRIP = 900, 700
"""Two latencies of bulk copies. BULK_LATENCY: cycles from the beginning of a block to its first product, and about as
many from its last product to its end. BULK_TRIP: cycles from the issue of a copy to its arrival.
"""
BULK_RESULT_BYTES_A_CYCLE = 64
"""Bytes per cycle at which a block's results pass through shared memory to global memory; each result counts as 8
bytes. The constants BULK_* were fitted to fp16 products of 1024 to 8192 on an H100, with eleven settings of the knobs;
at 1.7 GHz `cycles` has an error of 10% (RMS).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """Knobs of products by warpgroups: a block computes a tile of `rows` x `columns`, cut into tiles of `group_rows` x
    `group_columns` for each warpgroup, in slices of `depth`.

    A warpgroup multiplies 64 rows by all of its columns at once. `stages`: slices in shared memory at a time (1: no
    slice is fetched ahead). `group`: rows of tiles that are computed together, if `group` divides their number.
    `splits`: blocks that share the depth of a tile. With `bulk` one thread starts a hardware copy of a slice, and
    products of a slice are in flight while threads wait for the next slice; otherwise all threads copy.
    """

    rows: Number
    columns: Number
    depth: Number
    group_rows: Number
    group_columns: Number
    stages: Number
    group: Number = 1
    splits: Number = 1
    bulk: bool = False

    @property
    def groups(self) -> tuple[int, int]:
        """Number of a block's warpgroups along rows and along columns."""
        return self.rows // self.group_rows, self.columns // self.group_columns

    @property
    def threads(self) -> int:
        """Number of threads of a block."""
        return self.groups[0] * self.groups[1] * WARPGROUP

    def shared_bytes(self, dtype: DType) -> int:
        """Bytes of a block's shared memory for factors of type `dtype`: all stages, or the tile of results, which
        reuses their memory.
        """
        return int(_shared_bytes(self, dtype))

    def obstacle(self, dtype: DType) -> str | None:
        """The reason why these knobs are inconsistent for factors of type `dtype`; None if they are consistent."""
        if self.group_rows % GROUP_ROWS or self.group_rows < 1:
            return f"{self.group_rows} rows of a warpgroup are not a multiple of {GROUP_ROWS}"
        if self.group_columns not in columns_of(dtype):
            step = columns_of(dtype)[-1] - columns_of(dtype)[-2]
            return (
                f"{self.group_columns} columns of a warpgroup are not a multiple of {step} up to "
                f"{MOST_GROUP_COLUMNS}"
            )
        if self.rows % self.group_rows or self.columns % self.group_columns or min(self.groups) < 1:
            return f"the tiles of warpgroups do not divide the tile of a block, {self.rows}x{self.columns}"
        unit = depth_of(dtype)
        if self.depth % unit or self.depth < 1:
            return f"the depth {self.depth} is not a multiple of {unit}, the depth of a wgmma instruction for {dtype}"
        if self.threads > 1024:
            return f"{self.threads} threads are more than a thread block may have (1024)"
        if min(self.stages, self.group, self.splits) < 1:
            return "stages, group and splits must each be at least 1"
        if self.bulk:
            return self._bulk_obstacle(dtype)
        return (
            None
            if dtype in HALVES
            else f"products of {dtype} need factors that are fetched by bulk copies (bulk = True)"
        )

    def _bulk_obstacle(self, dtype: DType) -> str | None:
        if self.depth * dtype.bits // 8 not in SWIZZLES:
            rows = ", ".join(str(n * 8 // dtype.bits) for n in SWIZZLES)
            return f"the depth is {self.depth}, but swizzled rows need one of {rows}"
        if dtype in HALVES and row_elements(self.group_columns) is None:
            return (
                f"{self.group_columns} columns of a warpgroup are not a multiple of {SWIZZLES[-1] // 2}, the "
                "elements of a swizzled row"
            )
        if max(self.rows, self.columns) > MOST_BOX:
            return f"tiles of {self.rows}x{self.columns} are larger than the box of a bulk copy ({MOST_BOX})"
        if self.stages <= OVERLAPPED:
            return f"{self.stages} stages are too few: products of {OVERLAPPED} slices run at the same time"
        return None


def _registers(knobs: Knobs) -> np.ndarray:
    """Estimated number of registers that a thread needs."""
    return np.asarray(knobs.group_rows * knobs.group_columns // WARPGROUP + OTHER_REGISTERS)


def _shared_bytes(knobs: Knobs, dtype: DType) -> np.ndarray:
    factors = knobs.stages * (knobs.rows + knobs.columns) * knobs.depth * dtype.bits // 8
    if knobs.bulk:
        # One mbarrier for each slice in flight.
        factors = factors + (knobs.stages - OVERLAPPED) * MBARRIER
    else:
        factors = factors * CORE_LINES // CORE
    results = knobs.rows * room(np.asarray(knobs.columns), DType.FLOAT32, matrix=False) * 4
    return np.maximum(factors, results * (np.asarray(knobs.splits) == 1))


def resident(target: GpuTarget, dtype: DType, knobs: Knobs) -> np.ndarray:
    """The number of blocks that a multiprocessor holds at a time; 0 if a block is too large."""
    down, beside = knobs.groups
    threads = down * beside * WARPGROUP
    shared, registers = _shared_bytes(knobs, dtype), _registers(knobs)
    held = resident_blocks(target, threads, registers, shared)
    return np.where((registers > REGISTERS_PER_THREAD) | (shared > target.shared_bytes_per_block), 0, held)


def limits(target: GpuTarget, factors: Factors, knobs: Knobs) -> Mapping[str, np.ndarray]:
    """For each legality limit, by name, whether each setting of the knobs satisfies it: bool arrays. All settings must
    have whole warpgroups.
    """
    down, beside = knobs.groups
    found = {
        "warpgroups of a block": down * beside <= MOST_GROUPS,
        "a block on a multiprocessor": resident(target, factors.dtype, knobs) >= 1,
        "a slice for every split": np.asarray(
            (np.asarray(knobs.splits) == 1) | (knobs.depth * knobs.splits <= factors.depth)
        ),
    }
    if knobs.bulk:
        found["boxes"] = np.asarray((knobs.rows <= MOST_BOX) & (knobs.columns <= MOST_BOX))
        found["stages beyond those under way"] = np.asarray(knobs.stages > OVERLAPPED)
    return found


def cycles(target: GpuTarget, factors: Factors, knobs: Knobs) -> np.ndarray:
    """Estimated cycles of a product at the card's clock; float64, infinite for settings that do not fit.

    The time of a slice is the longest of three times: multiplying the slice on tensor cores, reading it from shared
    memory, and transferring it from the second-level cache. Blocks on one multiprocessor share these units and use each
    other's idle cycles.
    """
    held = resident(target, factors.dtype, knobs)
    slices = slices_of(factors, knobs)
    waves = -(-tiles(factors, knobs.rows, knobs.columns) * knobs.splits // target.multiprocessors)
    together = np.maximum(1, np.minimum(held, waves))
    peak = target.peak(precision(factors.dtype)) / (target.multiprocessors * target.clock)
    below, beside = knobs.groups
    size = factors.dtype.bits / 8
    multiply = 2 * knobs.rows * knobs.columns * knobs.depth / peak
    # Each product of 64 rows reads these rows and all of its columns.
    reads = knobs.rows * beside + knobs.columns * below * (knobs.group_rows // GROUP_ROWS)
    read = (reads + knobs.rows + knobs.columns) * knobs.depth * size / SHARED_BYTES_CYCLE
    fetched = (knobs.rows + knobs.columns) * knobs.depth * size
    results = knobs.rows * knobs.columns * 8
    if knobs.bulk:
        latency, ahead = BULK_LATENCY, np.maximum(1, np.asarray(knobs.stages) - OVERLAPPED)
        one_slice = np.maximum(np.maximum(multiply, read), fetched / BULK_BYTES_A_CYCLE)
        one_slice = np.maximum(one_slice, BULK_TRIP / (ahead * together)) + BULK_TURN / together
        results = results / BULK_RESULT_BYTES_A_CYCLE
    else:
        latency = LATENCY
        results = results / CACHE_BYTES_A_CYCLE
        one_slice = np.maximum(np.maximum(multiply, read), fetched / CACHE_BYTES_A_CYCLE) + TURN / together
        stall = np.maximum(0.0, latency - (knobs.stages - 1) * one_slice * together)
        one_slice = one_slice + stall / together / 2
    total = waves * (slices * one_slice + results) + 2 * latency
    elements = factors.rows * factors.columns * factors.batch * (knobs.splits + 1)
    adding = LAUNCH + elements * 4 / (CACHE_BYTES_A_CYCLE * target.multiprocessors)
    return np.where(held < 1, np.inf, total + adding * (np.asarray(knobs.splits) > 1))


def choose_knobs(target: GpuTarget, factors: Factors, *, bulk: bool = False) -> Knobs:
    """Default knobs: the setting with the least estimated `cycles`; among equal settings the setting with the deepest
    slices, then with the most stages. `bulk`: whether bulk copies fetch the slices (`Knobs.bulk`).
    """
    widths = (16, 32, 64, 96, 128, 192, 256) if bulk else (8, 16, 32, 64, 128, 256)
    stages = (3, 4, 5, 6, 8) if bulk else (2, 3, 4)
    depths = [row * 8 // factors.dtype.bits for row in (64, 128)]
    axes = ((1, 2), (1, 2), (64, 128), widths, depths, stages, (1, 2, 4, 8, 16))
    grid = np.meshgrid(*axes, indexing="ij")
    below, beside, group_rows, group_columns, depth, stage, splits = (
        axis.ravel().astype(np.int64) for axis in grid
    )
    rows, columns = below * group_rows, beside * group_columns
    points = Knobs(
        rows=rows,
        columns=columns,
        depth=depth,
        group_rows=group_rows,
        group_columns=group_columns,
        stages=stage,
        group=group_of(factors, rows, np.int64(8)),
        splits=splits,
        bulk=bulk,
    )
    kept = np.logical_and.reduce(list(limits(target, factors, points).values()))
    kept &= (splits == 1) | (factors.depth >= 4 * depth * splits)
    if bulk:
        kept &= group_rows * group_columns <= MOST_SUMS * WARPGROUP
    cost = np.where(kept, cycles(target, factors, points), np.inf)
    return setting(points, int(np.lexsort((-stage, -depth, cost))[0]))
