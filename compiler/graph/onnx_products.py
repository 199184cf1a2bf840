"""Conv, Gemm and MatMul as pending products."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from vdla.isa.arithmetic import requantize_scale

from ..te.blocks import Pair, Window
from .accumulators import fitted_bias
from .geometry import window_extent
from .graph import Shape
from .int8_operators import Int8Convolution, Interleave
from .onnx_attributes import OnnxNode
from .onnx_emit import Rounding, bias_of, bias_step, plane_operand, real_operand
from .onnx_integer_context import QUANTIZE, ImportContext, pending_result
from .onnx_strided_views import Rows, rows_of
from .onnx_values import Bias, Constant, Pending, Product, QuantizedConstant, Real, Waiting
from .operators import Convolution

PHASE_CHANNELS = 16
"""The number of filters of a transposed convolution's phase is a multiple of this: whole blocks on any processor."""
CENTRE_WEIGHTS = "quantize weights to int8 with zero point 0 (symmetric)"


def convolved(
    context: ImportContext, node: OnnxNode, operator: Convolution, _: tuple[str, ...], __: str, shape: Shape
) -> Pending:
    """The product of a convolution between DequantizeLinear and QuantizeLinear."""
    if operator.transposed:
        return _transposed(context, node, operator, shape)
    weight, scale = weight_operand(context, node, context.value(node, 1), channel_axis=0)
    data = real_operand(context, node, 0)
    plane_operand(context, node, data)
    product = Product(
        data=data,
        weight=weight,
        weight_scale=scale,
        bias=bias_operand(context, node, 2),
        window=operator.window,
        groups=operator.groups,
    )
    return pending_result(node, product, shape)


def _transposed(context: ImportContext, node: OnnxNode, operator: Convolution, shape: Shape) -> Pending:
    """A transposed convolution; groups (on accelerators only) and dilations become zeros among the weights."""
    weight, scale = weight_operand(context, node, context.value(node, 1), channel_axis=1)
    data = real_operand(context, node, 0)
    plane_operand(context, node, data)
    window, groups = operator.window, operator.groups
    if groups != 1 and context.abilities.processor:
        context.fail(node, f"has {groups} groups", "processors compute it in float32")
    weight = _without_dilations(_without_groups(weight, groups), window.dilations)
    product = Product(
        data=data,
        weight=weight.swapaxes(0, 1),
        weight_scale=np.tile(scale, groups),
        bias=bias_operand(context, node, 2),
        window=replace(window, kernel=(weight.shape[2], weight.shape[3]), dilations=(1, 1)),
    )
    return pending_result(node, Waiting(round=partial(round_transposed, product=product)), shape)


def _without_groups(weight: np.ndarray, groups: int) -> np.ndarray:
    """Weights (C, O / groups, kh, kw) of a transposed convolution as the dense weights of one group, with zeros."""
    if groups == 1:
        return weight
    channels, share, *kernel = weight.shape
    depth = channels // groups
    dense = np.zeros((channels, groups * share, *kernel), weight.dtype)
    for group in range(groups):
        own = slice(group * depth, (group + 1) * depth)
        dense[own, group * share : (group + 1) * share] = weight[own]
    return dense


def _without_dilations(weight: np.ndarray, dilations: Pair) -> np.ndarray:
    """Weights (C, O, kh, kw) with the zeros of a dilated kernel between their rows and columns."""
    if dilations == (1, 1):
        return weight
    extents = [window_extent(k, d) for k, d in zip(weight.shape[2:], dilations, strict=True)]
    wide = np.zeros((*weight.shape[:2], *extents), weight.dtype)
    wide[:, :, :: dilations[0], :: dilations[1]] = weight
    return wide


def import_matmul(context: ImportContext, node: OnnxNode) -> None:
    """Imports a MatMul of an activation (..., K) with constant weights (K, M), or of two activations."""
    value, vector = context.value(node, 1), False
    if isinstance(value, Real):
        from .onnx_multiplied import import_multiplied

        if import_multiplied(context, node):
            return
    if isinstance(value, QuantizedConstant) and value.integers.ndim == 1 and value.axis is None:
        value, vector = replace(value, integers=value.integers[:, None]), True
    weight, scale = weight_operand(context, node, value, channel_axis=1)
    product = dense(context, node, real_operand(context, node, 0, viewed=True), weight.T, scale, None)
    if vector:
        # The product has one column; the result of a vector has no such axis.
        view = None if product.view is None else product.view.reshape(product.shape[:-1])
        product = replace(product, shape=product.shape[:-1], view=view)
    context.bind(node, product)


def import_gemm(context: ImportContext, node: OnnxNode) -> None:
    """Imports a Gemm with constant B and C, alpha = beta = 1, A not transposed."""
    transposed = _check_gemm(context, node)
    weight, scale = weight_operand(context, node, context.value(node, 1), channel_axis=0 if transposed else 1)
    rows = weight if transposed else weight.T
    context.bind(
        node,
        dense(
            context,
            node,
            real_operand(context, node, 0, viewed=True),
            rows,
            scale,
            bias_operand(context, node, 2),
        ),
    )


