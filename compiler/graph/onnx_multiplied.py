"""MatMul of two activations, as in attention: on accelerators whose array takes weights from activations."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from .abilities import needs
from .int8_operators import Group
from .onnx_context import ImportContext, OnnxNode
from .onnx_values import Multiplied, Pending, Real
from .onnx_views import elements_of, rows_of, seen_as

Places = list[tuple[int, int, int]]
"""Image, first channel and first position of each matrix of a stack."""


def import_multiplied(context: ImportContext, node: OnnxNode) -> bool:
    """Binds the product of two activations of equal leading axes; whether the node is one that this target computes."""
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
    a, of_a = _matrices(context, node, a)
    b, of_b = _matrices(context, node, seen_as(context, b, np.swapaxes(elements_of(context, b), -1, -2)))
    if any(first[0] != second[0] for first, second in zip(of_a, of_b, strict=True)):
        return False
    images = max(image for image, _, _ in of_a) + 1
    heads = count // images
    if [image for image, _, _ in of_a] != np.repeat(np.arange(images), heads).tolist():
        return False
    # Heads that lie in positions go back to channels, those in channels to positions: a softmax takes whole rows.
    stacked = len({channel for _, channel, _ in of_a}) == 1 and heads > 1
    places = [(head * columns, 0) if stacked else (0, head * rows) for head in range(heads)] * images
    groups = tuple(
        [
            Group(image=image, a=(channel, position), b=other[1:], output=place)
            for (image, channel, position), other, place in zip(of_a, of_b, places, strict=True)
        ]
    )
    _check_blocks(
        context, node, b, (depth, columns, *[s for g in groups for s in (g.a[0], *g.b, g.output[0])])
    )
    natural = (images, heads * columns, rows, 1) if stacked else (images, columns, heads * rows, 1)
    plane, n, head, i, j = natural[2], *np.ix_(*map(np.arange, (images, heads, rows, columns)))
    channel, position = (head * columns + j, i) if stacked else (j, head * rows + i)
    view = ((n * natural[1] + channel) * plane + position).reshape(*lead, rows, columns)
    operation = Multiplied(a=a, b=b, groups=groups, rows=rows, columns=columns, depth=depth)
    context.bind(
        node,
        Pending(
            name=node.outputs[0],
            members=(node.name,),
            operation=operation,
            natural=natural,
            shape=view.shape,
            view=view,
        ),
    )
    return True


def _check_blocks(context: ImportContext, node: OnnxNode, b: Real, sizes: tuple[int, ...]) -> None:
    """Fails where blocks of channels, or tiles of weights, would not be whole."""
    block, (_, _, height, width) = context.abilities.block, context.tensors[b.tensor].nchw
    if any(size % block for size in (height * width, *sizes)):
        context.fail(
            node,
            f"products of {sizes[0]} channels and {sizes[1]} columns do not fill blocks of {block}",
            "use multiples",
        )


def _matrices(context: ImportContext, node: OnnxNode, value: Real) -> tuple[Real, Places]:
    """Where the matrices of a value lie in a tensor, rows in positions, columns in channels; moved if they do not."""
    found = _places(context, value)
    if found is None:
        value = rows_of(context, node, value).data
        found = _places(context, value)
        if found is None:
            context.fail(node, f"reads {value.shape} in an order that no product has", "transpose it before")
    return replace(value, shape=context.tensors[value.tensor].shape, view=None), found


def _places(context: ImportContext, value: Real) -> Places | None:
    _, channels, height, width = context.tensors[value.tensor].nchw
    *_, rows, columns = value.shape
    elements, plane = elements_of(context, value).reshape(-1, rows, columns), height * width
    first = elements[:, 0, 0]
    wanted = first[:, None, None] + np.arange(rows)[:, None] + np.arange(columns) * plane
    channel, position = first // plane % channels, first % plane
    if (elements < 0).any() or not np.array_equal(elements, wanted):
        return None
    if (channel + columns > channels).any() or (position + rows > plane).any():
        return None
    return list(zip((first // (channels * plane)).tolist(), channel.tolist(), position.tolist(), strict=True))
