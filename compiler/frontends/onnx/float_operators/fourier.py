"""DFT and STFT: products with matrices of cosines and sines."""

from __future__ import annotations

import numpy as np

from ..attributes import OnnxNode
from ..context import GraphContext
from ..steps import FloatSteps

MOST_ELEMENTS = 2**24
"""Largest size, in elements, of the matrix of cosines of a transform."""


def dft_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute a DFT along one axis of [..., 1] (real) or [..., 2] (real and imaginary parts).
    Supported are the forward transform, and the one-sided inverse transform to real numbers.
    """
    shape = s.shape(0)
    axis = int(s.number(2, "axis", -2)) if s.context.opset >= 20 else s.node.integer("axis", 1)
    if len(shape) < 2 or shape[-1] not in (1, 2) or not -len(shape) <= axis < len(shape):
        s.refuse(
            f"its input of shape {shape} must have an axis {axis} and end in a dimension of 1 or 2",
            "give real numbers [..., 1] or pairs [..., 2]",
        )
    axis %= len(shape)
    back, half = bool(s.node.integer("inverse", 0)), bool(s.node.integer("onesided", 0))
    if back and not half:
        s.fail(
            "an inverse transform with complex results is not supported",
            "write the transform as a MatMul with constants",
        )
    given = shape[axis]
    length = int(s.number(1, "length", 2 * (given - 1) if back and half else given))
    bins = length // 2 + 1 if half else length
    taken = min(given, bins if back else length)
    if axis == len(shape) - 1 or length < 1 or (half and not back and shape[-1] == 2):
        s.refuse(
            f"cannot transform {length} elements along axis {axis} of its input of shape {shape}: there must be 1 "
            "element or more, the axis must not be the last one, and one-sided results need real numbers [..., 1]"
        )
    _check_size(s.context, s.node, taken, length)
    order = [d for d in range(len(shape) - 1) if d != axis] + [axis]
    parts: list[str] = []
    for index in range(shape[-1]):
        part = s.add("Gather", s.input(0), s.constant(index, np.int64), axis=len(shape) - 1)
        part = s.add("Transpose", part, perm=order)
        parts.append(s.add("Slice", part, s.axes(0), s.axes(taken), s.axes(-1)))
    # One row per element of the input: elements beyond it are zeros.
    angles = 2 * np.pi * np.outer(np.arange(taken), np.arange(length if back else bins)) / length
    if back:
        # The bins that the input lacks are the conjugates of its bins, so that the result is real.
        twice = np.where((np.arange(taken) == 0) | (2 * np.arange(taken) == length), 1, 2)[:, None]
        results = [_sum(s, parts, (twice * np.cos(angles) / length, -twice * np.sin(angles) / length))]
    else:
        results = _transformed(s, parts, angles)
    moved = [s.add("Transpose", result, perm=np.argsort(order).tolist()) for result in results]
    s.done(_joined(s, moved))


def stft_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute an STFT: DFTs of windowed frames of a signal [batch, samples, 1] or [batch,
    samples, 2].
    """
    shape, half = s.shape(0), bool(s.node.integer("onesided", 1))
    step = int(s.number(1, "frame step", 0))
    known = len(s.shape(2)) == 1 if s.input(2) else False
    length = int(s.number(3, "frame length", s.shape(2)[0] if known else 0))
    if len(shape) == 2:
        shape = (*shape, 1)
    if len(shape) != 3 or shape[-1] not in (1, 2) or step < 1 or not 0 < length <= shape[1]:
        s.refuse(
            f"its signal of shape {shape} must be [batch, samples, 1 or 2], its frame step ({step} samples) at least "
            f"1, and its frame length ({length} samples) from 1 to the length of the signal"
        )
    if half and shape[-1] == 2:
        s.refuse("cannot give one-sided results of a complex signal", "set onesided to 0")
    if known and s.shape(2) != (length,):
        s.refuse(
            f"its window of shape {s.shape(2)} must have the shape ({length},), the length of its frames"
        )
    bins = length // 2 + 1 if half else length
    _check_size(s.context, s.node, length, bins)
    places = np.arange(0, shape[1] - length + 1, step)[:, None] + np.arange(length)
    signal = s.add("Reshape", s.input(0), s.constant(shape, np.int64))
    parts: list[str] = []
    for index in range(shape[-1]):
        part = s.add("Gather", signal, s.constant(index, np.int64), axis=2)
        frames = s.add("Gather", part, s.constant(places, np.int64), axis=1)
        parts.append(s.add("Mul", frames, s.input(2)) if known else frames)
    angles = 2 * np.pi * np.outer(np.arange(length), np.arange(bins)) / length
    s.done(_joined(s, _transformed(s, parts, angles)))


def _check_size(context: GraphContext, node: OnnxNode, rows: int, columns: int) -> None:
    if rows * columns > MOST_ELEMENTS:
        context.fail(
            node,
            f"needs a matrix of {rows:,} x {columns:,} elements, more than {MOST_ELEMENTS:,} in all",
            "transform shorter frames",
        )


def _transformed(s: FloatSteps, parts: list[str], angles: np.ndarray) -> list[str]:
    """Adds the complex matrix product of `parts` (real, imaginary) with exp(-i * `angles`), angles in radians; returns
    the names of its real and imaginary parts.
    """
    cosines, sines = np.cos(angles), np.sin(angles)
    return [_sum(s, parts, (cosines, sines)), _sum(s, parts, (-sines, cosines))]


def _sum(s: FloatSteps, parts: list[str], matrices: tuple[np.ndarray, np.ndarray]) -> str:
    """Adds nodes that compute (real part) * `matrices`[0] + (imaginary part) * `matrices`[1]; returns the result's
    name. If `parts` has no imaginary part, only the first product is computed.
    """
    products = [
        s.add("MatMul", part, s.constant(matrix, np.float32))
        for part, matrix in zip(parts, matrices, strict=False)
    ]
    return products[0] if len(products) == 1 else s.add("Add", *products)


def _joined(s: FloatSteps, parts: list[str]) -> str:
    """Stacks `parts` (the real and the imaginary part) along a new last axis; returns the result's name."""
    wide = [s.add("Unsqueeze", part, s.axes(-1)) for part in parts]
    return wide[0] if len(wide) == 1 else s.add("Concat", *wide, axis=-1)