def dense(
    context: ImportContext, node: OnnxNode, data: Real, rows: np.ndarray, scale: np.ndarray, bias: Bias
) -> Pending:
    """The pending product of (..., K) with `rows` (M, K): a convolution whose kernel covers the stored tensor of (N,
    K), or a 1x1 one over a tensor whose channels are the last axis."""
    if len(data.shape) < 2 or rows.ndim != 2 or data.shape[-1] != rows.shape[1]:
        context.fail(
            node,
            f"multiplies {data.shape} with weights of {rows.shape[::-1]}",
            "only (..., K) x (K, M) is supported",
        )
    _check_bias(context, node, bias, rows.shape[0])
    batch, channels, height, width = context.tensors[data.tensor].nchw
    if data.view is not None or len(data.shape) != 2 or batch != data.shape[0]:
        # Move windows of an image where fewer elements move: before a product that widens, else later, when their
        # order is needed.
        widens = not context.abilities.processor and rows.shape[0] > rows.shape[1]
        lines = rows_of(context, node, data, in_order=widens)
        return _dense_rows(context, node, lines, rows, scale, bias)
    product = Product(
        data=data,
        weight=np.ascontiguousarray(rows.reshape(rows.shape[0], channels, height, width)),
        weight_scale=scale,
        bias=bias,
        window=Window(kernel=(height, width)),
    )
    shape = (batch, rows.shape[0])
    return pending_result(node, product, shape)


def _dense_rows(
    context: ImportContext, node: OnnxNode, data: Rows, rows: np.ndarray, scale: np.ndarray, bias: Bias
) -> Pending:
    """The pending 1x1 product of the channels of each position."""
    batch, channels, height, width = context.tensors[data.data.tensor].nchw
    product = Product(
        data=data.data,
        weight=np.ascontiguousarray(rows.reshape(-1, channels, 1, 1)),
        weight_scale=scale,
        bias=bias,
        window=Window(kernel=(1, 1)),
    )
    natural = (batch, rows.shape[0], height, width)
    view = data.view(natural)
    return pending_result(node, product, natural, view=view)


def weight_operand(
    context: ImportContext, node: OnnxNode, value: object, *, channel_axis: int
) -> tuple[np.ndarray, np.ndarray]:
    """Constant weights as int8 with zero point 0, and their float32 scales, one for each output channel."""
    if isinstance(value, Constant):
        context.fail(node, "its weights are float", QUANTIZE)
    if not isinstance(value, QuantizedConstant):
        able = context.abilities
        if node.op_type == "MatMul" and not (able.products or able.processor):
            context.fail(
                node,
                "multiplies two activations, which machines of batch 1 with block_in equal to block_out do",
                "make the array so, or leave the product to the processor (--target vdla,llvm)",
            )
        context.fail(
            node, "its weights are not constant", "only products with constant weights are supported"
        )
    if value.integers.dtype.name not in ("int8", "uint8"):
        context.fail(node, f"its weights are {value.integers.dtype}", "quantize weights to 8 bits")
    if value.axis is not None and value.axis != channel_axis:
        context.fail(
            node,
            f"its weights have a scale along axis {value.axis}, which is not that of output channels",
            f"quantize them along axis {channel_axis}, or per tensor",
        )
    centred = value.centred()
    if centred.size == 0 or centred.ndim <= channel_axis:
        context.refuse(node, f"its weights have shape {centred.shape}")
    if centred.min() < -128 or centred.max() > 127:
        context.fail(node, "its weights minus their zero point do not fit int8", CENTRE_WEIGHTS)
    scale = np.broadcast_to(value.scale, (centred.shape[channel_axis],)).astype(np.float32)
    return centred.astype(np.int8, copy=False), scale


def with_bias(pending: Pending, node: OnnxNode, constant: Constant | QuantizedConstant) -> Pending | None:
    """A product with a constant addend as its bias; None if the addend is not one value for each channel."""
    product = pending.operation
    if (
        not isinstance(product, Product)
        or product.bias is not None
        or (pending.low, pending.high) != (-np.inf, np.inf)
    ):
        return None
    shape = (1,) * (len(pending.shape) - len(constant.shape)) + constant.shape
    channels = pending.natural[1]
    if pending.view is not None:
        # In rows of channels the channel axis is the last.
        of = pending.view // np.prod(pending.natural[2:]) % channels
        rows = pending.shape[-1] == channels and (of == np.arange(channels)).all()
        if not rows or shape[-1] not in (1, channels) or np.prod(shape) != shape[-1]:
            return None
    elif len(shape) != len(pending.shape) or shape[1] not in (1, channels) or np.prod(shape) != shape[1]:
        return None
    real = constant.real() if isinstance(constant, QuantizedConstant) else constant.array
    bias = Constant(array=np.broadcast_to(real.astype(np.float32).reshape(-1), (channels,)))
    return pending_result(
        node,
        replace(product, bias=bias),
        pending.natural,
        shape=pending.shape,
        view=pending.view,
        before=pending.members,
    )


