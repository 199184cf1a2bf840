"""Products and convolutions of 8-bit integers, and products with weights of fewer bits, computed by float32 operators.

Sums of integers are exact in float32 up to 2**24, in any order. If a sum may exceed this bound, its terms are cut into
ranges such that the sum of each range stays below the bound. The sums of the ranges are added as int32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from ....graph.graph import Shape
from ....ir.types import DType
from ..attributes import OnnxNode
from ..context import GraphContext
from ..operators.window_attributes import read_windows
from ..steps import FloatSteps

EXACT = 2**24
"""Largest magnitude up to which float32 represents every integer."""
WINOGRAD = (3, 3)
"""Kernel size of convolutions that targets may compute by Winograd's method, whose results are not exact because the
transformed weights are fractions.
"""


def integer_product_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute MatMulInteger: the int32 product of integers minus their zero points."""
    s.done(_integer_product(s, (0, 1), (2, 3)))


def scaled_product_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute MatMulIntegerToFloat: the int32 product times both scales, plus a bias, in
    float32.
    """
    total = s.add("Cast", _integer_product(s, (0, 1), (4, 5)), to=TensorProto.FLOAT)
    scaled = s.add("Mul", total, s.add("Mul", s.input(2), s.input(3)))
    s.done(s.add("Add", scaled, s.input(6)) if s.input(6) else scaled)


def dynamic_product_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute DynamicQuantizeMatMul: DynamicQuantizeLinear of the data, then
    MatMulIntegerToFloat.
    """
    quantized, scale, zero_point = s.add_all("DynamicQuantizeLinear", s.input(0), count=3)
    data = s.add("Sub", *(s.add("Cast", name, to=TensorProto.FLOAT) for name in (quantized, zero_point)))
    total = _exact_product(s, data, 255, 1, 3)
    scaled = s.add("Mul", s.add("Cast", total, to=TensorProto.FLOAT), s.add("Mul", scale, s.input(2)))
    s.done(s.add("Add", scaled, s.input(4)) if s.input(4) else scaled)


