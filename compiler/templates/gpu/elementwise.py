"""Operators on a GPU that compute each output element independently: element-wise operators, gathers, resizes,
moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ...codegen.cuda.machine import GpuTarget
from ...ir.affine import coefficient_of
from ...ir.expr import Const
from ...ir.stmt import Assign, For, Program
from ...ir.visit import expressions, loads_in, walk
from ...schedule import Schedule
from ..columns import Columns
from ..space import Axis, CostEstimates
from .flat import THREADS, bind_nest, nests, perfect_nest
from .split_axes import size_of
from .traffic import moved_bytes, moving_account, moving_seconds
from .tuned import Tuned, by_name, fields_of, own_program

WIDTHS = (4, 2, 1)
"""Float32 elements that one instruction may load or store: 16, 8 or 4 bytes (PTX ISA, "ld", vectors .v4 and .v2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """Knobs of element-wise kernels: a thread computes `items` vectors of `width` adjacent elements; blocks have
    `threads` threads.

    The vectors of a thread are `threads` vectors apart, so that adjacent threads access adjacent vectors. If `width`
    does not divide the extent of the innermost loop, the next smaller width of `WIDTHS` that divides the extent is
    used. If the number of vectors is no multiple of `threads` * `items`, a thread computes one vector.
    """

    threads: int = THREADS
    width: int = 1
    items: int = 1


def choose_knobs(target: GpuTarget, program: Program) -> Knobs:
    """The default knobs of `schedule`. Threads access memory in wide vectors if the program is large enough to leave
    threads for all multiprocessors. The program's tensors may have any shape.
    """
    elements = max([_elements(loop) for loop in nests(program)])
    wide = elements >= WIDTHS[0] * THREADS * target.multiprocessors
    threads = THREADS if elements >= THREADS * target.multiprocessors else THREADS // 2
    return Knobs(threads=threads, width=WIDTHS[0] if wide else 1)


def schedule(target: GpuTarget, program: Program, knobs: Knobs | None = None) -> Schedule:
    """Schedules `te.ops.float_elementwise`, `gather`, `resize`, `relayout` and similar programs. The function
    `flat.flattened` must first flatten their global arrays to one dimension.

    Each nest of loops around a statement becomes a kernel (`knobs`: default `choose_knobs`).
    """
    knobs = choose_knobs(target, program) if knobs is None else knobs
    s = Schedule(program)
    for outermost in nests(program):
        chain = perfect_nest(outermost)
        loops = [(loop.name, size_of(loop)) for loop in chain]
        last, size = loops[-1]
        width = next(
            w for w in WIDTHS if w <= knobs.width and size % w == 0 and (w == 1 or side_by_side(chain))
        )
        inner: tuple[str, ...] = ()
        if width > 1:
            steps, vector = s.split(last, width)
            s.vectorize(vector)
            loops[-1] = (steps, size // width)
            inner = (vector,)
        bind_nest(s, loops, knobs.threads, knobs.items, inner)
    return s


def side_by_side(chain: list[For]) -> bool:
    """Whether successive iterations of the innermost loop of `chain` access the same element or neighbouring elements
    of an array, for every array.
    """
    name = chain[-1].name
    for node in walk(chain[-1]):
        accessed = [load.indices for top in expressions(node) for load in loads_in(top)]
        if isinstance(node, Assign):
            accessed.append(node.indices)
        for indices in accessed:
            *outer, last = [coefficient_of(i, name) for i in indices]
            if any(outer) or None in outer or last not in (0, 1):
                return False
    return True


def _elements(outermost: For) -> int:
    return prod(size_of(loop) for loop in perfect_nest(outermost))


AXES = (
    Axis(name="threads", values=(32, 64, 128, 256, 512, 1024)),
    Axis(name="width", values=WIDTHS[::-1]),
    Axis(name="items", values=(1, 2, 4, 8)),
)


def _cost(target: GpuTarget, program: Program, points: Columns) -> CostEstimates:
    """The cost model's results at many points (settings of the knobs), for a program of one nest of loops (flattened by
    `flat.flattened`).
    """
    (outermost,) = nests(program)
    chain = perfect_nest(outermost)
    sizes = [int(loop.extent.value) for loop in chain if isinstance(loop.extent, Const)]
    fitting = [w for w in WIDTHS if sizes[-1] % w == 0 and (w == 1 or side_by_side(chain))]
    width = np.max([np.where(points["width"] >= w, w, 1) for w in fitting], axis=0)
    steps = prod(sizes) // width
    threads = np.minimum(points["threads"], steps)
    items = np.where(steps % (threads * points["items"]) == 0, points["items"], 1)
    blocks = -(-steps // (threads * items))
    moved = moved_bytes(program)
    at_once = 4 * width * items * max(1, len(program.parameters) - 1)
    seconds = moving_seconds(target, moved, blocks, threads, at_once)
    quantities = {"blocks": blocks, "bytes at once": at_once}
    effective = {"threads": threads, "width": width, "items": items}
    return moving_account(target, moved, seconds, quantities, effective)


TUNED = Tuned(
    name="elementwise_cuda",
    sizes=own_program,
    axes=lambda _: AXES,
    cost=_cost,
    choose=choose_knobs,
    knobs=by_name(Knobs),
    values=fields_of(AXES),
    schedule=lambda target, workload, knobs: schedule(target, workload.expression, knobs),
)
