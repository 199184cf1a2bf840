"""Pad with a fill value other than 0, in integer graphs: pads are read from a constant tensor of this value."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ....graph.int8_convolution import Quantization
from ..attributes import OnnxNode
from ..integer_context import ImportContext, pending_result
from ..strided_views import contiguous, line_of, without_pads
from ..values import Pending, Real
from .integer_moves import joined, moved_to

LARGEST = 2.0**16
"""Limit of a fill value's magnitude, in units of the padded tensor's scale. A fill value beyond the limit is replaced
by the limit; both saturate to the same integer.
"""


def filled(
    context: ImportContext, node: OnnxNode, data: Real, positions: Sequence[np.ndarray], fill: float
) -> Pending:
    """Pads `data` with the value `fill`, along channels alone or along any other axes. Returns a pending result, which
    the next QuantizeLinear rounds. `positions`: for each axis, the source index in `data` for each index of the result,
    or -1 for a pad.
    """
    shape = tuple(map(len, positions))
    if len(data.shape) not in (3, 4):
        context.fail(
            node,
            f"pads an input of shape {data.shape} with a value other than 0, which is supported for three or four "
            "dimensions only",
            "reshape it to (N, C, H, W) or (N, C, L) first",
        )
    in_order = line_of if len(shape) == 3 else contiguous
    data = in_order(context, node, without_pads(context, node, data))
    batch, channels, height, width = context.tensors[data.tensor].nchw
    most = LARGEST * float(data.quantization.scale)
    fill = min(max(fill, -most), most)
    grid = Quantization(scale=np.float32(abs(fill)), zero_point=0, dtype="int8")
    spatial = any((places < 0).any() for places in (positions[0], *positions[2:]))
    if spatial and not np.array_equal(positions[1], np.arange(channels)):
        context.fail(
            node,
            "pads both channels and positions with a value other than 0",
            "pad channels and positions in two Pad nodes",
        )
    pixel = (1, channels, 1, 1) if spatial else (batch, 1, height, width)
    constant = context.store_constant(f"{node.name}.fill", np.full(pixel, np.sign(fill), np.int8), grid)
    parts = (data, Real(tensor=constant, shape=pixel, quantization=grid))
    natural = (*shape, 1) if len(shape) == 3 else shape
    if not spatial:
        sources = [(0, place) if place >= 0 else (1, 0) for place in positions[1].tolist()]
        return pending_result(node, joined(parts, tuple(sources)), natural, shape=shape)
    rows, columns = positions[2], positions[3] if len(positions) == 4 else np.zeros(1, np.int64)
    grids = np.ix_(positions[0], rows, columns)
    inside = (grids[0] >= 0) & (grids[1] >= 0) & (grids[2] >= 0)
    index = np.where(inside, (grids[0] * height + grids[1]) * width + grids[2], prod((batch, height, width)))
    return pending_result(node, moved_to(parts, index), natural, shape=shape)
