"""Changes of layout on a CPU: square tiles of channels x positions, which code generation transposes in registers."""

from __future__ import annotations

from ...codegen.cpu.machine import CpuTarget
from ...ir.stmt import Program
from ...ir.types import DType
from ...schedule import Schedule
from .borders import peel_ragged
from .vectors import parallel_grains, vectorize_loop

LEAST_BLOCK = 4
"""Least number of channels of a block for tiles; smaller blocks are loaded with strides."""


def schedule(target: CpuTarget, program: Program, *, parallel: bool = False) -> Schedule:
    """`te.ops.relayout` for any shape. `parallel`: chunks run on the threads of the kernel's pool."""
    x, y = (b.shape for b in program.parameters)
    s = Schedule(program)
    block = (x if len(x) == 4 else y)[-1]
    tiles = program.parameters[0].dtype is DType.FLOAT32
    if len(x) == len(y) or not tiles or not LEAST_BLOCK <= block <= target.lanes(DType.FLOAT32):
        return _in_rows(s, target, y, parallel=parallel)
    side = 1 << (block - 1).bit_length()
    outer, inner = s.split("p", side)
    if len(y) == 4:
        blocks, rows, columns = "o", inner, "j"
        s.reorder("n", blocks, outer, rows, columns)
    else:
        blocks, rows = s.split("o", block)
        columns = inner
        s.reorder("n", blocks, outer, rows, columns)
    s.unroll(rows)
    s.vectorize(columns)
    if parallel:
        count, plane = (y[1], y[2]) if len(y) == 4 else (x[1], x[2])
        around = [("n", y[0]), (blocks, count), (outer, -(-plane // side))]
        parallel_grains(s, around, side * block)
    for loop in (blocks, outer):
        peel_ragged(s, loop)
    return s


def _in_rows(s: Schedule, target: CpuTarget, shape: tuple[int, ...], *, parallel: bool) -> Schedule:
    """The schedule in vectors of contiguous elements of the result, which has `shape`."""
    loops = list(zip(("n", "o", "p", "j"), shape, strict=False))
    name, size = loops[-1]
    if len(shape) == 4:
        s.vectorize(name)
    else:
        vectorize_loop(s, target, name, size, 1)
    if parallel:
        parallel_grains(s, loops[:-1], size)
    return s
