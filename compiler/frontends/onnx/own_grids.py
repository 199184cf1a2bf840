"""Chooses scale and zero point ("grid") for results that no QuantizeLinear rounds: outputs of the model, and results
that another operator reads as a float tensor.

A maximum or a clamp keeps the scale and zero point of its input, which changes no value. With `ImportContext.own_grids`
other results get a scale and zero point whose 256 values span the least to the greatest possible result, so that the
whole network can run on integers. This applies to averages, functions of one tensor, softmax, joined and resized
tensors; it changes a value by half a quantization step at most.

The possible results of a sum or product of two tensors span a much wider range than the actual results. A sum or
product is therefore quantized in this way only if it is an output of the model. For products with weights the range is
useless: their results need a QuantizeLinear.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph.int8_convolution import Quantization
from .attributes import OnnxNode
from .emit import emit
from .integer_context import ImportContext
from .operations import Bounds, Function, Identity, Maximum, Opaque, Shared
from .values import Pending, Real

STEPS = 255
"""Number of steps between the least and the greatest stored value."""
SMALLEST = float(np.finfo(np.float32).tiny)
"""The smallest scale of a quantization: float32's smallest normal number."""


def on_own_grid(
    context: ImportContext, node: OnnxNode, pending: Pending, *, output: bool = False
) -> Real | None:
    """Quantizes the result of a pending operation with a scale and zero point of its own, which represent the bounds of
    the result. Returns None if the bounds are not known, or if they are so wide that few values would be distinguished.
    Wide bounds are accepted for an output of the model (`output`).

    Without `ImportContext.own_grids` the result is quantized only if it can have the scale and zero point of the
    operation's input, which changes no value.
    """
    operation = pending.operation
    clamped = {pending.low, pending.high} - {-np.inf, 0.0, np.inf}
    if isinstance(operation, Maximum | Identity) and not clamped:
        return emit(context, node, pending, pending.name, operation.data.quantization)
    if not context.own_grids:
        return None
    grid = _bounded(pending, wide=output)
    return None if grid is None else emit(context, node, pending, pending.name, grid)


def _bounded(pending: Pending, *, wide: bool) -> Quantization | None:
    """The scale and zero point that represent the range of a pending operation's result. None if the range is not
    known, or if it is wide (`Bounds.wide`) and `wide` is false.
    """
    bounds: tuple[float, float] | None = None
    match pending.operation:
        case Maximum(data=data) | Identity(data=data):
            bounds = bounds_of(data)
        case Function(values=values) if np.isfinite(values).all():
            bounds = float(values.min()), float(values.max())
        case Shared(gain=None):
            bounds = 0.0, 1.0
        case Opaque(bounds=Quantization() as grid) if (pending.low, pending.high) == (-np.inf, np.inf):
            return grid
        case Opaque(bounds=Quantization() as grid):
            bounds = _ends(grid)
        case Opaque(bounds=Bounds(low=low, high=high, wide=far)) if wide or not far:
            bounds = low, high
        case _:
            pass
    low, high = (-np.inf, np.inf) if bounds is None else bounds
    low, high = (min(max(end, pending.low), pending.high) for end in (low, high))
    return spanning(low, high) if np.isfinite([low, high]).all() else None


def spanning(low: float, high: float) -> Quantization:
    """The uint8 quantization whose 256 values span `low` to `high`, extended to contain 0."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = np.float32(max((high - low) / STEPS, SMALLEST))
    return Quantization(scale=scale, zero_point=int(np.rint(-low / float(scale))), dtype="uint8")


def bounds_of(data: Real) -> tuple[float, float]:
    """The least and the greatest number that the stored values of a tensor represent."""
    return _ends(data.quantization)


def _ends(grid: Quantization) -> tuple[float, float]:
    ends = [(stored - grid.stored_zero_point) * float(grid.scale) for stored in (-128, 127)]
    return ends[0], ends[1]


def common(parts: Sequence[Real]) -> Quantization | Bounds:
    """Chooses the quantization of a tensor that will contain the elements of all `parts`. If all parts have the same
    quantization, this is the result; otherwise the result is the range of numbers that all parts together represent.
    """
    grids = [part.quantization for part in parts]
    if all(grid == grids[0] for grid in grids):
        return grids[0]
    ends = [bounds_of(part) for part in parts]
    return Bounds(low=min(low for low, _ in ends), high=max(high for _, high in ends))


def combined(kind: str, a: Real, b: Real) -> Bounds:
    """The range of a sum (`kind` "add") or a product (any other `kind`) of two quantized tensors."""
    pairs = [(x, y) for x in bounds_of(a) for y in bounds_of(b)]
    results = [x + y if kind == "add" else x * y for x, y in pairs]
    return Bounds(low=min(results), high=max(results), wide=True)
