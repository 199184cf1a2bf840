"""Converts convolutions, pools, resizes, and products with matrices to ONNX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import tflite

from .flatbuffer import damaged
from .model import Grid
from .short_products import short_product
from .step import Step
from .writer import refuse

RAW = Grid(scale=np.ones(1, np.float32), zero=np.zeros(1, np.int64))
"""Quantization of scale 1 and zero point 0: the real values are the stored integers."""
HALVES_AWAY = 2.0**-20
"""Averages of integers are multiplied by 1 + HALVES_AWAY before they are rounded half to even: halves are then rounded
away from zero, as in TFLite. Other averages, of fewer than 4,096 elements, are rounded as without the factor.
"""
PLACES = 1024
"""Number of positions that LiteRT's bilinear resize of integers distinguishes between two neighbouring elements."""
Pair = tuple[int, int]


def same_pads(
    step: Step, plane: Pair, kernel: Pair, strides: Pair, dilations: Pair = (1, 1)
) -> tuple[int, int, int, int]:
    """Pads (top, left, bottom, right) of an operator with windows. With TFLite's padding SAME, an odd number of pad
    rows or columns has one more at the end; with padding VALID there are no pads. `plane`: rows and columns of the
    operator's input or, for a transposed convolution, of its output.
    """
    same = step.options.Padding() == tflite.Padding.SAME
    ends: list[Pair] = []
    for size, extent, stride, dilation in zip(plane, kernel, strides, dilations, strict=True):
        span = (extent - 1) * dilation + 1
        total = max((-(-size // stride) - 1) * stride + span - size, 0) if same else 0
        ends.append((total // 2, total - total // 2))
    return ends[0][0], ends[1][0], ends[0][1], ends[1][1]


def convolution(step: Step) -> None:
    """Converts CONV_2D with weights (O, H, W, I / groups), and one scale for each output channel or a single scale."""
    _convolve(step, order=(0, 3, 1, 2))


def depthwise(step: Step) -> None:
    """Converts DEPTHWISE_CONV_2D with weights (1, H, W, channels * multiplier), and scales along the last axis."""
    _convolve(step, order=(3, 0, 1, 2))


def _convolve(step: Step, order: tuple[int, ...]) -> None:
    """Converts a convolution. `order` transposes TFLite's weights to ONNX's (O, I / groups, H, W)."""
    options, data = step.options, step.inputs[0]
    weights = step.writer.values(step.inputs[1], "filter").transpose(order)
    _, height, width, channels = step.shape(data)
    kernel = weights.shape[2], weights.shape[3]
    strides = options.StrideH(), options.StrideW()
    dilations = options.DilationHFactor(), options.DilationWFactor()
    if min(*strides, *dilations, *weights.shape) < 1 or channels % weights.shape[1]:
        problem = f"has invalid strides {strides}, dilations {dilations} or filter shape {weights.shape}"
        raise damaged(f"{step.operator.kind} {problem}")
    pads, group = same_pads(step, (height, width), kernel, strides, dilations), channels // weights.shape[1]
    window = {
        "kernel_shape": kernel,
        "strides": strides,
        "dilations": dilations,
        "pads": pads,
        "group": group,
    }
    if short := short_product(step, data, step.inputs[1], step.inputs[2:], order[0]):
        sums = short.of_weights("ConvInteger", step.writer.integral(data, planes=True), weights, **window)
        step.writer.put_integers(step.output, short.rounded(sums, (-1, 1, 1)), planes=True)
        return
    inputs = [
        step.writer.real(data, planes=True),
        _weights(step, data, step.inputs[1], weights, axis=order[0]),
        *_bias(step, 2, data, step.inputs[1]),
    ]
    step.put(step.node("Conv", inputs, **window), planes=True)


def transposed(step: Step) -> None:
    """Converts TRANSPOSE_CONV with weights (O, H, W, I); the declared shape of the output determines the pads."""
    filters, data = step.inputs[1:3]
    weights = step.writer.values(filters, "filter").transpose(0, 3, 1, 2)
    strides, kernel = (step.options.StrideH(), step.options.StrideW()), weights.shape[2:]
    _, height, width, _ = step.shape(data)
    _, rows, columns, _ = step.shape(step.output)
    if min(*strides, *weights.shape) < 1:
        raise damaged(f"{step.operator.kind} has invalid strides {strides} or filter shape {weights.shape}")
    top, left, _, _ = same_pads(step, (rows, columns), (kernel[0], kernel[1]), strides)
    # Rows and columns that the product has beyond the declared result.
    over = [
        (size - 1) * stride + extent - before - result
        for size, before, extent, stride, result in zip(
            (height, width), (top, left), kernel, strides, (rows, columns), strict=True
        )
    ]
    pads, more = (top, left, *(max(n, 0) for n in over)), [max(-n, 0) for n in over]
    window = {"kernel_shape": kernel, "strides": strides, "pads": pads, "output_padding": more}
    if short := short_product(step, data, filters, step.inputs[3:]):
        name, turned = step.writer.integral(data, planes=True), weights.transpose(1, 0, 2, 3)
        sums = short.of_weights("ConvTranspose", name, turned, **window)
        step.writer.put_integers(step.output, short.rounded(sums, (-1, 1, 1)), planes=True)
        return
    real = _weights(step, data, filters, weights, axis=0)
    turned = step.writer.node("Transpose", [real], f"{step.tensor(filters).name}/turned", perm=(1, 0, 2, 3))
    inputs = [step.writer.real(data, planes=True), turned, *_bias(step, 3, data, filters)]
    step.put(step.node("ConvTranspose", inputs, **window), planes=True)


def pool(step: Step) -> None:
    """Converts AVERAGE_POOL_2D, whose averages do not count pads, or MAX_POOL_2D."""
    options, writer, (data, *_) = step.options, step.writer, step.inputs
    source, tensor = step.tensor(data), step.tensor(step.output)
    _, height, width, _ = source.shape
    kernel = options.FilterHeight(), options.FilterWidth()
    strides = options.StrideH(), options.StrideW()
    if min(*kernel, *strides) < 1:
        raise damaged(f"{step.operator.kind} has invalid windows {kernel} or strides {strides}")
    pads = same_pads(step, (height, width), kernel, strides)
    window = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    if step.onnx == "MaxPool" or not step.same_integers() or tensor.grid is None:
        step.put(step.node(step.onnx, [writer.real(data, planes=True)], **window), planes=True)
        return
    integers = writer.integral(data, planes=True)
    raw = writer.dequantized(integers, RAW, f"{source.name}/integers", source.dtype)
    result = step.node(step.onnx, [raw], **window)
    zero, scale = tensor.grid.zero[0], tensor.grid.scale[0]
    low, high = (float(zero + np.rint(end / scale)) for end in step.bounds())
    result = step.clamped(result, low, high, RAW)
    away = replace(RAW, scale=RAW.scale * np.float32(1 - HALVES_AWAY))
    writer.put_integers(step.output, writer.quantized_node(result, away, tensor), planes=True)


def resize(step: Step) -> None:
    """Converts RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR with constant sizes."""
    data, size = step.inputs
    if step.onnx == "linear" and step.tensor(data).dtype == np.int16 and step.same_integers():
        _interpolate(step)
        return
    batch, _, _, channels = step.shape(data)
    half = "half_pixel" if step.options.HalfPixelCenters() else "asymmetric"
    coordinates = "align_corners" if step.options.AlignCorners() else half
    sizes = step.constant([batch, channels, *step.writer.values(size, "size")], "sizes")
    inputs = [step.writer.real(data, planes=True), "", "", sizes]
    more = {"mode": step.onnx, "coordinate_transformation_mode": coordinates}
    if step.onnx == "nearest":
        more["nearest_mode"] = "floor" if coordinates == "asymmetric" else "round_prefer_ceil"
    step.put(step.node("Resize", inputs, **more), planes=True)


def _interpolate(step: Step) -> None:
    """Converts RESIZE_BILINEAR of int16 to the arithmetic of LiteRT's kernel, with 10 bits for a position between two
    elements. An exact interpolation differed from the kernel by up to 235 steps.
    """
    data, size = step.inputs
    source, writer = step.tensor(data), step.writer
    value = step.node("Cast", [writer.integral(data, planes=True)], "wide", to=7)
    sizes = step.writer.values(size, "size").tolist()
    if tuple(sizes) != step.shape(step.output)[1:3]:
        raise damaged(
            f"{step.operator.kind} declares an output of shape {step.shape(step.output)}, but computes {sizes}"
        )
    for axis, after in zip((2, 3), sizes, strict=True):
        low, high, share = _places(step, source.shape[axis - 1], after)
        parts: list[str] = []
        for places, weight in ((low, PLACES - share), (high, share)):
            part = step.node("Gather", [value, step.constant(places, "places", np.int64)], "part", axis=axis)
            column = weight.reshape(-1, 1) if axis == 2 else weight
            parts.append(step.node("Mul", [part, step.constant(column, "weight", np.int64)], "part"))
        value = step.node("Add", parts, "sum")
    half = step.node(
        "Mul", [step.node("Sign", [value], "sign"), step.constant(PLACES**2 // 2, "half", np.int64)], "half"
    )
    # Div of integers rounds towards zero.
    whole = step.node(
        "Div", [step.node("Add", [value, half], "more"), step.constant(PLACES**2, "unit", np.int64)]
    )
    writer.put_integers(step.output, step.cast(whole, "narrow"), planes=True)


def _places(step: Step, before: int, after: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Source elements and weight for each element of an axis resized from `before` to `after` elements: (index of the
    element below, index of the element above, weight of the element above in units of 1/PLACES), as
    `ResizeBilinearInteger` in TFLite's reference_ops.h computes them.
    """
    scale = (PLACES * before + after // 2) // after
    if step.options.AlignCorners() and after > 1:
        scale = (PLACES * (before - 1) + (after - 1) // 2) // (after - 1)
    place = np.arange(after) * scale
    if step.options.HalfPixelCenters():
        place += scale // 2 - PLACES // 2
    # In front of the first element both are the first.
    low, high = np.maximum(place // PLACES, 0), np.clip(-(-place // PLACES), 0, before - 1)
    return low, high, place - PLACES * low


def fully_connected(step: Step) -> None:
    """Converts FULLY_CONNECTED: rows of K elements times weights (O, K). If the rows are images flattened as (C, H, W),
    the columns of the weights are reordered to match, so that activations stay in place.
    """
    if step.options.WeightsFormat() != tflite.FullyConnectedOptionsWeightsFormat.DEFAULT:
        refuse("has shuffled weights", "convert the model without them")
    data, filters = step.inputs[:2]
    weights, before, after = step.writer.values(filters, "filter"), step.shape(data), step.shape(step.output)
    if weights.ndim != 2 or not weights.size or np.prod(before) % weights.shape[1]:
        raise damaged(f"{step.operator.kind} multiplies {before} with {weights.shape}")
    if short := short_product(step, data, filters, step.inputs[2:]):
        rows, order = _rows(step, data, weights.shape[1], step.writer.integral)
        weights = weights if order is None else weights[:, order]
        result = short.rounded(short.of_weights("MatMulInteger", rows, weights.T), (-1,))
        if len(after) != 2:
            result = step.writer.reshaped(result, after, f"{step.name}/view")
        step.writer.put_integers(step.output, result)
        return
    bias = _bias(step, 2, data, filters)
    if len(before) == 3 and len(after) == 3 and before[-1] == weights.shape[1]:
        turned = _weights(step, data, filters, weights.T, axis=0, last=True)
        product = step.node("MatMul", [step.writer.real(data), turned])
        if bias:
            product = step.node("Add", [product, *bias], "sum")
    else:
        rows, order = _rows(step, data, weights.shape[1])
        weights = weights if order is None else weights[:, order]
        factor = _weights(step, data, filters, weights, axis=0)
        product = step.node("Gemm", [rows, factor, *bias], transB=1)
        if len(after) != 2:
            product = step.writer.reshaped(product, after, f"{step.name}/view")
    step.put(product)


def _rows(
    step: Step, data: int, length: int, value: Callable[..., str] | None = None
) -> tuple[str, np.ndarray | None]:
    """Reshapes the tensor `data` to rows of `length` elements: (name of the result, order of the weights' columns that
    matches a row's elements). The order is None if the columns match already. `value`: `Writer.real` (default) or
    `Writer.integral`, the function that names the tensor's reals or integers.
    """
    tensor, shape = step.tensor(data), step.shape(data)
    planes = len(shape) == 4 and step.writer.in_planes(data)
    if planes and np.prod(shape[1:]) != length:
        planes = shape[3] == 1
    name = (value or step.writer.real)(data, planes=planes)
    if len(shape) != 2 or shape[1] != length:
        name = step.writer.reshaped(name, (-1, length), f"{tensor.name}/rows")
    return name, planes_order(shape) if planes else step.writer.columns.get(data)


def planes_order(shape: tuple[int, ...]) -> np.ndarray | None:
    """For each element of an image flattened as (C, H, W), its index in the image flattened as (H, W, C); None if the
    indices are 0, 1, 2, ... `shape` is (N, H, W, C).
    """
    order = np.arange(np.prod(shape[1:])).reshape(shape[1:]).transpose(2, 0, 1).reshape(-1)
    return None if (order == np.arange(order.size)).all() else order


def matrix_product(step: Step) -> None:
    """Converts BATCH_MATMUL, a product of two activations or of an activation and a constant."""
    factors: list[str] = []
    first, second = step.inputs
    short = short_product(step, first, second)
    for index, turned in ((first, step.options.AdjX()), (second, step.options.AdjY())):
        tensor, rank, array = step.tensor(index), step.writer.rank(index), step.writer.known(index)
        if short is None:
            name = step.writer.real(index)
        else:
            name = step.writer.integral(index) if array is None else step.writer.constant(array, tensor.name)
        if turned:
            axes = (*range(rank - 2), rank - 1, rank - 2)
            name = step.writer.node("Transpose", [name], f"{tensor.name}/turned", perm=axes)
        factors.append(name)
    if short is None:
        step.put(step.node("MatMul", factors))
    else:
        step.writer.put_integers(step.output, short.rounded(short.of_two(*factors), ()))


def _weights(
    step: Step, data: int, filters: int, weights: np.ndarray, *, axis: int, last: bool = False
) -> str:
    """Adds the constant `weights`, the values of tensor `filters` in ONNX's layout. Returns the name of the real-valued
    weights: if tensor `data` is quantized, the result of a DequantizeLinear, else a float constant.

    `axis`: the axis of output channels in TFLite's layout; the weights may have one scale for each index along this
    axis. `last`: output channels are the last axis of `weights`, not the first.
    """
    writer, tensor, grid = step.writer, step.tensor(filters), step.tensor(filters).grid
    if grid is None:
        return writer.constant(weights.astype(np.float32), tensor.name)
    if not grid.one and grid.axis != axis:
        way_out = f"quantize it along axis {axis}, or with one scale"
        refuse(f"its filter has scales along axis {grid.axis}", way_out)
    if not writer.quantized(data):
        by_channel = (-1,) if last else (-1, *[1] * (weights.ndim - 1))
        real = (weights.astype(np.float32) - grid.zero.reshape(by_channel)) * grid.scale.reshape(by_channel)
        return writer.constant(real.astype(np.float32), tensor.name)
    zero = grid.zero
    if weights.dtype == np.uint8 and (zero == 128).all():
        weights, zero = (weights.astype(np.int16) - 128).astype(np.int8), zero - 128
    name, grid = writer.constant(weights, tensor.name), Grid(scale=grid.scale, zero=zero)
    return writer.dequantized(name, grid, f"{tensor.name}/real", weights.dtype, axis=int(last))


def _bias(step: Step, place: int, data: int, filters: int) -> list[str]:
    """The name of a product's bias (the operator's input at `place`) in a list, which is empty for a product without
    bias. The bias is float, or integers in steps of data scale x weight scale.
    """
    if (step.inputs[place : place + 1] or (-1,))[0] < 0:
        return []
    writer, name = step.writer, step.tensor(step.inputs[place]).name
    bias = step.numbers(place, "bias")
    data_grid, weight_grid = step.tensor(data).grid, step.tensor(filters).grid
    if data_grid is None or weight_grid is None:
        return [writer.constant(bias.astype(np.float32), name)]
    grid = Grid(scale=data_grid.scale * weight_grid.scale, zero=np.zeros_like(weight_grid.zero))
    if np.abs(bias, dtype=np.float64).max(initial=0) < 2**31:
        integers = writer.constant(bias.astype(np.int32), name)
        return [writer.dequantized(integers, grid, f"{name}/real", np.dtype(np.int32))]
    return [writer.constant((bias * grid.scale.astype(np.float64)).astype(np.float32), name)]
