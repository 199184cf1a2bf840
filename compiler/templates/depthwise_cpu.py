"""Depthwise convolutions on a CPU: tiles of output positions of one block of channels, straight from the input.

Nothing is padded: the tiles along the border are kernels of their own, in which what lies outside is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..ir.stmt import Program
from ..ir.types import DType
from ..schedule import Schedule
from ..target.cpu.machine import CpuTarget
from ..te.blocks import Window, ceil_div
from .borders import parallel_loop, peel_ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """A tile is `rows` x `columns` output positions."""

    rows: int
    columns: int


def choose_knobs(target: CpuTarget, program: Program, window: Window) -> Knobs:
    """Defaults for any shape."""
    return Knobs(rows=2, columns=7)


def schedule(
    target: CpuTarget, program: Program, window: Window, knobs: Knobs | None = None, *, parallel: bool = False
) -> Schedule:
    """`te.ops.float_depthwise` scheduled with `knobs` (default: `choose_knobs`).

    `parallel`: blocks of channels run on the threads of the kernel's pool.
    """
    shapes = {b.name: b.shape for b in program.parameters}
    if knobs is None:
        knobs = choose_knobs(target, program, window)
    s = Schedule(program)
    if any(window.pads):
        s.expand_copy("pad")
        s.compute_inline("pad")
    y_tile, y = s.split("y", knobs.rows)
    x_tile, x = s.split("x", knobs.columns)
    s.reorder("n", "c", y_tile, x_tile, y, x, "j")
    s.compute_at("conv", x_tile)
    s.set_scope("sum", "register")
    s.reorder("conv.kh", "conv.kw", "conv.n", "conv.c", "conv.y", "conv.x", "conv.j")
    for loop in (y, x, "conv.kh", "conv.kw", "conv.y", "conv.x"):
        s.unroll(loop)
    s.vectorize("j")
    s.vectorize("conv.j")
    batch, blocks, oh, ow, block = shapes["Y"]
    s.decompose_reduction("conv", "conv.kh")
    if parallel:
        cycles = batch * blocks * oh * ow * prod(window.kernel) * ceil_div(block, target.lanes(DType.FLOAT32))
        counts = {"n": batch, "c": blocks, y_tile: ceil_div(oh, knobs.rows)}
        parallel_loop(s, counts, cycles)
    top, left, bottom, right = window.pads
    parts = peel_ends(s, y_tile, top > 0, bottom > 0 or oh % knobs.rows > 0)
    for part in parts:
        peel_ends(s, f"{x_tile}{part}", left > 0, right > 0 or ow % knobs.columns > 0)
    return s
