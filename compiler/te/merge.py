"""Merges neighbouring dimensions that an operator treats alike in all its tensors, which then have fewer dimensions.

A program over the merged shapes runs on the same row-major data, so callers only reshape, without a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

Shape = tuple[int, ...]


def around_axis(shape: Shape, axis: int) -> tuple[int, int, int]:
    """Numbers of elements before an axis, along it and after it: (product of outer sizes, size, product of inner
    sizes). Raises ValueError for an axis that the shape does not have, also for a negative one.
    """
    if not 0 <= axis < len(shape):
        raise ValueError(f"shape {shape} has no axis {axis}")
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """The shape to which numpy broadcasts `shapes`. Raises ValueError if they do not broadcast."""
    rank = max(map(len, shapes), default=0)
    result: list[int] = []
    for sizes in zip(*(_aligned(shape, rank) for shape in shapes), strict=True):
        wide = {size for size in sizes if size != 1}
        if len(wide) > 1:
            raise ValueError(f"shapes {', '.join(map(str, shapes))} do not broadcast against each other")
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def merge_broadcast(shapes: Sequence[Shape]) -> tuple[Shape, tuple[Shape, ...]]:
    """The result's shape and the inputs' shapes, all of one rank of at least 1, with as few dimensions as possible.

    Every dimension of an input has the result's size or 1. Raises ValueError if the shapes do not broadcast.
    """
    result = broadcast(shapes)
    aligned = [_aligned(shape, len(result)) for shape in shapes]
    sizes: list[int] = []
    patterns: list[tuple[bool, ...]] = []
    for d, size in enumerate(result):
        if size == 1:
            continue
        pattern = tuple([shape[d] == 1 for shape in aligned])
        if patterns and patterns[-1] == pattern:
            sizes[-1] *= size
        else:
            sizes.append(size)
            patterns.append(pattern)
    if not sizes:
        sizes, patterns = [1], [(False,) * len(shapes)]
    inputs = tuple(
        tuple([1 if pattern[i] else size for size, pattern in zip(sizes, patterns, strict=True)])
        for i in range(len(shapes))
    )
    return tuple(sizes), inputs


def merge_axes(
    shape: Shape, axes: Sequence[int], beside: Sequence[Shape] = ()
) -> tuple[tuple[int, bool], ...]:
    """Merges neighbouring dimensions of `shape`; returns (size, whether `axes` contain it) for each merged dimension.
    Negative axes count from the end.

    Dimensions of size 1 are dropped. The shapes in `beside` broadcast against `shape`: if one has size 1 in exactly one
    of two neighbouring dimensions, the two are not merged. Raises ValueError for an axis that the shape does not have.
    """
    if bad := [a for a in axes if not -len(shape) <= a < len(shape)]:
        raise ValueError(f"shape {shape} has no axis {bad[0]}")
    named = {a % len(shape) for a in axes}
    aligned = [_aligned(other, len(shape)) for other in beside]
    merged: list[tuple[int, bool]] = []
    patterns: list[tuple[bool, ...]] = []
    for d, size in enumerate(shape):
        if size == 1:
            continue
        pattern = (d in named, *[other[d] == 1 for other in aligned])
        if patterns and patterns[-1] == pattern:
            merged[-1] = (merged[-1][0] * size, d in named)
        else:
            merged.append((size, d in named))
            patterns.append(pattern)
    return tuple(merged)


def spread(operand: Shape, full: Shape, into: Shape) -> Shape:
    """Adapts the shape of an operand when dimensions are merged. `operand` broadcasts against `full`; `into` is `full`
    with some dimensions merged. Returns the shape of the operand's data that broadcasts against `into`.

    For example (3, 4) becomes (1, 12) for `full` (2, 3, 4) and `into` (2, 12). Raises ValueError for an operand that
    broadcasts along only some of the dimensions that `into` merges, as (3, 1) does.
    """
    sizes = [
        (size, given) for size, given in zip(full, _aligned(operand, len(full)), strict=True) if size != 1
    ]
    result = list(into)
    group: list[int] = []
    broadcasts: set[bool] = set()
    inside = outside = 1
    for position, size in enumerate(into):
        if size == 1:
            continue
        group.append(position)
        inside *= size
        while outside < inside and sizes:
            count, given = sizes.pop(0)
            outside *= count
            broadcasts.add(given == 1)
        if inside == outside:
            if len(broadcasts) > 1:
                break
            if broadcasts == {True}:
                for part in group:
                    result[part] = 1
            group, broadcasts, inside, outside = [], set(), 1, 1
    if group or sizes:
        raise ValueError(
            f"shape {full} cannot become {into}: data of shape {operand} broadcast along only some of the dimensions "
            "that this would merge into one"
        )
    return tuple(result)


def _aligned(shape: Shape, rank: int) -> Shape:
    return (1,) * (rank - len(shape)) + tuple(shape)
