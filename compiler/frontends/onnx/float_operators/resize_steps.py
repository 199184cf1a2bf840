"""Resize by other operators, one axis after another: each element of the result is a weighted sum of a few elements.

Covers cubic interpolation, antialias, kept aspect ratios, crops (tf_crop_and_resize), and any number of dimensions.
Coordinates and weights are from ONNX's operator page and its reference implementation.
"""

from __future__ import annotations

from math import floor, isclose

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from ....te.ops.resize import positions
from ..attributes import OnnxNode
from ..context import GraphContext
from ..operators.resize import COORDINATES, CROP, ONE_BY_ONE, SYMMETRIC, ResizedAxis, modes_of, resized_axes
from ..steps import FloatSteps

MOST_GATHERED = 8
"""Decides how a Resize is computed. An element of the result is a weighted sum of input elements. With at most this
many input elements in a sum, there is a Gather for each weight. With more, a MatMul computes all sums.
"""
DISPUTED = {
    (CROP, "cubic"): "crop with Slice, and resize with half_pixel",
    (SYMMETRIC, "nearest"): "use half_pixel",
}
"""Unsupported combinations (coordinate transformation, mode) of Resize, each with the remedy for its error message."""


def has_no_template(context: GraphContext, node: OnnxNode) -> bool:
    """Whether a Resize has no kernel template. It is then replaced by the ONNX nodes of `resize_steps` (weighted sums
    along one axis after another).
    """
    data = context.tensor(node, 0)
    shape = data.shape
    mode, coordinates, _ = modes_of(context, node)
    resized = {axis.axis for axis in resized_axes(context, node, shape) if axis.changes}
    return (
        mode == "cubic"
        or coordinates in ONE_BY_ONE
        or node.text("keep_aspect_ratio_policy", "stretch") != "stretch"
        or bool(node.integer("antialias", 0))
        or len(shape) not in (3, 4)
        or data.dtype.is_integer
        or not resized.isdisjoint((0, 1))
    )


