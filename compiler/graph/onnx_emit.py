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

from ..te.post import Combination, Post
from .accumulators import AccumulatorError, average_bias, fitted_bias
from .geometry import average_divisors
from .int8_operators import (
    Channels,
    Int8AveragePool,
    Int8Convolution,
    Int8MaxPool,
    Table,
)
from .onnx_append import (
    Clamp,
    append,
    append_elementwise,
    bias_of,
    bias_step,
    emit_rescale,
    emit_rescaled,
    same_integers,
)
from .onnx_context import ImportContext, OnnxNode
from .onnx_emit_moves import emit_moved, emit_resampled, emit_transposed
from .onnx_emit_rows import emit_multiplied, emit_shared
from .onnx_values import (
    Average,
    Centred,
    Function,
    Joined,
    Masked,
    Maximum,
    Moved,
    Multiplied,
    Pairwise,
    Pending,
    Product,
    Real,
    Resampled,
    Same,
    Shared,
    Squared,
    Transposed,
)
from .onnx_views import settled
from .quantization import Quantization


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
                tensor = emit_transposed(context, pending, product, output, result, (low, high))
            case Moved() as moved:
                tensor = emit_moved(context, pending, moved, output, result, (low, high))
            case Multiplied() as multiplied:
                tensor = emit_multiplied(context, pending, multiplied, output, result, (low, high))
            case Shared() as shared:
                tensor = emit_shared(context, pending, shared, output, result, (low, high))
            case Masked():
                context.fail(
                    node,
                    f"rounds '{pending.name}', scores to which a float mask was added",
                    "leave what is between mask and softmax float, or quantize the mask",
                )
            case Centred() | Squared():
                context.fail(
                    node,
                    f"rounds '{pending.name}', rows less their mean",
                    "leave what a normalization computes of them float",
                )
            case Resampled() as resampled:
                tensor = emit_resampled(context, pending, resampled, output, result, (low, high))
    except AccumulatorError as error:
        problem = f"ends '{pending.members[0]}', where {error}"
        average = isinstance(pending.operation, Average)
        way_out = "use smaller windows" if average else "quantize it with a larger weight scale"
        context.fail(node, problem, f"{way_out}, or leave it float")
    except ScaleError as error:
        context.fail(node, str(error), "calibrate the model again")
    return Real(tensor=tensor, shape=pending.shape, quantization=result, view=pending.view)


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


def _emit_product(
    context: ImportContext,
    pending: Pending,
    product: Product,
    output: str,
    result: Quantization,
    clamp: Clamp,
) -> str:
    source = product.data.quantization
    step = bias_step(source.scale, product.weight_scale)
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
    return append(context, pending, pending.members[0], operator, (product.data.tensor,), tensor)


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
    return append(context, pending, pending.members[0], operator, (average.data.tensor,), tensor)


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
    return append_elementwise(context, pending, (a.name, b.name), combination, output, result)


def _emit_table(
    context: ImportContext, pending: Pending, function: Function, output: str, result: Quantization
) -> str:
    real = np.clip(function.values, pending.low, pending.high)
    tensor = context.declare(output, pending.natural, result)
    operator = Table(table=quantize(real, result.scale, result.stored_zero_point))
    return append(context, pending, pending.members[-1], operator, (function.data.tensor,), tensor)


def _emit_channels(
    context: ImportContext,
    pending: Pending,
    joined: Joined,
    output: str,
    result: Quantization,
    clamp: Clamp,
) -> str:
    parts = emit_rescaled(context, pending, joined.parts, output, result, clamp)
    tensor = context.declare(output, pending.natural, result)
    return append(context, pending, pending.members[0], Channels(sources=joined.sources), parts, tensor)


def _emit_maximum(
    context: ImportContext,
    pending: Pending,
    maximum: Maximum,
    output: str,
    result: Quantization,
    clamp: Clamp,
) -> str:
    source = maximum.data.quantization
    same = same_integers(source, result)
    tensor = context.declare(output if same else f"{output}.max", pending.natural, source)
    pool = replace(pending, members=pending.members[:1])
    operator = Int8MaxPool(window=maximum.window)
    append(context, pool, pending.members[0], operator, (maximum.data.tensor,), tensor)
    data = Real(tensor=tensor, shape=pending.shape, quantization=source)
    return emit_rescale(context, pending, data, output, result, clamp)


def real_operand(context: ImportContext, node: OnnxNode, index: int, *, viewed: bool = False) -> Real:
    """Input `index` as a quantized tensor; fails with what it is instead.

    Where a node reads no tensor through a view (`viewed`), its elements are in their order.
    """
    value = context.value(node, index)
    if isinstance(value, Pending):
        real = on_input_grid(context, node, value)
        if real is not None:
            value = context.values[node.inputs[index]] = real
    if not isinstance(value, Real):
        return context.refuse_float(node, index, value)
    return value if viewed or context.lies_in_order(value) else settled(context, node, value)


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