def bias_operand(context: ImportContext, node: OnnxNode, index: int) -> Bias:
    """Input `index` as a bias, which must be constant; None where left out."""
    value = context.value(node, index)
    if value is None or isinstance(value, Constant | QuantizedConstant):
        return value
    return context.fail(node, f"its bias '{node.inputs[index]}' is not a constant", "make it an initializer")


def _check_bias(context: ImportContext, node: OnnxNode, bias: Bias, channels: int) -> None:
    if bias is None:
        return
    size = int(np.prod(bias.shape))
    integer = isinstance(bias, Constant) and bias.array.dtype.kind in "iu"
    if (bias.shape and bias.shape[-1] != size) or size not in (1, channels) or (integer and size != channels):
        context.fail(
            node, f"its bias has shape {bias.shape} for {channels} channels", "give one value per channel"
        )


def _check_gemm(context: ImportContext, node: OnnxNode) -> bool:
    """Whether B is transposed; fails on attributes that a product of an activation with weights cannot have."""
    if node.integer("transA", 0):
        context.fail(
            node, "transposes its activation (transA = 1)", "transpose it before it enters the model"
        )
    for attribute in ("alpha", "beta"):
        if node.attributes.get(attribute, 1.0) != 1.0:
            context.fail(
                node, f"has {attribute} = {node.attributes[attribute]}", "fold the factor into the constants"
            )
    return bool(node.integer("transB", 0))


def round_product(context: ImportContext, product: Product, to: Rounding) -> str:
    """Adds an integer convolution or matrix product."""
    source = product.data.quantization
    step = bias_step(source.scale, product.weight_scale)
    scale = requantize_scale(source.scale, product.weight_scale, to.grid.scale)
    post = to.post()
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
    return to.append(context, operator, (product.data.tensor,))


def round_transposed(context: ImportContext, to: Rounding, *, product: Product) -> str:
    """Adds a convolution that computes all phases of a transposed convolution, and the Interleave of the phases.

    A phase is all outputs whose rows and columns have the same remainders by the strides. Output row y, with y + top =
    q * stride + r, is the sum over t of input row q - t times weight row r + stride * t.
    """
    batch, filters, height, width = to.pending.natural
    channels, *kernel = product.weight.shape[1:]
    taps = [-(-k // s) for k, s in zip(kernel, product.window.strides, strict=True)]
    (sy, sx), (top, left) = product.window.strides, product.window.pads[:2]
    stride = -(-filters // PHASE_CHANNELS) * PHASE_CHANNELS
    weight = np.zeros((sy * sx, stride, channels, *taps), np.int8)
    for y in range(sy):
        for x in range(sx):
            of_phase = product.weight[:, :, y::sy, x::sx]
            rows, columns = of_phase.shape[2:]
            # Taps are reversed: the last one reads input row q, the first one the earliest row.
            weight[y * sx + x, :filters, :, taps[0] - rows :, taps[1] - columns :] = of_phase[
                :, :, ::-1, ::-1
            ]
    source = product.data.quantization
    bias = np.zeros((sy * sx, stride), np.int64)
    bias[:, :filters] = bias_of(product.bias, bias_step(source.scale, product.weight_scale))
    scale = np.ones((sy * sx, stride), np.float32)
    scale[:, :filters] = requantize_scale(source.scale, product.weight_scale, to.grid.scale)
    scale = scale.reshape(-1)
    kernels = weight.reshape(-1, channels, *taps)
    plane = context.tensors[product.data.tensor].nchw[2:]
    last = ((height - 1 + top) // sy, (width - 1 + left) // sx)
    behind = [max(0, end - size + 1) for end, size in zip(last, plane, strict=True)]
    phases = (batch, sy * sx * stride, *[size + pad for size, pad in zip(plane, behind, strict=True)])
    convolution = Int8Convolution(
        weight=kernels,
        bias=fitted_bias(bias.reshape(-1), kernels, source.stored_zero_point, scale, to.post()),
        scale=scale,
        window=Window(kernel=(taps[0], taps[1]), pads=(taps[0] - 1, taps[1] - 1, behind[0], behind[1])),
        pad_value=source.stored_zero_point,
        post=to.post(),
    )
    between = to.append(
        context, convolution, (product.data.tensor,), output=f"{to.output}.phases", shape=phases
    )
    interleave = Interleave(
        factors=(sy, sx),
        before=(top, left),
        stride=stride,
        outputs=(filters, height, width),
        kernel=(kernel[0], kernel[1]),
    )
    return to.append(context, interleave, (between,), name=f"{to.pending.members[0]}.interleave")