def resize_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute a Resize by constant scales or to constant sizes."""
    mode, coordinates, rounding = modes_of(s.context, s.node)
    if mode == "nearest" and s.node.integer("antialias", 0):
        s.refuse("has antialias in mode nearest, which does not interpolate")
    if (coordinates, mode) in DISPUTED:
        s.fail(
            f"has coordinates {coordinates} in mode {mode}, for which ONNX Runtime computes other results "
            "than ONNX defines",
            DISPUTED[coordinates, mode],
        )
    if mode != "nearest" and s.dtype(0).is_integer:
        _resize_integers(s, mode)
        return
    data, outside = s.input(0), []
    axes = resized_axes(s.context, s.node, s.shape(0))
    # ONNX Runtime copies a tensor whose sizes all stay and, with antialias, an axis whose size stays.
    copied = bool(s.node.integer("antialias", 0)) or all(axis.outputs == axis.size for axis in axes)
    for axis, ends in zip(axes, _crop(s.context, s.node, len(axes)), strict=True):
        # As `te.ops.resize.axis_table`: ONNX Runtime rounds ties of exact ratios.
        exact = mode == "nearest" and rounding.startswith("round") and axis.scale is None
        places, beyond = _input_coordinates(axis, coordinates, ends, exact=exact)
        stays = axis.outputs == axis.size and (copied or isclose(axis.factor, 1.0))
        if coordinates != CROP and stays:
            continue
        indices, weights = _taps(s.context, s.node, axis, places)
        data = _resized(s, data, axis, indices, weights)
        if beyond.any():
            outside.append((axis.axis, beyond))
    if outside:
        rank = len(s.shape(0))
        mask = np.zeros((1,) * rank, bool)
        for at, beyond in outside:
            mask = mask | beyond.reshape([-1 if d == at else 1 for d in range(rank)])
        value = float(s.node.attributes.get("extrapolation_value", 0.0))
        data = s.add("Where", s.constant(mask, bool), s.like(value), data)
    s.done(data)


def _resize_integers(s: FloatSteps, mode: str) -> None:
    """Adds the ONNX nodes of a linear Resize of integers, which ONNX Runtime's quantizer writes in QOperator form.

    ONNX does not specify the rounding of integers. As in ONNX Runtime, the interpolation is in float32, and fractions
    are dropped. NodeError is raised for a `mode` other than linear, and for antialias.
    """
    if mode != "linear" or s.node.integer("antialias", 0):
        s.context.operand(s.node, 0)
    real = s.add("Cast", s.input(0), to=TensorProto.FLOAT)
    resized = s.add("Resize", real, *(s.input(index) for index in (1, 2, 3)), **s.attributes())
    s.done(s.add("Cast", resized, to=helper.np_dtype_to_tensor_dtype(np.dtype(s.dtype(0).numpy))))


def _crop(context: GraphContext, node: OnnxNode, count: int) -> list[tuple[float, float]]:
    """Start and end of the cropped region along each of `count` axes, as fractions; 0 and 1 without a crop."""
    if node.text("coordinate_transformation_mode", "half_pixel") != CROP:
        return [(0.0, 1.0)] * count
    region = context.array(node, 1, "roi")
    if region is None or region.size != 2 * count:
        context.refuse(
            node,
            f"its region of interest (roi) must have {2 * count} numbers, a start and an end for each axis",
        )
    values = [float(value) for value in region]
    return list(zip(values[:count], values[count:], strict=True))


def _input_coordinates(
    axis: ResizedAxis, coordinates: str, ends: tuple[float, float], *, exact: bool = False
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Returns two arrays [outputs]: the input coordinate of each output element, and whether this coordinate is outside
    of the input (crops only). `coordinates`: the transformation's name in ONNX; `ends`: start and end of the cropped
    region, as fractions. `exact`: the unrounded ratio of the sizes is used instead of the scale.

    All arithmetic is in float32, as in ONNX Runtime: the last bit may decide which element is the nearest.
    """
    one, half = np.float32(1), np.float32(0.5)
    size, outputs, scale = (np.float32(value) for value in (axis.size, axis.outputs, axis.factor))
    y = np.arange(axis.outputs, dtype=np.float32)
    match coordinates:
        case "tf_crop_and_resize":
            start, end = (np.float32(value) for value in ends)
            if axis.outputs > 1:
                x = start * (size - one) + y * (end - start) * (size - one) / (outputs - one)
            else:
                x = half * (start + end) * (size - one) + y
            return x, (x < 0) | (x > size - one)
        case "half_pixel_symmetric":
            x = size / 2 * (one - outputs / (scale * size)) + (y + half) / scale - half
        case _:
            known = COORDINATES[COORDINATES.index(coordinates)]
            x = positions(axis.size, axis.outputs, axis.factor, known, exact=exact)
    return x, np.zeros(len(x), bool)


def _taps(
    context: GraphContext, node: OnnxNode, axis: ResizedAxis, places: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Returns (indices, weights), two arrays [outputs, k]. Output i along `axis` is the sum of the input elements at
    indices[i], each multiplied by its weight in weights[i]. `places`: the coordinate in the input of each output
    element.
    """
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
            indices, weights = _around(left, ratio, 1, axis.factor if node.integer("antialias", 0) else 1.0)
            weights = np.clip(1 - np.abs(weights), 0, 1)
        case _:
            indices, weights = _around(left, ratio, 2, axis.factor if node.integer("antialias", 0) else 1.0)
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
            context.refuse(
                node, "some output element has no input element left to interpolate (exclude_outside = 1)"
            )
        weights = weights / total
    return np.clip(indices, 0, axis.size - 1), weights


def _around(
    left: NDArray[np.int64], ratio: NDArray[np.float64], reach: int, scale: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Finds the input elements up to a distance of `reach` from each coordinate, which is given as `left` + `ratio`.
    Returns (indices of the elements, distances of the elements with their signs).

    If the axis shrinks (`scale` below 1), elements up to a distance of `reach` / `scale` are found, and the returned
    distances are multiplied by `scale`.
    """
    scale = min(scale, 1.0)
    first = floor(-reach / scale) + 1
    steps = np.arange(first, 2 - first)
    return left[:, None] + steps, (steps - ratio[:, None]) * scale


def _resized(
    s: FloatSteps, data: str, axis: ResizedAxis, indices: NDArray[np.int64], weights: NDArray[np.float64]
) -> str:
    """Adds nodes that resize one axis of `data`; returns the name of the result. Output i is the sum over k of the
    input element `indices`[i, k] times `weights`[i, k].
    """
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
