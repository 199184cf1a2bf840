"""Resize by other operators, one axis after another: each element of the result is a weighted sum of a few elements.

Covers cubic interpolation, antialias, kept aspect ratios, crops (tf_crop_and_resize), and any number of dimensions.
Coordinates and weights are from ONNX's operator page and its reference implementation.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, isclose

import numpy as np
import onnx
from numpy.typing import NDArray

from ...ir.limits import MOST_POSITIONS
from ..onnx_context import OnnxNode
from .onnx_context import FloatContext
from .onnx_decompose import Steps
from .onnx_resize import COORDINATES, ROUNDINGS

MOST_GATHERED = 8
"""Largest number of weights per element that is computed by a Gather for each; more weights become a MatMul."""
CROP = "tf_crop_and_resize"
DISPUTED = {
    (CROP, "cubic"): "crop with Slice, and resize with half_pixel",
    ("half_pixel_symmetric", "nearest"): "use half_pixel",
}
"""Maps (coordinates, mode) that are not supported to a way out for the error message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """The resize of one axis: number of elements of input and output, scale, and the start and end of the crop, as
    fractions of the axis."""

    axis: int
    size: int
    outputs: int
    scale: float
    start: float
    end: float


def in_taps(context: FloatContext, node: OnnxNode) -> bool:
    """Whether a Resize needs the steps of this file, as no template has it."""
    rank = len(context.tensor(node, 0).shape)
    coordinates = node.text("coordinate_transformation_mode", "half_pixel")
    resized = {axis.axis for axis in _axes(context, node) if axis.outputs != axis.size or axis.scale != 1}
    return (
        node.text("mode", "nearest") == "cubic"
        or coordinates in (CROP, "half_pixel_symmetric")
        or node.text("keep_aspect_ratio_policy", "stretch") != "stretch"
        or bool(node.integer("antialias", 0))
        or rank not in (3, 4)
        or not resized.isdisjoint((0, 1))
    )


def resize_steps(context: FloatContext, node: OnnxNode) -> list[onnx.NodeProto]:
    """The ONNX nodes of a Resize by constant scales or to constant sizes."""
    s = Steps(context=context, node=node)
    mode, rounding = node.text("mode", "nearest"), node.text("nearest_mode", "round_prefer_floor")
    coordinates = node.text("coordinate_transformation_mode", "half_pixel")
    smooth = bool(node.integer("antialias", 0))
    if (
        mode not in ("nearest", "linear", "cubic")
        or coordinates not in (*COORDINATES, CROP, "half_pixel_symmetric")
        or rounding not in ROUNDINGS
        or (smooth and mode == "nearest")
    ):
        context.refuse(
            node,
            f"has mode {mode!r}, coordinate_transformation_mode {coordinates!r} and nearest_mode {rounding!r}",
            "export the model again",
        )
    if (coordinates, mode) in DISPUTED:
        context.fail(
            node,
            f"has coordinates {coordinates} in mode {mode}, which mean other elements to ONNX Runtime than to ONNX",
            DISPUTED[coordinates, mode],
        )
    if mode != "nearest" and context.tensor(node, 0).dtype.is_integer:
        # ONNX does not specify the rounding of integers: `operand` fails for types other than float32.
        context.operand(node, 0)
    data, outside = s.input(0), []
    for axis in _axes(context, node):
        places, beyond = _places(axis, coordinates)
        if coordinates in ("align_corners", CROP) and axis.size * axis.scale != axis.outputs:
            # ONNX places the last element at size * scale, ONNX Runtime at the integer below it.
            context.fail(
                node,
                f"aligns corners of {axis.size} elements by a scale of {axis.scale:.6g}, which gives no whole number "
                "of elements and has two meanings",
                f"give it the size {axis.outputs}",
            )
        if coordinates != CROP and axis.outputs == axis.size and isclose(axis.scale, 1.0):
            continue
        indices, weights = _taps(context, node, axis, places)
        data = _resized(s, data, axis, indices, weights)
        if beyond.any():
            outside.append((axis.axis, beyond))
    if outside:
        rank = len(s.shape(0))
        mask = np.zeros((1,) * rank, bool)
        for at, beyond in outside:
            mask = mask | beyond.reshape([-1 if d == at else 1 for d in range(rank)])
        value = float(node.attributes.get("extrapolation_value", 0.0))
        data = s.add("Where", s.constant(mask, bool), s.like(value), data)
    return s.done(data)


def _axes(context: FloatContext, node: OnnxNode) -> list[_Axis]:
    """The axes that a node's scales or sizes give, in order."""
    shape = context.tensor(node, 0).shape
    axes = [axis % len(shape) for axis in node.integers("axes", range(len(shape)))]
    scales, sizes = context.array(node, 2, "scales"), context.array(node, 3, "sizes")
    by_size = sizes is not None and sizes.size > 0
    values = sizes if by_size else scales
    if values is None or values.size != len(axes) or not np.isfinite(values).all() or (values <= 0).any():
        context.refuse(node, "has no scale and no size for each axis", "give numbers above 0")
    if by_size:
        factors = [float(value) / shape[axis] for axis, value in zip(axes, values, strict=True)]
        outputs = [int(value) for value in values]
        policy = node.text("keep_aspect_ratio_policy", "stretch")
        if policy not in ("stretch", "not_larger", "not_smaller"):
            context.refuse(node, f"has keep_aspect_ratio_policy {policy}", "export the model again")
        if policy != "stretch":
            factors = [min(factors) if policy == "not_larger" else max(factors)] * len(axes)
            outputs = [int(factors[0] * shape[axis] + 0.5) for axis in axes]
    else:
        factors = [float(value) for value in values]
        outputs = [floor(shape[axis] * factor) for axis, factor in zip(axes, factors, strict=True)]
    starts, ends = _crop(context, node, len(axes))
    if min(outputs) < 1 or max(outputs) > MOST_POSITIONS:
        context.fail(node, f"resizes {shape} to {outputs}", f"give sizes from 1 to {MOST_POSITIONS:,}")
    return [
        _Axis(axis=axis, size=shape[axis], outputs=count, scale=factor, start=start, end=end)
        for axis, count, factor, start, end in zip(axes, outputs, factors, starts, ends, strict=True)
    ]


