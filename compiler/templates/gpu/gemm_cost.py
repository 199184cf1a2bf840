"""The cost model of tiled sums of products on a GPU, for many tiles at once, and the choice of a tile by this model.

For each step of a block, the model adds up the cycles of a multiprocessor's busiest unit and the latencies that too few
stages or blocks leave exposed. The sum over all steps is multiplied by the number of rounds of blocks on the busiest
multiprocessor. Its constants are from NVIDIA's documents, or fitted to 1,100 tiles on an H100 (least squares of
logarithms, fast tiles weighted more). `benchmarks/gpu_cost.py` measures its errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np

from ...codegen.cuda.architectures import REGISTERS_PER_BLOCK, REGISTERS_PER_THREAD
from ...codegen.cuda.machine import GpuTarget
from ...ir.expr import Const
from ...ir.kernels import WARP
from ...ir.stmt import For, Program, Reduce
from ...ir.visit import free_vars, loads_in, path_to
from ..columns import ESTIMATE, Columns
from ..space import CostEstimates, combined
from .multiprocessor import SCHEDULERS, SHARED_BYTES_CYCLE, ceil_divided, estimates, resident_blocks
from .tile import VECTOR, Tile

OTHER_REGISTERS = 32
"""Registers of a thread besides sums and operands: addresses, counters. With this number and `REGISTERS_A_ROW`, totals
are within 15% of the registers that NVRTC 13.0 reports for sm_90. For 8 x 8, 8 x 4, 4 x 4 and 2 x 2 sums, NVRTC reports
115, 78, 69 and 39 if X is transposed, else 127, 91, 73 and 40.
"""
REGISTERS_A_ROW = 3
"""Registers that a thread needs for each of its rows when it reads vectors of four elements along the depth: slightly
fewer than 4 in the measured register counts.
"""
CACHE_BYTES_CYCLE = 37
"""Bytes per cycle from the second-level cache to one multiprocessor while all multiprocessors read. Fitted."""
COPY_INSTRUCTIONS = 3.4
"""Instructions to copy a vector: address, condition, copy. Fitted."""
GATHER_INSTRUCTIONS = 7.0
"""Instructions to gather an element of an operand: address, tests whether its row and column are inside. Fitted."""
SPREAD_GATHER_INSTRUCTIONS = 20.0
"""Instructions to gather an element of a convolution's input if its neighbours along the depth belong to other taps
(positions in the window), so that the tap is computed for each element. Fitted.
"""
STALL_CYCLES = 4
"""Cycles for which a warp waits, at every step along the depth, for operands from shared memory; other warps may issue
meanwhile. Fitted.
"""
SINGLE_WARP_SLOWDOWN = 0.34
"""Relative slowdown of a warp that is alone on its scheduler: while the warp waits for registers, no other warp issues.
Fitted.
"""
UNOVERLAPPED_SHARE = 0.5
"""Share of the work of a multiprocessor's units that does not overlap with the work of the busiest unit. Fitted."""
LATENCY = 380
"""Cycles from the start of a copy from global memory (mostly cached) into shared memory until the block continues.
Fitted.
"""
BARRIER_CYCLES = 124
"""Cycles of the barriers and waits in each step along the depth. Fitted."""
BLOCK_CYCLES = 2700
"""Cycles before a block's first step and after its last step: launch, fetching the first tile, stores. Fitted."""
KERNEL_CYCLES = 2650
"""Cycles of an additional kernel in a graph of kernels, about 1.4 us. Fitted."""
MOST_UNROLLED = 2048
"""Largest number of multiply-adds of a thread in one step along the depth; these are unrolled, and more would exceed
the instruction cache.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A sum of products to be tiled: a matrix of `rows` x `columns` sums of `depth` products each, `batch` times.

    `along_depth`: the first operand is contiguous along the depth (an X [rows, depth]). `copy_instructions`:
    instructions of a thread for each element of the second operand, in addition to a plain copy of vectors: 0, or the
    cost of gathering element by element.
    """

    rows: int
    columns: int
    depth: int
    batch: int = 1
    along_depth: bool = False
    copy_instructions: float = 0.0


