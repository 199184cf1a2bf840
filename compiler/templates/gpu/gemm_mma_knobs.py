"""Knobs of matrix products on tensor cores: their limits, and defaults for any size from a simple cost model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ...codegen.cuda.architectures import REGISTERS_PER_THREAD
from ...codegen.cuda.machine import GpuTarget, Precision
from ...codegen.cuda.mma_fragments import COLUMNS, ROWS, depth_of
from ...ir.kernels import WARP
from ...ir.types import DType
from ..columns import Columns
from ..space import CostEstimates
from .multiprocessor import SHARED_BYTES_CYCLE, estimates, resident_blocks

MOST_WARPS = 16
CACHE_BYTES_A_CYCLE = 22
"""Bytes per cycle from the second-level cache to each multiprocessor while all multiprocessors read. Fitted
(`benchmarks/gpu_cost.py` measures the errors).
"""
HOPPER_SHARE = 0.38
"""Share of a Hopper card's peak (reached by wgmma) that `mma.sync` reaches, fitted to these kernels. (With all operands
in registers `mma.sync` reaches 62.9%: Luo et al., "Dissecting the NVIDIA Hopper Architecture through
Microbenchmarking", 2024.)
"""
LATENCY = 1350
"""Cycles from the first copy of a block to its first product, and about as many after its last product. Fitted."""
LAUNCH = 2360
"""Fixed cycles of a second kernel, in addition to its work. Fitted."""


Size = TypeVar("Size", int, np.ndarray)
KnobsT = TypeVar("KnobsT", bound=Any)
Number: TypeAlias = Any
"""An integer or, for many settings of knobs at once, an int64 array with an element for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """The sizes of a product A B and the type of its factors, for the choice of knobs.

    `matrix`: for A and for B, whether the instruction `ldmatrix` can load the factor. `along_depth`: for A and for B,
    whether elements adjacent in depth are adjacent in memory.
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
    """Knobs of products on tensor cores: a block computes a tile of `rows` x `columns`, split into tiles of `warp_rows`
    x `warp_columns` for each warp, in slices of `depth`.

    `stages`: slices in shared memory at a time (1: no slice is fetched ahead). `group`: rows of tiles that are computed
    together, if `group` divides their number. `splits`: blocks that share the depth of a tile.
    """

    rows: Number
    columns: Number
    depth: Number
    warp_rows: Number
    warp_columns: Number
    stages: Number
    group: Number = 1
    splits: Number = 1

    @property
    def warps(self) -> tuple[int, int]:
        """Number of a block's warps along rows and along columns."""
        return self.rows // self.warp_rows, self.columns // self.warp_columns

    def shared_bytes(self, factors: Factors) -> int:
        """Bytes of shared memory of a block. The tile of results reuses the memory of the stages (tiles of the
        operands), so the larger of the two counts.
        """
        return int(_shared_bytes(self, factors))

    def obstacle(self, dtype: DType, *, matrix: tuple[bool, bool]) -> str | None:
        """The reason why these knobs are inconsistent for factors of type `dtype`; None if they are consistent.
        `matrix`: for each factor, whether the instruction `ldmatrix` loads it.
        """
        step = COLUMNS * 2 if matrix[1] else COLUMNS
        if self.warp_rows % ROWS or self.warp_columns % step or min(self.warp_rows, self.warp_columns) < 1:
            return f"a warp's tile of {self.warp_rows}x{self.warp_columns} is not a multiple of {ROWS}x{step}"
        if self.rows % self.warp_rows or self.columns % self.warp_columns:
            return f"the tiles of warps do not divide the tile of a block, {self.rows}x{self.columns}"
        if self.depth % depth_of(dtype) or self.depth < 1:
            return (
                f"the depth {self.depth} is not a multiple of {depth_of(dtype)}, the depth of an mma instruction for "
                f"{dtype}"
            )
        warps = self.warps[0] * self.warps[1]
        if warps > 32:
            return f"{warps} warps are more than a thread block may have (32)"
        if self.rows % warps:
            return f"{warps} warps cannot share {self.rows} rows of results"
        if min(self.stages, self.group, self.splits) < 1:
            return "stages, group and splits must each be at least 1"
        return None


