"""The space of element-wise operators on a GPU: all settings of `elementwise.Knobs` for one shape."""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np

from ...ir.expr import Const
from ...ir.stmt import Program
from ...target.cuda.machine import CudaTarget
from ..space import ESTIMATE, Account, Axis, Columns, Space, Values
from .elementwise import WIDTHS, Knobs, choose_knobs, side_by_side
from .flat import nests, perfect_nest
from .traffic import moved_bytes, moving_seconds

AXES = (
    Axis(name="threads", values=(32, 64, 128, 256, 512, 1024)),
    Axis(name="width", values=WIDTHS[::-1]),
    Axis(name="items", values=(1, 2, 4, 8)),
)
SLACK = 1.0
"""The bound is what all programs move, so that none is hopeless."""


def space(target: CudaTarget, program: Program) -> Space:
    """The space of a program of one nest of loops, `flat.flattened` before; costs are seconds."""
    return Space(
        template="elementwise_cuda",
        axes=AXES,
        account=partial(_account, target, program),
        floor=moved_bytes(program) / target.memory_bandwidth,
        slack=SLACK,
    )


def knobs_of(target: CudaTarget, program: Program, values: Values) -> Knobs:
    """The knobs of a point's values."""
    return Knobs(**values)


def default_values(target: CudaTarget, program: Program) -> dict[str, int]:
    """The point of `elementwise.choose_knobs`."""
    knobs = choose_knobs(target, program)
    return {"threads": knobs.threads, "width": knobs.width, "items": knobs.items}


def _account(target: CudaTarget, program: Program, points: Columns) -> Account:
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
