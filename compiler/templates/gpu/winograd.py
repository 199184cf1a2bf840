"""Winograd's method on a GPU, in three kernels: one transforms tiles of the input, one multiplies matrices, one
transforms products to outputs. This module also estimates the cost of the transforms, and compares the method with a
matrix product on gathered inputs (implicit GEMM, `conv2d`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

import numpy as np

from ...codegen.cuda.machine import GpuTarget
from ...codegen.cuda.tolerances import MODEL_TOLERANCE, tolerance, winograd_amplification, winograd_tolerance
from ...ir.expr import Const
from ...ir.kernels import WARP
from ...ir.named_nodes import find_loop
from ...ir.stmt import Program
from ...schedule import Schedule
from ...te.blocks import ceil_div
from ...te.ops.convolution import WINOGRAD_TAPS, Convolution, suits_winograd, tile_counts
from ...te.ops.winograd import ALIGNED, OUTPUTS, transforms
from ..columns import ESTIMATE
from . import gemm
from .conv2d import gathered_problem
from .flat import bind_nest
from .gemm_cost import CACHE_BYTES_CYCLE, Problem, choose_tile, estimate_cost, problem_of
from .multiprocessor import DEPENDENT_ISSUE_CYCLES, SCHEDULERS
from .split_axes import extent_of
from .tile import Tile, tile_sum
from .traffic import BLOCK_CYCLES, moving_seconds

THREADS = 128
"""Threads of a block of a transform; each thread holds two tiles in registers."""
LOAD_INSTRUCTIONS = 5
"""Instructions for an element of the input: conditions, address, load. An estimate."""
OTHER_INSTRUCTIONS = 60
"""Instructions of a thread besides arithmetic and loads of the input: the number and address of its tile. An estimate.
"""
UNHIDDEN = 2.4
"""Time of a transform, as a multiple of the time for its memory traffic or of the time to issue its instructions,
whichever is longer. The fixed cost of a block is not part of these times. Fitted.
"""
GAIN = 0.95
"""Winograd's method is chosen only if its estimated time is below this multiple of every other method's: a margin for
the model's error, and for the memory that the transforms need.
"""
MOST_BYTES = 1 << 29
"""Largest number of bytes of the tensors between the three kernels of Winograd's method: 512 MiB, so that a layer
leaves memory for a network's tensors.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """Knobs of Winograd's method: output tiles of `m` x `m`, and the tiling of the matrix products (None:
    `choose_tile`).
    """

    m: int
    tile: Tile | None = None


def schedule(target: GpuTarget, program: Program, knobs: Knobs | None = None) -> Schedule:
    """Schedules a program of `te.ops.winograd` with the tile of `knobs`; W is packed ahead into tiles
    (`schedule.pack`).
    """
    tile = None if knobs is None else knobs.tile
    return _in_tiles(program, tile or choose_tile(target, problem_of(program)))


def _in_tiles(program: Program, tile: Tile) -> Schedule:
    s = Schedule(program)
    tile_sum(s, tile, ("W",))
    for loop in ("input.i", "input.j", "output.i", "output.j", "y"):
        s.unroll(loop)
    whole = isinstance(find_loop(program, "x").extent, Const)
    # A row of outputs of a tile is one vector if all tiles are whole.
    s.annotate("x", "vectorize" if whole else "unroll")
    for loops in (("input.c", "input.p"), ("output.f", "output.p")):
        bind_nest(s, [(loop, extent_of(s, loop)) for loop in loops], THREADS)
    return s


TUNED = replace(
    gemm.TUNED,
    name="winograd_cuda",
    schedule=lambda _, workload, tile: _in_tiles(workload.expression, tile),
)
"""The template for the tiling of Winograd's matrix products, for a given size of output tiles. Costs include only these
products, since the transforms take equally long at every point (setting of the knobs).
"""


def products_of(shape: Convolution, m: int) -> Problem:
    """The matrix products of a convolution by Winograd's method with output tiles of m x m."""
    tiles = shape.batch * prod(tile_counts(m, shape))
    return Problem(
        rows=shape.filters,
        columns=ceil_div(tiles, ALIGNED) * ALIGNED,
        depth=shape.channels,
        batch=(m + WINOGRAD_TAPS - 1) ** 2,
    )


def gathered(shape: Convolution) -> Problem:
    """The matrix product by which `conv2d` computes a convolution, on gathered inputs (implicit GEMM)."""
    return gathered_problem(
        filters=shape.filters,
        positions=shape.batch * prod(shape.outputs),
        channels=shape.channels,
        taps=prod(shape.window.kernel),
    )


def kept_bytes(products: Problem) -> int:
    """Bytes of the tensors between the kernels: transformed inputs and products."""
    return 4 * products.batch * (products.depth + products.rows) * products.columns


