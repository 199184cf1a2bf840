"""The space of direct convolutions on a GPU: all settings of `direct_knobs.Knobs` for one layer."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...codegen.cuda.machine import GpuTarget
from ...ir.stmt import Program
from ..columns import ESTIMATE, Columns, Values, one_point
from ..space import Account, Axis, Space, space_of_axes
from .conv2d_direct import choose_knobs
from .direct_cost import account
from .direct_knobs import Knobs, Layer, layer_of

SLACK = 4.0
"""Largest ratio of a point's bound to the least bound. Bounds differ only by work on elements outside the output."""
AXES = (
    Axis(name="filters", values=(1, 2, 3, 4, 6, 8, 16)),
    Axis(name="rows", values=(1, 2, 4)),
    Axis(name="columns", values=(1, 2, 4, 8)),
    Axis(name="threads_z", values=(1, 2, 4, 8, 16, 32)),
    Axis(name="threads_y", values=(1, 2, 4, 7, 8, 16)),
    Axis(name="threads_x", values=(4, 5, 7, 8, 10, 14, 16, 28, 32)),
    Axis(name="channels", values=(1, 2, 3, 4, 8, 16, 32)),
    Axis(name="stages", values=(1, 2, 3, 4)),
)


def space(target: GpuTarget, program: Program) -> Space:
    """The space of `te.ops.direct_conv2d` for `conv2d_direct.schedule`; costs are seconds."""
    account = partial(_account, target, layer_of(program))
    try:
        return space_of_axes("conv2d_direct_cuda", AXES, account, SLACK, {"channels": 1, "stages": 1})
    except ValueError:
        raise ValueError(
            "no tile of the input and of the weights fits into a block's shared memory"
        ) from None


def knobs_of(target: GpuTarget, program: Program, values: Values) -> Knobs:
    """The knobs with the values of a point."""
    columns = one_point(values)
    return Knobs(**{name: int(v[0]) for name, v in _effective(layer_of(program), columns).items()})


def default_values(target: GpuTarget, program: Program) -> dict[str, int]:
    """The point of the knobs that `conv2d_direct.choose_knobs` returns."""
    knobs = choose_knobs(target, program)
    return {axis.name: getattr(knobs, axis.name) for axis in AXES}


def _effective(layer: Layer, points: Columns) -> dict[str, np.ndarray]:
    """Canonical values of points: knobs without effect are set to one representative, so equal programs are equal."""
    e = dict(points)
    e["channels"] = np.minimum(e["channels"], layer.channels)
    e["stages"] = np.minimum(e["stages"], -(-layer.channels // e["channels"]))
    return e


def _account(target: GpuTarget, layer: Layer, points: Columns) -> Account:
    e = _effective(layer, points)
    found = account(target, layer, e)
    return Account(
        limits=found.limits,
        bound=found.bound,
        quantities={ESTIMATE: found.seconds, **found.quantities},
        effective=e,
    )
