"""Chooses scale and zero point ("grid") for results that no QuantizeLinear rounds: outputs of the model, and results
that another operator reads as a float tensor.

The result of a maximum or a clamp keeps the scale and zero point of its input, which changes no value. With
`ImportContext.own_grids` some other results get a scale and zero point whose 256 values span the range of possible
results, so that the whole network can run on integers. These are averages, functions of one tensor, softmax, and joined
and resized tensors. Their values change by half a quantization step at most.

For a sum or product of two tensors, the range of possible results is much wider than the range of actual results. A sum
or product is therefore quantized in this way only if it is an output of the model. For products with weights the range
is too wide to be useful, so their results need a QuantizeLinear.
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
    """Quantizes the result of a pending operation with a scale and zero point of its own, which span the bounds of the
    result. Returns None if the bounds are unknown. Bounds so wide that few values would be distinguished are accepted
    only for an output of the model (`output`).

    Without `ImportContext.own_grids` only the scale and zero point of the operation's input are tried, which change no
    value.
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
    quantization, it is returned. Otherwise the range of numbers that all parts together represent is returned.
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
