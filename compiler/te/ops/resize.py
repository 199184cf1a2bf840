"""Resizing of images as defined by ONNX's Resize: tables hold, for each output, a position in the input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...ir.expr import Buffer, Expr, Var
from ...ir.stmt import Program, each
from ...ir.types import DType
from ..blocks import Pair
from .movement import clamped

Coordinates = Literal["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
Rounding = Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisTable:
    """For each output along an axis the index of its `first` input element (int64) and the `weight` of the next
    input element (float32).
    """

    first: np.ndarray
    weight: np.ndarray


def axis_table(
    size: int,
    outputs: int,
    *,
    scale: float | None = None,
    mode: Literal["nearest", "linear"] = "nearest",
    coordinates: Coordinates = "half_pixel",
    rounding: Rounding = "round_prefer_floor",
) -> AxisTable:
    """The table that gives, for each of `outputs` elements of a resized axis, the position in the axis of `size`
    elements. `scale`: ratio of the sizes as the model declares it (None: outputs / size). The scale decides the
    positions even if it does not change the size.

    Positions are computed in float32 by ONNX Runtime's formulas, so that a position halfway between two elements is
    rounded to the same element. ONNX Runtime has different formulas for different rounding modes (found by comparison
    with ONNX Runtime for all sizes up to 24)."""
    half = np.float32(0.5)
    ratio = outputs / size if scale is None else scale
    exact = scale is None and mode == "nearest" and rounding.startswith("round")
    if ratio == 1:
        position = np.arange(outputs, dtype=np.float32)
    else:
        position = positions(size, outputs, ratio, coordinates, exact=exact)
    if mode == "nearest":
        match rounding:
            case "floor":
                nearest = np.floor(position)
            case "ceil":
                nearest = np.ceil(position)
            case "round_prefer_floor":
                nearest = np.ceil(position - half)
            case "round_prefer_ceil":
                nearest = np.floor(position + half)
        first = nearest.clip(0, size - 1).astype(np.int64)
        return AxisTable(first=first, weight=np.zeros(outputs, np.float32))
    position = position.clip(0, size - 1)
    first = np.floor(position).astype(np.int64)
    return AxisTable(first=first, weight=(position - first.astype(np.float32)).astype(np.float32))


def positions(
    size: int, outputs: int, scale: float, coordinates: Coordinates, *, exact: bool = False
) -> np.ndarray:
    """Input coordinate of each output along an axis of `size` elements, float32 (outputs,).

    `scale`: ratio of the sizes, output / input, as the model declares it; only "asymmetric" and the half-pixel modes
    use it. With `exact` they compute the coordinates from the unrounded ratio of the sizes instead.
    """
    x, half = np.arange(outputs, dtype=np.float32), np.float32(0.5)

    def shrunk(place: np.ndarray) -> np.ndarray:
        return place * np.float32(size) / np.float32(outputs) if exact else place / np.float32(scale)

    match coordinates:
        case "asymmetric":
            return shrunk(x)
        case "align_corners":
            return x * np.float32(size - 1) / np.float32(max(outputs - 1, 1))
        case "pytorch_half_pixel" if outputs == 1:
            return np.zeros(1, np.float32)
        case _:
            return shrunk(x + half) - half


def resize(
    *,
    outer: int,
    height: int,
    width: int,
    lanes: int,
    outputs: Pair,
    mode: Literal["nearest", "linear"] = "nearest",
) -> Program:
    """Y = X resized: each output is the nearest element, or the mean of four elements weighted by distance ("linear").

    Parameters: X [outer, height, width, lanes] (as in `float_pool`); row indices RI int64 [OH] and column indices CI
    int64 [OW]; for "linear" the weights RW float32 [OH] of row RI + 1 and CW float32 [OW] of column CI + 1; Y [outer,
    OH, OW, lanes]. `axis_table` makes the indices and weights. Indices outside X are clamped to its border. Loops n, y,
    x, j around the statement "resize".
    """
    oh, ow = outputs
    x_in = Buffer(name="X", shape=(outer, height, width, lanes), dtype=DType.FLOAT32)
    y_out = Buffer(name="Y", shape=(outer, oh, ow, lanes), dtype=DType.FLOAT32)
    rows, columns = (
        Buffer(name=n, shape=(size,), dtype=DType.INT64)
        for n, size in zip(("RI", "CI"), outputs, strict=True)
    )
    n, y, x, j = (Var(v) for v in ("n", "y", "x", "j"))
    row, column = clamped(rows[y], height), clamped(columns[x], width)
    weights: tuple[Buffer, ...] = ()
    if mode == "nearest":
        value: Expr = x_in[n, row, column, j]
    else:
        of_row, of_column = (
            Buffer(name=n, shape=(size,), dtype=DType.FLOAT32)
            for n, size in zip(("RW", "CW"), outputs, strict=True)
        )
        weights = (of_row, of_column)
        below, right = clamped(rows[y] + 1, height), clamped(columns[x] + 1, width)

        def across(at: Expr) -> Expr:
            return x_in[n, at, column, j] * (1.0 - of_column[x]) + x_in[n, at, right, j] * of_column[x]

        value = across(row) * (1.0 - of_row[y]) + across(below) * of_row[y]
    move = each("resize", y_out[n, y, x, j], value)
    return Program(name="resize", parameters=(x_in, rows, columns, *weights, y_out), body=move)
