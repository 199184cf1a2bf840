"""The integer interpreter. It defines the results of the integer operators, also where ONNX Runtime's results are
inconsistent.

All rounding is that of `vdla.isa.arithmetic`. The sums of a convolution are computed as float64 matrix products. Each
product of two int8 values, and every partial sum, is an integer far below 2**53, so the sums are exact in any order.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from vdla.isa.arithmetic import AddConstants, combine_add, combine_multiply, requantize, rescale, wrap_int32
from vdla.isa.rows import normalized_shares, softmax_shares
from vdla.isa.scales import dequantize, quantize

from ..te.blocks import Pads, Pair, Window
from ..te.combination import Combination
from .geometry import window_extent
from .graph import Graph, Node
from .int8_convolution import Int8Convolution, Interleave
from .int8_operators import (
    Attention,
    Channels,
    Int8AveragePool,
    Int8Elementwise,
    Int8MaxPool,
    Interpolation,
    Normed,
    Positions,
    PositionSums,
    Products,
    Repeated,
    Resample,
    Rows,
    Swap,
    Table,
    TransposedProduct,
)

LEAST_SUM = np.iinfo(np.int32).min


def interpret(graph: Graph, inputs: dict[str, np.ndarray], keep_all: bool = False) -> dict[str, np.ndarray]:
    """Runs a graph of integer operators on stored inputs (int8, by tensor name; `host.store_inputs` makes them).

    Returns stored int8 tensors by name: the tensors of the graph's outputs, or with `keep_all` every tensor.
    """
    tensors: dict[str, np.ndarray] = {**graph.constants, **inputs}
    last_use = {name: step for step, node in enumerate(graph.nodes) for name in node.inputs}
    wanted = {output.tensor for output in graph.outputs}
    for step, node in enumerate(graph.nodes):
        results = _results(node, [tensors[name] for name in node.inputs])
        for name, result in zip(node.outputs, results, strict=True):
            tensors[name] = result.reshape(graph.tensors[name].shape)
        if not keep_all:
            for name in node.inputs:
                if last_use[name] == step and name not in wanted:
                    tensors.pop(name, None)
    return tensors if keep_all else {name: tensors[name] for name in wanted}


def _results(node: Node, operands: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    """All outputs of a node, in the order of `Node.outputs`."""
    if not isinstance(operator := node.operator, Normed):
        return (evaluate(node, operands),)
    made = evaluate(replace(node, operator=operator.convolution), operands)
    return evaluate(replace(node, operator=operator.rows), [made]), made


def evaluate(node: Node, operands: list[np.ndarray]) -> np.ndarray:
    """The result of a node with one output, computed from its stored int8 inputs, each (N, C, H, W) or (N, K).

    Raises ValueError for operators with several outputs, for Quantize and Dequantize, and for operators that are not
    integer."""
    # A tensor (N, K) may be combined with one (N, K, 1, 1).
    operator, operands = node.operator, [_four(operand) for operand in operands]
    match operator:
        case Int8Convolution(scale=scale, post=post, pool=pool):
            sums = convolution_sums(operator, _first_pixels(operands[0], operator.taken))
            if pool is not None:
                sums = _windows(_pad(sums, pool.pads, int(LEAST_SUM)), pool).max(axis=(4, 5))
            result = requantize(sums, scale.reshape(1, -1, 1, 1), post.zero_point, post.low, post.high)
            if operator.table is not None:
                result = operator.table[result.astype(np.int16) + 128]
            if post.combination is not None:
                operand = operands[1] if post.combination.has_operand else None
                result = apply_combination(post.combination, result, operand)
            if operator.spaced is not None:
                result = _spaced(result, *operator.spaced)
            return result if operator.phases is None else _interleaved(operator.phases, result)
        case Int8MaxPool(window=window):
            return _windows(_pad(operands[0], window.pads, -128), window).max(axis=(4, 5))
        case Int8AveragePool(window=window, post=post):
            padded = _pad(operands[0], window.pads, operator.pad_value).astype(np.int32)
            sums = _windows(padded, window).sum(axis=(4, 5), dtype=np.int64) + operator.bias
            return requantize(wrap_int32(sums), operator.scales, post.zero_point, post.low, post.high)
        case Int8Elementwise(combination=combination):
            return apply_combination(combination, operands[0], operands[1] if len(operands) > 1 else None)
        case Table(table=table):
            return table[operands[0].astype(np.int16) + 128]
        case Channels(sources=sources):
            plane = operands[0][:, 0].shape
            return np.stack([operands[part][:, channel].reshape(plane) for part, channel in sources], axis=1)
        case Interleave():
            return _interleaved(operator, operands[0])
        case Positions(index=index, fill=fill, channels=channels):
            parts = [_taken(part, channels).transpose(1, 0, 2, 3) for part in operands]
            flat = np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)
            moved = np.where(index < 0, np.int8(fill or 0), flat[:, np.maximum(index, 0)])
            return moved.transpose(1, 0, 2, 3)
        case Swap(positions=positions, channels=channels):
            data = _taken(operands[0], channels)
            return data.reshape(*data.shape[:2], -1, 1).swapaxes(1, 2)[:, :positions]
        case TransposedProduct(convolution=convolution):
            made = evaluate(replace(node, operator=convolution), operands)
            return made.reshape(*made.shape[:2], -1, 1).swapaxes(1, 2)
        case Products():
            return _products(operator, operands)
        case Repeated(channels=channels):
            each = operands[0].reshape(*operands[0].shape[:2], -1).swapaxes(1, 2)
            return np.repeat(each.reshape(len(each), 1, -1, 1), channels, axis=1)
        case PositionSums(products=products):
            a = operands[0][:, 0].reshape(len(operands[0]), -1, products.depth).swapaxes(1, 2)
            b = operands[1].reshape(*operands[1].shape[:2], -1).swapaxes(1, 2)
            return _products(products, [a[..., None], b[..., None]])
        case Rows():
            made = _of_rows(operator, operands[0])
            positions = made.shape[2] * made.shape[3]
            return made if operator.plane is None else _spaced(made, positions, operator.plane)
        case Attention(scores=scores, shares=shares, context=context):
            return _products(context, [_of_rows(shares, _products(scores, operands[:2])), operands[2]])
        case Resample():
            return _resampled(operator, operands[0])
        case Interpolation():
            return _interpolated(operator, operands[0])
        case _:
            raise ValueError(f"{node.name} ({node.kind}) has no integer operator")


def _spaced(data: np.ndarray, columns: int, pitch: int) -> np.ndarray:
    """Pads each row of `columns` pixels with zeros to a length of `pitch`; returns all rows joined as one column (N, C,
    pixels, 1).
    """
    lines = data.reshape(*data.shape[:2], -1, columns)
    padded = np.pad(lines, ((0, 0), (0, 0), (0, 0), (0, pitch - columns)))
    return padded.reshape(*data.shape[:2], -1, 1)


def _first_pixels(data: np.ndarray, count: int | None) -> np.ndarray:
    """The first `count` pixels of each image as one column (N, C, `count`, 1); `data` itself if `count` is None."""
    return data if count is None else data.reshape(*data.shape[:2], -1, 1)[:, :, :count]


def _taken(data: np.ndarray, channels: Pair | None) -> np.ndarray:
    return data if channels is None else data[:, channels[0] : channels[0] + channels[1]]


def _interleaved(operator: Interleave, data: np.ndarray) -> np.ndarray:
    (sy, sx), (top, left) = operator.factors, operator.before
    channels, rows, columns = operator.outputs
    y, x = np.arange(rows) + top, np.arange(columns) + left
    phase = (y % sy)[:, None] * sx + x % sx
    channel = phase * operator.stride + np.arange(channels)[:, None, None]
    return data[:, channel, (y // sy)[:, None], x // sx]


def _products(operator: Products, operands: list[np.ndarray]) -> np.ndarray:
    a, b = (_four(x).reshape(*x.shape[:2], -1).astype(np.int64) for x in operands[:2])
    groups, depth = operator.groups, operator.depth
    images = 1 + max(group.image for group in groups)
    ends = [max(group.output[axis] for group in groups) for axis in (0, 1)]
    out = np.empty((images, ends[0] + operator.columns, ends[1] + operator.rows, 1), np.int8)
    for group in groups:
        (ca, pa), (cb, pb), (co, po) = group.a, group.b, group.output
        left = a[group.image, ca : ca + depth, pa : pa + operator.rows] - operator.zero_points[0]
        right = b[group.image, cb : cb + depth, pb : pb + operator.columns] - operator.zero_points[1]
        post, sums = operator.post, wrap_int32(right.T @ left)
        made = requantize(sums, operator.scale, post.zero_point, post.low, post.high)
        if operator.table is not None:
            made = operator.table[made.astype(np.int16) + 128]
        out[group.image, co : co + operator.columns, po : po + operator.rows, 0] = made
    if (combination := operator.post.combination) is not None:
        operand = _four(operands[2]).reshape(out.shape) if combination.has_operand else None
        out = apply_combination(combination, out, operand)
    return out


def _of_rows(operator: Rows, data: np.ndarray) -> np.ndarray:
    rows = np.moveaxis(data, 1, -1)
    flat, (mantissa, shift) = rows.reshape(-1, data.shape[1]), operator.epsilon
    if operator.entries is not None:
        shares = softmax_shares(flat, operator.entries)
    else:
        shares = normalized_shares(flat, operator.zero_point, operator.centre, mantissa << shift)
    sums = wrap_int32(shares.astype(np.int64) + operator.bias)
    post = operator.post
    result = requantize(sums, operator.scale, post.zero_point, post.low, post.high)
    return np.moveaxis(result.reshape(rows.shape), -1, 1)


def _resampled(operator: Resample, data: np.ndarray) -> np.ndarray:
    along = np.moveaxis(data, operator.axis + 2, -1).astype(np.int32)
    places = operator.first[:, None] + np.arange(operator.weight.shape[1])
    taps = along[..., np.minimum(places, along.shape[-1] - 1)] * operator.weight
    sums = taps.sum(axis=-1, dtype=np.int32) + operator.bias
    post = operator.post
    result = requantize(sums, operator.scale, post.zero_point, post.low, post.high)
    return np.moveaxis(result, -1, operator.axis + 2)


def _interpolated(operator: Interpolation, data: np.ndarray) -> np.ndarray:
    source, grid, rows, columns = operator.source, operator.grid, operator.rows, operator.columns
    real, total = dequantize(data, source.scale, source.stored_zero_point), np.float32(0)
    for down, along in ((0, 0), (0, 1), (1, 0), (1, 1)):
        lines = real[:, :, np.minimum(rows.first + down, data.shape[2] - 1)]
        read = lines[..., np.minimum(columns.first + along, data.shape[3] - 1)]
        total = total + rows.weight[:, down, None] * columns.weight[:, along] * read
    result = quantize(np.asarray(total), grid.scale, grid.stored_zero_point)
    return result.clip(operator.low, operator.high)


def apply_combination(combination: Combination, values: np.ndarray, operand: np.ndarray | None) -> np.ndarray:
    """Computes the second stage of the store unit: combines the int8 results of the first stage (`values`) with a
    second int8 tensor (`operand`, which broadcasts). A `combination` of kind "rescale" has no operand.
    """
    if operand is not None and operand.ndim != values.ndim:
        values, operand = _four(values), _four(operand)
    if operand is None:
        return rescale(
            values,
            combination.zero_point_self,
            combination.ratio_self,
            combination.zero_point,
            combination.low,
            combination.high,
        )
    first, second = (operand, values) if combination.swap else (values, operand)
    if combination.kind == "add":
        ratios = (np.float32(combination.ratio_self), np.float32(combination.ratio_operand))
        constants = AddConstants(
            ratio_a=ratios[combination.swap],
            ratio_b=ratios[not combination.swap],
            offset=np.float32(combination.offset),
            unsigned=combination.unsigned,
        )
        return combine_add(first, second, constants, combination.low, combination.high)
    zero_points = (combination.zero_point_self, combination.zero_point_operand)
    return combine_multiply(
        first,
        second,
        (zero_points[combination.swap], zero_points[not combination.swap]),
        combination.ratio_self,
        combination.zero_point,
        combination.unsigned,
        combination.low,
        combination.high,
    )


def convolution_sums(operator: Int8Convolution, data: np.ndarray) -> np.ndarray:
    """The sums of a convolution with bias, before pooling and requantization: int32 (N, O, OH, OW), which wrap."""
    weight, groups = operator.weight, operator.groups
    windows = _windows(_pad(data, operator.window.pads, operator.pad_value), operator.window)
    batch, channels, height, width = windows.shape[:4]
    outputs, depth = weight.shape[0], channels // groups
    columns = windows.reshape(batch, groups, depth, height, width, *weight.shape[2:])
    columns = columns.transpose(0, 1, 2, 5, 6, 3, 4).reshape(batch, groups, -1, height * width)
    rows = weight.reshape(groups, outputs // groups, -1)
    sums = np.matmul(rows.astype(np.float64), columns.astype(np.float64))
    totals = sums.reshape(batch, outputs, height, width).astype(np.int64) + operator.bias.reshape(1, -1, 1, 1)
    return wrap_int32(totals)


def _four(array: np.ndarray) -> np.ndarray:
    return array.reshape(*array.shape, 1, 1) if array.ndim == 2 else array


def _pad(data: np.ndarray, pads: Pads, value: int) -> np.ndarray:
    top, left, bottom, right = pads
    if not any(pads):
        return data
    return np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=value)


def _windows(padded: np.ndarray, window: Window) -> np.ndarray:
    """All windows of padded data as a view (N, C, OH, OW, kh, kw)."""
    kernel, strides, dilations = window.kernel, window.strides, window.dilations
    extent = (window_extent(kernel[0], dilations[0]), window_extent(kernel[1], dilations[1]))
    view = sliding_window_view(padded, extent, axis=(2, 3))
    return view[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]
