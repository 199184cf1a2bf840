"""Depthwise convolutions on a GPU, bound by memory: each thread computes several rows of one channel's outputs.

Adjacent threads compute adjacent columns, so that a warp's loads and stores are contiguous. The inputs of a thread's
windows are in its registers: the thread's outputs share rows; adjacent threads load overlapping columns again, from the
first-level cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import ceil, prod

import numpy as np

from ...codegen.cuda.machine import GpuTarget
from ...ir.kernels import WARP
from ...ir.stmt import Copy, Program
from ...ir.visit import walk
from ...schedule import Schedule
from ...te.blocks import Window
from ..columns import ESTIMATE, Columns, Values
from ..space import Account, Axis, Space
from . import generic
from .flat import bind_nest
from .traffic import moved_bytes

ROWS = (1, 2, 3, 4, 5, 6, 7, 8)
THREADS = 128
"""Threads of a block. Threads share no data, so blocks are small and there are many of them."""
MOST_TAPS = 128
"""Most taps of a window whose inputs are kept in registers. For larger windows, `generic` kernels read the input for
each tap.
"""

SCHEDULERS = 4
"""Warps from which a multiprocessor issues instructions in a cycle (CUDA C++ Programming Guide, "Multiprocessor
Level").
"""
LOAD_INSTRUCTIONS = 3
"""Instructions for an element of the input: condition, address, load. An estimate."""
OTHER_INSTRUCTIONS = 40
"""Further instructions of a thread: addresses of its outputs, loads of taps, stores. An estimate."""
ALONE = 3
"""Cycles between two instructions of a warp, which mostly depend on each other. An estimate."""
RAGGED = 1.5
"""Slowdown if the rows or columns of some threads may be outside the output. An estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """A thread computes `rows` outputs one below the other in each of `columns` adjacent columns; a block has `threads`
    threads.
    """

    rows: int
    columns: int = 1
    threads: int = THREADS


def choose_knobs(target: GpuTarget, program: Program, window: Window) -> Knobs:
    """Default knobs for any shape: the number of rows for which `issue_cycles` is least."""
    rows = np.array([r for r in ROWS if r == 1 or r * prod(window.kernel) <= MOST_TAPS], np.int64)
    cycles = issue_cycles(target, program, window, rows, np.ones_like(rows))
    return Knobs(rows=int(rows[np.argmin(cycles)]))


def issue_cycles(
    target: GpuTarget, program: Program, window: Window, rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """Cycles in which the busiest multiprocessor issues its instructions, for threads of `rows` x `columns` outputs.

    `rows`, `columns`: int64 arrays of one length, as the result is.
    """
    batch, channels, *outputs, _ = program.parameters[-1].shape
    threads, taken, ragged = batch * channels, 1, False
    for d, own in enumerate((rows, columns)):
        threads = threads * -(-outputs[d] // own)
        taken = taken * ((own - 1) * window.strides[d] + (window.kernel[d] - 1) * window.dilations[d] + 1)
        ragged = ragged | (outputs[d] % own != 0)
    warps = np.ceil(threads / (WARP * target.multiprocessors))
    issued = taken * LOAD_INSTRUCTIONS + rows * columns * prod(window.kernel) + OTHER_INSTRUCTIONS
    return np.maximum(np.ceil(warps / SCHEDULERS), ALONE) * issued * np.where(ragged, RAGGED, 1.0)


def schedule(target: GpuTarget, program: Program, window: Window, knobs: Knobs | None = None) -> Schedule:
    """`te.ops.blocked_convolution.blocked_depthwise` in blocks of one channel, scheduled; `window`: the window it was
    built with.

    W is packed, see `schedule.pack`, if the window is small enough for registers.
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
SLACK = 1.0
"""Slack of the space. The bound counts only the bytes that every program moves, so it excludes no point."""
MOST_INPUTS = 160
"""Most elements of the input in a thread's registers: a thread has at most 255, and needs some for sums and
addresses.
"""


def space(target: GpuTarget, program: Program, window: Window) -> Space:
    """The space of `te.ops.blocked_convolution.blocked_depthwise` for `depthwise.schedule`; costs are seconds.

    Raises ValueError for windows too large for registers, whose kernels have no knobs.
    """
    if prod(window.kernel) > MOST_TAPS:
        raise ValueError(
            f"a window of {prod(window.kernel)} taps is not held in registers, so it has no knobs"
        )
    return Space(
        template="depthwise_cuda",
        axes=AXES,
        account=partial(_account, target, program, window),
        floor=moved_bytes(program) / target.memory_bandwidth,
        slack=SLACK,
    )


def knobs_of(target: GpuTarget, program: Program, values: Values) -> Knobs:
    """The knobs with the values of a point."""
    return Knobs(**values)


def default_values(target: GpuTarget, program: Program, window: Window) -> dict[str, int]:
    """The point of the knobs that `depthwise.choose_knobs` returns."""
    knobs = choose_knobs(target, program, window)
    return {"rows": knobs.rows, "columns": knobs.columns, "threads": knobs.threads}


def _account(target: GpuTarget, program: Program, window: Window, points: Columns) -> Account:
    batch, channels, *outputs, _ = program.parameters[-1].shape
    e = dict(points)
    e["rows"], e["columns"] = (
        np.minimum(e[axis], n) for axis, n in zip(("rows", "columns"), outputs, strict=True)
    )
    own, inputs = e["rows"] * e["columns"], 1
    for d, axis in enumerate(("rows", "columns")):
        inputs = inputs * (
            (e[axis] - 1) * window.strides[d] + (window.kernel[d] - 1) * window.dilations[d] + 1
        )
    threads = batch * channels * -(-outputs[0] // e["rows"]) * -(-outputs[1] // e["columns"])
    e["threads"] = np.minimum(e["threads"], threads)
    moving = moved_bytes(program) / target.memory_bandwidth
    issuing = issue_cycles(target, program, window, e["rows"], e["columns"]) / target.clock
    # With fewer blocks than multiprocessors, some multiprocessors are idle.
    blocks = -(-threads // e["threads"])
    uneven = -(-blocks // target.multiprocessors) * target.multiprocessors / blocks
    one = own * 0 + 1
    return Account(
        limits={
            "the input in registers": (inputs <= MOST_INPUTS) | (own == 1),
            "products written out": (own * prod(window.kernel) <= 4 * MOST_TAPS) | (own == 1),
        },
        bound=one * moving,
        quantities={
            ESTIMATE: np.maximum(moving, issuing * uneven),
            "blocks": blocks.astype(np.float64),
            "inputs of a thread": (one * inputs).astype(np.float64),
        },
        effective=e,
    )
