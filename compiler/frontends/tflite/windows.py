"""Convolutions, pools and resizes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import tflite

from .activations import bounds, clamped
from .flatbuffer import damaged
from .model import Grid, Operator
from .operands import bias_operands, put_activated, weight_operand
from .writer import Writer, result_name, same_integers

Pads = tuple[int, int, int, int]
RAW = Grid(scale=np.ones(1, np.float32), zero=np.zeros(1, np.int64))
"""The grid on which stored integers are their own values."""
HALVES_AWAY = 2.0**-20
"""By this share averages of integers are made larger before they are rounded half to even: TFLite rounds halves away
from zero. Averages over fewer than 4,096 elements that are no halves round as before."""


def same_pads(
    same: bool,
    plane: tuple[int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int] = (1, 1),
) -> Pads:
    """Pads (top, left, bottom, right) of TFLite's SAME, where the odd row or column is the last; zeros otherwise."""
    ends: list[tuple[int, int]] = []
    for size, extent, stride, dilation in zip(plane, kernel, strides, dilations, strict=True):
        span = (extent - 1) * dilation + 1
        total = max((-(-size // stride) - 1) * stride + span - size, 0) if same else 0
        ends.append((total // 2, total - total // 2))
    return ends[0][0], ends[1][0], ends[0][1], ends[1][1]


def convolution(writer: Writer, operator: Operator) -> None:
    """CONV_2D: weights (O, H, W, I / groups), one scale for each output channel or one."""
    options = operator.options("Conv2DOptions")
    weights = writer.values(operator.inputs[1], "filter")
    _convolve(writer, operator, options, weights.transpose(0, 3, 1, 2), axis=0)


def depthwise(writer: Writer, operator: Operator) -> None:
    """DEPTHWISE_CONV_2D: weights (1, H, W, channels * multiplier), scales along the last axis."""
    options = operator.options("DepthwiseConv2DOptions")
    weights = writer.values(operator.inputs[1], "filter")
    _convolve(writer, operator, options, weights.transpose(3, 0, 1, 2), axis=3)


def _convolve(writer: Writer, operator: Operator, options: Any, weights: np.ndarray, *, axis: int) -> None:
    data, filters = operator.inputs[:2]
    _, height, width, channels = writer.tensor(data).shape
    kernel = weights.shape[2], weights.shape[3]
    strides = options.StrideH(), options.StrideW()
    dilations = options.DilationHFactor(), options.DilationWFactor()
    if min(*strides, *dilations, *weights.shape) < 1 or channels % weights.shape[1]:
        raise damaged(
            f"{operator.kind} has strides {strides}, dilations {dilations}, filters {weights.shape}"
        )
    inputs = [
        writer.real(data, planes=True),
        weight_operand(writer, data, filters, weights, axis=axis),
        *bias_operands(writer, operator.inputs[2:], data, filters),
    ]
    pads = same_pads(options.Padding() == tflite.Padding.SAME, (height, width), kernel, strides, dilations)
    window = {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": pads}
    name = result_name(writer, operator, options)
    product = writer.node("Conv", inputs, name, group=channels // weights.shape[1], **window)
    put_activated(writer, operator, product, options, planes=True)


def transposed(writer: Writer, operator: Operator) -> None:
    """TRANSPOSE_CONV: weights (O, H, W, I); the declared shape of the output decides the pads."""
    options = operator.options("TransposeConvOptions")
    filters, data = operator.inputs[1:3]
    weights = writer.values(filters, "filter").transpose(0, 3, 1, 2)
    strides, kernel = (options.StrideH(), options.StrideW()), weights.shape[2:]
    _, height, width, _ = writer.tensor(data).shape
    _, rows, columns, _ = writer.tensor(operator.outputs[0]).shape
    if min(*strides, *weights.shape) < 1:
        raise damaged(f"{operator.kind} has strides {strides}, filters {weights.shape}")
    same = options.Padding() == tflite.Padding.SAME
    top, left, _, _ = same_pads(same, (rows, columns), (kernel[0], kernel[1]), strides)
    # Rows and columns that the product has beyond the declared result.
    over = [
        (size - 1) * stride + extent - before - result
        for size, before, extent, stride, result in zip(
            (height, width), (top, left), kernel, strides, (rows, columns), strict=True
        )
    ]
    real = weight_operand(writer, data, filters, weights, axis=0)
    turned = writer.node("Transpose", [real], f"{writer.tensor(filters).name}/turned", perm=(1, 0, 2, 3))
    inputs = [
        writer.real(data, planes=True),
        turned,
        *bias_operands(writer, operator.inputs[3:], data, filters),
    ]
    pads, more = (top, left, *(max(n, 0) for n in over)), [max(-n, 0) for n in over]
    window = {"kernel_shape": kernel, "strides": strides, "pads": pads, "output_padding": more}
    product = writer.node("ConvTranspose", inputs, result_name(writer, operator, options), **window)
    put_activated(writer, operator, product, options, planes=True)


def pool(writer: Writer, operator: Operator, onnx_operator: str) -> None:
    """AVERAGE_POOL_2D, whose divisor leaves pads out, and MAX_POOL_2D."""
    options = operator.options("Pool2DOptions")
    data, output = operator.inputs[0], operator.outputs[0]
    _, height, width, _ = writer.tensor(data).shape
    kernel = options.FilterHeight(), options.FilterWidth()
    strides = options.StrideH(), options.StrideW()
    if min(*kernel, *strides) < 1:
        raise damaged(f"{operator.kind} has windows {kernel}, strides {strides}")
    pads = same_pads(options.Padding() == tflite.Padding.SAME, (height, width), kernel, strides)
    exact = onnx_operator == "AveragePool" and same_integers(writer, data, output)
    source = writer.tensor(data)
    if exact:
        integers = writer.integral(data, planes=True)
        given = writer.dequantized(integers, RAW, f"{source.name}/integers", source.dtype)
    else:
        given = writer.real(data, planes=True)
    name, window = result_name(writer, operator, options), {"kernel_shape": kernel, "strides": strides}
    result = writer.node(onnx_operator, [given], name, pads=pads, **window)
    if not exact:
        put_activated(writer, operator, result, options, planes=True)
        return
    tensor, grid = writer.tensor(output), writer.tensor(output).grid
    assert grid is not None
    ends = bounds(options.FusedActivationFunction())
    low, high = (float(grid.zero[0] + np.rint(end / grid.scale[0])) for end in ends)
    result = clamped(writer, replace(tensor, grid=RAW), result, low, high)
    away = replace(RAW, scale=RAW.scale * np.float32(1 - HALVES_AWAY))
    writer.put_integers(output, writer.quantized_node(result, away, tensor), planes=True)


def resize(writer: Writer, operator: Operator, mode: str) -> None:
    """RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR with constant sizes."""
    kind = "ResizeBilinearOptions" if mode == "linear" else "ResizeNearestNeighborOptions"
    options, (data, size) = operator.options(kind), operator.inputs
    batch, _, _, channels = writer.tensor(data).shape
    half = "half_pixel" if options.HalfPixelCenters() else "asymmetric"
    coordinates = "align_corners" if options.AlignCorners() else half
    name = result_name(writer, operator)
    sizes = writer.constant(np.array([batch, channels, *writer.values(size, "size")]), f"{name}/sizes")
    inputs = [writer.real(data, planes=True), "", "", sizes]
    more = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        more["nearest_mode"] = "floor" if coordinates == "asymmetric" else "round_prefer_ceil"
    writer.put(operator.outputs[0], writer.node("Resize", inputs, name, **more), planes=True)
