"""Transposed convolutions on a CPU, which are computed as one convolution for each phase (output pixels of equal
remainder modulo the stride), with register tiles like those of other convolutions.

Vectors run over a block of filters, or, if activations are not blocked (few filters), over columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from ...codegen.cpu.machine import CpuTarget
from ...ir.expr import Const
from ...ir.stmt import Program
from ...ir.types import DType
from ...ir.visit import loops
from ...schedule import Schedule
from ...te.blocks import Window
from .loops import parallel_loop, peel_ragged
from .register_tile import choose_positions

FILTERS = 4
"""Number of filters of a tile whose vectors run over columns; each input vector is used for this many filters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """Knobs of a transposed convolution: a tile of a phase is `rows` x `columns` output pixels x `vectors` blocks of
    filters.
    """

    rows: int
    columns: int
    vectors: int


def choose_knobs(target: CpuTarget, program: Program) -> Knobs:
    """Default knobs for any shape, optimized for the phase (outputs of equal remainder modulo the stride) with the most
    products.
    """
    shapes = {b.name: b.shape for b in program.parameters}
    blocks, co = shapes["Y"][2], shapes["Y"][5]
    extents = _extents(program)
    tags = _tags(extents)
    main = max(tags, key=lambda tag: _taps(extents, tag) * extents[f"y.{tag}"] * extents[f"x.{tag}"])
    oh, ow = extents[f"y.{main}"], extents[f"x.{main}"]
    if co == 1:
        vectors = min(blocks, FILTERS)
        rows = max(1, (target.vector_registers - vectors) // (2 * (vectors + 1)))
        return Knobs(rows=min(oh, rows), columns=target.lanes(DType.FLOAT32), vectors=vectors)
    depth = shapes["X"][2] * shapes["X"][5] * max(1, _taps(extents, main))
    rows, columns, vectors = choose_positions(target, (oh, ow, blocks), depth)
    return Knobs(rows=rows, columns=columns, vectors=vectors)


def schedule(target: CpuTarget, program: Program, window: Window, *, parallel: bool = False) -> Schedule:
    """Schedules a transposed `te.ops.blocked_convolution` of any shape; `window`: the window it was built with.

    W is packed ahead into tiles (`schedule.pack`). `parallel`: tiles of each phase run on the threads of the kernel's
    pool.
    """
    knobs = choose_knobs(target, program)
    shapes = {b.name: b.shape for b in program.parameters}
    batch, groups, blocks, _, _, co = shapes["Y"]
    s = Schedule(program)
    extents = _extents(program)
    tiles: list[str] = []
    for tag in _tags(extents):
        y_tile, y = s.split(f"y.{tag}", knobs.rows)
        x_tile, x = s.split(f"x.{tag}", knobs.columns)
        panel, o = s.split(f"o.{tag}", knobs.vectors)
        j = f"j.{tag}"
        s.reorder(f"n.{tag}", f"g.{tag}", panel, y_tile, x_tile, o, y, x, j)
        for loop, name in ((o, "o"), (y, "y"), (x, "x"), (j, "j")):
            vector = name == ("x" if co == 1 else "j")
            s.annotate(loop, "vectorize" if vector else "unroll")
        if _taps(extents, tag):
            conv = f"conv.{tag}"
            s.compute_at(conv, x_tile)
            s.set_scope(f"sum.{tag}", "register")
            # The loop over filters inside: a value of the input is loaded for all of them at once, see
            # `register_tile.fits`.
            order = ("ic", "kh", "kw", "k", "n", "g", "y", "x", "o", "j")
            s.reorder(*(f"{conv}.{v}" for v in order))
            for name in ("o", "y", "x", "j"):
                vector = name == ("x" if co == 1 else "j")
                s.annotate(f"{conv}.{name}", "vectorize" if vector else "unroll")
            s.decompose_reduction(conv, f"{conv}.ic")
        if parallel:
            counts = {
                f"n.{tag}": batch,
                f"g.{tag}": groups,
                panel: blocks / knobs.vectors,
                y_tile: extents[f"y.{tag}"] / knobs.rows,
                x_tile: extents[f"x.{tag}"] / knobs.columns,
            }
            outputs = batch * groups * blocks * co * extents[f"y.{tag}"] * extents[f"x.{tag}"]
            depth = shapes["X"][2] * shapes["X"][5] * max(1, _taps(extents, tag))
            parallel_loop(s, counts, outputs * depth / (2 * target.lanes(DType.FLOAT32)))
        tiles += [panel, y_tile, x_tile]
    # The weights of a phase's taps are contiguous, in panels, each with the filters of one tile.
    steps = [stride // gcd(stride, d) for stride, d in zip(window.strides, window.dilations, strict=True)]
    s.pack(
        "W",
        ((1, knobs.vectors * co), (2, shapes["X"][5]), (3, steps[0]), (4, steps[1])),
        (0, 7, 8, 1, 2, 3, 4, 6, 5),
    )
    peel_ragged(s, *tiles)
    return s


def _extents(program: Program) -> dict[str, int]:
    return {loop.name: int(loop.extent.value) for loop in loops(program) if isinstance(loop.extent, Const)}


def _tags(extents: dict[str, int]) -> list[str]:
    """For each phase of the transposed convolution, the suffix that the names of its loops have."""
    return [name.removeprefix("n.") for name in extents if name.startswith("n.")]


def _taps(extents: dict[str, int], tag: str) -> int:
    return extents.get(f"conv.{tag}.kh", 0) * extents.get(f"conv.{tag}.kw", 0)
