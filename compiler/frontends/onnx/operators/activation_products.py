"""MatMul of two activations, as in attention, for accelerators whose array reads weights from activations.

In both factors, the rows of a matrix are positions (pixels), and its columns are channels. Factors in another layout
are moved into this layout by additional nodes.

The channels of a matrix begin at a multiple of the block size. In the factor that the array reads as weights, the
positions of a matrix also begin at a multiple of the block size, since a tile of weights is a block of positions. A
moved matrix is padded to whole blocks of positions with arbitrary values. In attention the padding does not matter: in
the first product it gives additional scores, which no softmax reads; in the second product it is multiplied by zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from vdla.isa.scales import requantize_scale

from ....graph.abilities import needs
from ....graph.int8_operators import Group, Products
from ....te.blocks import ceil_div
from ..attributes import OnnxNode
from ..emit import Rounding
from ..integer_context import ImportContext, pending_result
from ..operations import Opaque
from ..strided_views import elements_of, moved_positions, rows_of, swapped, with_view
from ..values import Pending, Real


def import_multiplied(context: ImportContext, node: OnnxNode) -> bool:
    """Imports a MatMul of two activations that have at least three axes and equal leading axes. Returns False for any
    other MatMul, and if the target cannot compute the product.
    """
    a, b = context.value(node, 0), context.value(node, 1)
    if not (isinstance(a, Real) and isinstance(b, Real)):
        return False
    if len(a.shape) < 3 or a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2]:
        return False
    found = multiplied(context, node, a, b)
    if found is not None:
        context.bind(node, found)
    return found is not None


def multiplied(context: ImportContext, node: OnnxNode, a: Real, b: Real) -> Pending | None:
    """Multiplies two stacks of matrices, (..., rows, depth) and (..., depth, columns), whose leading axes are equal.
    Returns a pending result, which the next QuantizeLinear rounds, or None if the target has no products of
    activations.
    """
    if not context.abilities.products:
        return None
    zeros = [value.quantization.stored_zero_point for value in (a, b)]
    if any(zeros) and not context.abilities.zero_points:
        context.fail(node, *needs("zero_points"))
    *lead, rows, depth = a.shape
    columns, count = b.shape[-1], prod(lead)
    transposed = with_view(context, b, np.swapaxes(elements_of(context, b), -1, -2))
    (a, of_a), (b, of_b) = matrices(context, node, a, transposed)
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
    operation = Opaque(round=partial(round_multiplied, factors=(a, b), groups=groups, sizes=sizes))
    return pending_result(node, operation, natural, view=view)


def round_multiplied(
    context: ImportContext,
    to: Rounding,
    *,
    factors: tuple[Real, Real],
    groups: tuple[Group, ...],
    sizes: tuple[int, int, int],
) -> str:
    """Adds the integer products of `factors`, two stacks of matrices, requantized by `to`; returns the name of the
    result's tensor. `groups`: where each single matrix product begins in the tensors. `sizes`: rows, columns and depth
    of each product.
    """
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


Origins = list[tuple[int, int, int]]
"""Positions of a stack of matrices in a tensor. Each entry is for one matrix, and gives the position of the matrix's
first element: (image, channel, row-major index of the pixel).
"""

MatrixStack = tuple[Real, Origins]
"""(tensor, origins): a tensor that holds a stack of matrices, and the position of each matrix's first element in it."""


def matrices(context: ImportContext, node: OnnxNode, a: Real, b: Real) -> tuple[MatrixStack, MatrixStack]:
    """Brings two stacks `a` and `b` of equally many matrices (..., rows, columns) into the layout that a product needs;
    adds nodes that move the matrices if necessary. Raises ModelError if no moves produce this layout.

    Matrix i of `a` is multiplied by matrix i of `b`. Layout: the rows of a matrix are positions (pixels), the columns
    are channels. Matrix i of `a` and matrix i of `b` are in the same image (batch index); images are in ascending
    order. Each matrix of `b` begins at a position that is a multiple of the block size.
    """
    block = context.abilities.block
    sides = [(a, _origins(context, a, 1)), (b, _origins(context, b, block))]
    images = next(
        (own for _, origins in sides if (own := _images(origins)) is not None), _image_indices(a.shape)
    )
    first, second = (
        (_tensor(context, value), origins)
        if origins is not None and [image for image, _, _ in origins] == images
        else _moved_to_images(context, node, value, images)
        for value, origins in sides
    )
    return first, second


