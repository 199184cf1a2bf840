"""Softmax, normalizations and reductions on a GPU: knobs for the threads of a row and the rows of a block."""

from __future__ import annotations

from ...codegen.cuda.machine import GpuTarget
from ...ir.kernels import WARP
from ...te.blocks import ceil_div
from ...te.threads import Sharing
from .flat import THREADS
from .multiprocessor import power_of_two

RESIDENT = 1024
"""Threads on a multiprocessor that hide most of the memory's latency, if there is enough work: half of the largest
number that a multiprocessor holds.
"""
STEPS = 4
"""Least number of elements for a thread: the number of threads for a row is doubled while each thread has more
elements. With fewer elements, barriers of the reduction among threads cost more than the shorter loops save.
"""
KEPT_STEPS = 16
"""Largest number of elements that a thread keeps in registers; if a thread has more elements, it reads them again for
every stage.
"""
LONG = 1 << 15
"""Least number of elements of a long row: a single block for such a row would leave the rest of the GPU idle for a long
time.
"""


Knobs = Sharing


def choose_knobs(target: GpuTarget, rows: int, size: int, *, beside: int = 1) -> Knobs:
    """Default knobs for `rows` rows of `size` elements. `beside`: distance of a row's elements in memory; above 1, the
    elements of `beside` rows alternate in memory.
    """
    columns = beside > 1
    wanted = RESIDENT * target.multiprocessors
    most = power_of_two(size)
    if columns:
        lanes, group = 1, min(WARP, power_of_two(beside))
        while lanes < min(THREADS // group, most) and rows * lanes < wanted and size > STEPS * lanes:
            lanes *= 2
        return Knobs(group=group, lanes=lanes, columns=True, kept=ceil_div(size, lanes) <= KEPT_STEPS)
    lanes = min(WARP, most)
    while lanes < min(2 * THREADS, target.threads_per_block, most) and size > STEPS * lanes:
        if rows * lanes >= wanted and size <= WARP * lanes:
            break
        lanes *= 2
    group = max(1, min(THREADS // lanes, rows))
    while group > 1 and ceil_div(rows, group) < target.multiprocessors:
        group //= 2
    return Knobs(group=group, lanes=lanes, kept=ceil_div(size, lanes) <= KEPT_STEPS)


def choose_reduction_knobs(target: GpuTarget, rows: int, size: int, *, beside: int = 1) -> Knobs:
    """Default knobs of a reduction: the knobs that `choose_knobs` returns for these arguments, except that rows are cut
    into chunks if there are few, long rows.
    """
    blocks = 4 * target.multiprocessors
    if size >= LONG and 2 * rows <= target.multiprocessors:
        chunks = min(ceil_div(blocks, rows), size // (LONG // 8))
        lanes = min(THREADS, power_of_two(chunks))
        return Knobs(group=THREADS // lanes, lanes=lanes, chunks=chunks)
    return choose_knobs(target, rows, size, beside=beside)
