"""Quantized convolutions on a CPU: register tiles of output pixels x filters, in dot products of four channels.

They are scheduled like the float convolutions of `conv2d`, except for the steps of a sum. With a dot product
instruction, a step multiplies four channels of one pixel, broadcast to all lanes, by four channels of a vector of
filters; without the instruction, a step takes one channel, in int32.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...codegen.cpu.intrinsics import DOT_DEPTH, DOT_LANES, dot_u8s8
from ...codegen.cpu.machine import CpuTarget
from ...ir.expr import Const
from ...ir.stmt import Copy, For, Program
from ...ir.types import DType
from ...ir.visit import walk
from ...schedule import Schedule
from ...te.blocks import ceil_div
from .loops import parallel_loop, parts_of, peel_ragged
from .register_tile import choose_positions
from .sketch.blocks import plan_blocks
from .sketch.roles import roles_of
from .sketch.sketch import find_sketches


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """Knobs of a quantized convolution: a tile is `samples` of the batch x `rows` x `columns` output pixels x `vectors`
    blocks of filters.

    `row_block`: number of output rows in a block, which share a padded input. Tiles have several samples if outputs
    have a single pixel, as in fully connected layers.
    """

    rows: int
    columns: int
    vectors: int
    row_block: int
    samples: int = 1


def choose_knobs(target: CpuTarget, program: Program) -> Knobs:
    """Default knobs for any shape, chosen from the sizes of registers and caches alone."""
    shapes = {b.name: b.shape for b in program.parameters}
    batch, _, blocks, oh, ow, co = shapes["Y"]
    _, _, channels, kh, kw, ci = shapes["W"]
    if _dots(target, program):
        depth, registers = channels * kh * kw * ci // DOT_DEPTH, 1
    else:
        depth, registers = channels * kh * kw * ci, ceil_div(co, target.lanes(DType.INT32))
    # A block of filters may take several registers.
    room = replace(target, vector_registers=max(3, target.vector_registers // registers))
    if oh == ow == 1:
        _, samples, vectors = choose_positions(room, (1, batch, blocks), depth)
        return Knobs(rows=1, columns=1, vectors=vectors, row_block=1, samples=samples)
    tile = choose_positions(room, (oh, ow, blocks), depth)
    rows, columns, vectors = tile
    return Knobs(rows=rows, columns=columns, vectors=vectors, row_block=_row_block(target, program, tile, oh))


def _row_block(target: CpuTarget, program: Program, tile: tuple[int, int, int], rows: int) -> int:
    """The number of output rows in a block with the least cost on one thread (`sketch.blocks`)."""
    sketches = find_sketches(program, target)
    summed = sketches.main
    assert summed is not None
    roles = roles_of(sketches, summed, summed.axles[-1], [a for a in summed.axles if a.name in ("y", "x")])
    if roles is None or rows == 1:
        return rows
    lengths = {"y": tile[0], "x": tile[1], "o": tile[2]}
    whole = {roles.lane.name: roles.lane.size}
    of_loop = {a.name: min(lengths[a.name] if a.name in lengths else 1, a.size) for a in summed.axles} | whole
    block = plan_blocks(sketches, summed, roles, of_loop, 0).block.get("y", 0)
    return block * tile[0] or rows


def schedule(target: CpuTarget, program: Program, *, parallel: bool = False) -> Schedule:
    """`te.ops.blocked_convolution` of `QuantizedSums` scheduled with the knobs of `choose_knobs`; W is packed ahead
    into tiles (`schedule.pack`).

    `parallel`: tiles run on the threads of the kernel's pool.
    """
    shapes = {b.name: b.shape for b in program.parameters}
    batch, _, blocks, oh, _, co = shapes["Y"]
    knobs = choose_knobs(target, program)
    s = Schedule(program)
    n_tile, n = s.split("n", knobs.samples)
    y_block, y = s.split("y", knobs.row_block)
    y_tile, y = s.split(y, knobs.rows)
    x_tile, x = s.split("x", knobs.columns)
    panel, o = s.split("o", knobs.vectors)
    if knobs.samples == 1:
        s.reorder(n_tile, "g", y_block, panel, y_tile, x_tile, n, o, y, x, "j")
    else:
        # A panel of weights stays in the cache for all samples.
        s.reorder("g", y_block, panel, n_tile, y_tile, x_tile, n, o, y, x, "j")
    s.compute_at("conv", x_tile)
    s.set_scope("sum", "register")
    if any(isinstance(node, Copy) for node in walk(program)):
        # The padded input stays in the scope of parameters, where the instruction's declaration expects its
        # data.
        s.compute_at("pad", y_block)
    tile = ("conv.n", "conv.g", "conv.y", "conv.x", "conv.o", "conv.j")
    dots = _dots(target, program)
    if dots:
        step, k = s.split("conv.k", DOT_DEPTH)
        s.reorder("conv.ic", "conv.kh", "conv.kw", step, *tile, k)
        s.unroll(k)
        s.pack("W", ((1, knobs.vectors * co), (5, DOT_DEPTH)), (0, 1, 2, 3, 4, 5, 6, 7))
    else:
        s.reorder("conv.ic", "conv.kh", "conv.kw", "conv.k", *tile)
        s.pack("W", ((1, knobs.vectors * co),), (0, 1, 2, 3, 4, 5, 6))
    for loop in (n, o, y, x, "conv.n", "conv.o", "conv.y", "conv.x"):
        s.unroll(loop)
    s.vectorize("j")
    s.vectorize("conv.j")
    s.decompose_reduction("conv", "conv.ic")
    if parallel:
        counts = {
            n_tile: ceil_div(batch, knobs.samples),
            y_block: ceil_div(oh, knobs.row_block),
            panel: ceil_div(blocks, knobs.vectors),
            y_tile: ceil_div(min(oh, knobs.row_block), knobs.rows),
        }
        if knobs.samples > 1:
            counts = {name: counts[name] for name in (panel, n_tile)}
        parallel_loop(s, counts)
    peel_ragged(s, y_block, panel, n_tile, y_tile, x_tile)
    if dots:
        for loop in parts_of(s, "conv.j"):
            steps = loop.body
            if isinstance(steps, For) and steps.extent == Const(DOT_DEPTH):
                s.tensorize(loop.name, dot_u8s8(co))
    return s


def _dots(target: CpuTarget, program: Program) -> bool:
    """Whether the target has a dot product instruction that fits the blocks of channels and filters."""
    shapes = {b.name: b.shape for b in program.parameters}
    return target.dot_product and shapes["X"][5] % DOT_DEPTH == 0 and shapes["Y"][5] <= DOT_LANES
