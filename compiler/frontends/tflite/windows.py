"""Converts convolutions, pools, resizes, and products with matrices to ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tflite

from .flatbuffer import require
from .formulas import Term
from .model import Grid
from .short_products import short_product
from .step import Step
from .writer import refuse

RAW = Grid(scale=np.ones(1, np.float32), zero=np.zeros(1, np.int64))
"""Quantization of scale 1 and zero point 0: the real values are the stored integers."""
HALVES_AWAY = 2.0**-20
"""Averages of integers are multiplied by 1 + HALVES_AWAY before they are rounded half to even. Halves are then rounded
away from zero, as in TFLite. In averages of fewer than 4,096 elements, the factor changes nothing else.
"""
PLACES = 1024
"""LiteRT's bilinear resize of integers divides the distance between two neighbouring elements into this many positions.
"""


def _window(step: Step, plane: Sequence[int] | np.ndarray, kernel: tuple[int, ...]) -> dict[str, Any]:
    """The ONNX attributes of an operator with windows of the size `kernel`. With TFLite's padding SAME, an odd number
    of pad rows or columns has one more at the end; with padding VALID there are no pads. `plane`: rows and columns of
    the operator's input or, for a transposed convolution, of its output.
    """
    options = step.options
    window = {"kernel_shape": kernel, "strides": (options.StrideH(), options.StrideW())}
    if hasattr(options, "DilationHFactor"):
        window["dilations"] = options.DilationHFactor(), options.DilationWFactor()
    size, extent, stride = (np.array(part) for part in (plane, kernel, window["strides"]))
    dilation = np.array(window.get("dilations", (1, 1)))
    fits = min(*extent, *stride, *dilation) > 0
    require(fits, f"{step.operator.kind} has a window, stride or dilation below 1: {window}")
    covered = (-(-size // stride) - 1) * stride + (extent - 1) * dilation + 1
    total = np.maximum(covered - size, 0) * (options.Padding() == tflite.Padding.SAME)
    return {**window, "pads": [*(total // 2), *(total - total // 2)]}


def convolution(step: Step) -> None:
    """Converts CONV_2D, with weights (O, H, W, I / groups), or DEPTHWISE_CONV_2D, with weights (1, H, W, channels *
    multiplier). The weights have one scale for each output channel, or a single scale.
    """
    order = (3, 0, 1, 2) if step.operator.kind == "DEPTHWISE_CONV_2D" else (0, 3, 1, 2)
    weights = step.numbers(1, "filter").transpose(order)
    _, height, width, channels = step.shape(step.inputs[0])
    window = _window(step, (height, width), weights.shape[2:])
    window["group"] = channels // weights.shape[1]
    if short := short_product(step, 0, 1, 2, order[0]):
        short.put("ConvInteger", Term(step, step.operand(0, True)), weights, (-1, 1, 1), **window)
        return
    step.put(step.node("Conv", [step.operand(), *_factors(step, weights, order[0])], **window))


def transposed(step: Step) -> None:
    """Converts TRANSPOSE_CONV with weights (O, H, W, I); the declared shape of the output determines the pads."""
    weights = step.numbers(1, "filter").transpose(0, 3, 1, 2)
    plane, after = (np.array(step.shape(index)[1:3]) for index in (step.inputs[2], step.output))
    window = _window(step, after, weights.shape[2:])
    kernel, strides = np.array(window["kernel_shape"]), np.array(window["strides"])
    before = np.array(window["pads"][:2])
    if short := short_product(step, 2, 1, 3):
        # A convolution of the elements, with zeros between them, by the weights turned by half a turn.
        batch, channels = step.shape(step.inputs[2])[0], weights.shape[1]
        (height, width), (down, right) = plane.tolist(), strides.tolist()
        data = Term(step, step.operand(2, True)).to(np.int64)
        spread = data.apply("Reshape", [batch, channels, height, 1, width, 1])
        spread = spread.apply("Pad", [0] * 9 + [down - 1, 0, right - 1])
        spread = spread.apply("Reshape", [batch, channels, height * down, width * right])
        ends = [0, 0, *(kernel - 1 - before), 0, 0, *(after + before - plane * strides)]
        short.put("ConvInteger", spread.apply("Pad", ends), weights[:, :, ::-1, ::-1], (-1, 1, 1))
        return
    # Rows and columns that the product has beyond the declared result.
    over = (plane - 1) * strides + kernel - before - after
    window |= {"pads": [*before, *np.maximum(over, 0)], "output_padding": np.maximum(-over, 0).tolist()}
    factors = _factors(step, weights.swapaxes(0, 1), 0, 1, data=2)
    step.put(step.node("ConvTranspose", [step.operand(2), *factors], **window))


def pool(step: Step) -> None:
    """Converts AVERAGE_POOL_2D, whose averages do not count pads, or MAX_POOL_2D."""
    kernel = step.options.FilterHeight(), step.options.FilterWidth()
    _average(step, [], **_window(step, step.shape(step.inputs[0])[1:3], kernel))


def resize(step: Step) -> None:
    """Converts RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR with constant sizes."""
    data, sizes = step.inputs[0], step.numbers(1, "size").tolist()
    linear = step.operator.kind == "RESIZE_BILINEAR"
    if linear and step.tensor(data).dtype == np.int16 and step.same_type(data, step.output):
        _interpolate(step, sizes)
        return
    batch, _, _, channels = step.shape(data)
    half = "half_pixel" if step.options.HalfPixelCenters() else "asymmetric"
    coordinates = "align_corners" if step.options.AlignCorners() else half
    more = {"mode": "linear" if linear else "nearest", "coordinate_transformation_mode": coordinates}
    if not linear:
        more["nearest_mode"] = "floor" if coordinates == "asymmetric" else "round_prefer_ceil"
    _average(step, ["", "", step.constant([batch, channels, *sizes], "sizes")], **more)


def _average(step: Step, more: Sequence[str], **attributes: Any) -> None:
    """Converts an operator whose results are elements of its input, or means of elements, to the ONNX operator of its
    row. The ONNX operator reads the input, and the values with the names `more` ("": left out). Means of integers are
    computed from the stored integers, and halves are rounded away from zero. If an image has one pixel, all results are
    that pixel.
    """
    source, tensor = step.tensor(step.inputs[0]), step.tensor(step.output)
    means = step.operator.kind in ("AVERAGE_POOL_2D", "RESIZE_BILINEAR") and source.shape[1:3] != (1, 1)
    if not means or tensor.grid is None or not step.same_type(step.inputs[0], step.output):
        step.put(step.node(step.onnx, [step.operand(), *more], **attributes))
        return
    integers = step.operand(0, stored=True)
    raw = step.writer.scaled("DequantizeLinear", integers, RAW, f"{source.name}/integers", source.dtype)
    zero, scale = tensor.grid.zero[0], tensor.grid.scale[0]
    low, high = (float(zero + np.rint(end / scale)) for end in step.bounds())
    result = step.clamped(step.node(step.onnx, [raw, *more], **attributes), low, high)
    away = replace(RAW, scale=RAW.scale * np.float32(1 - HALVES_AWAY))
    result = step.writer.scaled("QuantizeLinear", result, away, tensor.name, tensor.dtype)
    step.put(result, stored=True)


def _interpolate(step: Step, sizes: list[int]) -> None:
    """Converts RESIZE_BILINEAR of int16 to the arithmetic of LiteRT's kernel (`ResizeBilinearInteger` in TFLite's
    reference_ops.h), with 10 bits for a position between two elements. `sizes`: rows and columns of the result. An
    exact interpolation differed from the kernel by up to 235 steps.
    """
    before, declared = (step.shape(index)[1:3] for index in (step.inputs[0], step.output))
    fits = tuple(sizes) == declared
    require(fits, f"{step.operator.kind} declares a plane of {declared}, but computes {sizes}")
    value = Term(step, step.operand(0, True)).to(np.int64)
    for axis, size, after in zip((2, 3), before, sizes, strict=True):
        scale = (PLACES * size + after // 2) // after
        if step.options.AlignCorners() and after > 1:
            scale = (PLACES * (size - 1) + (after - 1) // 2) // (after - 1)
        place = np.arange(after) * scale
        if step.options.HalfPixelCenters():
            place += scale // 2 - PLACES // 2
        # In front of the first element both are the first.
        low, high = np.maximum(place // PLACES, 0), np.clip(-(-place // PLACES), 0, size - 1)
        share = (place - PLACES * low).reshape((-1, 1) if axis == 2 else -1)
        below, above = (value.apply("Gather", places, axis=axis) for places in (low, high))
        value = below * (PLACES - share) + above * share
    # Halves are rounded away from zero: Div of integers rounds towards zero.
    whole = (value + value.apply("Sign") * (PLACES**2 // 2)) // PLACES**2
    step.put(step.cast(whole.name), stored=True)


def fully_connected(step: Step) -> None:
    """Converts FULLY_CONNECTED: rows of K elements times weights (O, K). A row may be an image that the ONNX model
    stores as (C, H, W). Then the columns of the weights are reordered from (H, W, C) to (C, H, W), and no activation is
    moved.
    """
    if step.options.WeightsFormat() != tflite.FullyConnectedOptionsWeightsFormat.DEFAULT:
        refuse("has shuffled weights", "convert the model without them")
    weights, source, writer = step.numbers(1, "filter"), step.inputs[0], step.writer
    depth = weights.shape[1]
    makers = {operator.outputs[0]: operator for operator in writer.network.operators if operator.outputs}
    while source in makers and makers[source].kind in ("RESHAPE", "SQUEEZE", "EXPAND_DIMS"):
        source = makers[source].inputs[0]
    shape = step.shape(source)
    image = len(shape) == 4 and np.prod(shape[1:]) == depth and writer.in_planes(source)
    if image and step.same_type(source, step.inputs[0]):
        weights = weights.reshape(-1, *shape[1:]).transpose(0, 3, 1, 2).reshape(weights.shape)
    else:
        source, image = step.inputs[0], False
    short = short_product(step, 0, 1, 2)
    rows = writer.value(source, image, short is not None)
    if step.shape(source) != (step.shape(source)[0], depth):
        rows = writer.reshaped(rows, (-1, depth), f"{step.tensor(source).name}/rows")
    if short:
        short.put("MatMulInteger", Term(step, rows), weights.T, (-1,))
        return
    product = step.node("Gemm", [rows, *_factors(step, weights, 0)], transB=1)
    if len(step.shape(step.output)) != 2:
        product = step.writer.reshaped(product, step.shape(step.output), f"{step.name}/view")
    step.put(product)


def matrix_product(step: Step) -> None:
    """Converts BATCH_MATMUL, a product of two activations or of an activation and a constant."""
    short, factors = short_product(step, 0, 1, None), list[str]()
    for place, turned in enumerate((step.options.AdjX(), step.options.AdjY())):
        name = step.operand(place, stored=short is not None)
        if turned:
            rank = len(step.shape(step.inputs[place]))
            name = step.node("Transpose", [name], "turned", perm=[*range(rank - 2), rank - 1, rank - 2])
        factors.append(name)
    if short:
        short.put("MatMulInteger", Term(step, factors[0]), Term(step, factors[1]), ())
    else:
        step.put(step.node("MatMul", factors))


def _factors(step: Step, weights: np.ndarray, axis: int, channels: int = 0, data: int = 0) -> list[str]:
    """Adds the `weights`, which are the operator's input at place 1 in ONNX's layout, and the bias, if the operator has
    one. Returns the names of their real values. `data`: the place of the data; the bias is the last input. The weights
    may have several scales along output channels. `axis`: the axis of output channels in TFLite's layout; `channels`:
    the same axis in ONNX's layout.
    """
    source, grid = (step.tensor(step.inputs[place]).grid for place in (data, 1))
    if grid is not None and not grid.one and grid.axis != axis:
        way_out = f"quantize it along axis {axis}, or with one scale"
        refuse(f"its filter has scales along axis {grid.axis}", way_out)
    names = [_real(step, 1, weights, grid, channels)]
    if (place := step.present(max(data, 1) + 1)) is not None:
        bias, steps = step.numbers(place, "bias").reshape(-1), None
        if source is not None and grid is not None:
            steps = Grid(scale=source.scale * grid.scale, zero=np.zeros_like(grid.zero))
        if steps is not None and bias.dtype == np.int64:
            bias, steps = bias * steps.scale.astype(np.float64), None
        names.append(_real(step, place, bias, steps))
    return names


def _real(step: Step, place: int, array: np.ndarray, grid: Grid | None, axis: int = 0) -> str:
    """Adds `array`, the values of the operator's input at `place`, as a constant. With a quantization `grid`, whose
    scales are along `axis`, the constant consists of integers and a DequantizeLinear; otherwise of floats. Returns the
    name of the real values.
    """
    writer, name = step.writer, step.tensor(step.inputs[place]).name
    if grid is None:
        return writer.constant(array.astype(np.float32), name)
    integers = writer.constant(array, name)
    return writer.scaled("DequantizeLinear", integers, grid, f"{name}/real", array.dtype, axis)