def _crop(context: FloatContext, node: OnnxNode, count: int) -> tuple[list[float], list[float]]:
    """Starts and ends of the region of interest along each axis, as fractions; 0 and 1 without a crop."""
    if node.text("coordinate_transformation_mode", "half_pixel") != CROP:
        return [0.0] * count, [1.0] * count
    region = context.array(node, 1, "roi")
    if region is None or region.size != 2 * count:
        context.refuse(node, "has no region of interest for each axis", "export the model again")
    values = [float(value) for value in region]
    return values[:count], values[count:]


def _places(axis: _Axis, coordinates: str) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Input coordinate of each output element, [outputs], and whether it is outside of the input (crops only).

    All arithmetic is in float32, as in ONNX Runtime: the last bit may decide which element is the nearest."""
    one, half = np.float32(1), np.float32(0.5)
    size, outputs, scale = (np.float32(value) for value in (axis.size, axis.outputs, axis.scale))
    y = np.arange(axis.outputs, dtype=np.float32)
    match coordinates:
        case "align_corners":
            x = y * (size - one) / (outputs - one) if axis.outputs > 1 else np.zeros_like(y)
        case "asymmetric":
            x = y / scale
        case "tf_crop_and_resize":
            start, end = np.float32(axis.start), np.float32(axis.end)
            if axis.outputs > 1:
                x = start * (size - one) + y * (end - start) * (size - one) / (outputs - one)
            else:
                x = half * (start + end) * (size - one) + y
            return x, (x < 0) | (x > size - one)
        case "pytorch_half_pixel" if axis.outputs == 1:
            x = np.zeros_like(y)
        case "half_pixel_symmetric":
            x = size / 2 * (one - outputs / (scale * size)) + (y + half) / scale - half
        case _:
            x = (y + half) / scale - half
    return x, np.zeros(len(x), bool)


def _taps(
    context: FloatContext, node: OnnxNode, axis: _Axis, places: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Indices and weights of the input elements of each coordinate in `places`, both [outputs, weights]."""
    left = np.ceil(places).astype(np.int64) - 1  # The left neighbour, also of integer coordinates.
    ratio = places.astype(np.float64) - left
    match node.text("mode", "nearest"):
        case "nearest":
            up = {
                "round_prefer_floor": ratio > 0.5,
                "round_prefer_ceil": ratio >= 0.5,
                "floor": ratio >= 1,
                "ceil": ratio > 0,
            }[node.text("nearest_mode", "round_prefer_floor")]
            indices, weights = (left + up)[:, None], np.ones((len(left), 1))
        case "linear":
            indices, weights = _around(left, ratio, 1, axis.scale if node.integer("antialias", 0) else 1.0)
            weights = np.clip(1 - np.abs(weights), 0, 1)
        case _:
            indices, weights = _around(left, ratio, 2, axis.scale if node.integer("antialias", 0) else 1.0)
            a, x = float(np.float32(node.attributes.get("cubic_coeff_a", -0.75))), np.abs(weights)
            near = ((a + 2) * x - (a + 3)) * x * x + 1
            far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
            weights = np.where(x <= 1, near, np.where(x < 2, far, 0.0))
    if node.integer("antialias", 0):
        weights = weights / weights.sum(axis=1, keepdims=True)
    if node.integer("exclude_outside", 0):
        weights = np.where((indices < 0) | (indices >= axis.size), 0.0, weights)
        total = weights.sum(axis=1, keepdims=True)
        if (total == 0).any():
            context.refuse(node, "excludes all elements that count", "export the model again")
        weights = weights / total
    return np.clip(indices, 0, axis.size - 1), weights


def _around(
    left: NDArray[np.int64], ratio: NDArray[np.float64], reach: int, scale: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Indices of elements up to `reach` away (`reach` / `scale` if the axis shrinks), and their scaled distances."""
    scale = min(scale, 1.0)
    first = floor(-reach / scale) + 1
    steps = np.arange(first, 2 - first)
    return left[:, None] + steps, (steps - ratio[:, None]) * scale


def _resized(
    s: Steps, data: str, axis: _Axis, indices: NDArray[np.int64], weights: NDArray[np.float64]
) -> str:
    """Name of `data` with one axis resized, by `indices` and `weights` [outputs, weights]."""
    rank, count = len(s.shape(0)), indices.shape[1]
    if count > MOST_GATHERED:
        matrix = np.zeros((axis.size, axis.outputs))
        np.add.at(matrix, (indices, np.arange(axis.outputs)[:, None]), weights)
        order = [*(d for d in range(rank) if d != axis.axis), axis.axis]
        rows = s.add("Transpose", data, perm=order)
        product = s.add("MatMul", rows, s.constant(matrix, np.float32))
        return s.add("Transpose", product, perm=np.argsort(order).tolist())
    total = ""
    for tap in range(count):
        part = s.add("Gather", data, s.constant(indices[:, tap], np.int64), axis=axis.axis)
        if count > 1:
            along = weights[:, tap].reshape([-1 if d == axis.axis else 1 for d in range(rank)])
            part = s.add("Mul", part, s.constant(along, np.float32))
        total = s.add("Add", total, part) if total else part
    return total
