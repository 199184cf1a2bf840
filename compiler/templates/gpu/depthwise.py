"""Depthwise convolutions on a GPU, bound by memory: each thread computes several rows of one channel's outputs.

Adjacent threads compute adjacent columns, so that a warp's loads and stores are contiguous. A thread holds the inputs
of its windows in registers, and uses each loaded row for several of its outputs. Windows of adjacent threads share
columns of the input; each of these threads loads the shared columns, from the first-level cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

import numpy as np

from ...codegen.cuda.machine import GpuTarget
from ...ir.kernels import WARP
from ...ir.stmt import Copy, Program
from ...ir.visit import walk
from ...schedule import Schedule
from ...te.blocks import Window
from ..columns import Columns
from ..space import Axis, CostEstimates
from . import generic
from .flat import bind_nest
from .multiprocessor import DEPENDENT_ISSUE_CYCLES, SCHEDULERS
from .traffic import moved_bytes, moving_account
from .tuned import Tuned, by_name, fields_of
from .workload import CudaWorkload

ROWS = (1, 2, 3, 4, 5, 6, 7, 8)
THREADS = 128
"""Threads of a block. Threads share no data, so that many small blocks are possible."""
MOST_TAPS = 128
"""Largest number of taps of a window whose inputs are kept in registers. For larger windows, `generic` kernels read the
input for each tap.
"""

LOAD_INSTRUCTIONS = 3
"""Estimated number of instructions to load an element of the input: condition, address, load."""
OTHER_INSTRUCTIONS = 40
"""Instructions of a thread besides multiply-adds and loads of the input: addresses of its outputs, loads of taps,
stores. An estimate.
"""
RAGGED = 1.5
"""Slowdown if the rows or columns of some threads may be outside the output. An estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """Knobs of a depthwise convolution: a thread computes `rows` outputs one below the other in each of `columns`
    adjacent columns; a block has `threads` threads.
    """

    rows: int
    columns: int = 1
    threads: int = THREADS


def choose_knobs(target: GpuTarget, program: Program, window: Window) -> Knobs:
    """The knobs that `schedule` uses by default for `program`, of any shape: the number of rows for which
    `issue_cycles` is least.
    """
    rows = np.array([r for r in ROWS if r == 1 or r * prod(window.kernel) <= MOST_TAPS], np.int64)
    cycles = issue_cycles(target, program, window, rows, np.ones_like(rows))
    return Knobs(rows=int(rows[np.argmin(cycles)]))


