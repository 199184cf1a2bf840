"""Convolutions on a CPU: register tiles of output positions x filters, directly on activations in blocks of channels.

A tile sums up its whole window in registers, in parts that are added up: rounding errors grow with the length of a
sum. Weights are packed in panels of one tile's filters. Rows of outputs are
done in blocks, whose padded input stays in the second-level cache while the panels pass over it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..ir.stmt import Program
from ..schedule import Schedule
from ..target.cpu.machine import CpuTarget
from ..te.blocks import Window, ceil_div
from .borders import parallel_loop, peel_ragged
from .partial_sums import part_size, sum_in_parts
from .register_tile import TILE_OVERHEAD, fits, step_cycles

REMOTE_BYTES_CYCLE = 8.0
"""Bytes a cycle from beyond the second-level cache, as far as they do not hide behind the arithmetic."""
COPY_BYTES_CYCLE = 16.0
"""Bytes a cycle of copying an input into its padded form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """A tile is `rows` x `columns` output positions x `vectors` blocks of filters; `row_block` rows share an input."""

    rows: int
    columns: int
    vectors: int
    row_block: int


def flattened(window: Window, height: int, width: int) -> tuple[int, int]:
    """The height and width to compute a convolution with: one row, where every position is by itself."""
    alone = window.kernel == (1, 1) and window.strides == (1, 1) and not any(window.pads)
    return (1, height * width) if alone else (height, width)


def choose_knobs(target: CpuTarget, program: Program, window: Window) -> Knobs:
    """Defaults for any shape, from the sizes of registers and caches alone."""
    shapes = {b.name: b.shape for b in program.parameters}
    _, _, blocks, oh, ow, _ = shapes["Y"]
    _, _, channels, kh, kw = shapes["W"]
    rows, columns, vectors = choose_positions(target, oh, ow, blocks, channels * kh * kw)
    return Knobs(
        rows=rows,
        columns=columns,
        vectors=vectors,
        row_block=row_block(target, program, window, rows, -(-blocks // vectors)),
    )


def choose_positions(target: CpuTarget, oh: int, ow: int, blocks: int, depth: int) -> tuple[int, int, int]:
    """The rows, columns and blocks of filters of a register tile with the least estimated time.

    `oh` x `ow` positions of `blocks` blocks of filters sum up `depth` products each.
    """
    best: tuple[float, int, int, int] | None = None
    for vectors in range(1, min(blocks, 8) + 1):
        for rows in range(1, min(oh, 6) + 1):
            for columns in range(1, min(ow, target.vector_registers) + 1):
                if not fits(target, rows * columns, vectors):
                    break
                cost = 0.0
                for height_, n in ((rows, oh // rows), (oh % rows, 1)):
                    for width_, m in ((columns, ow // columns), (ow % columns, 1)):
                        for depth_, k in ((vectors, blocks // vectors), (blocks % vectors, 1)):
                            if height_ and width_ and depth_:
                                step = step_cycles(height_ * width_, depth_)
                                cost += n * m * k * (step * depth + TILE_OVERHEAD * height_ * width_)
                key = (cost, -rows * columns * vectors, vectors, rows)
                if best is None or key < best:
                    best = key
    assert best is not None
    _, size, vectors, rows = best
    return rows, -size // vectors // rows, vectors


def row_block(target: CpuTarget, program: Program, window: Window, rows: int, panels: int) -> int:
    """How many rows of outputs to do at a time: the least bytes from beyond the second-level cache, and copied."""
    shapes = {b.name: b.shape for b in program.parameters}
    element = program.parameters[0].dtype.bits // 8
    _, _, blocks, _, width, lanes = shapes["X"]
    oh = shapes["Y"][3]
    weights = prod(shapes["W"][1:]) * element
    line = blocks * lanes * width * element
    span = (window.kernel[0] - 1) * window.dilations[0] + 1
    near = target.cache_bytes[1] * 0.75
    best: tuple[float, int] | None = None
    for block in range(rows, oh + rows, rows):
        count = -(-oh // block)
        taken = line * ((min(block, oh) - 1) * window.strides[0] + span)
        panel = weights / panels
        # Panels come anew for each block of rows, unless all stay; rows for each panel, unless they stay.
        remote = weights * (count if weights + taken > near else 1)
        remote += count * taken * (panels if panel + taken > near else 1)
        cost = remote / REMOTE_BYTES_CYCLE
        if any(window.pads):
            cost += count * taken / COPY_BYTES_CYCLE
            # A small padded copy is still in the first-level cache when it is read.
            cost += 0 if taken < near / 4 else count * taken / COPY_BYTES_CYCLE
        if best is None or cost < best[0]:
            best = (cost, block)
    assert best is not None
    return best[1]


def part_blocks(program: Program) -> int | None:
    """How many blocks of channels make a part of a sum; None where the sum is short."""
    shapes = {b.name: b.shape for b in program.parameters}
    blocks, lanes = shapes["X"][2], shapes["X"][5]
    products = lanes * shapes["W"][3] * shapes["W"][4]
    return part_size(blocks * products, products)


def schedule(
    target: CpuTarget, program: Program, window: Window, knobs: Knobs | None = None, *, parallel: bool = False
) -> Schedule:
    """`te.ops.float_conv2d` scheduled with `knobs` (default: `choose_knobs`); W is packed, see `schedule.pack`.

    `parallel`: tiles run on the threads of the kernel's pool."""
    shapes = {b.name: b.shape for b in program.parameters}
    batch, _, blocks, oh, _, co = shapes["Y"]
    ci = shapes["X"][5]
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
        s.compute_at("pad", y_block)
        s.set_scope("padded", "workspace")
    summed = sum_in_parts(
        s,
        "conv",
        "sum",
        ("conv.ic", "conv.kh", "conv.kw", "conv.k"),
        ("conv.n", "conv.g", "conv.o", "conv.y", "conv.x", "conv.j"),
        part_blocks(program),
    )
    for loop in (o, y, x):
        s.unroll(loop)
    s.vectorize("j")
    for suffix in summed:
        for loop in ("conv.o", "conv.y", "conv.x"):
            s.unroll(f"{loop}{suffix}")
        s.vectorize(f"conv.j{suffix}")
    s.pack("W", ((1, knobs.vectors * co), (2, ci)), (0, 1, 2, 3, 4, 6, 5))
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
    return s
