"""InstanceNormalization in integer graphs: a normalization of each channel's plane, then a factor and addend for each
channel. GroupNormalization becomes an InstanceNormalization whose channels are the groups.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from ....graph.abilities import needs
from ....graph.int8_convolution import Quantization
from ....graph.int8_operators import Channels
from ..attributes import OnnxNode
from ..axes import check_spatial
from ..emit import Rounding, append, emit, real_operand
from ..integer_context import ImportContext, pending_result
from ..operations import Opaque, Shared
from ..own_grids import SMALLEST, STEPS
from ..strided_views import contiguous, elements_of, with_view, without_pads
from ..values import Pending, Real, reshaped
from .batch_normalization import affine, channel_values
from .products import round_product
from .rows import shared_rows

FINENESS = 0.9
"""Decides the quantization step of the normalized values. This step, multiplied by the largest factor of a channel, is
at most this fraction of the result's quantization step.
"""
MOST_PIECES = 8
"""Largest number of 8-bit tensors (pieces) whose sum is the normalized values. If the step is so fine that more pieces
would be needed, a coarser step is used.
"""


def import_instance_normalization(context: ImportContext, node: OnnxNode) -> None:
    """Imports InstanceNormalization of (N, C, ...) for a target with the ability `rows`: each plane is a row.

    If factor and addend are equal for all channels, the normalization of rows includes them. Otherwise a convolution
    applies them to the normalized values.
    """
    data = real_operand(context, node, 0, viewed=True)
    check_spatial(context, node, data.shape)
    if not context.abilities.rows:
        context.fail(node, *needs("rows"))
    data = without_pads(context, node, data)
    batch, channels, *plane = data.shape
    factor, addend = channel_values(context, node, context.array, channels, ("scale", "bias"))
    elements = elements_of(context, data).reshape(batch, channels, prod(plane))
    planes = with_view(context, data, elements)
    alike = bool((factor == factor[0]).all() and (addend == addend[0]).all())
    shared = Shared(
        data=planes,
        gain=np.full(prod(plane), factor[0] if alike else 1.0),
        offset=np.full(prod(plane), addend[0] if alike else 0.0),
        centre=True,
        epsilon=float(node.attributes.get("epsilon", 1e-5)),
    )
    normalized = shared_rows(context, node, shared, planes)
    if alike:
        context.bind(node, reshaped(normalized, data.shape))
        return
    natural = data.shape if len(data.shape) == 4 else (batch, channels, prod(plane), 1)
    rounded = partial(_round, node=node, normalized=normalized, factor=factor, addend=addend)
    context.bind(node, pending_result(node, Opaque(round=rounded), natural, shape=data.shape))


def _round(
    context: ImportContext,
    to: Rounding,
    *,
    node: OnnxNode,
    normalized: Pending,
    factor: np.ndarray,
    addend: np.ndarray,
) -> str:
    """Adds the nodes that normalize planes, and a convolution that applies the factor and addend of each channel.
    Returns the name of the result's tensor.

    One 8-bit tensor is too coarse for the normalized values: its step, multiplied by the largest factor, would exceed
    the result's step. So several 8-bit tensors (pieces) with a finer step are computed. Each piece covers a range of
    255 steps, and holds the part of the value inside its range. The convolution adds the pieces.
    """
    low, count, step = _pieces(to.grid, factor, addend, normalized.shape[-1])
    natural, span = to.pending.natural, STEPS * step
    shared = normalized.operation
    assert isinstance(shared, Shared) and shared.offset is not None
    parts: list[str] = []
    for number in range(count):
        start = low + number * span
        piece = replace(normalized, operation=replace(shared, offset=shared.offset - start))
        grid = Quantization(scale=np.float32(step), zero_point=0, dtype="uint8")
        value = emit(context, node, piece, f"{to.output}.normalized{number}", grid)
        image = with_view(context, value, elements_of(context, value).reshape(natural))
        parts.append(contiguous(context, node, image).tensor)
    stored = parts[0]
    if count > 1:
        shape = (natural[0], natural[1] * count, *natural[2:])
        grid = context.tensors[stored].grid
        stored = context.declare(f"{to.output}.pieces", shape, grid)
        sources = [(part, channel) for channel in range(natural[1]) for part in range(count)]
        append(context, (node.name,), stored, Channels(sources=tuple(sources)), tuple(parts), stored)
    data = Real(tensor=stored, shape=context.tensors[stored].shape, quantization=context.tensors[stored].grid)
    product = affine(data, factor, addend + factor * low)
    return round_product(context, replace(product, weight=np.repeat(product.weight, count, axis=1)), to)


def _pieces(
    result: Quantization, factor: np.ndarray, addend: np.ndarray, length: int
) -> tuple[float, int, float]:
    """Divides the range of normalized values into intervals of 255 steps. Returns (least value, number of intervals,
    step).

    The normalized values of a row of `length` values are between -sqrt(`length`) and sqrt(`length`). The range is
    smaller if all channels saturate in `result` beyond some value, after their `factor` and `addend` are applied.
    """
    ends = (np.array([-128, 127]) - result.stored_zero_point) * float(result.scale)
    some, most = factor != 0, float(np.sqrt(length))
    if not some.any():
        return 0.0, 1, 1.0
    before = np.clip((ends[:, None] - addend[some]) / factor[some], -most, most)
    low, high = float(before.min()), float(before.max())
    finest = FINENESS * float(result.scale) / float(np.abs(factor).max())
    count = min(max(1, int(np.ceil((high - low) / (STEPS * finest)))), MOST_PIECES)
    return low, count, max((high - low) / (STEPS * count), SMALLEST)
