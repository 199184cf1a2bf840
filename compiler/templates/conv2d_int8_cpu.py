"""Quantized convolutions on a CPU: register tiles of output positions x filters, in dot products of four channels.

As `conv2d_cpu`, but for the steps: with a dot product instruction, four channels of a position, broadcast, times those
of a vector of filters; without one, a channel at a time in int32.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.expr import Const
from ..ir.stmt import For, Program
from ..ir.types import DType
from ..schedule import Schedule
from ..target.cpu.intrinsics import DOT_DEPTH, DOT_LANES, dot_u8s8
from ..target.cpu.machine import CpuTarget
from ..te.blocks import Window, ceil_div
from .borders import parallel_loop, parts_of, peel_ragged
from .conv2d_cpu import Knobs, choose_positions, row_block


def choose_knobs(target: CpuTarget, program: Program, window: Window) -> Knobs:
    """Defaults for any shape, from the sizes of registers and caches alone."""
    shapes = {b.name: b.shape for b in program.parameters}
    _, _, blocks, oh, ow, co = shapes["Y"]
    _, _, channels, kh, kw, ci = shapes["W"]
    if _dots(target, program):
        depth, registers = channels * kh * kw * ci // DOT_DEPTH, 1
    else:
        depth, registers = channels * kh * kw * ci, ceil_div(co, target.lanes(DType.INT32))
    # A block of filters may take several registers.
    room = replace(target, vector_registers=max(3, target.vector_registers // registers))
    rows, columns, vectors = choose_positions(room, oh, ow, blocks, depth)
    return Knobs(
        rows=rows,
        columns=columns,
        vectors=vectors,
        row_block=row_block(target, program, window, rows, ceil_div(blocks, vectors)),
    )


def schedule(
    target: CpuTarget, program: Program, window: Window, knobs: Knobs | None = None, *, parallel: bool = False
) -> Schedule:
    """`te.ops.int8_conv2d` scheduled with `knobs` (default: `choose_knobs`); W is packed, see `schedule.pack`.

    `parallel`: tiles run on the threads of the kernel's pool."""
    shapes = {b.name: b.shape for b in program.parameters}
    batch, _, blocks, oh, _, co = shapes["Y"]
    if knobs is None:
        knobs = choose_knobs(target, program, window)
    s = Schedule(program)
    y_block, y = s.split("y", knobs.row_block)
    y_tile, y = s.split(y, knobs.rows)
    x_tile, x = s.split("x", knobs.columns)
    panel, o = s.split("o", knobs.vectors)
    s.reorder("n", "g", y_block, panel, y_tile, x_tile, o, y, x, "j")
    s.compute_at("conv", x_tile)
    s.set_scope("sum", "register")
    if any(window.pads):
        # Stays in the scope of parameters, which is where the instruction takes its data from.
        s.compute_at("pad", y_block)
    tile = ("conv.n", "conv.g", "conv.o", "conv.y", "conv.x", "conv.j")
    dots = _dots(target, program)
    if dots:
        step, k = s.split("conv.k", DOT_DEPTH)
        s.reorder("conv.ic", "conv.kh", "conv.kw", step, *tile, k)
        s.unroll(k)
        s.pack("W", ((1, knobs.vectors * co), (5, DOT_DEPTH)), (0, 1, 2, 3, 4, 5, 6, 7))
    else:
        s.reorder("conv.ic", "conv.kh", "conv.kw", "conv.k", *tile)
        s.pack("W", ((1, knobs.vectors * co),), (0, 1, 2, 3, 4, 5, 6))
    for loop in (o, y, x, "conv.o", "conv.y", "conv.x"):
        s.unroll(loop)
    s.vectorize("j")
    s.vectorize("conv.j")
    s.decompose_reduction("conv", "conv.ic")
    if parallel:
        parallel_loop(
            s,
            {
                "n": batch,
                y_block: ceil_div(oh, knobs.row_block),
                panel: ceil_div(blocks, knobs.vectors),
                y_tile: ceil_div(min(oh, knobs.row_block), knobs.rows),
            },
        )
    peel_ragged(s, y_block, panel, y_tile, x_tile)
    if dots:
        for loop in parts_of(s, "conv.j"):
            steps = loop.body
            if isinstance(steps, For) and steps.extent == Const(DOT_DEPTH):
                s.tensorize(loop.name, dot_u8s8(co))
    return s


def _dots(target: CpuTarget, program: Program) -> bool:
    """Whether blocks are such that a dot product instruction takes them."""
    shapes = {b.name: b.shape for b in program.parameters}
    return target.dot_product and shapes["X"][5] % DOT_DEPTH == 0 and shapes["Y"][5] <= DOT_LANES
