"""Moving data on a GPU: permutations in tiles through shared memory; the rest element by element (`elementwise`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.stmt import For, Program
from ...ir.visit import loops
from ...schedule import Schedule
from ...target.cuda.machine import CudaTarget
from ...te.ops.movement import permute
from ...te.ops.tiled_permute import moves_last, tiled_permute
from .flat import perfect_nest

ROWS = 8
"""Rows of a tile that a block's threads move at once, so that each moves four elements."""
NARROW = 8
"""Elements of an axis below which most of a tile would be empty: such permutations are better element by element."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """`rows`: rows of a tile at once, a divisor of its 32; None: element by element, see `elementwise`."""

    rows: int | None


def choose_knobs(target: CudaTarget, shape: Sequence[int], axes: Sequence[int]) -> Knobs:
    """Defaults for a permutation: tiles where the last axis moves and both axes fill enough of them."""
    plain = permute(shape, axes)
    axis = moves_last(plain)
    sizes = plain.parameters[-1].shape
    if axis is None or min(sizes[axis], sizes[-1]) < NARROW:
        return Knobs(rows=None)
    return Knobs(rows=ROWS)


def permutation(shape: Sequence[int], axes: Sequence[int], knobs: Knobs) -> Program:
    """The tensor expression that the knobs ask for."""
    if knobs.rows is None:
        return permute(shape, axes)
    return tiled_permute(shape, axes, rows=knobs.rows)


def schedule_tiles(target: CudaTarget, program: Program) -> Schedule:
    """`te.ops.tiled_permute`: a tile is a block, all of them in one row of the grid."""
    s = Schedule(program)
    assert isinstance(program.body, For)
    around = [loop.name for loop in perfect_nest(program.body)]
    for name in around:
        s.parallel(name)
    block = around[0]
    for name in around[1:]:
        block = s.fuse(block, name)
    s.bind(block, "block.x")
    for loop in loops(s.program):
        for axis in ("x", "y"):
            if loop.name in (f"load.{axis}", f"move.{axis}"):
                s.bind(loop.name, "thread.x" if axis == "x" else "thread.y")
    return s
