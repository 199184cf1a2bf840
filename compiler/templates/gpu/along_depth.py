"""Transposes the factors of a product so that elements adjacent in depth are adjacent in memory, for products whose
bulk copies need this order.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.stmt import Copy
from ...ir.visit import path_to
from ...schedule import Schedule
from .gemm_mma import Factor, factors
from .split_axes import extent_of, loops_around

LANES = 4
"""Number of adjacent elements of a row that a thread reads at once."""
THREADS = 128


def lay_along_depth(s: Schedule, constants: Sequence[str] = ()) -> list[str]:
    """Changes the copies of a product's factors (`te.ops.product`) into copies of boxes (rectangles of elements) whose
    last dimension is the depth.

    A factor whose last dimension is not the depth is packed ahead if it is one of the `constants`. Otherwise a separate
    kernel transposes it first, unless the factor is copied element by element: then the copy itself changes the order.
    Schedules the kernels that transpose, and returns the names of their copy statements. Factors that are computed, not
    copied, stay unchanged. Raises LegalityError if the factors do not have the form that `gemm_mma.factors` requires.
    """
    return [stage for f in factors(s.program) if (stage := _lay(s, f, constants)) is not None]


def _lay(s: Schedule, factor: Factor, constants: Sequence[str]) -> str | None:
    around = loops_around(s, factor.name)
    if factor.along_depth or not factor.in_lines:
        return None
    order = (*range(factor.rank - 2), factor.rank - 1, factor.rank - 2)
    if around:
        # A copy element by element, like the stage of a matrix whose rows are along the depth.
        s.pack(factor.name, (), order)
        s.box_copy(factor.name)
        return None
    copy = path_to(s.program, factor.name)[-1]
    if not isinstance(copy, Copy):
        return None
    source = copy.source.buffer.name
    transposed = None
    if source not in constants:
        transposed = source = s.cache_read(source, None, "dram")
        s.expand_copy(transposed)
    s.expand_copy(factor.name)
    for buffer in (source, factor.name):
        s.pack(buffer, (), order)
    s.box_copy(factor.name)
    if transposed is not None:
        _share(s, transposed)
    return transposed


def _share(s: Schedule, stage: str) -> None:
    """Binds a transposition to threads: each thread reads adjacent elements; adjacent threads write adjacent
    elements.
    """
    *outside, depth, data = loops_around(s, stage)
    lanes = LANES
    while extent_of(s, data) % lanes:
        lanes //= 2
    data, lane = s.split(data, lanes)
    depth, thread = s.split(depth, THREADS)
    s.reorder(*outside, data, depth, thread, lane)
    block = data
    for loop in reversed(outside):
        block = s.fuse(loop, block)
    s.bind(block, "block.x")
    s.bind(depth, "block.y")
    s.bind(thread, "thread.x")
    s.vectorize(lane)
