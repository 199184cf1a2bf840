"""The cost model of Winograd's method on a GPU: its transforms, and the comparison with a matrix product on gathered
inputs (implicit GEMM, `conv2d`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, prod

import numpy as np

from ...codegen.cuda.machine import GpuTarget
from ...codegen.cuda.tolerances import MODEL_TOLERANCE, tolerance, winograd_amplification, winograd_tolerance
from ...ir.kernels import WARP
from ...te.blocks import ceil_div
from ...te.ops.convolution import WINOGRAD_TAPS, Convolution, tile_counts
from ...te.ops.winograd import ALIGNED, OUTPUTS, transforms
from ..columns import ESTIMATE
from .conv2d import gathered_problem
from .gemm_cost import CACHE_BYTES_CYCLE, Problem, choose_tile, estimate_cost
from .multiprocessor import DEPENDENT_ISSUE_CYCLES, SCHEDULERS
from .tile import Tile
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


def choose(
    target: GpuTarget, convolution: Convolution, others: Sequence[float] = ()
) -> tuple[int, Tile] | None:
    """The size m of output tiles with the least estimated seconds, and the tiling of the matrix products; None if it is
    not faster than every other method by the margin `GAIN`.

    The other methods are `conv2d`, a matrix product on gathered inputs (implicit GEMM), and methods whose estimated
    seconds are in `others`. Only sizes of `exact_outputs` are considered. None if the target allows tensor cores, which
    are faster.
    """
    if target.tensor_float:
        return None
    candidates = exact_outputs(convolution)
    if not candidates:
        return None
    found = {m: seconds_of(target, convolution, m) for m in candidates}
    best = min(found, key=lambda m: found[m][0])
    seconds, tile = found[best]
    product = gathered(convolution)
    limit = min([tile_seconds(target, product, choose_tile(target, product)), *others])
    return (best, tile) if seconds < GAIN * limit else None


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
