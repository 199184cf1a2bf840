"""Winograd's method on a GPU, in three kernels: one transforms tiles of the input, one multiplies matrices, one
transforms products to outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...codegen.cuda.machine import GpuTarget
from ...ir.expr import Const
from ...ir.named_nodes import find_loop
from ...ir.stmt import Program
from ...schedule import Schedule
from ...te.ops.convolution import Convolution, suits_winograd
from . import gemm
from .flat import bind_nest
from .gemm_cost import choose_tile, problem_of
from .split_axes import extent_of
from .tile import Tile, tile_sum
from .winograd_cost import THREADS, choose


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """Knobs of Winograd's method: output tiles of `m` x `m`, and the tiling of the matrix products (None:
    `choose_tile`).
    """

    m: int
    tile: Tile | None = None


def wins(target: GpuTarget, convolution: Convolution, others: Sequence[float] = ()) -> Knobs | None:
    """Knobs of Winograd's method if it is expected to be faster than two alternatives: `conv2d`, a matrix product on
    gathered inputs (implicit GEMM), and other methods, which take `others` seconds (`winograd_cost.choose`). Otherwise
    None.
    """
    chosen = choose(target, convolution, others) if suits_winograd(convolution) else None
    return None if chosen is None else Knobs(m=chosen[0], tile=chosen[1])


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