def estimate_cost(target: GpuTarget, problem: Problem, c: Columns) -> CostEstimates:
    """The cost model's results for many tiles.

    `c`: an int64 array for each field of `Tile`, all of one length (`width` may be missing). Lower bound on seconds:
    all multiply-adds, or operands and result moved once, whichever takes longer.
    """
    size = {"rows": problem.rows, "columns": problem.columns, "depth": problem.depth}
    y, x = c["rows"] // c["thread_rows"], c["columns"] // c["thread_columns"]
    threads = y * x
    warps = ceil_divided(threads, WARP)
    own_row, own_column = c["thread_rows"] // c["row_groups"], c["thread_columns"] // c["column_groups"]
    held = c["thread_rows"] * (REGISTERS_A_ROW if problem.along_depth else 1) + c["thread_columns"]
    registers = 8 * ceil_divided(c["thread_rows"] * c["thread_columns"] + held + OTHER_REGISTERS, 8)
    shared = 4 * c["stages"] * c["depth"] * (c["rows"] + c["columns"])
    others = {
        "multiply-adds that are written out": c["depth"] * c["thread_rows"] * c["thread_columns"]
        <= MOST_UNROLLED,
        "splits that all have work": (c["splits"] - 1)
        * c["depth"]
        * ceil_divided(ceil_divided(size["depth"], c["splits"]), c["depth"])
        < size["depth"],
    }
    limits, resident = limits_of_blocks(target, threads, registers, shared, others)
    blocks = (
        problem.batch
        * c["splits"]
        * ceil_divided(size["rows"], c["rows"])
        * ceil_divided(size["columns"], c["columns"])
    )
    busiest = ceil_divided(blocks, target.multiprocessors)
    together = np.clip(resident, 1, busiest)
    steps = ceil_divided(ceil_divided(size["depth"], c["splits"]), c["depth"])

    # A thread's instructions for one step in depth; pieces of both operands are read as vectors.
    products = c["thread_rows"] * c["thread_columns"]
    if problem.along_depth:
        row_loads = c["thread_rows"] / VECTOR
    else:
        row_loads = c["row_groups"] * _pieces(own_row)
    column_loads = c["column_groups"] * _pieces(own_column)
    copied = (c["rows"] + c["columns"]) / np.maximum(threads, 1)
    gathered = problem.copy_instructions * c["columns"] / np.maximum(threads, 1)
    instructions = products + row_loads + column_loads + COPY_INSTRUCTIONS * copied / VECTOR + gathered
    # Additional issue slots of multiply-adds if the multiprocessor has fewer lanes than its schedulers issue.
    instructions = instructions + products * (SCHEDULERS * WARP / target.float32_lanes - 1)
    # Threads of a warp that read the same element share one access.
    wide = np.minimum(x, WARP)
    high = np.maximum(WARP // np.maximum(wide, 1), 1)
    conflicts = np.maximum(own_column // VECTOR, 1)
    row_bytes, column_bytes = 4 * high * c["thread_rows"], 4 * wide * c["thread_columns"] * conflicts
    read = np.maximum(row_bytes / SHARED_BYTES_CYCLE, row_loads)
    read = read + np.maximum(column_bytes / SHARED_BYTES_CYCLE, column_loads)
    written = 4 * (c["rows"] + c["columns"]) / SHARED_BYTES_CYCLE
    cycles = kernel_cycles(
        target,
        FetchedWork(
            blocks=blocks,
            resident=resident,
            warps=warps,
            steps=steps,
            stages=c["stages"],
            instructions=c["depth"] * instructions,
            stalls=c["depth"] * STALL_CYCLES,
            banks=c["depth"] * (warps * read + written),
            moved=4 * c["depth"] * (c["rows"] + c["columns"]),
        ),
    )
    partial = 8.0 * c["splits"] * problem.batch * size["rows"] * size["columns"]
    limits["partial sums within the cache"] = (c["splits"] == 1) | (partial / 2 <= target.cache_bytes)
    again = KERNEL_CYCLES + LATENCY + partial / (CACHE_BYTES_CYCLE * target.multiprocessors)
    cycles = cycles + np.where(c["splits"] > 1, again, 0.0)
    moved = 4.0 * problem.batch * sum(a * b for a, b in _faces(problem))
    memory = moved / target.memory_bandwidth
    lanes = target.multiprocessors * target.float32_lanes
    whole = (
        ceil_divided(size["rows"], c["rows"])
        * c["rows"]
        * ceil_divided(size["columns"], c["columns"])
        * c["columns"]
    )
    multiplied = problem.batch * whole.astype(np.float64) * size["depth"] / (lanes * target.clock)
    seconds = np.maximum(cycles / target.clock, memory)
    quantities = {
        "blocks": blocks,
        "blocks on the busiest multiprocessor": busiest,
        "blocks at once": together,
        "warps at once": together * warps,
        "steps": steps,
        "cycles to issue a step": c["depth"] * instructions * warps / SCHEDULERS,
        "cycles of shared memory for a step": c["depth"] * (warps * read + written),
        "shared bytes": shared,
        "registers": registers,
        "products a load": products / (row_loads + column_loads),
    }
    return estimates(seconds, np.maximum(multiplied, memory), quantities, dict(c), limits)


def limits_of_blocks(
    target: GpuTarget,
    threads: np.ndarray,
    registers: np.ndarray,
    shared: np.ndarray,
    others: Mapping[str, np.ndarray],
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Legality limits of blocks (bool arrays by name, `others` included), and the number of blocks that fit onto a
    multiprocessor at a time.

    Blocks have `threads` threads of `registers` registers each, and `shared` bytes of shared memory.
    """
    resident = np.minimum(
        resident_blocks(target, threads, registers, shared), target.blocks_per_multiprocessor
    )
    limits = {
        "threads of a block": (threads >= WARP) & (threads <= target.threads_per_block),
        "registers of a thread": registers <= REGISTERS_PER_THREAD,
        "registers of a block": registers * threads <= REGISTERS_PER_BLOCK,
        "shared memory of a block": shared <= target.shared_bytes_per_block,
        **others,
        "a block on a multiprocessor": resident >= 1,
    }
    return limits, resident


def cheapest(target: GpuTarget, found: CostEstimates) -> int:
    """The index of the legal point (setting of the knobs) with the least estimated seconds; among equal estimates, the
    index of the point with the least lower bound.
    """
    legal = np.logical_and.reduce(list(found.limits.values()))
    cycles = np.where(legal, np.round(found.quantities[ESTIMATE] * target.clock / EQUAL_CYCLES), np.inf)
    return int(np.lexsort((found.bound, cycles))[0])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FetchedWork:
    """The work of kernels whose blocks fetch operands into shared memory, step by step along the depth, with `stages`
    steps in shared memory at once; every field is an array over settings of the knobs.

    `blocks`: number of all blocks; `warps`: warps of a block; `resident`: blocks that fit onto a multiprocessor at a
    time; `steps`: steps of a block. In each step a thread issues `instructions` and waits for `stalls` cycles, and a
    block occupies shared memory for `banks` cycles and fetches `moved` bytes.
    """

    blocks: np.ndarray
    resident: np.ndarray
    warps: np.ndarray
    steps: np.ndarray
    stages: np.ndarray
    instructions: np.ndarray
    stalls: np.ndarray
    banks: np.ndarray
    moved: np.ndarray


def kernel_cycles(target: GpuTarget, work: FetchedWork) -> np.ndarray:
    """Estimated cycles of the kernels that `work` describes, as an array."""
    busiest = ceil_divided(work.blocks, target.multiprocessors)
    together = np.clip(work.resident, 1, busiest)
    hidden = LATENCY / np.maximum(work.stages - 1, 1)

    def round_cycles(count: np.ndarray) -> np.ndarray:
        """Cycles of `count` blocks that run concurrently on one multiprocessor."""
        each = ceil_divided(np.maximum(count, 1) * work.warps, SCHEDULERS)
        issue = work.instructions * (each + SINGLE_WARP_SLOWDOWN / each) + work.stalls / each
        units = [issue, count * work.banks, count * work.moved / CACHE_BYTES_CYCLE]
        busy = (1 - UNOVERLAPPED_SHARE) * np.maximum.reduce(units) + UNOVERLAPPED_SHARE * sum(units)
        step = np.where(work.stages == 1, LATENCY + busy, np.maximum(busy, hidden)) + BARRIER_CYCLES
        return np.where(count > 0, BLOCK_CYCLES + work.steps * step, 0.0)

    return busiest // together * round_cycles(together) + round_cycles(busiest % together)


THREAD_TILES = (
    (8, 8),
    (8, 4),
    (4, 8),
    (4, 4),
    (4, 2),
    (2, 4),
    (8, 2),
    (2, 8),
    (2, 2),
    (1, 4),
    (4, 1),
    (1, 2),
    (1, 1),
)
"""Candidate tiles of one thread, as (rows, columns), for default tiles."""
THREADS = tuple([(y, x) for y, x in product((1, 2, 4, 8, 16, 32), (4, 8, 16, 32)) if 32 <= y * x <= 256])
"""Candidate numbers of threads along (rows, columns), for default tiles."""
EQUAL_CYCLES = 100
"""Difference in cycles that is below the model's accuracy; `cheapest` rounds estimates to multiples of this number."""
DEPTHS = (8, 16, 32)
STAGES = (2, 3, 4)
SPLITS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)
PROBLEMS = 256
"""Largest number of problems in the cache of best tiles. The cache pays off because a tile is used to choose a method
and again to schedule, and because many problems are equal.
"""


def choose_tile(target: GpuTarget, problem: Problem) -> Tile:
    """The tile with the least estimated seconds among `THREAD_TILES` combined with `THREADS`; among equal estimates,
    the one with the least lower bound.
    """
    return best_tile(target, problem)[0]


@lru_cache(maxsize=PROBLEMS)
def best_tile(target: GpuTarget, problem: Problem) -> tuple[Tile, float]:
    """The tile that `choose_tile` returns, and its estimated seconds."""
    columns = _candidates(problem)
    found = estimate_cost(target, problem, columns)
    best = cheapest(target, found)
    tile = Tile(**{name: int(values[best]) for name, values in columns.items()})
    # No more stages than steps.
    tile = replace(tile, stages=min(tile.stages, int(found.quantities["steps"][best])))
    return tile, float(found.quantities[ESTIMATE][best])


def groups_of(own: np.ndarray | int) -> np.ndarray:
    """The number of groups into which a thread's rows or columns are divided. Each group is one vector. `own`: number
    of the rows or columns.
    """
    return np.maximum(np.asarray(own, np.int64) // VECTOR, 1)


def _candidates(problem: Problem) -> dict[str, np.ndarray]:
    depths, stages, splits = ([(value,) for value in values] for values in (DEPTHS, STAGES, SPLITS))
    thread_rows, thread_columns, y, x, depth, stage, split = combined(
        THREAD_TILES, THREADS, depths, stages, splits
    )
    kept = (split == 1) | (split * depth <= problem.depth)
    c = {
        "rows": y * thread_rows,
        "columns": x * thread_columns,
        "depth": depth,
        "thread_rows": thread_rows,
        "thread_columns": thread_columns,
        "stages": stage,
        "splits": split,
    }
    c = {name: values[kept] for name, values in c.items()}
    c["row_groups"] = np.ones_like(c["rows"]) if problem.along_depth else groups_of(c["thread_rows"])
    c["column_groups"] = groups_of(c["thread_columns"])
    return c


def _faces(problem: Problem) -> tuple[tuple[int, int], ...]:
    return (
        (problem.rows, problem.depth),
        (problem.depth, problem.columns),
        (problem.rows, problem.columns),
    )


def _pieces(own: np.ndarray) -> np.ndarray:
    """Number of vector loads that read `own` adjacent elements from shared memory."""
    return np.maximum(own / VECTOR, 1)


def problem_of(program: Program, copy_instructions: float = 0.0, tag: str = "") -> Problem:
    """The sizes of a program with the stages of `te.ops.product` (copies of the operands, sum "gemm", epilogue "post")
    and loops of constant extents.

    `copy_instructions`: the field of `Problem`. `tag`: suffix of the stages' names.
    """
    path = path_to(program, f"gemm{tag}")
    reduce = path[-1]
    assert isinstance(reduce, Reduce)
    sizes: dict[str, int] = {}
    for loop in path:
        if isinstance(loop, For):
            assert isinstance(loop.extent, Const)
            sizes[loop.name] = int(loop.extent.value)
    rows, columns, depth = (sizes.pop(f"gemm.{axis}{tag}") for axis in "ijk")
    (first,) = {e.indices for e in loads_in(reduce.value) if e.buffer.name == f"a{tag}"}
    return Problem(
        rows=rows,
        columns=columns,
        depth=depth,
        batch=prod(sizes.values()),
        along_depth=f"gemm.k{tag}" in free_vars(first[-1]),
        copy_instructions=copy_instructions,
    )
