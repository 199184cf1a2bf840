"""Chooses the convolutions that a processor computes by Winograd's method: those that are expected to save enough time.

For both methods, the model counts the time of the arithmetic in register tiles, and the time to read the weights from
memory. For Winograd's method it also counts the time to write and read the tiles between the method's steps.
"""

from __future__ import annotations

from math import prod

from ...codegen.cpu.machine import CpuTarget
from ...ir.types import DType
from ...te.blocks import ceil_div
from ...te.ops.convolution import WINOGRAD_TAPS, Convolution, tile_counts
from ...te.ops.winograd import OUTPUTS
from .register_tile import choose_positions, tile_cycles

WEIGHT_BYTES_CYCLE = 5.0
"""Weight bytes per cycle from memory. Measured with 512 x 512 weights for each of 36 elements of a transformed window,
for 16 tiles: the products take 5.0 ms on a Golden Cove core of 2.65 GHz; the arithmetic alone takes 2.1 ms.
"""
TRANSFORM_BYTES_CYCLE = 5.0
"""Bytes per cycle of writing transformed input tiles, or of reading products to transform them to outputs. Measured
on a Golden Cove core of 2.65 GHz: writing and reading take 0.17 and 0.15 ms for 1.8 MB each (64 channels on 56 x 56),
0.06 and 0.05 ms for 0.9 MB each (128 channels on 28 x 28).
"""
LEAST_SAVING = 0.15
"""Least saving of time, as a share of the direct method's cycles, at which Winograd's method is chosen: a margin for
the model's error.
"""


def tiling(target: CpuTarget, shape: Convolution, block: int) -> int | None:
    """Size m of the output tiles with which Winograd's method saves most time; None if the direct method should be used
    (`rewrites.floating.use_winograd.Tiling`). `block`: size of a block of input channels or of filters.
    """
    if block != target.lanes(DType.FLOAT32):
        return None
    best = (1 - LEAST_SAVING) * direct_cycles(target, shape, block)
    chosen = None
    for m in OUTPUTS:
        cycles = winograd_cycles(target, shape, block, m)
        if cycles < best:
            best, chosen = cycles, m
    return chosen


def direct_cycles(target: CpuTarget, shape: Convolution, block: int) -> float:
    """Cycles of a 3 x 3 convolution by the direct method. `block`: size of a block of input channels or of filters."""
    rows, columns = shape.outputs
    blocks = ceil_div(shape.filters, block)
    depth = _whole(shape.channels, block) * WINOGRAD_TAPS**2
    arithmetic = shape.batch * _sums(target, (rows, columns, blocks), depth)
    return arithmetic + 4 * depth * blocks * block / WEIGHT_BYTES_CYCLE


def winograd_cycles(target: CpuTarget, shape: Convolution, block: int, m: int) -> float:
    """Cycles of a 3 x 3 convolution by Winograd's method with output tiles of `m` x `m`. `block`: size of a
    block of input channels or of filters.
    """
    tiles = shape.batch * prod(tile_counts(m, shape))
    matrices = (m + WINOGRAD_TAPS - 1) ** 2
    channels, filters = _whole(shape.channels, block), _whole(shape.filters, block)
    arithmetic = matrices * _sums(target, (1, tiles, filters // block), channels)
    between = 4 * matrices * tiles * (channels + filters)
    cycles = arithmetic + 4 * matrices * channels * filters / WEIGHT_BYTES_CYCLE
    return cycles + between / TRANSFORM_BYTES_CYCLE


def _sums(target: CpuTarget, sizes: tuple[int, int, int], depth: int) -> float:
    """Cycles to compute all outputs of a convolution, each a sum of `depth` products, at two vector multiplications a
    cycle. `sizes`: number of outputs as (rows, columns, blocks of filters).
    """
    tile = choose_positions(target, sizes, depth)
    return float(tile_cycles(sizes, tile, depth)) / 2


def _whole(size: int, block: int) -> int:
    return ceil_div(size, block) * block