def tile_seconds(target: GpuTarget, problem: Problem, tile: Tile) -> float:
    """The seconds that the cost model of `gemm_cost` estimates for Winograd's matrix products (`problem`)
    with `tile`.
    """
    fields = ("rows", "columns", "depth", "thread_rows", "thread_columns", "row_groups", "column_groups")
    values = {name: np.array([getattr(tile, name)], np.int64) for name in (*fields, "stages", "splits")}
    return float(estimate_cost(target, problem, values).quantities[ESTIMATE][0])


def transform_seconds(target: GpuTarget, convolution: Convolution, m: int) -> float:
    """Estimated seconds of the two kernels that transform inputs and outputs, for output tiles of `m` x `m`. Their
    launches, and the fixed cost of a block in each kernel, are not part of the time.
    """
    n, problem = m + WINOGRAD_TAPS - 1, products_of(convolution, m)
    oh, ow = convolution.outputs
    pixels = convolution.batch * convolution.height * convolution.width
    # Rows of a transform matrix have at least two zeros; each is applied to all columns, then to all rows.
    applied = ((n * n + n * n) * (n - 2), (m * n + m * m) * (n - 1))
    seconds = 0.0
    kept = kept_bytes(problem) <= target.cache_bytes
    cache = CACHE_BYTES_CYCLE * target.multiprocessors * target.clock
    place = replace(target, memory_bandwidth=cache) if kept else target
    for channels, plain, arithmetic, loaded in (
        (convolution.channels, pixels, applied[0], n * n * LOAD_INSTRUCTIONS + n * n),
        (convolution.filters, convolution.batch * oh * ow, applied[1], 2 * (n * n + m * m)),
    ):
        moved = 4 * channels * (plain + problem.batch * problem.columns)
        threads = channels * problem.columns
        blocks = np.array([ceil_div(threads, THREADS)], np.int64)
        moving = moving_seconds(place, moved, blocks, np.array([THREADS], np.int64), np.array([4.0 * n * n]))
        warps = ceil(threads / (WARP * SCHEDULERS * target.multiprocessors))
        issued = (
            max(warps, DEPENDENT_ISSUE_CYCLES) * (arithmetic + loaded + OTHER_INSTRUCTIONS) / target.clock
        )
        seconds += UNHIDDEN * (max(float(moving[0]), issued) - BLOCK_CYCLES / target.clock)
    return seconds


def seconds_of(target: GpuTarget, convolution: Convolution, m: int) -> tuple[float, Tile]:
    """Estimated seconds with output tiles of m x m, and the tiling of the products that the estimate assumes."""
    problem = products_of(convolution, m)
    tile = choose_tile(target, problem)
    return transform_seconds(target, convolution, m) + tile_seconds(target, problem, tile), tile


def choose(target: GpuTarget, convolution: Convolution, others: Sequence[float] = ()) -> Knobs | None:
    """Knobs of Winograd's method: the size m of output tiles with the least estimated seconds, and the tiling of the
    matrix products; None if the method does not apply, or is not faster than every other method by the margin `GAIN`.

    The other methods are `conv2d`, a matrix product on gathered inputs (implicit GEMM), and methods whose estimated
    seconds are in `others`. Only sizes of `exact_outputs` are considered. None if the target may round factors to tf32
    (`tensor_float`): tensor cores are then faster.
    """
    candidates = exact_outputs(convolution) if suits_winograd(convolution) else []
    if target.tensor_float or not candidates:
        return None
    found = {m: seconds_of(target, convolution, m) for m in candidates}
    best = min(found, key=lambda m: found[m][0])
    seconds, tile = found[best]
    product = gathered(convolution)
    limit = min([tile_seconds(target, product, choose_tile(target, product)), *others])
    return Knobs(m=best, tile=tile) if seconds < GAIN * limit else None


def exact_outputs(convolution: Convolution) -> list[int]:
    """The sizes m of output tiles for which Winograd's method needs little memory and is accurate enough: the tensors
    between its kernels fit `MOST_BYTES`, and its `rounding` is within a tolerance.

    The tolerance is the larger of two: `MODEL_TOLERANCE`, and the tolerance of the float32 sums with which `conv2d`
    computes the same convolution.
    """
    allowed = max(MODEL_TOLERANCE, tolerance("float32", gathered(convolution).depth))
    return [
        m
        for m in OUTPUTS
        if rounding(convolution.channels, m) <= allowed
        and kept_bytes(products_of(convolution, m)) <= MOST_BYTES
    ]


def rounding(channels: int, m: int) -> float:
    """Tolerance (`tolerances.winograd_tolerance`) for rounding errors of Winograd's method F(m x m, 3 x 3), with output
    tiles of m x m and sums over `channels` channels.
    """
    found = transforms(m)
    factor = winograd_amplification(found.outputs, found.weights, found.inputs)
    return winograd_tolerance(channels, m + WINOGRAD_TAPS - 1, factor)
