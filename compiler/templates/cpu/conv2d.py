"""Convolutions on a CPU: register tiles of output pixels x filters, directly on activations in blocks of channels.

A tile's sums are kept in registers and divided into partial sums, because rounding errors grow with the number of terms
added in sequence. Weights are packed in panels, each with the filters of one tile. Rows of outputs are computed in
blocks, whose padded input stays in the second-level cache for all panels. Sums over many channels are in memory instead
(`Knobs.strips`): part of a panel is added to all sums of a block before the next part.
"""

from __future__ import annotations

from math import prod

from ...codegen.cpu.machine import CpuTarget
from ...ir.expr import Binary
from ...ir.stmt import For, Program, Reduce
from ...ir.types import DType
from ...ir.visit import loops
from ...schedule import Schedule
from ...te.blocks import Window
from .conv2d_default import choose_knobs, conv_waits
from .conv2d_knobs import COPY_BYTES_CYCLE, Knobs, Taps, part_blocks, reduction_loops, taps_of
from .loops import has_loop, parallel_loop, parts_of, peel_ragged
from .partial_sums import PREFETCH_BYTES, named, ordered_terms, sum_in_memory, sum_in_parts, unroll_terms


def schedule(
    target: CpuTarget, program: Program, window: Window, knobs: Knobs | None = None, *, parallel: bool = False
) -> Schedule:
    """`te.ops.blocked_convolution` scheduled with `knobs` (default: `choose_knobs`); W is packed ahead into tiles
    (`schedule.pack`).

    `parallel`: tiles run on the threads of the kernel's pool.
    """
    shapes = {b.name: b.shape for b in program.parameters}
    batch, groups, blocks, oh, ow, co = shapes["Y"]
    ci = shapes["X"][5]
    if knobs is None:
        knobs = choose_knobs(target, program, window, parallel=parallel)
    s = Schedule(program)
    y_block, y = s.split("y", knobs.row_block)
    y_tile, y = s.split(y, knobs.rows)
    x_block, x = s.split("x", knobs.column_block or ow)
    x_tile, x = s.split(x, knobs.columns)
    terms = reduction_loops(program)
    order = [(name, terms[name]) for name in knobs.reduction]
    part = part_blocks(program) if knobs.part is None else knobs.part
    if part is not None and part >= order[0][1]:
        part = None
    # If a part is the whole sum, the sum needs no memory: it is complete when it leaves the registers.
    stored = knobs.strips is not None and part is not None
    panel, o = s.split("o", knobs.vectors * (knobs.strips or 1 if stored else 1))
    strip, o = s.split(o, knobs.vectors) if stored else (None, o)
    lanes = knobs.lanes or co
    # A block of filters is one vector, or the loop over its vectors is unrolled.
    halves, j = s.split("j", lanes) if lanes < co else (None, "j")
    around = {
        "inside": (y_block, x_block, panel),
        "between": (y_block, panel, x_block),
        "outside": (panel, y_block, x_block),
    }[knobs.panels]
    tiles = (y_tile, x_tile) if knobs.tiles == "rows" else (x_tile, y_tile)
    strips = () if strip is None else (strip,)
    s.reorder("n", "g", *around, *strips, *tiles, o, y, x, *([halves] if halves else []), j)
    s.compute_at("conv", around[-1] if stored else tiles[1])
    s.set_scope("sum", "workspace" if stored else "register")
    _copy_input(s, window, knobs, y_block, x_block)
    ordered, unrolled = ordered_terms(s, "conv", order, knobs.unroll)
    vector = ["conv.j"]
    if halves:
        vector = list(s.split("conv.j", lanes))
    # The loop over filters inside: each loaded value of the input serves all of them, see
    # `register_tile.fits`.
    inside = ["conv.y", "conv.x", "conv.o", *vector]
    if knobs.inner == "positions":
        inside = ["conv.o", *vector[:-1], "conv.y", "conv.x", vector[-1]]
    inside = ["conv.n", "conv.g", *inside]
    passes: tuple[str, ...] = ()
    if stored and part is not None:
        cuts = {"conv.o": knobs.vectors, "conv.y": knobs.rows, "conv.x": knobs.columns}
        if knobs.tiles == "columns":
            cuts = {name: cuts[name] for name in ("conv.o", "conv.x", "conv.y")}
        summed = sum_in_memory(s, "conv", "sum", ordered, inside, part, cuts)
        passes = tuple(f"{loop}.0" for loop in cuts)
    else:
        summed = named(inside, *sum_in_parts(s, "conv", "sum", ordered, inside, part))
    unroll_terms(s, unrolled)
    for loop in (o, y, x, *([halves] if halves else [])):
        s.unroll(loop)
    s.vectorize(j)
    for names in summed:
        for loop in ("conv.o", "conv.y", "conv.x", *vector[:-1]):
            if loop in names:
                s.unroll(names[loop])
        s.vectorize(names[vector[-1]])
    # Weights are packed in the order in which the sum reads them.
    position = {"ic": 2, "kh": 3, "kw": 4, "k": 6}
    s.pack("W", ((1, knobs.vectors * co), (2, ci)), (0, 1, *(position[name] for name in knobs.reduction), 5))
    if parallel:
        counts = {
            "n": batch,
            "g": groups,
            y_block: oh / knobs.row_block,
            x_block: ow / (knobs.column_block or ow),
            panel: blocks / knobs.vectors,
            y_tile: min(oh, knobs.row_block) / knobs.rows,
            x_tile: min(ow, knobs.column_block or ow) / knobs.columns,
        }
        # The innermost loop over tiles would leave little work between two forks.
        counts = {name: counts[name] for name in ("n", "g", *around, tiles[0])}
        cycles = prod(shapes["Y"]) * prod(shapes["W"][2:]) / (2 * target.lanes(DType.FLOAT32))
        copied = prod(shapes["X"]) * 4 / COPY_BYTES_CYCLE if any(window.pads) else 0.0
        parallel_loop(s, counts, cycles, {x_block if knobs.copy == "columns" else y_block: copied})
    peel_ragged(s, *around, *passes, *strips, *tiles)
    if any(window.pads):
        _skip_dead_taps(s, taps_of(window, *shapes["X"][3:5]), knobs, ordered)
    if knobs.unroll == 1 and conv_waits(target, program, knobs):
        # If a sum is cut into parts, loops of one iteration are in both nests; weights are read in the nest
        # of parts (".rf").
        innermost = f"{ordered[-1]}.rf" if has_loop(s, f"{ordered[-1]}.rf") else ordered[-1]
        for loop in parts_of(s, innermost):
            s.prefetch(loop.name, "W", PREFETCH_BYTES)
    return s