def room(size: Size, dtype: DType, *, matrix: bool) -> Size:
    """Distance, in elements, between the beginnings of adjacent rows of a tile in shared memory, chosen to avoid bank
    conflicts. `size`: elements of a row. `matrix`: whether the instruction `ldmatrix` reads the rows.

    `ldmatrix` reads 8 rows of 16 bytes at a time, so rows must begin at odd multiples of 16 bytes. Plain loads and
    stores of fragments touch 4 or 8 rows and 8 banks in each, so rows must begin 8 banks apart.
    """
    bits = dtype.bits
    if matrix:
        pieces = -(-size * bits // 128)
        return (pieces | 1) * 128 // bits
    words = -(-size * bits // 32)
    words = words + (8 - words) % (8 + 24 * (words > 8))
    return words * 32 // bits


def _shared_bytes(knobs: Knobs, factors: Factors) -> np.ndarray:
    elements = np.int64(0)
    for size, matrix, along in zip(
        (knobs.rows, knobs.columns), factors.matrix, factors.along_depth, strict=True
    ):
        lines, length = (size, knobs.depth) if along else (knobs.depth, size)
        elements = elements + lines * room(np.asarray(length), factors.dtype, matrix=matrix)
    results = knobs.rows * room(np.asarray(knobs.columns), DType.INT32, matrix=False) * 4
    return np.maximum(
        knobs.stages * elements * factors.dtype.bits // 8, results * (np.asarray(knobs.splits) == 1)
    )


def _registers(knobs: Knobs) -> np.ndarray:
    """Estimated registers of a thread: for sums and fragments, and 40 more, mostly for addresses."""
    sums = np.asarray(knobs.warp_rows * knobs.warp_columns // WARP)
    return sums + knobs.warp_rows // ROWS * 4 + knobs.warp_columns // COLUMNS * 2 + 40


def resident(target: GpuTarget, factors: Factors, knobs: Knobs) -> np.ndarray:
    """The number of blocks that a multiprocessor holds at a time; 0 if a block is too large."""
    down, beside = knobs.warps
    threads = down * beside * WARP
    return resident_blocks(target, threads, _registers(knobs), _shared_bytes(knobs, factors))


def limits(target: GpuTarget, factors: Factors, knobs: Knobs) -> Mapping[str, np.ndarray]:
    """For each legality limit, by name, whether each setting of the knobs satisfies it: bool arrays."""
    down, beside = knobs.warps
    warps = down * beside
    step = COLUMNS * 2 if factors.matrix[1] else COLUMNS
    return {
        "whole products": np.asarray((knobs.warp_columns % step == 0) & (knobs.warp_rows % ROWS == 0)),
        "rows of results for every warp": (knobs.rows % warps == 0) & (warps <= MOST_WARPS),
        "the registers of a thread": _registers(knobs) <= REGISTERS_PER_THREAD,
        "the shared memory of a block": _shared_bytes(knobs, factors) <= target.shared_bytes_per_block,
        "a block on a multiprocessor": resident(target, factors, knobs) >= 1,
        "a slice for every split": np.asarray(
            (np.asarray(knobs.splits) == 1) | (knobs.depth * knobs.splits <= factors.depth)
        ),
    }


def legal(target: GpuTarget, factors: Factors, knobs: Knobs) -> np.ndarray:
    """Whether each setting of the knobs satisfies all limits: bool array."""
    return np.logical_and.reduce(list(limits(target, factors, knobs).values()))


def cycles(target: GpuTarget, factors: Factors, knobs: Knobs) -> np.ndarray:
    """Estimated cycles of a product at the card's clock; float64.

    The time of a slice is the longest of three times: multiplying the slice on tensor cores, loading its fragments from
    shared memory, and, if enough copies are in flight, transferring it from the second-level cache. Blocks on one
    multiprocessor share these units. Each multiprocessor executes its blocks in rounds; the kernel ends with the
    multiprocessor that has most rounds.
    """
    blocks = tiles(factors, knobs.rows, knobs.columns) * knobs.splits
    slices = slices_of(factors, knobs)
    peak = target.peak(precision(factors.dtype)) / (target.multiprocessors * target.clock)
    if target.capability >= (9, 0):
        peak *= HOPPER_SHARE
    size = factors.dtype.bits / 8
    area, edge = knobs.rows * knobs.columns, knobs.rows + knobs.columns
    down, beside = knobs.warps
    multiply = 2 * area * knobs.depth / peak
    fragments = (knobs.rows * beside + knobs.columns * down + edge) * knobs.depth * size / SHARED_BYTES_CYCLE
    fetch = edge * knobs.depth * size / CACHE_BYTES_A_CYCLE
    waves = -(-blocks // target.multiprocessors)
    together = np.maximum(1, np.minimum(resident(target, factors, knobs), waves))
    # About two warps keep the tensor core of a quarter of a multiprocessor busy.
    multiply = multiply / np.minimum(1.0, together * down * beside / 8)
    # Concurrent work never overlaps completely.
    longest = np.maximum(np.maximum(multiply, fragments), fetch)
    slice_cycles = 0.75 * longest + 0.25 * (multiply + fragments + fetch)
    ahead = (knobs.stages - 1) * slice_cycles * together
    stall = np.maximum(0.0, LATENCY - ahead) / together
    results = area * 8 / CACHE_BYTES_A_CYCLE
    total = waves * (slices * (slice_cycles + stall / 2) + results) + 2 * LATENCY
    elements = factors.rows * factors.columns * factors.batch * (knobs.splits + 1)
    adding = LAUNCH + elements * 4 / (CACHE_BYTES_A_CYCLE * target.multiprocessors)
    return total + adding * (np.asarray(knobs.splits) > 1)


def tiles(factors: Factors, rows: int | np.ndarray, columns: int | np.ndarray) -> np.ndarray:
    """Number of tiles of `rows` x `columns` in the results of all products of the batch."""
    down, beside = -(-factors.rows // np.asarray(rows)), -(-factors.columns // np.asarray(columns))
    return down * beside * factors.batch


def precision(dtype: DType) -> Precision:
    """The key of factor type `dtype` in the target's tables of peak rates; both 16-bit floats have one key."""
    if dtype.is_integer:
        return "int8"
    return "tf32" if dtype is DType.FLOAT32 else "float16"


def choose_knobs(target: GpuTarget, factors: Factors) -> Knobs:
    """Default knobs: the setting with the least estimated `cycles`."""
    unit = depth_of(factors.dtype)
    edges, warps = (16, 32, 64, 128, 256), (16, 32, 64)
    grid = np.meshgrid(edges, edges, warps, warps, (2, 4), (2, 3, 4), (1, 2, 4, 8, 16), indexing="ij")
    rows, columns, warp_rows, warp_columns, steps, stages, splits = (
        axis.ravel().astype(np.int64) for axis in grid
    )
    whole = (rows % warp_rows == 0) & (columns % warp_columns == 0)
    points = Knobs(
        rows=rows[whole],
        columns=columns[whole],
        depth=unit * steps[whole],
        warp_rows=warp_rows[whole],
        warp_columns=warp_columns[whole],
        stages=stages[whole],
        group=group_of(factors, rows[whole], np.int64(8)),
        splits=splits[whole],
    )
    kept = legal(target, factors, points)
    # Splits pay if they fill the card and each has enough slices for its pipeline.
    few = (tiles(factors, points.rows, points.columns) <= target.multiprocessors) & (
        factors.depth >= 4 * points.depth * points.splits
    )
    kept &= (points.splits == 1) | few
    return setting(points, int(np.argmin(np.where(kept, cycles(target, factors, points), np.inf))))


def group_of(factors: Factors, rows: np.ndarray, most: np.ndarray | np.int64) -> np.ndarray:
    """Rows of tiles in a group (tiles whose blocks run at the same time): the greatest common divisor of `most` and the
    number of all rows of tiles; 1 for a batch of products.
    """
    count = -(-factors.rows // rows)
    return np.gcd(count, most) if factors.batch == 1 else np.ones_like(count)


def setting(points: KnobsT, index: int) -> KnobsT:
    """One setting of the knobs: element `index` of each field of `points`, a dataclass of arrays."""
    found = {name: getattr(points, name) for name in points.__slots__}
    return replace(points, **{n: int(v[index]) for n, v in found.items() if isinstance(v, np.ndarray)})


def product_cost(
    target: GpuTarget,
    factors: Factors,
    points: Any,
    limits: Mapping[str, np.ndarray],
    estimate: tuple[np.ndarray, np.ndarray],
    effective: Columns,
) -> CostEstimates:
    """The cost model's results for many settings of the knobs: `points` has arrays `rows`, `columns`, `depth`,
    `splits`, `stages`.

    `estimate`: (estimated cycles, number of blocks that a multiprocessor holds at a time). `limits`: legality limits by
    name. `effective`: the settings in canonical form, in which knobs without effect have a fixed value.
    """
    cycles, held = estimate
    blocks = tiles(factors, points.rows, points.columns) * points.splits
    slices = slices_of(factors, points)
    operations = 2.0 * points.rows * points.columns * points.depth * slices * blocks
    quantities = {
        "blocks": blocks,
        "slices": slices,
        "resident blocks": np.maximum(1, held),
        "operations": operations,
        "tile": points.rows * points.columns,
        "stages": points.stages,
    }
    bound = operations / target.peak(precision(factors.dtype))
    return estimates(cycles / target.clock, bound, quantities, effective, limits)


def slices_of(factors: Factors, knobs: Any) -> Any:
    """Number of slices, each `knobs.depth` deep, in the part of the depth that each of `knobs.splits` blocks sums."""
    return -(-factors.depth // (knobs.depth * knobs.splits))
