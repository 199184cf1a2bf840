"""Transposed convolutions on a GPU: a tiled product for the phases that are alike, see `te.ops.gemm_conv_transpose`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...ir.expr import Const
from ...ir.stmt import Assign, For, Program
from ...ir.visit import loops, path_to, walk
from ...schedule import Schedule
from ...target.cuda.machine import CudaTarget
from .conv2d import problem_of
from .flat import bind_nest
from .gemm_account import choose_tile
from .tile import Tile, tile_sum


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """The tile of each product, by what its names end with."""

    tiles: Mapping[str, Tile]


def choose_knobs(target: CudaTarget, program: Program) -> Knobs:
    """Defaults for any shape."""
    return Knobs(tiles={tag: choose_tile(target, problem_of(program, tag)) for tag in products(program)})


def schedule(target: CudaTarget, program: Program, knobs: Knobs | None = None) -> Schedule:
    """`te.ops.gemm_conv_transpose` scheduled with `knobs` (default: `choose_knobs`).

    The parameters W, one for each product, are packed, see `schedule.pack`.
    """
    knobs = knobs or choose_knobs(target, program)
    s = Schedule(program)
    for tag, tile in knobs.tiles.items():
        tile_sum(s, tile, (f"W{tag}",), tag)
    for node in walk(program):
        if isinstance(node, Assign) and node.name.removeprefix("post") not in knobs.tiles:
            _schedule_without_taps(s, program, node.name)
    return s


def products(program: Program) -> list[str]:
    """What the names of the stages of each product end with."""
    starts = [loop.name for loop in loops(program) if loop.name.startswith("gemm.k")]
    return [name.removeprefix("gemm.k") for name in starts]


def _schedule_without_taps(s: Schedule, program: Program, name: str) -> None:
    """A thread for each of these outputs."""
    around = [node for node in path_to(program, name) if isinstance(node, For)]
    bind_nest(s, [(loop.name, int(loop.extent.value)) for loop in around if isinstance(loop.extent, Const)])
