"""Time steps of an LSTM on a GPU: a kernel for each step, with the recurrent weight R packed so that a warp reads the
gates of its cells contiguously.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...codegen.cuda.machine import GpuTarget
from ...ir.expr import Const
from ...ir.named_nodes import find_loop
from ...ir.stmt import For, Program
from ...ir.visit import loops
from ...schedule import Schedule
from ...te.blocks import ceil_div
from ...te.ops.lstm import Direction
from ...te.ops.thread_lstm import GATES, thread_lstm_steps
from . import bind_by_name
from .flat import bind_nest
from .multiprocessor import power_of_two
from .split_axes import extent_of

MOST_THREADS = 512
MOST_CELLS = 8
"""Largest number of cells of a block: the four gates of 8 cells are the 32 threads of a warp."""
MOST_ROWS = 4
"""Largest number of samples of the batch whose sums a thread accumulates: each loaded element of R is used for this
many products.
"""


LOADS_IN_FLIGHT = 8
"""Number of terms of a thread's sum whose loads are in flight at the same time; the loaded elements take 16
registers.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """Knobs of an LSTM step: a block computes `cells` cells (a power of two) of `rows` samples of the batch, with
    `slices` threads for each gate of a cell.
    """

    rows: int
    cells: int
    slices: int


def choose_knobs(target: GpuTarget, *, batch: int, hidden: int, directions: int) -> Knobs:
    """Default knobs for any size: whole warps, and fewer cells in a block if multiprocessors would otherwise be
    idle.
    """
    rows = min(batch, MOST_ROWS)
    most = min(MOST_THREADS, target.threads_per_block)
    cells = min(MOST_CELLS, power_of_two(hidden))
    beside = ceil_div(batch, rows) * directions
    while cells > 2 and ceil_div(hidden, cells) * beside < target.multiprocessors // 2:
        cells //= 2
    while cells > 1 and rows * GATES * cells > most:
        cells //= 2
    slices = 1
    while slices < 64 and 2 * slices * GATES * cells <= most and hidden >= 4 * slices:
        slices *= 2
    return Knobs(rows=rows, cells=cells, slices=max(slices, rows))


def steps(knobs: Knobs, *, steps: int, batch: int, hidden: int, directions: Sequence[Direction]) -> Program:
    """The tensor expression of `steps` time steps of an LSTM, with the loops over blocks and threads that `knobs`
    describe.
    """
    return thread_lstm_steps(
        steps=steps,
        batch=batch,
        hidden=hidden,
        directions=directions,
        rows=knobs.rows,
        cells=knobs.cells,
        slices=knobs.slices,
    )


def schedule(target: GpuTarget, program: Program, knobs: Knobs) -> Schedule:
    """Schedules a program of `te.ops.thread_lstm` that was built with the same `knobs`; the recurrent weight R is
    packed ahead into tiles (`schedule.pack`).
    """
    s = bind_by_name.schedule(target, program)
    shape = next(p.shape for p in program.parameters if p.name == "H0")
    for nest in ("start", "end"):
        bind_nest(s, [(f"{nest}.{v}", size) for v, size in zip("dnj", shape, strict=True)])
    s.pack("R", ((3, knobs.cells),), (0, 3, 1, 2, 4))
    for loop in loops(program):
        if loop.name.endswith(".product.k") and loop.kind == "serial":
            _load_together(s, loop.name)
    return s


def _load_together(s: Schedule, terms: str) -> None:
    """Unrolls the loop `terms` over the terms of a thread's sum, by `LOADS_IN_FLIGHT` terms without conditions, so that
    their loads overlap.

    Without overlap, each load takes the latency of the second-level cache in turn: measured 5.8 us for a step of 650
    cells on an H100.
    """
    inner = find_loop(s.program, terms).body
    if isinstance(inner, For) and inner.kind == "serial":
        # Only the last term of a sum may be missing, for some threads.
        s.peel(terms)
    if extent_of(s, terms) > LOADS_IN_FLIGHT:
        groups, terms = s.split(terms, LOADS_IN_FLIGHT)
        if not isinstance(find_loop(s.program, terms).extent, Const):
            s.peel(groups)
    s.unroll(terms)