def _images(origins: Origins | None) -> list[int] | None:
    """For each matrix of a stack at `origins`, the index of the image that holds the matrix. Returns None if images
    hold different numbers of matrices, or if the matrices are not in the order of the images.
    """
    if origins is None:
        return None
    found = [image for image, _, _ in origins]
    count = max(found) + 1
    return found if found == np.repeat(np.arange(count), len(found) // count).tolist() else None


def _image_indices(shape: tuple[int, ...]) -> list[int]:
    """For a value of `shape` (..., rows, columns), the index of the image that holds each matrix. If there are several
    leading axes, the first of them is the image, and the others count matrices within an image. A single leading axis
    counts matrices within one image, which has index 0.
    """
    *lead, _, _ = shape
    images = lead[0] if len(lead) > 1 else 1
    return np.repeat(np.arange(images), prod(lead) // images).tolist()


def _tensor(context: ImportContext, value: Real) -> Real:
    return replace(value, shape=context.tensors[value.tensor].shape, view=None)


def _origins(context: ImportContext, value: Real, step: int) -> Origins | None:
    """The positions of the matrices of `value` in its tensor: (image, first channel, first pixel) of each matrix.

    Returns None if the tensor does not have the layout of a product. In this layout rows are pixels, columns are
    channels, and each matrix begins at a multiple of the block size (channels) and at a multiple of `step` (pixels).
    """
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
    if (channel % context.abilities.block).any() or (position % step).any():
        return None
    return list(zip((first // (channels * plane)).tolist(), channel.tolist(), position.tolist(), strict=True))


def _moved_to_images(
    context: ImportContext, node: OnnxNode, value: Real, images: Sequence[int]
) -> MatrixStack:
    """Moves the matrices of `value` to the given images by additional nodes. Three ways are tried in this order: a move
    of positions (pixels); moves of positions and an exchange of positions with channels; a move of single elements.
    Raises NodeError if no way works.
    """
    found = _by_positions(context, node, value, images) or _by_transposition(context, node, value, images)
    if found is None:
        value = rows_of(context, node, value).data
        origins = _origins(context, value, context.abilities.block)
        if origins is not None and [image for image, _, _ in origins] == images:
            return _tensor(context, value), origins
        found = _by_positions(context, node, value, images)
    if found is None:
        context.fail(
            node,
            f"a product of an input of shape {value.shape} whose elements are not stored in row-major order is not "
            "supported",
            "put a Transpose before it",
        )
    return found


def _by_positions(
    context: ImportContext, node: OnnxNode, value: Real, images: Sequence[int]
) -> MatrixStack | None:
    """Moves the matrices of `value` to the given `images` (batch indices) by a move of pixels alone. The columns of
    each matrix must be adjacent channels, of which the first is a multiple of the block size; otherwise None is
    returned. Matrices that occupy the same pixels are moved together, once.
    """
    _, channels, height, width = context.tensors[value.tensor].nchw
    *_, rows, columns = value.shape
    block, plane = context.abilities.block, height * width
    elements = elements_of(context, value).reshape(-1, rows, columns)
    channel = elements // plane % channels
    place = elements // (plane * channels) * plane + elements % plane
    first = channel[:, 0, 0]
    lies = (channel == first[:, None, None] + np.arange(columns)).all() and (place == place[..., :1]).all()
    if (elements < 0).any() or not lies or (first % block).any():
        return None
    step = ceil_div(rows, block) * block
    slots: list[dict[bytes, int]] = [{} for _ in range(images[-1] + 1)]
    for image, of in zip(images, place[..., 0], strict=True):
        slots[image].setdefault(of.tobytes(), len(slots[image]))
    index = np.full((len(slots), max(map(len, slots)), step), -1, np.int64)
    origins: Origins = []
    for image, of, begin in zip(images, place[..., 0], first.tolist(), strict=True):
        slot = slots[image][of.tobytes()]
        index[image, slot, :rows] = of
        origins.append((image, begin - int(first.min()), slot * step))
    taken = int(first.min()), int(first.max() - first.min()) + columns
    tensor = moved_positions(context, node, value, index.reshape(len(slots), -1, 1), taken, filled=False)
    return _tensor(context, replace(value, tensor=tensor)), origins


def _by_transposition(
    context: ImportContext, node: OnnxNode, value: Real, images: Sequence[int]
) -> MatrixStack | None:
    """Moves the matrices of `value` to the given `images` (batch indices) by an exchange of channels with pixels. The
    rows of each matrix must be adjacent channels, of which the first is a multiple of the block size; otherwise None is
    returned.
    """
    *_, rows, columns = value.shape
    transposed = with_view(context, value, np.swapaxes(elements_of(context, value), -1, -2))
    origins = _origins(context, transposed, context.abilities.block)
    if origins is not None and [image for image, _, _ in origins] == images:
        data = _tensor(context, transposed)
    else:
        found = _by_positions(context, node, transposed, images)
        if found is None:
            return None
        data, origins = found
    low = min(channel for _, channel, _ in origins)
    count = max(channel for _, channel, _ in origins) + rows - low
    positions = max(position for _, _, position in origins) + columns
    tensor = swapped(context, node, data, positions, (count, 1), (low, count))
    return (
        _tensor(context, replace(data, tensor=tensor)),
        [(image, position, channel - low) for image, channel, position in origins],
    )
