"""Import of ConvTranspose, for integer and float graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from vdla.isa.scales import requantize_scale

from ....graph.geometry import Windows, window_extent
from ....graph.graph import Shape
from ....graph.int8_convolution import Int8Convolution, Interleave
from ....graph.operators import Convolution
from ....te.blocks import Window
from ....te.ops.sums import Epilogue
from ....te.ops.transposed_convolution import transposed_outputs
from ..attributes import OnnxNode
from ..context import GraphContext
from ..emit import Rounding, bias_of, bias_step, plane_operand, real_operand
from ..integer_context import ImportContext, pending_result
from ..operations import Opaque, Product
from ..values import Pending
from .products import bias_operand, fitted_sums, weight_operand
from .wide_weights import split_weights
from .window_attributes import (
    PerDimension,
    bias_names,
    check_image,
    convolution_groups,
    on_plane,
    read_windows,
)

PHASE_CHANNELS = 16
"""The number of filters in each phase is rounded up to a multiple of this number, so that filters fill whole blocks on
any processor. A phase is a set of outputs of a transposed convolution: those with equal remainders modulo the strides.
"""


def transposed_windows(
    context: GraphContext, node: OnnxNode, sizes: Sequence[int], kernel: PerDimension
) -> tuple[Windows, PerDimension]:
    """Reads the windows of a ConvTranspose with weights of size `kernel` and an input of spatial `sizes`. Returns
    (windows, output padding of each dimension). The pads are an attribute of the node, or are computed from `auto_pad`
    or `output_shape`.
    """
    rank = len(sizes)
    auto, windows = node.text("auto_pad", "NOTSET"), read_windows(context, node, sizes, kernel, declared=True)
    extra, wanted = node.integers("output_padding", (0,) * rank), node.integers("output_shape", ())[-rank:]
    if not len(extra) == len(wanted or extra) == rank or min(extra) < 0:
        context.refuse(
            node,
            f"its output_padding {extra} and output_shape {wanted} must have {rank} numbers of 0 or more each",
        )
    strides, dilations, padding = windows.strides, windows.dilations, list(extra)
    pads = (0,) * (2 * rank) if auto == "VALID" else windows.pads
    before, after = list(pads[:rank]), list(pads[rank:])
    for d in range(rank) if wanted or auto not in ("NOTSET", "VALID") else ():
        full = strides[d] * (sizes[d] - 1) + extra[d] + (kernel[d] - 1) * dilations[d] + 1
        total = full - (wanted[d] if wanted else sizes[d] * strides[d])
        padding[d] += max(0, -total)
        total = max(0, total)
        before[d] = total // 2 if auto == "SAME_UPPER" else total - total // 2
        after[d] = total - before[d]
    return replace(windows, pads=(*before, *after)), tuple(padding)


def import_transposed_convolution(context: GraphContext, node: OnnxNode) -> None:
    """Imports ConvTranspose of two spatial dimensions with constant weights."""
    data, weight = context.operand(node, 0), context.operand(node, 1)
    groups = convolution_groups(context, node, data.shape, weight.shape, transposed=True)
    check_image(context, node, data.shape)
    batch, _, height, width = data.shape
    depth, share, *kernel = weight.shape
    windows, extra = transposed_windows(context, node, (height, width), tuple(kernel))
    window, padding = on_plane(windows), (extra[0], extra[1])
    try:
        plane = transposed_outputs(window, height, width, padding)
    except ValueError as error:
        context.fail(node, str(error), "use smaller pads and strides")
    bias = bias_names(context, node, share * groups)

    def ordered(array: np.ndarray) -> np.ndarray:
        """Reorders a ConvTranspose weight as the weight of a convolution: (filters, channels of a group, rows,
        columns).
        """
        parts = array.reshape(groups, depth // groups, share, *kernel).swapaxes(1, 2)
        return parts.reshape(share * groups, -1, *kernel)

    inputs = (data.name, context.reordered(node, 1, ordered), *bias)
    operator = Convolution(
        window=window,
        groups=groups,
        epilogue=Epilogue(bias=bool(bias)),
        transposed=True,
        output_padding=padding,
    )
    context.add(node, operator, inputs, (batch, share * groups, *plane))


def transposed(context: ImportContext, node: OnnxNode, operator: Convolution, shape: Shape) -> Pending:
    """Imports the transposed convolution `operator`. Its result has this `shape` and is pending: the QuantizeLinear
    that reads it determines its rounding. Groups (on accelerators only) and dilations become zeros among the weights.
    """
    window = operator.window
    weight, scale = transposed_weights(context, node, operator.groups, window.dilations)
    data = real_operand(context, node, 0)
    plane_operand(context, node, data)
    product = Product(
        data=data,
        weight=weight.swapaxes(0, 1),
        weight_scale=scale,
        bias=bias_operand(context, node, 2),
        window=replace(window, kernel=(weight.shape[2], weight.shape[3]), dilations=(1, 1)),
    )
    return pending_result(node, Opaque(round=partial(round_transposed, product=product)), shape)


def transposed_weights(
    context: ImportContext, node: OnnxNode, groups: int, dilations: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """The integer weights of a quantized ConvTranspose as weights (C, O, *kernel) with one group and no dilations, and
    a scale for each of the O filters. If there are several groups and the target is a processor, NodeError is raised.
    """
    weight, scale = weight_operand(context, node, context.value(node, 1), channel_axis=1)
    if groups != 1 and context.abilities.processor:
        context.fail(
            node,
            f"a quantized transposed convolution of {groups} groups is not supported",
            "leave the node float32",
        )
    return _without_dilations(_without_groups(weight, groups), dilations), np.tile(scale, groups)


def _without_groups(weight: np.ndarray, groups: int) -> np.ndarray:
    """Converts the weights of a transposed convolution with groups, (C, O / groups, *kernel), to weights of a
    convolution without groups, (C, O, *kernel). There are zeros between channels and filters of different groups.
    """
    if groups == 1:
        return weight
    channels, share, *kernel = weight.shape
    depth = channels // groups
    dense = np.zeros((channels, groups * share, *kernel), weight.dtype)
    for group in range(groups):
        own = slice(group * depth, (group + 1) * depth)
        dense[own, group * share : (group + 1) * share] = weight[own]
    return dense


def _without_dilations(weight: np.ndarray, dilations: Sequence[int]) -> np.ndarray:
    """Inserts zeros between the elements of the kernel of `weight` (C, O, *kernel), which have the effect of
    `dilations`. Returns a new array.
    """
    if set(dilations) == {1}:
        return weight
    extents = [window_extent(k, d) for k, d in zip(weight.shape[2:], dilations, strict=True)]
    wide = np.zeros((*weight.shape[:2], *extents), weight.dtype)
    wide[(..., *(slice(None, None, dilation) for dilation in dilations))] = weight
    return wide


def round_transposed(context: ImportContext, to: Rounding, *, product: Product) -> str:
    """Adds the nodes that compute a transposed convolution and round its result to the quantization `to`. Returns the
    name of the result's tensor.

    The outputs are divided into phases: two outputs are in one phase if their rows, and their columns, have the same
    remainders modulo the strides. One ordinary convolution computes all phases as separate channels, and an Interleave
    puts the phases together. Output row y, with y + top = q * stride + r, is the sum over t of input row q - t times
    weight row r + stride * t.
    """
    if product.weight.dtype != np.int8:
        product = split_weights(context, product, to)
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
    own = requantize_scale(source.scale, product.weight_scale, to.grid.scale)
    bias = np.zeros((sy * sx, stride), np.int64)
    bias[:, :filters] = bias_of(product.bias, bias_step(source.scale, product.weight_scale), own)
    scale = np.ones((sy * sx, stride), np.float32)
    scale[:, :filters] = own
    scale = scale.reshape(-1)
    kernels = weight.reshape(-1, channels, *taps)
    plane = context.tensors[product.data.tensor].nchw[2:]
    last = ((height - 1 + top) // sy, (width - 1 + left) // sx)
    behind = [max(0, end - size + 1) for end, size in zip(last, plane, strict=True)]
    phases = (batch, sy * sx * stride, *[size + pad for size, pad in zip(plane, behind, strict=True)])
    kernels, bias, scale = fitted_sums(bias.reshape(-1), kernels, source.stored_zero_point, scale, to.post())
    convolution = Int8Convolution(
        weight=kernels,
        bias=bias,
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
