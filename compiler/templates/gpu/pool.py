"""Pools over windows on a GPU: a thread has some neighbouring outputs of a row, straight from the input."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...ir.expr import Const
from ...ir.stmt import Copy, Program
from ...ir.visit import find_loop, walk
from ...schedule import Schedule
from ...target.cuda.machine import CudaTarget
from .flat import THREADS, bind_nest

UNROLLED = 25
"""Positions of a window up to which a thread's code is written out; larger windows are loops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """A thread computes `columns` neighbouring outputs of a row, blocks have `threads` threads.

    `unroll` writes the window's loops out, so that what neighbouring windows share is read once.
    """

    threads: int = THREADS
    columns: int = 1
    unroll: bool = True


def choose_knobs(target: CudaTarget, program: Program) -> Knobs:
    """Defaults for any shape: several columns where windows overlap and there is enough to do even so."""
    outputs = prod(program.parameters[-1].shape)
    rows, columns = (_size(program, f"pool.{axis}") for axis in ("kh", "kw"))
    width = _size(program, "x")
    enough = outputs >= 4 * THREADS * target.multiprocessors
    return Knobs(
        threads=THREADS if outputs >= THREADS * target.multiprocessors else THREADS // 2,
        columns=2 if columns > 1 and width % 2 == 0 and enough else 1,
        unroll=rows * columns <= UNROLLED,
    )


def schedule(target: CudaTarget, program: Program, knobs: Knobs | None = None) -> Schedule:
    """`te.ops.float_pool`, `flat.flattened` without its intermediates before (`knobs`: default `choose_knobs`)."""
    knobs = choose_knobs(target, program) if knobs is None else knobs
    s = Schedule(program)
    if any(isinstance(node, Copy) and node.name == "pad" for node in walk(program)):
        s.expand_copy("pad")
        s.compute_inline("pad")
    sizes = {axis: _size(program, axis) for axis in ("n", "y", "x", "j")}
    columns = min(knobs.columns, sizes["x"])
    x, column = s.split("x", columns)
    loops = [("n", sizes["n"]), ("y", sizes["y"]), (x, -(-sizes["x"] // columns)), ("j", sizes["j"])]
    s.reorder(*(name for name, _ in loops), column)
    s.compute_at("pool", "j")
    s.set_scope("window", "register")
    s.reorder("pool.kh", "pool.kw", "pool.n", "pool.y", "pool.x", "pool.j")
    s.decompose_reduction("pool", "pool.kh")
    s.unroll(column)
    for loop in ("pool.x", "pool.x.init"):
        s.unroll(loop)
    if knobs.unroll or _size(program, "pool.kh") * _size(program, "pool.kw") == 1:
        s.unroll("pool.kh")
        s.unroll("pool.kw")
    bind_nest(s, loops, knobs.threads)
    return s


def _size(program: Program, loop: str) -> int:
    extent = find_loop(program, loop).extent
    assert isinstance(extent, Const)
    return int(extent.value)
