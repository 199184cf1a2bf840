"""MatMul of two activations, as in attention, for accelerators whose array reads weights from activations."""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np

from vdla.isa.arithmetic import requantize_scale

from .abilities import needs
from .int8_operators import Group, Products
from .onnx_attributes import OnnxNode
from .onnx_emit import Rounding
from .onnx_integer_context import ImportContext, pending_result
from .onnx_matrices import matrices
from .onnx_strided_views import elements_of, seen_as
from .onnx_values import Real, Waiting


def import_multiplied(context: ImportContext, node: OnnxNode) -> bool:
    """Binds the product of two activations of equal leading axes; returns whether this target computes the node."""
    a, b = context.value(node, 0), context.value(node, 1)
    if not (context.abilities.products and isinstance(a, Real) and isinstance(b, Real)):
        return False
    if len(a.shape) < 3 or a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2]:
        return False
    zeros = [value.quantization.stored_zero_point for value in (a, b)]
    if any(zeros) and not context.abilities.zero_points:
        context.fail(node, *needs("zero_points"))
    *lead, rows, depth = a.shape
    columns, count = b.shape[-1], prod(lead)
    turned = seen_as(context, b, np.swapaxes(elements_of(context, b), -1, -2))
    (a, of_a), (b, of_b) = matrices(context, node, a, turned)
    images = max(image for image, _, _ in of_a) + 1
    heads = count // images
    # Heads in positions of the inputs go to channels of the result, those in channels to positions: a softmax needs
    # whole rows. Heads are the last leading axis; other leading axes in an image, its windows, stay in positions.
    across = lead[-1] if heads % lead[-1] == 0 else heads
    alone = len({channel for _, channel, _ in of_a}) == 1
    if not alone or columns % context.abilities.block:
        across = 1
    places = [
        (head % across * columns, head // across * rows) for _ in range(images) for head in range(heads)
    ]
    groups = tuple(
        [
            Group(image=image, a=(channel, position), b=other[1:], output=place)
            for (image, channel, position), other, place in zip(of_a, of_b, places, strict=True)
        ]
    )
    natural = (images, across * columns, heads // across * rows, 1)
    plane, n, head, i, j = natural[2], *np.ix_(*map(np.arange, (images, heads, rows, columns)))
    channel, position = head % across * columns + j, head // across * rows + i
    view = ((n * natural[1] + channel) * plane + position).reshape(*lead, rows, columns)
    sizes = rows, columns, depth
    operation = Waiting(round=partial(round_multiplied, factors=(a, b), groups=groups, sizes=sizes))
    context.bind(node, pending_result(node, operation, natural, view=view))
    return True


def round_multiplied(
    context: ImportContext,
    to: Rounding,
    *,
    factors: tuple[Real, Real],
    groups: tuple[Group, ...],
    sizes: tuple[int, int, int],
) -> str:
    """Adds the integer product of two activations; `sizes`: rows, columns and depth of each matrix product."""
    a, b = (factor.quantization for factor in factors)
    rows, columns, depth = sizes
    operator = Products(
        groups=groups,
        rows=rows,
        columns=columns,
        depth=depth,
        zero_points=(a.stored_zero_point, b.stored_zero_point),
        scale=np.float32(requantize_scale(a.scale, b.scale, to.grid.scale)),
        post=to.post(),
    )
    return to.append(context, operator, (factors[0].tensor, factors[1].tensor))
