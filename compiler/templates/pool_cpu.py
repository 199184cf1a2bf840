"""Pools on a CPU: tiles of output positions, straight from the input; tiles along borders are kernels of their own.

Vectors run over channels where they are innermost, else over columns.
"""

from __future__ import annotations

from ..ir.stmt import Program
from ..ir.types import DType
from ..schedule import Schedule
from ..target.cpu.machine import CpuTarget
from ..te.blocks import Window, ceil_div
from .borders import parallel_loop, peel_ends, peel_ragged
from .vectors import GRAIN, vector_width

ROWS, COLUMNS = 2, 4
"""Output positions of a tile: rows where vectors run over columns, columns where they run over channels."""
UNROLLED = 16
"""Positions of a window up to which a tile's code is written out; larger windows are loops."""


def schedule(target: CpuTarget, program: Program, window: Window, *, parallel: bool = False) -> Schedule:
    """`te.ops.float_pool` for any shape and the `window` it was built with.

    `parallel`: rows or channels run on the threads of the kernel's pool, where there is enough to do.
    """
    shapes = {b.name: b.shape for b in program.parameters}
    outer, oh, ow, lanes = shapes["Y"]
    s = Schedule(program)
    if any(window.pads):
        s.expand_copy("pad")
        s.compute_inline("pad")
    rows, columns = (ROWS, target.lanes(DType.FLOAT32)) if lanes == 1 else (1, COLUMNS)
    width = vector_width(target, lanes, 2)
    channels, j = s.split("j", width)
    y_tile, y = s.split("y", rows)
    x_tile, x = s.split("x", columns)
    s.reorder("n", channels, y_tile, x_tile, y, x, j)
    s.compute_at("pool", x_tile)
    s.set_scope("window", "register")
    s.reorder("pool.kh", "pool.kw", "pool.n", "pool.y", "pool.x", "pool.j")
    small = window.kernel[0] * window.kernel[1] <= UNROLLED
    for loop in (y, "pool.y", *(("pool.kh", "pool.kw") if small else ())):
        s.unroll(loop)
    if lanes == 1:
        s.vectorize(x)
        s.vectorize("pool.x")
    else:
        for loop in (x, "pool.x"):
            s.unroll(loop)
        s.vectorize(j)
        s.vectorize("pool.j")
    s.decompose_reduction("pool", "pool.kh")
    steps = outer * oh * ow * lanes * window.kernel[0] * window.kernel[1]
    if parallel and steps >= 2 * GRAIN:
        counts = {"n": outer, channels: ceil_div(lanes, width), y_tile: ceil_div(oh, rows)}
        parallel_loop(s, counts, steps / target.lanes(DType.FLOAT32))
    top, left, bottom, right = window.pads
    for part in peel_ends(s, y_tile, top > 0, bottom > 0 or oh % rows > 0):
        peel_ends(s, f"{x_tile}{part}", left > 0, right > 0 or ow % columns > 0)
    peel_ragged(s, channels)
    return s