def integer_convolution_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute ConvInteger: the int32 convolution of integers minus their zero points; padding
    adds zero.
    """
    data = _minus_zero_point(s, 0, 2, len(s.shape(0)) * (1,))
    weight = _minus_zero_point(s, 1, 3, (-1, *[1] * (len(s.shape(1)) - 1)))
    attributes = (
        _without_winograd(s.context, s.node, s.shape(0)[2:])
        if s.shape(1)[2:] == WINOGRAD
        else s.node.attributes
    )
    sizes = _sizes(s, 1, 3).reshape(s.shape(1)[0], -1)
    parts = _exact_ranges(sizes, _size(s, 0, 2))
    sums: list[str] = []
    for first, last in parts:
        part = weight
        if len(parts) > 1:
            inside = np.zeros(sizes.shape[1:])
            inside[first:last] = 1
            part = s.add("Mul", weight, s.constant(inside.reshape(1, *s.shape(1)[1:]), np.float32))
        if attributes is not s.node.attributes:
            part = s.add("Pad", part, s.constant([0] * 7 + [1], np.int64))
        sums.append(s.add("Cast", s.add("Conv", data, part, **attributes), to=TensorProto.INT32))
    s.done(_total(s, sums))


def narrow_product_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute MatMulNBits: a product with weights of 2, 4 or 8 bits. The weights of a column
    are packed into bytes, with a scale for each block of weights.
    """
    bits, block = s.node.integer("bits", 4), s.node.integer("block_size", 0)
    depth, columns = s.node.integer("K", 0), s.node.integer("N", 0)
    if bits not in (2, 4, 8):
        s.fail(f"its bits are {bits}; only 2, 4 and 8 are supported", "quantize the model again")
    if min(block, depth, columns) < 1:
        s.fail(
            f"its K ({depth}), N ({columns}) and block_size ({block}) must each be at least 1",
            "quantize the model again",
        )
    if s.shape(0)[-1:] != (depth,):
        s.fail(
            f"its K is {depth}, but its input has the shape {s.shape(0)}",
            "give an input whose last dimension is K",
        )
    packed, scales = (s.array(i, what) for i, what in ((1, "weight"), (2, "scale")))
    assert packed is not None and scales is not None
    blocks = -(-depth // block)
    if packed.size * 8 != columns * blocks * block * bits or scales.size != columns * blocks:
        s.refuse(
            f"its weights of shape {packed.shape} and scales of shape {scales.shape} do not match K = {depth}, N = "
            f"{columns}, bits = {bits} and block_size = {block}",
            "quantize the model again",
        )
    codes = _unpacked(packed.reshape(columns, -1), bits).reshape(columns, blocks, block)
    points = _zero_points(s.context, s.node, bits, columns, blocks)
    steps = scales.astype(np.float32).reshape(columns, blocks, 1)
    weight = ((codes.astype(np.float32) - points[:, :, None]) * steps).reshape(columns, -1)[:, :depth]
    groups = s.array(4, "group index")
    if groups is not None and groups.size:
        if bits != 4:
            s.fail(
                f"group indices (g_idx) are supported for weights of 4 bits only, not of {bits} bits",
                "quantize without g_idx",
            )
        # Each row has the scale and the zero point of the block that the index names.
        order = groups.astype(np.int64).reshape(-1)[:depth]
        flat = codes.reshape(columns, -1)[:, :depth].astype(np.float32)
        weight = (flat - points[:, order]) * steps[:, order, 0]
    kind = s.dtype(0).numpy
    product = s.add("MatMul", s.input(0), s.constant(np.ascontiguousarray(weight.T).astype(kind), kind))
    s.done(s.add("Add", product, s.input(5)) if s.input(5) else product)


def _zero_points(context: GraphContext, node: OnnxNode, bits: int, columns: int, blocks: int) -> np.ndarray:
    """Reads the zero points of a MatMulNBits as float32 [columns, blocks]. If the node's input is uint8, each byte has
    8 / `bits` zero points, which are unpacked. If the input is left out, all zero points are 2**(bits - 1).
    """
    given = context.array(node, 3, "zero point")
    if given is None or not given.size:
        return np.full((columns, blocks), 2 ** (bits - 1), np.float32)
    if given.dtype == np.uint8:
        given = _unpacked(given.reshape(columns, -1), bits)
    if given.size < columns * blocks:
        context.refuse(
            node,
            f"its zero points of shape {given.shape} must have one element for each of {columns} columns and {blocks} "
            "blocks",
            "quantize the model again",
        )
    return given.reshape(columns, -1)[:, :blocks].astype(np.float32)


def _unpacked(rows: np.ndarray, bits: int) -> np.ndarray:
    """Unpacks rows of bytes to rows of integers of `bits` bits each; the lowest bits of a byte come first."""
    shifts = np.arange(0, 8, bits)
    return (rows.astype(np.uint8)[..., None] >> shifts & (2**bits - 1)).reshape(len(rows), -1)


def _integer_product(s: FloatSteps, factors: tuple[int, int], points: tuple[int, int]) -> str:
    """Adds the int32 product of two inputs of the node (indices `factors`), each minus its zero point (input indices
    `points`); returns its name. The first factor has a single zero point, or one for each row.
    """
    data = _minus_zero_point(s, factors[0], points[0], (-1, 1))
    return _exact_product(s, data, _size(s, factors[0], points[0]), factors[1], points[1])


def _exact_product(s: FloatSteps, data: str, size: int, index: int, point: int) -> str:
    """Adds the int32 product of `data` and input `index` minus its zero points (the weights); returns the product's
    name. `data`: a tensor of integers of magnitude up to `size`; its zero point is already subtracted. `point`: index
    of the input with the weights' zero points, one for each column.
    """
    weight = _minus_zero_point(s, index, point, (-1,))
    shape = s.shape(index)
    sizes = np.moveaxis(np.broadcast_to(_sizes(s, index, point), shape), -2 if len(shape) > 1 else 0, -1)
    parts = _exact_ranges(sizes.reshape(-1, sizes.shape[-1]), size)
    sums: list[str] = []
    for first, last in parts:
        factors = [data, weight]
        if len(parts) > 1:
            ends = s.axes(first), s.axes(last)
            axes = s.axes(-1), s.axes(-2 if len(shape) > 1 else 0)
            factors = [s.add("Slice", name, *ends, axis) for name, axis in zip(factors, axes, strict=True)]
        sums.append(s.add("Cast", s.add("MatMul", *factors), to=TensorProto.INT32))
    return _total(s, sums)


def _total(s: FloatSteps, sums: list[str]) -> str:
    total = sums[0]
    for name in sums[1:]:
        total = s.add("Add", total, name)
    return total


def _minus_zero_point(s: FloatSteps, index: int, point: int, column: tuple[int, ...]) -> str:
    """Subtracts the zero point (input `point`) from input `index` in float32; returns the result's name. A vector of
    zero points is reshaped to `column` first.
    """
    number = s.add("Cast", s.input(index), to=TensorProto.FLOAT)
    if not s.input(point):
        return number
    zero = s.add("Cast", s.input(point), to=TensorProto.FLOAT)
    if len(s.shape(point)) == 1 and s.shape(point) != (1,):
        zero = s.add("Reshape", zero, s.constant(column, np.int64))
    elif s.shape(point) == (1,):
        zero = s.add("Reshape", zero, s.constant([], np.int64))
    return s.add("Sub", number, zero)


def _size(s: FloatSteps, index: int, point: int) -> int:
    """Upper bound of the magnitudes of the 8-bit input `index` minus its zero point (input `point`)."""
    return 255 if s.input(point) or s.context.tensor(s.node, index).dtype is not DType.INT8 else 128


def _sizes(s: FloatSteps, index: int, point: int) -> np.ndarray:
    """Upper bounds on the magnitudes of the elements of input `index` after the zero points are subtracted. The bounds
    are exact for constants. `point`: index of the input with the zero points.
    """
    context, node = s.context, s.node
    assert isinstance(context, GraphContext)
    known = [context.is_constant(node, i) for i in (index, point) if s.input(i)]
    if not all(known):
        return np.full(s.shape(index), _size(s, index, point), np.float64)
    weight = context.array(node, index, "weight")
    assert weight is not None
    zero = context.array(node, point, "zero point")
    if zero is None:
        return np.abs(weight.astype(np.float64))
    if zero.ndim == 1 and zero.size > 1 and node.op_type == "ConvInteger":
        zero = zero.reshape(-1, *[1] * (weight.ndim - 1))
    return np.abs(weight.astype(np.float64) - (zero.reshape(()) if zero.size == 1 else zero))


def _exact_ranges(sizes: np.ndarray, size: int) -> list[tuple[int, int]]:
    """Cuts the terms of sums into ranges (first, last), without `last`, such that the float32 sum over each range is
    exact: `size` times the sum of `sizes` over the range is at most `EXACT`. `size`: largest magnitude of the data.
    `sizes` [sums, terms]: upper bounds on the magnitudes of the weights.
    """
    parts: list[tuple[int, int]] = []
    first, depth = 0, sizes.shape[1]
    totals = np.concatenate([np.zeros((len(sizes), 1)), np.cumsum(sizes, axis=1)], axis=1)
    while first < depth:
        greatest = (totals[:, first:] - totals[:, first : first + 1]).max(axis=0, initial=0) * size
        last = first + max(1, int(np.searchsorted(greatest, EXACT, side="right")) - 1)
        parts.append((first, min(last, depth)))
        first = last
    return parts or [(0, depth)]


def _without_winograd(context: GraphContext, node: OnnxNode, sizes: Shape) -> dict[str, Any]:
    """Attributes that keep a 3 x 3 convolution exact. The weights are padded by a column of zeros to 3 x 4, a size for
    which no target uses Winograd's inexact method; the attributes are those of the padded convolution. `sizes`: shape
    of the images.
    """
    windows = read_windows(context, node, sizes, WINOGRAD)
    pads = [*windows.pads[:3], windows.pads[3] + windows.dilations[1]]
    others = {name: value for name, value in node.attributes.items() if name != "auto_pad"}
    return {**others, "pads": pads, "kernel_shape": [WINOGRAD[0], WINOGRAD[1] + 1]}
