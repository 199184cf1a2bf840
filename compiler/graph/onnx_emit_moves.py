"""Integer nodes of transposed convolutions, resized and moved tensors: steps of `onnx_emit.emit`."""

from __future__ import annotations

import numpy as np

from vdla.isa.arithmetic import average_pool_scale, requantize_scale

from ..te.blocks import Window
from ..te.post import Post
from .accumulators import fitted_bias
from .int8_operators import Int8Convolution, Interleave, Positions, Resample
from .onnx_append import Clamp, append, bias_of, bias_step, emit_rescale, emit_rescaled
from .onnx_context import ImportContext
from .onnx_values import Moved, Pending, Product, Resampled
from .quantization import Quantization

MOST_WEIGHT = 127
"""Weights of neighbours are int8."""
PHASE_CHANNELS = 16
"""Filters of a phase are a multiple of this: whole blocks of channels on any processor."""


def integer_weights(fractions: np.ndarray) -> np.ndarray:
    """Weights of both neighbours as int8 (O, 2) of one sum, for what the second one counts, float32 (O,) of 0 to 1.

    The least sum that has them all exactly; where none up to MOST_WEIGHT does, that with the least error.
    """
    sums = np.arange(1, MOST_WEIGHT + 1)[:, None]
    exact = fractions.astype(np.float64) * sums
    # Float32 places are off by some of their last bits, more for long axes.
    errors = (np.abs(exact - np.rint(exact)) / sums).max(axis=1)
    close = np.flatnonzero(errors < 1e-4)
    chosen = int(close[0] if close.size else np.argmin(errors))
    second = np.rint(exact[chosen]).astype(np.int8)
    return np.stack([sums[chosen, 0].astype(np.int8) - second, second], axis=1)


def emit_transposed(
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
    bias[:, :filters] = bias_of(product.bias, bias_step(source.scale, product.weight_scale))
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
    append(context, pending, pending.members[0], convolution, (product.data.tensor,), between)
    tensor = context.declare(output, pending.natural, result)
    interleave = Interleave(
        factors=(sy, sx),
        before=(top, left),
        stride=stride,
        outputs=(filters, height, width),
        kernel=(kernel[0], kernel[1]),
    )
    return append(context, pending, f"{pending.members[0]}.interleave", interleave, (between,), tensor)


def emit_moved(
    context: ImportContext,
    pending: Pending,
    moved: Moved,
    output: str,
    result: Quantization,
    clamp: Clamp,
) -> str:
    """What is moved is rescaled before it becomes more."""
    parts = emit_rescaled(context, pending, moved.parts, output, result, clamp)
    operator = Positions(index=moved.index, fill=result.stored_zero_point)
    tensor = context.declare(output, pending.natural, result)
    return append(context, pending, pending.members[0], operator, parts, tensor)


def emit_resampled(
    context: ImportContext,
    pending: Pending,
    resampled: Resampled,
    output: str,
    result: Quantization,
    clamp: Clamp,
) -> str:
    """Columns, rounded to the input's own grid, and then rows; what stays as it is adds nothing.

    Columns lie side by side, so an accelerator stores fewer of them one by one where rows are made last.
    """
    source, tensor = resampled.data.quantization, resampled.data.tensor
    passes = [
        (axis, first, integer_weights(fraction))
        for axis, (first, fraction) in ((1, resampled.columns), (0, resampled.rows))
        if not np.array_equal(first, np.arange(context.tensors[tensor].nchw[axis + 2])) or fraction.any()
    ]
    shape = list(context.tensors[tensor].nchw)
    for number, (axis, first, weight) in enumerate(passes):
        last = number == len(passes) - 1
        grid, total = result if last else source, int(weight[0].sum())
        shape[axis + 2] = len(first)
        operator = Resample(
            axis=axis,
            first=first,
            weight=weight,
            bias=-source.stored_zero_point * total,
            scale=average_pool_scale(source.scale, grid.scale, total),
            post=Post(
                zero_point=grid.stored_zero_point,
                low=clamp[0] if last else -128,
                high=clamp[1] if last else 127,
            ),
        )
        name = output if last else f"{output}.{'columns' if axis else 'rows'}"
        made = context.declare(name, tuple(shape), grid)
        tensor = append(context, pending, pending.members[0], operator, (tensor,), made)
    if not passes:
        return emit_rescale(context, pending, resampled.data, output, result, clamp)
    return tensor
