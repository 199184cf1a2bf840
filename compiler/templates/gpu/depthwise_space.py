"""The space of depthwise convolutions on a GPU: all settings of `depthwise.Knobs` for one shape."""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np

from ...ir.stmt import Program
from ...target.cuda.machine import CudaTarget
from ...te.blocks import Window
from ..space import ESTIMATE, Account, Axis, Columns, Space, Values
from .depthwise import MOST_TAPS, Knobs, choose_knobs, issue_cycles
from .traffic import moved_bytes

AXES = (
    Axis(name="rows", values=(1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)),
    Axis(name="columns", values=(1, 2, 3, 4, 6, 7, 8)),
    Axis(name="threads", values=(32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)),
)
SLACK = 1.0
"""The bound is what all programs move, so that none is hopeless."""
MOST_INPUTS = 160
"""Elements of the input in a thread's registers, of which it may have 255, sums and addresses included."""


def space(target: CudaTarget, program: Program, window: Window) -> Space:
    """The space of `te.ops.blocked_conv2d.blocked_depthwise`, as `depthwise.schedule` takes it; costs are seconds.

    ValueError for windows that are not held in registers, whose kernels have no knobs.
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


def knobs_of(target: CudaTarget, program: Program, values: Values) -> Knobs:
    """The knobs of a point's values."""
    return Knobs(**values)


def default_values(target: CudaTarget, program: Program, window: Window) -> dict[str, int]:
    """The point of `depthwise.choose_knobs`."""
    knobs = choose_knobs(target, program, window)
    return {"rows": knobs.rows, "columns": knobs.columns, "threads": knobs.threads}


def _account(target: CudaTarget, program: Program, window: Window, points: Columns) -> Account:
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
    # Where there are fewer blocks than multiprocessors, some of these wait for the others.
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
