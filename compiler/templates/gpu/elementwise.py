"""Operators on a GPU that compute each output element independently: element-wise operators, gathers, resizes,
moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np

from ...codegen.cuda.machine import GpuTarget
from ...ir.affine import coefficient_of
from ...ir.expr import Const
from ...ir.stmt import Assign, For, Program
from ...ir.visit import expressions, loads_in, walk
from ...schedule import Schedule
from ..columns import ESTIMATE, Columns, Values
from ..space import Account, Axis, Space
from .flat import THREADS, bind_nest, nests, perfect_nest
from .split_axes import size_of
from .traffic import moved_bytes, moving_seconds

WIDTHS = (4, 2, 1)
"""Float32 elements that one instruction may load or store: 16, 8 or 4 bytes (PTX ISA, "ld", vectors .v4 and .v2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """A thread computes `items` vectors of `width` adjacent elements; blocks have `threads` threads.

    The vectors of a thread are a block's width apart, so that adjacent threads access adjacent elements. If `width`
    does not divide the size of a nest of loops, the next smaller width that does is used; if `items` does not, 1 is
    used.
    """

    threads: int = THREADS
    width: int = 1
    items: int = 1


def choose_knobs(target: GpuTarget, program: Program) -> Knobs:
    """Default knobs for any shape: wide accesses if they leave enough threads for all multiprocessors."""
    elements = max([_elements(loop) for loop in nests(program)])
    wide = elements >= WIDTHS[0] * THREADS * target.multiprocessors
    threads = THREADS if elements >= THREADS * target.multiprocessors else THREADS // 2
    return Knobs(threads=threads, width=WIDTHS[0] if wide else 1)


def schedule(target: GpuTarget, program: Program, knobs: Knobs | None = None) -> Schedule:
    """`te.ops.float_elementwise`, `gather`, `resize`, `relayout` and similar programs, after `flat.flattened`,
    scheduled.

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
    """Whether adjacent iterations of the innermost loop access equal or adjacent elements of all arrays."""
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
SLACK = 1.0
"""Slack of the space. The bound counts only the bytes that every program moves, so it excludes no point."""


def space(target: GpuTarget, program: Program) -> Space:
    """The space of a program of one nest of loops, after `flat.flattened`; costs are seconds."""
    return Space(
        template="elementwise_cuda",
        axes=AXES,
        account=partial(_account, target, program),
        floor=moved_bytes(program) / target.memory_bandwidth,
        slack=SLACK,
    )


def knobs_of(target: GpuTarget, program: Program, values: Values) -> Knobs:
    """The knobs with the values of a point."""
    return Knobs(**values)


def default_values(target: GpuTarget, program: Program) -> dict[str, int]:
    """The point of the knobs that `elementwise.choose_knobs` returns."""
    knobs = choose_knobs(target, program)
    return {"threads": knobs.threads, "width": knobs.width, "items": knobs.items}


def _account(target: GpuTarget, program: Program, points: Columns) -> Account:
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
    return Account(
        limits={},
        bound=np.full(len(steps), moved / target.memory_bandwidth),
        quantities={
            ESTIMATE: moving_seconds(target, moved, blocks, threads, at_once),
            "blocks": blocks.astype(np.float64),
            "bytes at once": at_once.astype(np.float64),
        },
        effective={"threads": threads, "width": width, "items": items},
    )
