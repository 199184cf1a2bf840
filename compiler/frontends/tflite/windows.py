"""Convolutions, pools and resizes."""

from __future__ import annotations

import numpy as np
import tflite

from .activations import activate, bounds, clamped
from .flatbuffer import damaged
from .model import Grid, Operator, Tensor
from .writer import Writer, refuse, result_name, same_grid

Pads = tuple[int, int, int, int]
RAW = Grid(scale=np.ones(1, np.float32), zero=np.zeros(1, np.int64), axis=0)
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


def _convolve(writer: Writer, operator: Operator, options, weights: np.ndarray, *, axis: int) -> None:
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
    product = writer.node(
        "Conv",
        inputs,
        result_name(writer, operator, options),
        group=channels // weights.shape[1],
        kernel_shape=kernel,
        strides=strides,
        dilations=dilations,
        pads=pads,
    )
    put_activated(writer, operator, product, options, planes=True)


def put_activated(writer: Writer, operator: Operator, name: str, options, *, planes: bool = False) -> None:
    """Gives an operator's output its value behind the fused activation of its options."""
    output = operator.outputs[0]
    writer.put(output, activate(writer, output, name, options.FusedActivationFunction()), planes=planes)


def weight_operand(
    writer: Writer, data: int, filters: int, weights: np.ndarray, *, axis: int, columns: bool = False
) -> str:
    """Constant weights in ONNX's layout, output channels first: quantized if the data `data` are, else float.

    `axis`: the axis of TFLite's layout along which scales may be. With `columns` a matrix is transposed, so that output
    channels are columns.
    """
    tensor = writer.tensor(filters)
    if tensor.grid is None:
        real = weights.astype(np.float32)
        return writer.constant(real.T if columns else real, tensor.name)
    grid = tensor.grid
    if not grid.one and grid.axis != axis:
        refuse(
            f"its filter has scales along axis {grid.axis}",
            f"quantize it along axis {axis}, or with one scale",
        )
    if not writer.quantized(data):
        column = (-1, *[1] * (weights.ndim - 1))
        real = (weights.astype(np.float32) - grid.zero.reshape(column)) * grid.scale.reshape(column)
        real = real.astype(np.float32)
        return writer.constant(real.T if columns else real, tensor.name)
    dtype, zero = weights.dtype, grid.zero
    if dtype == np.uint8 and (zero == 128).all():
        weights, dtype, zero = (weights.astype(np.int16) - 128).astype(np.int8), np.dtype(np.int8), zero - 128
    centred = Grid(scale=grid.scale, zero=zero, axis=0)
    name = writer.constant(weights.T if columns else weights, tensor.name)
    return writer.dequantized(name, centred, f"{tensor.name}/real", dtype, axis=int(columns))


def bias_operands(writer: Writer, given: tuple[int, ...], data: int, filters: int) -> list[str]:
    """The bias of a product, the first tensor of `given`: integers in steps of data scale x weight scale, or float."""
    if not given or given[0] < 0:
        return []
    index = given[0]
    bias, tensor = writer.values(index, "bias").reshape(-1), writer.tensor(index)
    step, weight = writer.tensor(data).grid, writer.tensor(filters).grid
    if step is None or weight is None:
        return [writer.constant(bias.astype(np.float32), tensor.name)]
    grid = Grid(scale=step.scale * weight.scale, zero=np.zeros_like(weight.zero), axis=0)
    if np.abs(bias, dtype=np.float64).max(initial=0) < 2**31:
        integers = writer.constant(bias.astype(np.int32), tensor.name)
        return [writer.dequantized(integers, grid, f"{tensor.name}/real", np.dtype(np.int32))]
    return [writer.constant((bias * grid.scale.astype(np.float64)).astype(np.float32), tensor.name)]


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
    ends, more = [], []
    for size, before, extent, stride, result in zip(
        (height, width), (top, left), kernel, strides, (rows, columns), strict=True
    ):
        left_over = (size - 1) * stride + extent - before - result
        ends.append(max(left_over, 0))
        more.append(max(-left_over, 0))
    real = weight_operand(writer, data, filters, weights, axis=0)
    turned = writer.node("Transpose", [real], f"{writer.tensor(filters).name}/turned", perm=(1, 0, 2, 3))
    product = writer.node(
        "ConvTranspose",
        [writer.real(data, planes=True), turned, *bias_operands(writer, operator.inputs[3:], data, filters)],
        result_name(writer, operator, options),
        kernel_shape=kernel,
        strides=strides,
        pads=(top, left, *ends),
        output_padding=more,
    )
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
    exact = onnx_operator == "AveragePool" and same_grid(writer, data, output)
    source = _own_steps(writer, data, 1.0) if exact else writer.real(data, planes=True)
    result = writer.node(
        onnx_operator,
        [source],
        result_name(writer, operator, options),
        kernel_shape=kernel,
        strides=strides,
        pads=pads,
    )
    if not exact:
        put_activated(writer, operator, result, options, planes=True)
        return
    tensor, grid = writer.tensor(output), writer.tensor(output).grid
    assert grid is not None
    low, high = (
        float(grid.zero[0] + np.rint(end / grid.scale[0]))
        for end in bounds(options.FusedActivationFunction())
    )
    raw = Tensor(name=tensor.name, shape=tensor.shape, dtype=tensor.dtype, grid=RAW, data=None)
    result = clamped(writer, raw, result, low, high)
    away = Grid(scale=np.array([1 - HALVES_AWAY], np.float32), zero=RAW.zero, axis=0)
    writer.put_integers(output, writer.quantized_node(result, away, tensor), planes=True)


def _own_steps(writer: Writer, data: int, scale: float) -> str:
    """The stored integers of a tensor as real values, in planes."""
    grid = Grid(scale=np.array([scale], np.float32), zero=RAW.zero, axis=0)
    tensor = writer.tensor(data)
    return writer.dequantized(
        writer.integral(data, planes=True), grid, f"{tensor.name}/integers", tensor.dtype
    )


def resize(writer: Writer, operator: Operator, mode: str) -> None:
    """RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR with constant sizes."""
    options = operator.options(
        "ResizeBilinearOptions" if mode == "linear" else "ResizeNearestNeighborOptions"
    )
    data = operator.inputs[0]
    batch, _, _, channels = writer.tensor(data).shape
    height, width = (int(size) for size in writer.values(operator.inputs[1], "size"))
    coordinates = "asymmetric"
    if options.AlignCorners():
        coordinates = "align_corners"
    elif options.HalfPixelCenters():
        coordinates = "half_pixel"
    name = result_name(writer, operator)
    sizes = writer.constant(np.array([batch, channels, height, width]), f"{name}/sizes")
    more = (
        {}
        if mode == "linear"
        else {"nearest_mode": "floor" if coordinates == "asymmetric" else "round_prefer_ceil"}
    )
    result = writer.node(
        "Resize",
        [writer.real(data, planes=True), "", "", sizes],
        name,
        mode=mode,
        coordinate_transformation_mode=coordinates,
        **more,
    )
    writer.put(operator.outputs[0], result, planes=True)
