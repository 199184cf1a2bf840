"""Batches of matrix products on a CPU: the register tiles of `dense`, over panels of W that are copied at run time.

A panel (one tile's columns, the whole depth) is copied if enough tiles of rows use it, so that its rows are adjacent in
memory. A transposed W is always copied: it could not be read in vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...codegen.cpu.machine import CpuTarget
from ...ir.expr import Load
from ...ir.stmt import Program, Reduce
from ...ir.types import DType
from ...ir.visit import walk, walk_expr
from ...schedule import Schedule
from . import dense as dense_cpu
from .loops import GRAIN, parallel_loop, peel_ragged

COPIED_ROWS = 32
"""Least number of rows of X at which copying a panel pays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """`tiles`: knobs of `dense`. `copy`: whether panels of W are copied."""

    tiles: dense_cpu.Knobs
    copy: bool


def choose_knobs(target: CpuTarget, program: Program) -> Knobs:
    """Defaults for any shape."""
    rows, depth, columns = _sizes(program)
    tiles = dense_cpu.choose_knobs(target, rows, depth, columns)
    return Knobs(tiles=tiles, copy=rows >= COPIED_ROWS or _transposed(program))


def schedule(
    target: CpuTarget, program: Program, knobs: Knobs | None = None, *, parallel: bool = False
) -> Schedule:
    """`te.ops.product` scheduled with `knobs` (default: `choose_knobs`).

    `parallel`: matrices or tiles run on the threads of the kernel's pool."""
    knobs = knobs or choose_knobs(target, program)
    rows, depth, columns = _sizes(program)
    batch = program.parameters[-1].shape[:-2]
    lanes = target.lanes(DType.FLOAT32)
    width = lanes * knobs.tiles.vectors
    s = Schedule(program)
    tiles = dense_cpu.cut_tiles(s, knobs.tiles, width)
    if knobs.tiles.stage:
        copy = s.cache_read("X", tiles.block, "workspace")
        s.expand_copy(copy)
        inner = len(batch) + 1
        s.split(f"{copy}.{inner}", lanes)
        s.vectorize(f"{copy}.{inner}.1")
        s.pack(copy, ((inner, lanes),), (*range(len(batch)), inner, inner - 1, inner + 1))
    if knobs.copy:
        copy = s.cache_read("W", tiles.columns, "workspace")
        if _transposed(program):
            s.expand_copy(copy)
            order = (*range(len(batch)), len(batch) + 1, len(batch))
            s.pack(copy, (), order)
            vectors, lane = s.split(f"{copy}.{order[-2]}", lanes)
            s.vectorize(lane)
            peel_ragged(s, vectors)
    j_vector, lane = s.split(tiles.j, lanes)
    sum_vector, sum_lane = s.split("dense.j", lanes)
    s.reorder("dense.k", "dense.i", sum_vector, sum_lane)
    for loop in (tiles.i, j_vector, "dense.i", sum_vector):
        s.unroll(loop)
    s.vectorize(lane)
    s.vectorize(sum_lane)
    s.decompose_reduction("dense", "dense.k")
    if parallel and prod(batch) * rows * depth * columns >= 2 * GRAIN:
        counts: dict[str, float] = {f"b{d}": size for d, size in enumerate(batch)}
        counts |= {
            tiles.block: rows / knobs.tiles.row_block,
            tiles.columns: columns / width,
            tiles.rows: min(rows, knobs.tiles.row_block) / knobs.tiles.rows,
        }
        parallel_loop(s, counts, prod(batch) * rows * depth * columns / (2 * lanes))
    peel_ragged(s, tiles.block, tiles.columns, tiles.rows)
    return s


def _sizes(program: Program) -> tuple[int, int, int]:
    shapes = {b.name: b.shape for b in program.parameters}
    rows, depth = shapes["X"][-2:]
    return rows, depth, shapes["Y"][-1]


def _transposed(program: Program) -> bool:
    """Whether W's last index is the summed one."""
    reduce = next(s for s in walk(program) if isinstance(s, Reduce))
    (weight,) = (e for e in walk_expr(reduce.value) if isinstance(e, Load) and e.buffer.name == "W")
    return weight.indices[-2] == reduce.indices[-1]