def _skip_dead_taps(s: Schedule, taps: tuple[Taps, Taps], knobs: Knobs, ordered: tuple[str, ...]) -> None:
    """Adds branches that skip rows and columns of the window that read only pads, if that saves enough products
    (`Taps.live`).
    """
    rows, columns = taps
    blocks = {"kh": (rows, knobs.rows, knobs.row_block), "kw": (columns, knobs.columns, knobs.column_block)}
    for name, (along, tile, block) in blocks.items():
        if along.live(tile, block or along.outputs) == 1:
            continue
        for term in ordered:
            if term.split(".")[1] == name:
                for loop in _innermost(s, term):
                    s.skip_pads(loop)


def _innermost(s: Schedule, term: str) -> list[str]:
    """Splits and partial sums cut the reduction loop `term` into several loops. Returns the names of those that are the
    innermost reduction loop around a sum of products.
    """
    found: list[str] = []
    for loop in loops(s.program):
        inside, node = "", loop
        while isinstance(node, For):
            if node.name == term or node.name.startswith(f"{term}."):
                inside = node.name
            node = node.body
        if isinstance(node, Reduce) and isinstance(node.value, Binary) and inside == loop.name:
            found.append(inside)
    return found


def _copy_input(s: Schedule, window: Window, knobs: Knobs, y_block: str, x_block: str) -> None:
    """Schedules the copy of the (padded) input, for the part of the input that `knobs.copy` names. `y_block`,
    `x_block`: loops over blocks of rows and of columns.
    """
    padded = any(window.pads)
    what = knobs.copy or ("rows" if padded else "none")
    at = {"rows": y_block, "columns": x_block, "whole": None, "none": None}[what]
    if not padded:
        if at is not None:
            s.cache_read("X", at, "workspace")
        return
    if at is not None:
        s.compute_at("pad", at)
    s.set_scope("padded", "workspace")
