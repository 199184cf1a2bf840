"""ONNX's GridSample, in two or three dimensions: images sampled at the coordinates in a second tensor."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Literal

from ...ir.expr import Buffer, Const, Expr, Var, cast, equal, maximum, minimum, select, wrap
from ...ir.stmt import Assign, Program, nest
from ...ir.types import DType
from ..merge import Shape
from ..scalars import absolute, divide, whole

Sampling = Literal["nearest", "linear", "cubic"]
Outside = Literal["zeros", "border", "reflection"]
CUBIC = -0.75
"""ONNX's coefficient of the cubic kernel (Keys, "Cubic Convolution Interpolation", 1981)."""
FLOAT = DType.FLOAT32


def grid_sample(
    shape: Shape, outputs: Shape, mode: Sampling, outside: Outside, *, align_corners: bool
) -> Program:
    """Y[n, c, p] = X[n, c] interpolated at the coordinates G[n, p], each from -1 to 1. The first coordinate is along
    X's last dimension, the last along its first spatial dimension.

    Parameters, all float32: X of `shape` (N, C, *sizes); G [N, P, number of sizes]; Y [N, C, P], with P the product of
    `outputs`. With `align_corners`, -1 and 1 are the centers of the first and last element, else their outer edges. A
    sample outside of X is zero, the border element, or an element of the mirrored X, as `outside` says. Loops n, c, p
    contain the statement "sample".
    """
    batch, channels, *sizes = shape
    count = prod(outputs)
    x = Buffer(name="X", shape=shape, dtype=FLOAT)
    grid = Buffer(name="G", shape=(batch, count, len(sizes)), dtype=FLOAT)
    y = Buffer(name="Y", shape=(batch, channels, count), dtype=FLOAT)
    n, c, p = Var("n"), Var("c"), Var("p")
    taps = [
        _taps(
            _place(grid[n, p, len(sizes) - 1 - d], size, mode, outside, align_corners),
            size,
            mode,
            outside,
            align_corners,
        )
        for d, size in enumerate(sizes)
    ]
    total: Expr | None = None
    for chosen in product(*taps):
        term: Expr = x[(n, c, *[index for index, _ in chosen])]
        for _, weight in chosen:
            term = term if weight is None else term * weight
        total = term if total is None else total + term
    assert total is not None
    sample = Assign.to("sample", y[n, c, p], total)
    body = nest([(n, batch), (c, channels), (p, count)], sample)
    return Program(name="grid_sample", parameters=(x, grid, y), body=body)


def _place(coordinate: Expr, size: int, mode: Sampling, outside: Outside, align_corners: bool) -> Expr:
    """Converts a sample coordinate along an axis of `size` elements from -1 .. 1 to element units. If `outside` is
    "border" or "reflection", also moves a coordinate outside the tensor to the border, or reflects it to the inside.

    A cubic sample beyond the border is not moved; each of its taps reads the border element instead, as in PyTorch and
    ONNX Runtime. ONNX's reference implementation differs: it first moves a coordinate beyond the outer edge of the
    border element to the center of this element. None of the three moves a coordinate between this center and this
    edge.
    """
    if align_corners:
        place = (coordinate + 1.0) * (0.5 * (size - 1))
    else:
        place = ((coordinate + 1.0) * float(size) - 1.0) * 0.5
    if outside == "border" and mode != "cubic":
        return minimum(maximum(place, 0.0), float(size - 1))
    return _reflected(place, size, align_corners) if outside == "reflection" else place


def _reflected(place: Expr, size: int, align_corners: bool) -> Expr:
    """The coordinate `place` on an axis of `size` elements, in units of elements, mirrored at both ends as often as
    needed to be inside. With `align_corners` the ends are the centers of the first and last element, else their outer
    edges.
    """
    low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
    if high == low:
        return place * 0.0
    distance = absolute(place - low)
    turns = whole("floor", divide(distance, high - low))
    rest = distance - turns * (high - low)
    even = equal(whole("floor", turns * 0.5) * 2.0, turns)
    return select(even, rest + low, wrap(high, FLOAT) - rest)


def _mirrored(at: Expr, size: int, align_corners: bool) -> Expr:
    """The index `at` of a tap on an axis of `size`, at most two elements beyond an end, mirrored at that end: at the
    center of the border element with `align_corners`, else at its outer edge.

    Only cubic samples need it: taps of nearest and linear samples are at most one element beyond an end, and clamping
    moves them to the same element as mirroring.
    """
    if size < 3:
        return _reflected(at, size, align_corners)
    low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
    behind = select(wrap(high, FLOAT) < at, wrap(2 * high, FLOAT) - at, at)
    return select(at < wrap(low, FLOAT), wrap(2 * low, FLOAT) - at, behind)


def _taps(
    place: Expr, size: int, mode: Sampling, outside: Outside, align_corners: bool
) -> list[tuple[Expr, Expr | None]]:
    """Taps of the sample at `place` along a dimension of `size`: (index in the dimension, weight; None stands
    for 1).
    """

    def tap(at: Expr, weight: Expr | None) -> tuple[Expr, Expr | None]:
        if outside == "zeros":
            one: Expr = Const(1.0, FLOAT) if weight is None else weight
            weight = select(wrap(0.0, FLOAT) <= at, select(at <= float(size - 1), one, 0.0), 0.0)
        elif outside == "reflection" and mode == "cubic":
            at = _mirrored(at, size, align_corners)
        return cast(minimum(maximum(at, 0.0), float(size - 1)), DType.INT64), weight

    if mode == "nearest":
        return [_bounded(tap(whole("round_even", place), None), size)]
    first = whole("floor", place)
    rest = place - first
    if mode == "linear":
        pair = (tap(first, wrap(1.0, FLOAT) - rest), tap(first + 1.0, rest))
        return [_bounded(item, size) for item in pair]
    weights = [_far(rest + 1.0), _near(rest), _near(wrap(1.0, FLOAT) - rest), _far(wrap(2.0, FLOAT) - rest)]
    return [_bounded(tap(first + (k - 1.0), weight), size) for k, weight in enumerate(weights)]


def _bounded(item: tuple[Expr, Expr | None], size: int) -> tuple[Expr, Expr | None]:
    """A tap (index of an element along an axis, weight) with its index clamped to 0 .. size - 1; for NaN the index is
    0. With the clamp, the verifier can prove that the index is inside the image.
    """
    index, weight = item
    return minimum(maximum(index, 0), size - 1), weight


def _near(x: Expr) -> Expr:
    return (x * (CUBIC + 2.0) - (CUBIC + 3.0)) * x * x + 1.0


def _far(x: Expr) -> Expr:
    return ((x * CUBIC - 5.0 * CUBIC) * x + 8.0 * CUBIC) * x - 4.0 * CUBIC
