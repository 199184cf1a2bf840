"""Data movement on a GPU: permutations in tiles through shared memory; other moves element by element
(`elementwise`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...codegen.cuda.architectures import GRID_LIMITS
from ...codegen.cuda.machine import GpuTarget
from ...ir.expr import Const
from ...ir.stmt import For, LoopKind, Program
from ...schedule import Schedule
from ...te.blocks import ceil_div
from ...te.merge import Shape
from ...te.ops.movement import permute
from ...te.ops.tiled_permute import SIDE, moves_last
from .flat import perfect_nest

ROWS = 8
"""Rows of a tile that a block's threads move at once; each thread moves four elements of a tile."""
MOST_OTHERS = 2
"""Largest number of axes of a permutation besides the two axes of a tile: loops over tiles and over these axes must fit
the three axes of a grid.
"""
NARROW = 8
"""Length of an axis below which a tile would be mostly empty: moving element by element is then faster."""


def tile_rows(target: GpuTarget, shape: Shape, axes: Sequence[int]) -> int | None:
    """The number of rows of a 32 x 32 tile that the threads of a block move at once, a divisor of 32; None for a
    permutation without tiles, whose elements are moved one by one (template `elementwise`).

    There are tiles if the last axis moves, both axes of a tile have at least `NARROW` elements, there are at most
    `MOST_OTHERS` other axes, and the GPU's grid of blocks is not exceeded.
    """
    plain = permute(shape, axes)
    axis = moves_last(plain)
    sizes = plain.parameters[-1].shape
    if axis is None or min(sizes[axis], sizes[-1]) < NARROW or len(sizes) > 2 + MOST_OTHERS:
        return None
    others = prod(size for d, size in enumerate(sizes) if d not in (axis, len(sizes) - 1))
    *small, _ = sorted([others, ceil_div(sizes[axis], SIDE), ceil_div(sizes[-1], SIDE)])
    return ROWS if max(small) <= GRID_LIMITS["y"] else None


def schedule_tiles(target: GpuTarget, program: Program) -> Schedule:
    """Schedules `te.ops.tiled_permute` with a block for each tile; the longest of the loops over tiles and other axes
    is bound to axis x.
    """
    s = Schedule(program)
    assert isinstance(program.body, For)
    around = {
        loop.name: int(loop.extent.value)
        for loop in perfect_nest(program.body)
        if isinstance(loop.extent, Const)
    }
    others = [name for name in around if name not in ("across", "along")]
    if len(others) > 1:
        first, second = others
        for name in others:
            s.parallel(name)
        around = {s.fuse(first, second): around[first] * around[second]} | {
            name: around[name] for name in ("across", "along")
        }
    axes: tuple[LoopKind, ...] = ("block.x", "block.y", "block.z")
    for name, axis in zip(sorted(around, key=lambda name: -around[name]), axes, strict=False):
        s.bind(name, axis)
    for stage in ("load", "move"):
        s.bind(f"{stage}.y", "thread.y")
        s.bind(f"{stage}.x", "thread.x")
    return s
