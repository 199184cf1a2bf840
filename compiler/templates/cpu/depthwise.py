"""Depthwise convolutions on a CPU: tiles of output positions of one block of channels, directly from the input.

By default the input is not copied with pads: tiles along the border are separate kernels, which skip positions outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

from ...codegen.cpu.machine import CpuTarget
from ...ir.expr import Call
from ...ir.stmt import Assign, Program
from ...ir.types import DType
from ...ir.visit import walk, walk_expr
from ...schedule import Schedule
from ...te.blocks import Window, ceil_div
from .loops import parallel_loop, peel_ends, peel_ragged


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """Knobs of a depthwise convolution: a tile is `rows` x `columns` output positions; `tiles`: the outer one of the
    loops over tiles.

    `copy`: the part of the input that is first copied with pads: the "whole" plane of a block of channels, or "rows" of
    a block of `row_block` rows; "none" needs no block and unrolls the whole window. `channels`: place of the loop over
    blocks of channels, "outside" or "inside" the loop over blocks of rows. `column_block`: columns of a block (None:
    all). `window`: the loops of the sum, outermost first; the innermost `unroll` of them are unrolled. `inside`: the
    innermost loops of a tile: its positions or, if it is all unrolled, the window. `lanes`: lanes of a vector (None:
    all).
    """

    rows: int
    columns: int
    tiles: Literal["rows", "columns"] = "rows"
    copy: Literal["none", "whole", "rows"] = "none"
    channels: Literal["outside", "inside"] = "outside"
    row_block: int | None = None
    column_block: int | None = None
    window: tuple[str, str] = ("kh", "kw")
    unroll: int = 2
    inside: Literal["positions", "window"] = "positions"
    lanes: int | None = None


def choose_knobs(target: CpuTarget, program: Program, window: Window) -> Knobs:
    """Default knobs for any shape: tiles of 2 x 7 positions."""
    return with_copy(target, program, window, rows=2, columns=7)


def with_copy(target: CpuTarget, program: Program, window: Window, *, rows: int, columns: int) -> Knobs:
    """Knobs for tiles of this size, with a padded copy of the input if borders are wider than the tiles along them.

    Without the copy, inner tiles would also test for every tap whether it is inside: a 7x7 window took four times as
    long and fourteen times the code.
    """
    shapes = {buffer.name: buffer.shape for buffer in program.parameters}
    (height, width), (oh, ow, block) = shapes["X"][2:4], shapes["Y"][2:]
    if _ends_hold_borders(window, 0, height, oh, rows) and _ends_hold_borders(window, 1, width, ow, columns):
        return Knobs(rows=rows, columns=columns)
    top, left, bottom, right = window.pads
    item = next(buffer.dtype.numpy.itemsize for buffer in program.parameters if buffer.name == "X")
    line = (left + width + right) * block * item
    room = target.cache_bytes[1] // 2  # Outputs and the input share the cache.
    if (top + height + bottom) * line <= room:
        return Knobs(rows=rows, columns=columns, copy="whole")
    fitting = max(1, room // line // (rows * window.strides[0]))
    return Knobs(rows=rows, columns=columns, copy="rows", row_block=rows * fitting)


def _ends_hold_borders(window: Window, axis: int, size: int, outputs: int, tile: int) -> bool:
    """Whether all windows that reach outside along an axis belong to the first or the last tile."""
    stride, before = window.strides[axis], window.pads[axis]
    reach = (window.kernel[axis] - 1) * window.dilations[axis] - before
    last = outputs - (outputs % tile or tile)
    first_beyond = max(0, -((reach - size) // stride))
    return ceil_div(before, stride) <= tile and first_beyond >= last


def schedule(
    target: CpuTarget, program: Program, window: Window, knobs: Knobs | None = None, *, parallel: bool = False
) -> Schedule:
    """`te.ops.blocked_convolution.blocked_depthwise` scheduled with `knobs` (default: `choose_knobs`).

    `parallel`: blocks of channels run on the threads of the kernel's pool.
    """
    shapes = {b.name: b.shape for b in program.parameters}
    if knobs is None:
        knobs = choose_knobs(target, program, window)
    batch, blocks, oh, ow, block = shapes["Y"]
    padded = any(window.pads)
    s = Schedule(program)
    if padded and knobs.copy == "none":
        s.expand_copy("pad")
        s.compute_inline("pad")
    y_block, y = (None, "y") if knobs.row_block is None else s.split("y", knobs.row_block)
    x_block, x = (None, "x") if knobs.column_block is None else s.split("x", knobs.column_block)
    y_tile, y = s.split(y, knobs.rows)
    x_tile, x = s.split(x, knobs.columns)
    lanes = knobs.lanes or block
    halves, j = (None, "j") if lanes >= block else s.split("j", lanes)
    outer = ("c", y_block) if knobs.channels == "outside" else (y_block, "c")
    tiles = (y_tile, x_tile) if knobs.tiles == "rows" else (x_tile, y_tile)
    nest = [loop for loop in ("n", *outer, x_block, *tiles) if loop is not None]
    in_tile = [loop for loop in (y, x, halves) if loop is not None]
    s.reorder(*nest, *in_tile, j)
    s.compute_at("conv", tiles[1])
    s.set_scope("sum", "register")
    if padded and knobs.copy != "none":
        innermost = [loop for loop in outer if loop is not None][-1]
        s.compute_at("pad", "c" if knobs.copy == "whole" else innermost)
        s.set_scope("padded", "workspace")
    taps = [f"conv.{loop}" for loop in knobs.window]
    vector = ["conv.j"] if halves is None else list(s.split("conv.j", lanes))
    positions = ["conv.y", "conv.x", *vector[:-1]]
    inner = [*taps, "conv.n", "conv.c", *positions]
    if knobs.inside == "window":
        inner = ["conv.n", "conv.c", *positions, *taps]
    s.reorder(*inner, vector[-1])
    written_out = in_tile
    if knobs.unroll == len(taps) and _calls(program):
        # Sums are complete before the epilogue begins, so a loop over columns reads them from memory at no
        # cost. Unrolled, the epilogue's function calls would be most of the code.
        written_out = [loop for loop in in_tile if loop != x]
    for loop in (*written_out, *taps[len(taps) - knobs.unroll :], *positions):
        s.unroll(loop)
    s.vectorize(j)
    s.vectorize(vector[-1])
    s.decompose_reduction("conv", taps[0])
    if parallel:
        cycles = batch * blocks * oh * ow * prod(window.kernel) * ceil_div(block, target.lanes(DType.FLOAT32))
        rows, columns = knobs.row_block or oh, knobs.column_block or ow
        counts = {
            "n": batch,
            "c": blocks,
            y_block: oh / rows,
            x_block: ow / columns,
            y_tile: ceil_div(min(rows, oh), knobs.rows),
            x_tile: ceil_div(min(columns, ow), knobs.columns),
        }
        parallel_loop(s, {loop: counts[loop] for loop in nest[:-1]}, cycles)
    if y_block is not None or x_block is not None or knobs.copy != "none":
        peel_ragged(s, *nest[1:])
        return s
    top, left, bottom, right = window.pads
    ends = {
        y_tile: (top > 0, bottom > 0 or oh % knobs.rows > 0),
        x_tile: (left > 0, right > 0 or ow % knobs.columns > 0),
    }
    for part in peel_ends(s, tiles[0], *ends[tiles[0]]):
        peel_ends(s, f"{tiles[1]}{part}", *ends[tiles[1]])
    return s


def _calls(program: Program) -> bool:
    """Whether the epilogue calls functions, each dozens of instructions long."""
    return any(
        isinstance(node, Assign) and any(isinstance(e, Call) for e in walk_expr(node.value))
        for node in walk(program)
    )
