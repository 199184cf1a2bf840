"""Softmax along any axis, and normalizations along the last axes, for targets with the ability `rows`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vdla.isa.rows import FRACTION_BITS, exponentials

from ....graph.abilities import needs
from ....graph.int8_operators import Rows as IntegerRows
from ....te.blocks import Pair
from ..attributes import OnnxNode
from ..axes import one_axis
from ..emit import Rounding
from ..integer_context import ImportContext
from ..known_values import Constant, QuantizedConstant
from ..operations import Function, Identity, Shared
from ..strided_views import contiguous, elements_of, rows_of, with_view
from ..values import Pending, Real, reshaped

LARGEST_BIAS = 1 << 30
"""Largest bias of a channel (offset / gain). If the bias would be larger, the gain is increased instead; this changes
the result by less than 2^-14 of the offset.
"""


def import_rows(context: ImportContext, node: OnnxNode) -> bool:
    """Imports Softmax, LayerNormalization or RMSNormalization. Returns False if the target does not compute the node.

    The operation always works along the last axis of a view of its input. For a Softmax along another axis, the view
    moves this axis to the end. For an operation along several last axes, the view joins them to one axis.
    """
    abilities = context.abilities
    if abilities.processor and not abilities.rows:
        return False
    value = context.value(node, 0)
    data = value if isinstance(value, Real) else None
    if node.op_type == "Softmax" and isinstance(value, Pending) and step_of(value) is not None:
        data = data_of(value)
    if data is None or len([name for name in node.outputs if name]) > 1:
        return False
    rank = len(data.shape)
    axis, softmax = one_axis(context, node, data.shape, -1), node.op_type == "Softmax"
    if not abilities.rows:
        context.fail(node, *needs("rows"))
    shape, moved, images = data.shape, None, softmax and (axis, rank) == (1, 4)
    if axis != rank - 1 and not images:
        elements = elements_of(context, data)
        if softmax:
            moved, elements = axis, np.moveaxis(elements, axis, -1)
        else:
            elements = elements.reshape(*shape[:axis] or (1,), -1)
        data, axis = with_view(context, data, elements), elements.ndim - 1
    members: tuple[str, ...] = ()
    if isinstance(value, Pending):
        operation, members = Shared(data=data, entries=exponentials(step_of(value) or 1.0)), value.members
    elif softmax:
        operation = Shared(data=data)
    else:
        operation = _normalization(context, node, data)
    if operation is None:
        return False
    made = shared_rows(context, node, operation, data, members, axis)
    if moved is not None:
        made = with_view(context, made, np.moveaxis(elements_of(context, made), -1, moved))
    context.bind(node, reshaped(made, shape))
    return True


def shared_rows(
    context: ImportContext,
    node: OnnxNode,
    operation: Shared,
    data: Real,
    members: tuple[str, ...] = (),
    axis: int | None = None,
) -> Pending:
    """Prepares a softmax or normalization (`operation`) of rows of `data`. Returns a pending result, which the next
    QuantizeLinear rounds. A row lies along the last axis of `data`; if `axis` is 1 and `data` are images, a row is all
    channels of a pixel. `members`: names of ONNX nodes that the operation includes besides `node`.
    """
    rank = len(data.shape)
    vectors = rank == 2 and data.view is None and context.tensors[data.tensor].nchw[2:] == (1, 1)
    if axis in (None, rank - 1) and not vectors:
        rows = rows_of(context, node, data)
        data, natural = rows.data, context.tensors[rows.data.tensor].nchw
        view = rows.view(natural)
    else:
        data = contiguous(context, node, data)
        natural, view = context.tensors[data.tensor].shape, None
    return Pending(
        name=node.outputs[0],
        members=(node.name, *members),
        operation=replace(operation, data=data),
        natural=natural,
        shape=data.shape,
        view=view,
    )


def step_of(scores: Real | Pending) -> float | None:
    """The scale of a softmax's scores, which is the growth of the score from one stored value to the next. None if the
    growth is not the same for all stored values.
    """
    match scores:
        case Real(quantization=quantization):
            return float(quantization.scale)
        case Pending(operation=Identity(data=data), low=low, high=high) if (low, high) == (-np.inf, np.inf):
            return float(data.quantization.scale)
        case Pending(operation=Function(values=values), low=low, high=high) if (low, high) == (
            -np.inf,
            np.inf,
        ):
            line = np.linspace(float(values[0]), float(values[-1]), len(values))
            span = float(line[-1] - line[0])
            if span > 0 and np.allclose(values, line, rtol=0, atol=span * 1e-5):
                return span / (len(values) - 1)
    return None


def data_of(scores: Pending) -> Real:
    """The quantized tensor from which the `scores` of a softmax are computed element by element, in the shape of the
    scores. The score must grow by a constant (`step_of`) from one stored value of this tensor to the next.
    """
    assert isinstance(scores.operation, Identity | Function)
    return replace(scores.operation.data, shape=scores.shape, view=scores.view)


def _normalization(context: ImportContext, node: OnnxNode, data: Real) -> Shared | None:
    channels = data.shape[-1]
    parts: list[np.ndarray] = []
    for index, default in ((1, 1.0), (2, 0.0)):
        value = context.value(node, index)
        if not isinstance(value, Constant | QuantizedConstant | None):
            return None
        array = np.full(channels, default) if value is None else value.real()
        if array.size not in (1, channels):
            return None
        parts.append(np.broadcast_to(array.reshape(-1), (channels,)).astype(np.float64))
    return Shared(
        data=data,
        gain=parts[0],
        offset=parts[1],
        centre=node.op_type == "LayerNormalization",
        epsilon=float(node.attributes.get("epsilon", 1e-5)),
    )


def round_shared(context: ImportContext, shared: Shared, to: Rounding) -> str:
    """Adds an integer softmax or normalization, requantized by `to`; returns the name of the result's tensor."""
    source = shared.data.quantization
    step = 2.0**-FRACTION_BITS / float(to.grid.scale)
    if shared.gain is None or shared.offset is None:
        operator = IntegerRows(
            entries=exponentials(float(source.scale)) if shared.entries is None else shared.entries,
            bias=np.zeros(1, np.int32),
            scale=np.array([step], np.float32),
            post=to.post(),
        )
    else:
        bias, scale = parameters_of(shared.gain * step, shared.offset / float(to.grid.scale))
        operator = IntegerRows(
            entries=None,
            bias=bias,
            scale=scale,
            post=to.post(),
            zero_point=source.stored_zero_point,
            centre=shared.centre,
            epsilon=epsilon_of(shared.epsilon, float(source.scale), len(bias)),
        )
    return to.append(context, operator, (shared.data.tensor,))


def parameters_of(scale: np.ndarray, offset: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns (bias int32, factor float32) such that (share + bias) * factor = share * `scale` + `offset`, apart from
    rounding. All are arrays (C,). A share is the result of a softmax or normalization before its scale and offset are
    applied.

    `scale`, `offset`: float64. The factor is `scale`, or of larger magnitude if the bias would otherwise exceed
    `LARGEST_BIAS`.
    """
    least = np.maximum(np.abs(offset) / LARGEST_BIAS, float(np.finfo(np.float32).tiny))
    own = np.where(np.abs(scale) < least, np.copysign(least, scale), scale)
    return np.rint(offset / own).astype(np.int64).astype(np.int32), own.astype(np.float32)


def epsilon_of(epsilon: float, scale: float, length: int) -> Pair:
    """Converts a normalization's `epsilon`, which is added to the variance, to the unit of the integer variance:
    `epsilon` * (`length` / `scale`)**2. `length`: elements in a row; `scale`: scale of the row's integers. Returns the
    integer as (mantissa, shift), that is mantissa * 2**shift.
    """
    whole = round(epsilon * (length / scale) ** 2)
    shift = max(0, whole.bit_length() - 16)
    return min(whole >> shift, (1 << 16) - 1), min(shift, 31)
