"""Max and Min of several tensors in integer graphs, computed by additions of two tensors. The additions are exact; only
the operands are rounded.

Each operand is first rescaled to the scale and zero point of the result. This rounding keeps the order of numbers, so
that the maximum of the rounded operands is the rounded maximum. For two stored values, max(a, b) = b + clamp(a - b, 0,
255) and min(a, b) = b + clamp(a - b, -255, 0). Each clamped difference has 256 possible values, so that 8 bits store it
exactly.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce

import numpy as np

from ....graph.abilities import needs
from ....graph.int8_convolution import Quantization
from ....te.combination import Combination
from ..attributes import OnnxNode
from ..emit import Rounding, real_operand
from ..integer_context import ImportContext, pending_result
from ..known_values import Known
from ..operations import Opaque
from ..own_grids import common
from ..rescaling import rescale_all
from ..strided_views import elements_of, is_whole, lying_like, rows_of, with_view
from ..values import Real
from .elementwise import BROADCAST, one_for_each_channel, over_channels, stored_operand
from .quantized_constants import rounded


def import_extremum(context: ImportContext, node: OnnxNode) -> bool:
    """Imports a Max or Min of tensors and constants. One operand must have the shape of the result. Returns False if no
    operand depends on the model's input.
    """
    values = [context.value(node, index) for index in range(len(node.inputs))]
    known = [value for value in values if isinstance(value, Known)]
    tensors = [
        real_operand(context, node, index, viewed=True)
        for index, value in enumerate(values)
        if not isinstance(value, Known)
    ]
    if not tensors:
        return False
    # Of operands of equal size the first; the shape of the result is the shape of the largest operand.
    whole = max(tensors, key=lambda tensor: np.prod(tensor.shape))
    try:
        shape = np.broadcast_shapes(*(value.shape for value in (*tensors, *known)))
    except ValueError:
        shape = ()
    if shape != whole.shape:
        shapes = ", ".join(str(value.shape) for value in (*tensors, *known))
        context.fail(node, f"its operands of shapes {shapes} do not match", BROADCAST)
    others = [tensor for tensor in tensors if tensor is not whole]
    if not is_whole(context, whole):
        whole = rows_of(context, node, whole).data
    laid_out = (whole, *(_like(context, node, other, whole) for other in others))
    round_result = partial(_round_extremum, node=node, tensors=laid_out, known=tuple(known))
    natural = context.tensors[whole.tensor].shape
    bounds = None if known else common(laid_out)
    operation = Opaque(round=round_result, bounds=bounds)
    context.bind(node, pending_result(node, operation, natural, shape=whole.shape, view=whole.view))
    return True


def _like(context: ImportContext, node: OnnxNode, other: Real, whole: Real) -> Real:
    """Broadcasts the operand `other` to the shape and memory layout of the operand `whole`. Returns `other` unchanged
    if it has one value for each channel and the target itself can broadcast such an operand.
    """
    first, second = context.tensors[whole.tensor], context.tensors[other.tensor]
    small = first.nchw != second.nchw and one_for_each_channel(first, second)
    if small and context.abilities.planes and over_channels(context, whole, other):
        return other
    elements = np.broadcast_to(elements_of(context, other), whole.shape)
    return lying_like(context, node, with_view(context, other, elements), whole)


def _round_extremum(
    context: ImportContext,
    to: Rounding,
    *,
    node: OnnxNode,
    tensors: tuple[Real, ...],
    known: tuple[Known, ...],
) -> str:
    """Adds the nodes that compute the maximum or minimum of `tensors` and the constants `known`, quantized with the
    scale and zero point of `to`. Returns the name of the result's tensor.
    """
    parts = [*rescale_all(context, tensors, to)]
    for constant in known:
        operand = rounded(constant.real().astype(np.float32), to.grid)
        stored = stored_operand(context, node, 1, [tensors[0], operand])
        parts.append(stored.tensor)
    last = len(parts) - 1

    def extremum(result: str, numbered: tuple[int, str]) -> str:
        index, part = numbered
        output = to.output if index == last else f"{to.output}.with.{index}"
        return _of_two(context, node, replace(to, output=output), result, part)

    return reduce(extremum, enumerate(parts[1:], start=1), parts[0])


def _of_two(context: ImportContext, node: OnnxNode, to: Rounding, a: str, b: str) -> str:
    """Adds the maximum (`node` is a Max) or minimum of the tensors called `a` and `b`, which have the scale and zero
    point of the result `to`; `b` may be broadcast. Returns the name of the result's tensor.
    """
    if context.tensors[a].nchw != context.tensors[b].nchw and not context.abilities.planes:
        context.fail(node, *needs("broadcast"))
    # Stored value -128 is a difference of 0 for a maximum, and of -255 for a minimum.
    offset = 128.0 if node.op_type == "Max" else -127.0
    above = replace(
        to,
        grid=Quantization(scale=to.grid.scale, zero_point=0 if node.op_type == "Max" else 255, dtype="uint8"),
        output=f"{to.output}.difference",
    )
    less = Combination(kind="add", ratio_self=1.0, ratio_operand=-1.0, offset=-offset)
    difference = above.append_elementwise(context, (a, b), less)
    total = Combination(
        kind="add", ratio_self=1.0, ratio_operand=1.0, offset=offset, low=to.low, high=to.high
    )
    return to.append_elementwise(context, (difference, b), total)
