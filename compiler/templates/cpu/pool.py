"""Pools on a CPU: tiles of output positions, directly from the input; tiles along borders are separate kernels.

Vectors run over channels if these are innermost, else over columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...codegen.cpu.machine import CpuTarget
from ...ir.stmt import Program
from ...ir.types import DType
from ...schedule import Schedule
from ...te.blocks import Window, ceil_div
from .loops import GRAIN, parallel_loop, peel_ends, peel_ragged, vector_width

ROWS, COLUMNS = 2, 4
"""Default output positions of a tile: rows if vectors run over columns, columns if they run over channels."""
UNROLLED = 16
"""Largest window, in positions, that is unrolled by default; larger windows are loops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """A tile is `rows` x `columns` output positions of `width` channels.

    Vectors run over channels or, if there is only one, over all columns of a tile. `tiles`: the outer loop over tiles.
    `window`: the window's loops, outermost first; `unroll`: whether they are unrolled.
    """

    rows: int
    columns: int
    width: int
    tiles: Literal["rows", "columns"] = "rows"
    window: tuple[str, str] = ("kh", "kw")
    unroll: bool = True


def choose_knobs(target: CpuTarget, program: Program, window: Window) -> Knobs:
    """Defaults for any shape."""
    channels = program.parameters[-1].shape[-1]
    rows, columns = (ROWS, target.lanes(DType.FLOAT32)) if channels == 1 else (1, COLUMNS)
    return Knobs(
        rows=rows,
        columns=columns,
        width=vector_width(target, channels, 2),
        unroll=window.kernel[0] * window.kernel[1] <= UNROLLED,
    )


def schedule(
    target: CpuTarget, program: Program, window: Window, knobs: Knobs | None = None, *, parallel: bool = False
) -> Schedule:
    """`te.ops.float_pool` for any shape and the `window` it was built with (`knobs`: default `choose_knobs`).

    `parallel`: rows or channels run on the threads of the kernel's pool, where there is enough to do.
    """
    shapes = {b.name: b.shape for b in program.parameters}
    outer, oh, ow, lanes = shapes["Y"]
    s = Schedule(program)
    if any(window.pads):
        s.expand_copy("pad")
        s.compute_inline("pad")
    if knobs is None:
        knobs = choose_knobs(target, program, window)
    rows, columns, width = knobs.rows, knobs.columns, knobs.width
    channels, j = s.split("j", width)
    y_tile, y = s.split("y", rows)
    x_tile, x = s.split("x", columns)
    tiles = (y_tile, x_tile) if knobs.tiles == "rows" else (x_tile, y_tile)
    s.reorder("n", channels, *tiles, y, x, j)
    s.compute_at("pool", tiles[1])
    s.set_scope("window", "register")
    taps = [f"pool.{loop}" for loop in knobs.window]
    s.reorder(*taps, "pool.n", "pool.y", "pool.x", "pool.j")
    for loop in (y, "pool.y", *(taps if knobs.unroll else ())):
        s.unroll(loop)
    if lanes == 1:
        s.vectorize(x)
        s.vectorize("pool.x")
    else:
        for loop in (x, "pool.x"):
            s.unroll(loop)
        s.vectorize(j)
        s.vectorize("pool.j")
    s.decompose_reduction("pool", taps[0])
    steps = outer * oh * ow * lanes * window.kernel[0] * window.kernel[1]
    if parallel and steps >= 2 * GRAIN:
        counts = {"n": outer, channels: ceil_div(lanes, width), y_tile: ceil_div(oh, rows)}
        if knobs.tiles == "columns":
            counts = {"n": outer, channels: ceil_div(lanes, width), x_tile: ceil_div(ow, columns)}
        parallel_loop(s, counts, steps / target.lanes(DType.FLOAT32))
    top, left, bottom, right = window.pads
    ends = {
        y_tile: (top > 0, bottom > 0 or oh % rows > 0),
        x_tile: (left > 0, right > 0 or ow % columns > 0),
    }
    for part in peel_ends(s, tiles[0], *ends[tiles[0]]):
        peel_ends(s, f"{tiles[1]}{part}", *ends[tiles[1]])
    peel_ragged(s, channels)
    return s