def issue_cycles(
    target: GpuTarget, program: Program, window: Window, rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """Cycles that the busiest multiprocessor takes to issue its instructions, for threads of `rows` x `columns`
    outputs.

    `rows`, `columns`: int64 arrays, both as long as the result.
    """
    batch, channels, *outputs, _ = program.parameters[-1].shape
    threads, ragged = batch * channels, False
    for size, own in zip(outputs, (rows, columns), strict=True):
        threads = threads * -(-size // own)
        ragged = ragged | (size % own != 0)
    taken = _inputs(window, (rows, columns))
    warps = np.ceil(threads / (WARP * target.multiprocessors))
    issued = taken * LOAD_INSTRUCTIONS + rows * columns * prod(window.kernel) + OTHER_INSTRUCTIONS
    return (
        np.maximum(np.ceil(warps / SCHEDULERS), DEPENDENT_ISSUE_CYCLES)
        * issued
        * np.where(ragged, RAGGED, 1.0)
    )


def _inputs(window: Window, own: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Elements of the input that a thread's windows cover, for threads of `own` rows and columns of outputs."""
    sizes = [
        (outputs - 1) * stride + (taps - 1) * dilation + 1
        for outputs, stride, taps, dilation in zip(
            own, window.strides, window.kernel, window.dilations, strict=True
        )
    ]
    return sizes[0] * sizes[1]


def schedule(target: GpuTarget, program: Program, window: Window, knobs: Knobs | None = None) -> Schedule:
    """Schedules a program of `te.ops.blocked_convolution.blocked_depthwise` with blocks of one channel; `window`: the
    window of the convolution.

    W is packed ahead into tiles (`schedule.pack`). Windows too large for registers are scheduled by `generic`.
    """
    if prod(window.kernel) > MOST_TAPS:
        return generic.schedule(target, program)
    knobs = knobs or choose_knobs(target, program, window)
    batch, channels, rows, columns, _ = program.parameters[-1].shape
    s = Schedule(program)
    y, own_y = s.split("y", knobs.rows)
    x, own_x = s.split("x", knobs.columns)
    s.reorder("n", "c", y, x, own_y, own_x)
    s.compute_at("conv", x)
    s.set_scope("sum", "register")
    if any(isinstance(node, Copy) and node.name == "pad" for node in walk(program)):
        s.compute_at("pad", x)
        s.set_scope("padded", "register")
    else:
        s.cache_read("X", x, "register")
    s.reorder("conv.kh", "conv.kw", "conv.n", "conv.c", "conv.y", "conv.x", "conv.j")
    s.decompose_reduction("conv", "conv.kh")
    for loop in ("conv.kh", "conv.kw", "conv.y", "conv.x", "conv.y.init", "conv.x.init", own_y, own_x):
        s.unroll(loop)
    # The weights of a channel's taps are contiguous.
    s.pack("W", (), (2, 0, 1))
    tiles = [("n", batch), ("c", channels), (y, ceil(rows / knobs.rows)), (x, ceil(columns / knobs.columns))]
    bind_nest(s, tiles, knobs.threads)
    return s


AXES = (
    Axis(name="rows", values=(1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)),
    Axis(name="columns", values=(1, 2, 3, 4, 6, 7, 8)),
    Axis(name="threads", values=(32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)),
)
MOST_INPUTS = 160
"""Largest number of elements of the input in a thread's registers. A thread has at most 255 registers, some of which it
needs for sums and addresses.
"""


def _sizes(workload: CudaWorkload) -> tuple[Program, Window]:
    """A workload's program and window. Raises ValueError for windows too large for registers, whose kernels have no
    knobs.
    """
    assert workload.window is not None  # CudaWorkload.obstacle
    if (taps := prod(workload.window.kernel)) > MOST_TAPS:
        raise ValueError(
            f"a window of {taps} taps is too large for registers (at most {MOST_TAPS}), so its kernel has no knobs"
        )
    return workload.expression, workload.window


def _cost(target: GpuTarget, sizes: tuple[Program, Window], points: Columns) -> CostEstimates:
    program, window = sizes
    batch, channels, *outputs, _ = program.parameters[-1].shape
    e = dict(points)
    e["rows"], e["columns"] = (
        np.minimum(e[axis], n) for axis, n in zip(("rows", "columns"), outputs, strict=True)
    )
    own, inputs = e["rows"] * e["columns"], _inputs(window, (e["rows"], e["columns"]))
    threads = batch * channels * -(-outputs[0] // e["rows"]) * -(-outputs[1] // e["columns"])
    e["threads"] = np.minimum(e["threads"], threads)
    moved = moved_bytes(program)
    issuing = issue_cycles(target, program, window, e["rows"], e["columns"]) / target.clock
    # With fewer blocks than multiprocessors, some multiprocessors are idle.
    blocks = -(-threads // e["threads"])
    uneven = -(-blocks // target.multiprocessors) * target.multiprocessors / blocks
    limits = {
        "the input in registers": (inputs <= MOST_INPUTS) | (own == 1),
        "products written out": (own * prod(window.kernel) <= 4 * MOST_TAPS) | (own == 1),
    }
    seconds = np.maximum(moved / target.memory_bandwidth, issuing * uneven)
    quantities = {"blocks": blocks, "inputs of a thread": inputs}
    return moving_account(target, moved, seconds, quantities, e, limits)


TUNED = Tuned(
    name="depthwise_cuda",
    sizes=_sizes,
    axes=lambda _: AXES,
    cost=_cost,
    choose=lambda target, sizes: choose_knobs(target, *sizes),
    knobs=by_name(Knobs),
    values=fields_of(AXES),
    schedule=lambda target, workload, knobs: schedule(target, *_sizes(workload), knobs),
)
