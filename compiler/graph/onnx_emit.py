"""From a pending float operation and the quantization of its result to a node of the integer graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from vdla.isa.arithmetic import (
    ScaleError,
    add_constants,
    average_pool_scale,
    multiply_ratio,
    quantize,
    requantize_scale,
)

from ..te.blocks import Window
from ..te.post import Combination, Post
from .accumulators import AccumulatorError, average_bias, fitted_bias, whole_steps
from .geometry import average_divisors
from .graph import Node
from .int8_operators import (
    Channels,
    Int8AveragePool,
    Int8Convolution,
    Int8Elementwise,
    Int8MaxPool,
    Int8Operator,
    Interleave,
    Table,
)
from .onnx_context import ImportContext, OnnxNode
from .onnx_values import (
    Average,
    Bias,
    Constant,
    Function,
    Joined,
    Maximum,
    Pairwise,
    Pending,
    Product,
    Real,
    Same,
    Transposed,
)
from .quantization import Quantization
from .rescaling import fitted_ratio

Clamp = tuple[int, int]


def emit(context: ImportContext, node: OnnxNode, pending: Pending, output: str, result: Quantization) -> Real:
    """Adds the node that computes `pending` into a tensor called `output`, quantized as `result`.

    A pending value that equals its input bit for bit adds nothing. `node` is the one that errors name.
    """
    try:
        low, high = clamp_of(pending, result)
        match pending.operation:
            case Product() as product:
                tensor = _emit_product(context, pending, product, output, result, (low, high))
            case Average() as average:
                tensor = _emit_average(context, pending, average, output, result, (low, high))
            case Pairwise() as pairwise:
                tensor = _emit_pairwise(context, pending, pairwise, output, result, (low, high))
            case Maximum() as maximum:
                tensor = _emit_maximum(context, pending, maximum, output, result, (low, high))
            case Same(data=data):
                tensor = emit_rescale(context, pending, data, output, result, (low, high))
            case Function() as function:
                tensor = _emit_table(context, pending, function, output, result)
            case Joined() as joined:
                tensor = _emit_channels(context, pending, joined, output, result, (low, high))
            case Transposed(product=product):
                tensor = _emit_transposed(context, pending, product, output, result, (low, high))
    except AccumulatorError as error:
        problem = f"ends '{pending.members[0]}', where {error}"
        average = isinstance(pending.operation, Average)
        way_out = "use smaller windows" if average else "quantize it with a larger weight scale"
        context.fail(node, problem, f"{way_out}, or leave it float")
    except ScaleError as error:
        context.fail(node, str(error), "calibrate the model again")
    return Real(tensor=tensor, shape=pending.shape, quantization=result)


def on_input_grid(context: ImportContext, node: OnnxNode, pending: Pending) -> Real | None:
    """The pending value as a quantized tensor, where it needs no new rounding: maxima and ReLUs of one
    tensor."""
    operation = pending.operation
    if not isinstance(operation, Maximum | Same):
        return None
    if {pending.low, pending.high} - {-np.inf, 0.0, np.inf}:
        return None
    return emit(context, node, pending, pending.name, operation.data.quantization)


def clamp_of(pending: Pending, result: Quantization) -> Clamp:
    """The clamp in stored integers: quantization is monotone, so clamping before or after it is the same."""
    bounds = quantize(
        np.array([pending.low, pending.high], np.float32), result.scale, result.stored_zero_point
    )
    return int(bounds[0]), int(bounds[1])


def bias_of(bias: Bias, step: np.ndarray) -> np.ndarray:
    """The bias as int64 multiples of `step` (float64, input scale x weight scale per channel).

    Integers stand as they are. A dequantized bias stands as it is when its scale is `step`, as the quantizer
    writes it; any other is rounded half to even.
    """
    match bias:
        case None:
            return np.zeros(step.shape, np.int64)
        case Constant(array=array) if array.dtype.kind in "iu":
            return array.astype(np.int64).reshape(-1)
        case Constant(array=array):
            real = array
        case _:
            centred = bias.centred().reshape(-1).astype(np.int64)
            if np.allclose(np.broadcast_to(bias.scale, step.shape), step, rtol=1e-4, atol=0.0):
                return centred
            real = centred * np.broadcast_to(bias.scale.astype(np.float64), step.shape)
    return whole_steps(np.broadcast_to(real.reshape(-1), step.shape).astype(np.float64), step)


def _emit_product(
    context: ImportContext,
    pending: Pending,
    product: Product,
    output: str,
    result: Quantization,
    clamp: Clamp,
) -> str:
    source = product.data.quantization
    step = _step(source.scale, product.weight_scale)
    scale = requantize_scale(source.scale, product.weight_scale, result.scale)
    post = Post(zero_point=result.stored_zero_point, low=clamp[0], high=clamp[1])
    zero_point = source.stored_zero_point
    operator = Int8Convolution(
        weight=product.weight,
        bias=fitted_bias(bias_of(product.bias, step), product.weight, zero_point, scale, post),
        scale=scale,
        window=product.window,
        groups=product.groups,
        pad_value=zero_point,
        post=post,
    )
    tensor = context.declare(output, pending.natural, result)
    return _append(context, pending, pending.members[0], operator, (product.data.tensor,), tensor)


def _append(
    context: ImportContext,
    pending: Pending,
    name: str,
    operator: Int8Operator,
    inputs: tuple[str, ...],
    output: str,
) -> str:
    """Adds a node for the ONNX nodes of `pending`; returns its output."""
    context.nodes.append(
        Node(
            name=context.node_name(name),
            members=pending.members,
            operator=operator,
            inputs=inputs,
            output=output,
        )
    )
    return output


def _step(scale: np.float32, weight_scale: np.ndarray) -> np.ndarray:
    """One step of a bias, as float64 (O,): the product is that of float32, which quantizers write, where it has one."""
    exact = np.float64(scale) * weight_scale.astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        narrow = exact.astype(np.float32)
    normal = np.isfinite(narrow) & (narrow >= np.finfo(np.float32).smallest_normal)
    return np.where(normal, narrow.astype(np.float64), exact)


def _emit_average(
    context: ImportContext,
    pending: Pending,
    average: Average,
    output: str,
    result: Quantization,
    clamp: Clamp,
) -> str:
    source = average.data.quantization
    window = average.window
    bias = average_bias(window.kernel[0] * window.kernel[1], source.stored_zero_point)
    plane = context.tensors[average.data.tensor].nchw[2:]
    divisors = average_divisors(plane, window, average.pads, average.count_include_pad)
    scales = tuple(
        (int(count), average_pool_scale(source.scale, result.scale, int(count)))
        for count in np.unique(divisors)
    )
    operator = Int8AveragePool(
        window=window,
        count_include_pad=average.count_include_pad,
        pad_value=source.stored_zero_point,
        bias=bias,
        divisors=divisors,
        scale_by_divisor=scales,
        post=Post(zero_point=result.stored_zero_point, low=clamp[0], high=clamp[1]),
    )
    tensor = context.declare(output, pending.natural, result)
    return _append(context, pending, pending.members[0], operator, (average.data.tensor,), tensor)


def _emit_pairwise(
    context: ImportContext,
    pending: Pending,
    pairwise: Pairwise,
    output: str,
    result: Quantization,
    clamp: Clamp,
) -> str:
    a, b = pairwise.a.quantization, pairwise.b.quantization
    unsigned = result.dtype == "uint8"
    if pairwise.kind == "add":
        constants = add_constants(
            a.scale,
            a.stored_zero_point,
            b.scale,
            b.stored_zero_point,
            result.scale,
            result.stored_zero_point,
            unsigned,
        )
        combination = Combination(
            kind="add",
            ratio_self=float(constants.ratio_a),
            ratio_operand=float(constants.ratio_b),
            offset=float(constants.offset),
            unsigned=unsigned,
            low=clamp[0],
            high=clamp[1],
        )
    else:
        combination = Combination(
            kind="multiply",
            ratio_self=float(multiply_ratio(a.scale, b.scale, result.scale)),
            zero_point_self=a.stored_zero_point,
            zero_point_operand=b.stored_zero_point,
            zero_point=result.stored_zero_point,
            unsigned=unsigned,
            low=clamp[0],
            high=clamp[1],
        )
    a, b = (context.tensors[operand.tensor] for operand in (pairwise.a, pairwise.b))
    if a.size < b.size:
        # What is broadcast is the operand.
        combination, a, b = combination.of_operand(), b, a
    return _append_elementwise(context, pending, (a.name, b.name), combination, output, result)


def _emit_table(
    context: ImportContext, pending: Pending, function: Function, output: str, result: Quantization
) -> str:
    real = np.clip(function.values, pending.low, pending.high)
    tensor = context.declare(output, pending.natural, result)
    operator = Table(table=quantize(real, result.scale, result.stored_zero_point))
    return _append(context, pending, pending.members[-1], operator, (function.data.tensor,), tensor)


def _emit_channels(
    context: ImportContext,
    pending: Pending,
    joined: Joined,
    output: str,
    result: Quantization,
    clamp: Clamp,
) -> str:
    parts = tuple(
        [
            emit_rescale(context, pending, part, f"{output}.{i}", result, clamp)
            for i, part in enumerate(joined.parts)
        ]
    )
    tensor = context.declare(output, pending.natural, result)
    return _append(context, pending, pending.members[0], Channels(sources=joined.sources), parts, tensor)


PHASE_CHANNELS = 16
"""Filters of a phase are a multiple of this: whole blocks of channels on any processor."""


def _emit_transposed(
    context: ImportContext,
    pending: Pending,
    product: Product,
    output: str,
    result: Quantization,
    clamp: Clamp,
) -> str:
    """Outputs whose rows and columns leave the same remainder are a convolution; then these are interleaved.

    Row y is y + top = q * stride + r, and sums up the rows q - t of the input with the weights' rows r + stride * t.
    """
    batch, filters, height, width = pending.natural
    channels, *kernel = product.weight.shape[1:]
    taps = [-(-k // s) for k, s in zip(kernel, product.window.strides, strict=True)]
    (sy, sx), (top, left) = product.window.strides, product.window.pads[:2]
    stride = -(-filters // PHASE_CHANNELS) * PHASE_CHANNELS
    weight = np.zeros((sy * sx, stride, channels, *taps), np.int8)
    for y in range(sy):
        for x in range(sx):
            of_phase = product.weight[:, :, y::sy, x::sx]
            rows, columns = of_phase.shape[2:]
            # The last tap reads the same row, the first one the row furthest before it.
            weight[y * sx + x, :filters, :, taps[0] - rows :, taps[1] - columns :] = of_phase[
                :, :, ::-1, ::-1
            ]
    source = product.data.quantization
    bias = np.zeros((sy * sx, stride), np.int64)
    bias[:, :filters] = bias_of(product.bias, _step(source.scale, product.weight_scale))
    scale = np.ones((sy * sx, stride), np.float32)
    scale[:, :filters] = requantize_scale(source.scale, product.weight_scale, result.scale)
    scale = scale.reshape(-1)
    post = Post(zero_point=result.stored_zero_point, low=clamp[0], high=clamp[1])
    kernels = weight.reshape(-1, channels, *taps)
    plane = context.tensors[product.data.tensor].nchw[2:]
    last = ((height - 1 + top) // sy, (width - 1 + left) // sx)
    behind = [max(0, end - size + 1) for end, size in zip(last, plane, strict=True)]
    phases = (
        batch,
        sy * sx * stride,
        *[size + pad for size, pad in zip(plane, behind, strict=True)],
    )
    between = context.declare(f"{output}.phases", phases, result)
    convolution = Int8Convolution(
        weight=kernels,
        bias=fitted_bias(bias.reshape(-1), kernels, source.stored_zero_point, scale, post),
        scale=scale,
        window=Window(kernel=(taps[0], taps[1]), pads=(taps[0] - 1, taps[1] - 1, behind[0], behind[1])),
        pad_value=source.stored_zero_point,
        post=post,
    )
    _append(context, pending, pending.members[0], convolution, (product.data.tensor,), between)
    tensor = context.declare(output, pending.natural, result)
    interleave = Interleave(
        factors=(sy, sx), before=(top, left), stride=stride, outputs=(filters, height, width)
    )
    return _append(context, pending, f"{pending.members[0]}.interleave", interleave, (between,), tensor)


def _emit_maximum(
    context: ImportContext,
    pending: Pending,
    maximum: Maximum,
    output: str,
    result: Quantization,
    clamp: Clamp,
) -> str:
    source = maximum.data.quantization
    same = _same_integers(source, result)
    tensor = context.declare(output if same else f"{output}.max", pending.natural, source)
    pool = replace(pending, members=pending.members[:1])
    operator = Int8MaxPool(window=maximum.window)
    _append(context, pool, pending.members[0], operator, (maximum.data.tensor,), tensor)
    data = Real(tensor=tensor, shape=pending.shape, quantization=source)
    return emit_rescale(context, pending, data, output, result, clamp)


def emit_rescale(
    context: ImportContext, pending: Pending, data: Real, output: str, result: Quantization, clamp: Clamp
) -> str:
    """Moves `data` to the quantization `result` and clamps it; adds no node where no value can change."""
    source = data.quantization
    if _same_integers(source, result):
        if clamp == (-128, 127):
            return data.tensor
        ratio = np.float32(1)
    else:
        ratio = fitted_ratio(source, result)
    combination = Combination(
        kind="rescale",
        ratio_self=float(ratio),
        zero_point_self=source.stored_zero_point,
        zero_point=result.stored_zero_point,
        low=clamp[0],
        high=clamp[1],
    )
    return _append_elementwise(context, pending, (data.tensor,), combination, output, result)


def _same_integers(a: Quantization, b: Quantization) -> bool:
    return a.scale == b.scale and a.stored_zero_point == b.stored_zero_point


def _append_elementwise(
    context: ImportContext,
    pending: Pending,
    inputs: tuple[str, ...],
    combination: Combination,
    output: str,
    result: Quantization,
) -> str:
    tensor = context.declare(output, context.tensors[inputs[0]].shape, result)
    operator = Int8Elementwise(combination=combination)
    return _append(context, pending, pending.members[-1], operator, inputs, tensor)


def real_operand(context: ImportContext, node: OnnxNode, index: int) -> Real:
    """Input `index` as a quantized tensor; fails with what it is instead."""
    value = context.value(node, index)
    if isinstance(value, Real):
        return value
    if isinstance(value, Pending):
        real = on_input_grid(context, node, value)
        if real is not None:
            context.values[node.inputs[index]] = real
            return real
    return context.refuse_float(node, index, value)


def plane_operand(context: ImportContext, node: OnnxNode, data: Real) -> tuple[int, int]:
    """The (H, W) of a 4-D operand of a window operator; fails on 1-D, 3-D or reshaped operands."""
    if len(data.shape) != 4:
        context.fail(
            node, f"its input has shape {data.shape}", "only 2-D windows over (N, C, H, W) are supported"
        )
    if data.shape != context.tensors[data.tensor].nchw:
        stored = context.tensors[data.tensor].shape
        context.fail(
            node, f"its input is {stored} reshaped to {data.shape}", "make it 4-D where it enters the model"
        )
    return data.shape[2], data.shape[3]
