"""Sums of products over arrays, computed as matrix products if possible."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TypeAlias

import numpy as np

from .array_values import Memory
from .expr import Binary, Call, Cast, Expr, Load
from .iteration_axes import Iterations
from .stmt import Reduce
from .types import HALVES, DType

MOST_FACTOR = 1 << 27
"""Largest number of elements of a factor in a sum that is computed as matrix products: a gigabyte in float64."""
MOST_MATRICES = 256
"""Largest batch whose matrix products are computed one by one; larger batches use one einsum."""

Factor: TypeAlias = tuple[np.ndarray, list[int]]
"""A factor of a sum of products: an array, and for each of its dimensions the number of the loop (axis of the iteration
space) that runs along it.
"""


def factors_of(memory: Memory, node: Reduce, iterations: Iterations) -> tuple[Factor, Factor] | None:
    """The two factors of the product that `node` sums up, as float64 arrays, each with the axes of `iterations` that it
    depends on. `memory` holds the values of the buffers.

    A factor is a load, a 16-bit float cast to float32, or a function of a load (for example rounding). The result is
    None for other sums, for sums under guards, and if a factor has more than `MOST_FACTOR` elements. An axis on which
    neither factor depends is assigned to the second factor.
    """
    value = node.value
    if node.op != "add" or iterations.guards or not isinstance(value, Binary) or value.op != "*":
        return None
    found: list[Factor] = []
    for e in (value.a, value.b):
        called = e if isinstance(e, Call) and len(e.arguments) == 1 else None
        load = _uncast(e) if called is None else called.arguments[0]
        view = memory.view(load, iterations, np.float64 if called is None else None)
        if view is None:
            return None
        others = found[0][1] if found else []
        axes = [k for k, step in enumerate(view.strides) if step or (found and k not in others)]
        factor = view[tuple([slice(None) if k in axes else 0 for k in range(view.ndim)])]
        if factor.size > MOST_FACTOR:
            return None
        if called is not None:
            factor = memory.call(called, [factor]).astype(np.float64)
        found.append((factor, axes))
    return found[0], found[1]


def _uncast(e: Expr) -> Expr:
    """The 16-bit float that an expression casts to float32, without any rounding; else the expression itself."""
    match e:
        case Cast(value=Load(buffer=buffer) as load, dtype=DType.FLOAT32) if buffer.dtype in HALVES:
            return load
    return e


def sum_of_products(
    first: Factor,
    second: Factor,
    kept_axes: list[int],
    shape: list[int],
) -> np.ndarray:
    """The sums of products over all axes except `kept_axes`. The result is an array with the axes `kept_axes`, in this
    order, of the sizes `shape`. A small batch is computed by one matrix product for each of its matrices, a larger
    batch by one einsum.
    """
    (a, of_a), (b, of_b) = first, second
    each = [k for k in of_a if k in of_b and k in kept_axes]
    sizes = [shape[kept_axes.index(k)] for k in each]
    if not 1 < prod(sizes) <= MOST_MATRICES:
        return np.einsum(a, of_a, b, of_b, kept_axes, optimize=True)
    total = np.empty(shape)
    for place in np.ndindex(*sizes):
        here = dict(zip(each, place, strict=True))

        def of(axes: list[int], here: Mapping[int, int] = here) -> tuple[int | slice, ...]:
            return tuple([here.get(k, slice(None)) for k in axes])

        total[of(kept_axes)] = np.einsum(
            a[of(of_a)],
            [k for k in of_a if k not in here],
            b[of(of_b)],
            [k for k in of_b if k not in here],
            [k for k in kept_axes if k not in here],
            optimize=True,
        )
    return total
