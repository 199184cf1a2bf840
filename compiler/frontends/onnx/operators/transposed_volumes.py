"""Imports ConvTranspose of volumes (N, C, D, H, W) into integer graphs, as transposed convolutions of images.

Output slice z, with z + (pads before the first slice) = q * stride + r, is the sum over t of input slice q - t times
the weights at depth r + stride * t. One transposed convolution of images computes all output slices with the same
remainder r; the input slices that an output slice needs are joined as its input channels. Nothing is rounded in
between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ....graph.int8_operators import Positions
from ....te.blocks import Window
from ....te.ops.transposed_convolution import transposed_outputs
from ..attributes import OnnxNode
from ..emit import Rounding
from ..integer_context import ImportContext
from ..operations import Opaque, Product
from ..values import Pending, Real
from .products import bias_operand
from .transposed import round_transposed, transposed_weights, transposed_windows
from .volumes import plane_window_of, sliced, taps_of
from .window_attributes import convolution_groups


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Remainder:
    """Output slices of a volume whose depths have the same remainder modulo the stride. `slices`: their depths;
    `product`: the transposed convolution of images that computes them.
    """

    slices: np.ndarray
    product: Product


def transposed_volume(context: ImportContext, node: OnnxNode, data: Real) -> Pending:
    """Imports a transposed convolution of the volume `data`. Returns a pending result, which the next QuantizeLinear
    rounds.
    """
    groups = convolution_groups(context, node, data.shape, context.present(node, 1).shape, transposed=True)
    windows, extra = transposed_windows(context, node, data.shape[2:], context.present(node, 1).shape[2:])
    weight, scale = transposed_weights(context, node, groups, windows.dilations)
    filters, *kernel = weight.shape[1:]
    windows = replace(windows, kernel=tuple(kernel), dilations=(1, 1, 1))
    stride, before, behind = windows.strides[0], windows.pads[0], windows.pads[3]
    plane_window = plane_window_of(windows)
    along_depth = Window(kernel=(kernel[0], 1), strides=(stride, 1), pads=(before, 0, behind, 0))
    try:
        depth, _ = transposed_outputs(along_depth, data.shape[2], 1, (extra[0], 0))
        plane = transposed_outputs(plane_window, data.shape[3], data.shape[4], (extra[1], extra[2]))
    except ValueError as error:
        context.fail(node, str(error), "use smaller pads and strides")
    bias, along = bias_operand(context, node, 2), np.arange(depth) + before
    parts: list[Remainder] = []
    for remainder in sorted({*(along % stride).tolist()}):
        own = weight[:, :, remainder::stride]
        if not own.shape[2]:
            # No weight has this depth: the slices hold nothing but the bias.
            own = np.zeros_like(weight[:, :, :1])
        taps, slices = own.shape[2], np.flatnonzero(along % stride == remainder)
        depths = along[slices, None] // stride - np.arange(taps)
        joined = own.transpose(1, 0, 2, 3, 4).reshape(filters, -1, *kernel[1:])
        product = Product(
            data=taps_of(context, node, data, depths, beside=False),
            weight=np.ascontiguousarray(joined),
            weight_scale=scale,
            bias=bias,
            window=plane_window,
        )
        parts.append(Remainder(slices=slices, product=product))
    rounded = partial(_round_volume, parts=parts, depth=depth)
    return sliced(node, Opaque(round=rounded), data.shape[0], depth, filters, plane)


def _round_volume(context: ImportContext, to: Rounding, *, parts: Sequence[Remainder], depth: int) -> str:
    """Adds the nodes that compute a transposed convolution of a volume; returns the name of the result's tensor. Each
    of `parts` computes the output slices of one remainder, by a transposed convolution of images. A last node puts the
    slices of all parts in the order of the volume. `depth`: number of output slices.
    """
    images, filters, *plane = to.pending.natural
    if len(parts) == 1:
        return round_transposed(context, to, product=parts[0].product)
    batch, size = images // depth, plane[0] * plane[1]
    tensors: list[str] = []
    first = np.empty((batch, depth), np.int64)
    start = 0
    for number, part in enumerate(parts):
        count = len(part.slices)
        natural = (batch * count, filters, *plane)
        own = replace(
            to, pending=replace(to.pending, natural=natural), output=f"{to.output}.remainder.{number}"
        )
        tensors.append(round_transposed(context, own, product=part.product))
        first[:, part.slices] = (start + np.arange(batch * count) * size).reshape(batch, count)
        start += batch * count * size
    index = first.reshape(-1, 1, 1) + np.arange(size).reshape(plane)
    order = Positions(index=index, fill=to.grid.stored_zero_point)
    return to.append(context, order, tuple(tensors), name=f"{to.pending.members[0]}.slices")
