"""The integer interpreter: what a graph means. Where ONNX Runtime disagrees with itself, this decides.

All rounding is that of `vdla.isa.arithmetic`. Sums of products are computed as float64 matrix products: each
product of two int8 values and every partial sum is an integer far below 2**53, hence exact in any order.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from vdla.isa.arithmetic import AddConstants, combine_add, combine_multiply, requantize, rescale, wrap_int32

from .geometry import window_extent
from .graph import (
    AveragePool,
    Channels,
    Combine,
    Convolution,
    Elementwise,
    Graph,
    Interleave,
    MaxPool,
    Node,
    Pads,
    Pair,
    Pool,
    Table,
    reads,
)

LEAST_SUM = np.iinfo(np.int32).min


def interpret(graph: Graph, inputs: dict[str, np.ndarray], keep_all: bool = False) -> dict[str, np.ndarray]:
    """Runs a graph on stored inputs (int8, by tensor name; `host.store_inputs` makes them).

    Returns stored int8 tensors by name: those behind the graph's outputs, or with `keep_all` every one.
    """
    tensors: dict[str, np.ndarray] = {**graph.constants, **inputs}
    last_use = {name: step for step, node in enumerate(graph.nodes) for name in reads(node)}
    wanted = {output.tensor for output in graph.outputs}
    for step, node in enumerate(graph.nodes):
        result = evaluate(node, [tensors[name] for name in reads(node)])
        tensors[node.output] = result.reshape(graph.tensors[node.output].shape)
        if not keep_all:
            for name in reads(node):
                if last_use[name] == step and name not in wanted:
                    tensors.pop(name, None)
    return tensors if keep_all else {name: tensors[name] for name in wanted}


def evaluate(node: Node, operands: list[np.ndarray]) -> np.ndarray:
    """One node on its operands in the order of `graph.reads`: stored int8 (N, C, H, W) or (N, K) each."""
    match node:
        case Convolution(requantize=stage, combine=combine, pool=pool):
            sums = convolution_sums(node, _four(operands[0]))
            if pool is not None:
                sums = _pool_sums(sums, pool)
            channels = stage.scale.reshape(1, -1, 1, 1)
            result = requantize(sums, channels, stage.zero_point, stage.low, stage.high)
            if combine is None:
                return result
            return apply_combine(combine, result, _four(operands[1]) if combine.operand is not None else None)
        case MaxPool(kernel=kernel, strides=strides, pads=pads):
            padded = _pad(_four(operands[0]), pads, -128)
            return _windows(padded, kernel, strides, (1, 1)).max(axis=(4, 5))
        case AveragePool(requantize=stage):
            padded = _pad(_four(operands[0]), node.pads, node.pad_value).astype(np.int32)
            sums = (
                _windows(padded, node.kernel, node.strides, (1, 1)).sum(axis=(4, 5), dtype=np.int64)
                + node.bias
            )
            scales = np.zeros(node.divisors.shape, np.float32)
            for divisor, scale in node.scale_by_divisor:
                scales[node.divisors == divisor] = scale
            return requantize(wrap_int32(sums), scales, stage.zero_point, stage.low, stage.high)
        case Elementwise(combine=combine):
            return apply_combine(combine, operands[0], operands[1] if len(operands) > 1 else None)
        case Table(table=table):
            return table[operands[0].astype(np.int16) + 128]
        case Channels(sources=sources):
            return np.stack([operands[part][:, channel] for part, channel in sources], axis=1)
        case Interleave():
            return _interleaved(node, _four(operands[0]))


def _interleaved(node: Interleave, data: np.ndarray) -> np.ndarray:
    (sy, sx), (top, left) = node.factors, node.before
    channels, rows, columns = node.outputs
    y, x = np.arange(rows) + top, np.arange(columns) + left
    phase = (y % sy)[:, None] * sx + x % sx
    channel = phase * node.stride + np.arange(channels)[:, None, None]
    return data[:, channel, (y // sy)[:, None], x // sx]


def apply_combine(combine: Combine, values: np.ndarray, operand: np.ndarray | None) -> np.ndarray:
    """Stage B on int8 `values` and, but for rescale, an int8 `operand` that broadcasts against them."""
    if operand is not None and operand.ndim != values.ndim:
        values, operand = _four(values), _four(operand)
    if operand is None:
        return rescale(
            values, combine.zero_point_self, combine.ratio_self, combine.zero_point, combine.low, combine.high
        )
    first, second = (operand, values) if combine.swap else (values, operand)
    if combine.kind == "add":
        ratios = (combine.ratio_self, combine.ratio_operand)
        constants = AddConstants(
            ratio_a=ratios[combine.swap],
            ratio_b=ratios[not combine.swap],
            offset=combine.offset,
            unsigned=combine.unsigned,
        )
        return combine_add(first, second, constants, combine.low, combine.high)
    zero_points = (combine.zero_point_self, combine.zero_point_operand)
    return combine_multiply(
        first,
        second,
        zero_points[combine.swap],
        zero_points[not combine.swap],
        combine.ratio_self,
        combine.zero_point,
        combine.unsigned,
        combine.low,
        combine.high,
    )


def convolution_sums(node: Convolution, data: np.ndarray) -> np.ndarray:
    """int32 sums with bias, wrapped at 32 bits, (N, O, OH, OW), before pooling and stage A."""
    windows = _windows(
        _pad(data, node.pads, node.pad_value), node.weight.shape[2:], node.strides, node.dilations
    )
    batch, channels, height, width = windows.shape[:4]
    outputs, depth = node.weight.shape[0], channels // node.groups
    columns = windows.reshape(batch, node.groups, depth, height, width, *node.weight.shape[2:])
    columns = columns.transpose(0, 1, 2, 5, 6, 3, 4).reshape(batch, node.groups, -1, height * width)
    rows = node.weight.reshape(node.groups, outputs // node.groups, -1)
    sums = np.matmul(rows.astype(np.float64), columns.astype(np.float64))
    totals = sums.reshape(batch, outputs, height, width).astype(np.int64) + node.bias.reshape(1, -1, 1, 1)
    return wrap_int32(totals)


def _four(array: np.ndarray) -> np.ndarray:
    return array.reshape(*array.shape, 1, 1) if array.ndim == 2 else array


def _pad(data: np.ndarray, pads: Pads, value: int) -> np.ndarray:
    top, left, bottom, right = pads
    if not any(pads):
        return data
    return np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=value)


def _windows(padded: np.ndarray, kernel: tuple[int, ...], strides: Pair, dilations: Pair) -> np.ndarray:
    """A view (N, C, OH, OW, kh, kw) of all windows."""
    extent = (window_extent(kernel[0], dilations[0]), window_extent(kernel[1], dilations[1]))
    view = sliding_window_view(padded, extent, axis=(2, 3))
    return view[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]


def _pool_sums(sums: np.ndarray, pool: Pool) -> np.ndarray:
    return _windows(_pad(sums, pool.pads, int(LEAST_SUM)), pool.kernel, pool.strides, (1, 1)).max(axis=(4, 5))
