"""Shapes with fewer dimensions: neighbours that every tensor of an operator treats alike become one.

A program over the merged shapes runs on the same row-major data, so callers reshape and copy nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

Shape = tuple[int, ...]


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """The shape of the result of numpy's broadcasting; ValueError where the shapes do not fit together."""
    rank = max(map(len, shapes), default=0)
    result: list[int] = []
    for sizes in zip(*(_aligned(shape, rank) for shape in shapes), strict=True):
        wide = {size for size in sizes if size != 1}
        if len(wide) > 1:
            raise ValueError(f"shapes {', '.join(map(str, shapes))} do not broadcast against each other")
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def merge_broadcast(shapes: Sequence[Shape]) -> tuple[Shape, tuple[Shape, ...]]:
    """The result's shape and the inputs' shapes, all of one rank of at least 1, as few dimensions as possible.

    Every input's dimension is the result's or 1. ValueError as for `broadcast`.
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


def _aligned(shape: Shape, rank: int) -> Shape:
    return (1,) * (rank - len(shape)) + tuple(shape)
