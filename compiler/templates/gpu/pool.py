"""Pools over windows on a GPU: a thread computes a few adjacent outputs of a row, directly from the input."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ...codegen.cuda.machine import GpuTarget
from ...ir.expr import Const
from ...ir.named_nodes import find_loop
from ...ir.stmt import Copy, Program
from ...ir.visit import walk
from ...schedule import Schedule
from ..columns import Columns, one_point
from ..space import Axis, CostEstimates
from .flat import THREADS, bind_nest
from .traffic import moved_bytes, moving_account, moving_seconds
from .tuned import Tuned, fields_of, own_program

UNROLLED = 25
"""Largest window, in elements, whose loops are unrolled by default; loops over larger windows stay loops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """Knobs of a pool: a thread computes `columns` adjacent outputs of a row, blocks have `threads` threads.

    `unroll`: the window's loops are unrolled, so that elements shared by adjacent windows are read once.
    """

    threads: int = THREADS
    columns: int = 1
    unroll: bool = True


def choose_knobs(target: GpuTarget, program: Program) -> Knobs:
    """Default knobs for any shape: several columns if windows overlap and enough threads remain."""
    outputs = prod(program.parameters[-1].shape)
    rows, columns = (_size(program, f"pool.{axis}") for axis in ("kh", "kw"))
    width = _size(program, "x")
    enough = outputs >= 4 * THREADS * target.multiprocessors
    return Knobs(
        threads=THREADS if outputs >= THREADS * target.multiprocessors else THREADS // 2,
        columns=2 if columns > 1 and width % 2 == 0 and enough else 1,
        unroll=rows * columns <= UNROLLED,
    )


def schedule(target: GpuTarget, program: Program, knobs: Knobs | None = None) -> Schedule:
    """Schedules a program of `te.ops.float_pool` with `knobs` (default: `choose_knobs`); its parameters must be
    flattened to one dimension (`flat.flattened` without intermediates).
    """
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


AXES = (
    Axis(name="threads", values=(32, 64, 128, 256, 512, 1024)),
    Axis(name="columns", values=(1, 2, 3, 4, 6, 8)),
    Axis(name="unroll", values=(0, 1)),
)
MOST_STATEMENTS = 512
"""Largest number of unrolled load instructions in a thread's code, unless the default knobs have more."""
LOADS_CYCLE = 16
"""Loads per cycle of all threads of a multiprocessor: a quarter of its lanes. An estimate."""


def _size(program: Program, loop: str) -> int:
    extent = find_loop(program, loop).extent
    assert isinstance(extent, Const)
    return int(extent.value)


def _tiles(program: Program, columns: np.ndarray) -> np.ndarray:
    """Number of threads that compute outputs if each thread computes `columns` outputs of a row."""
    others = _size(program, "n") * _size(program, "y") * _size(program, "j")
    return others * -(-_size(program, "x") // columns)


def _effective(program: Program, points: Columns) -> dict[str, np.ndarray]:
    columns = np.minimum(points["columns"], _size(program, "x"))
    taps = _size(program, "pool.kh") * _size(program, "pool.kw")
    return {
        "threads": np.minimum(points["threads"], _tiles(program, columns)),
        "columns": columns,
        "unroll": points["unroll"] if taps > 1 else np.ones_like(columns),
    }


def _loads(program: Program, e: Columns) -> np.ndarray:
    """Number of load instructions in the code of a thread, for each setting of the knobs. `e`: an array of settings for
    each knob, as `_effective` returns them.
    """
    taps = _size(program, "pool.kh") * _size(program, "pool.kw")
    return np.where(e["unroll"] == 1, taps, 1) * e["columns"]


def _cost(target: GpuTarget, program: Program, points: Columns) -> CostEstimates:
    default = one_point(TUNED.values(program, choose_knobs(target, program)))
    most = max(MOST_STATEMENTS, int(_loads(program, _effective(program, default))[0]))
    e = _effective(program, points)
    taps = _size(program, "pool.kh") * _size(program, "pool.kw")
    tiles = _tiles(program, e["columns"])
    blocks = -(-tiles // e["threads"])
    moved = moved_bytes(program)
    written = _loads(program, e)
    loading = tiles * taps * e["columns"] / (LOADS_CYCLE * target.multiprocessors * target.clock)
    seconds = np.maximum(moving_seconds(target, moved, blocks, e["threads"], 4 * written), loading)
    limits = {"the code written out": (e["unroll"] == 0) | (written <= most)}
    return moving_account(target, moved, seconds, {"blocks": blocks, "loads": written}, e, limits)


TUNED = Tuned(
    name="pool_cuda",
    sizes=own_program,
    axes=lambda _: AXES,
    cost=_cost,
    choose=choose_knobs,
    knobs=lambda _, values: Knobs(**{**values, "unroll": bool(values["unroll"])}),
    values=fields_of(AXES),
    schedule=lambda target, workload, knobs: schedule(target, workload.expression, knobs),
)
