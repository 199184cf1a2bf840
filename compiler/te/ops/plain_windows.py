"""Convolutions, pools and products over any number of dimensions, element by element, for cases without a kernel
template.

Weights may be computed at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ...ir.expr import Buffer, Const, Expr, Var, all_of, equal
from ...ir.stmt import Alloc, Assign, Program, Reduce, nest, seq
from ...ir.types import DType
from ..merge import Shape, merge_broadcast

FLOAT = DType.FLOAT32
_Loops = list[tuple[Var, int]]
"""Nested loops, outermost first, each as (variable, extent)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spacing:
    """Distances in elements along each dimension: `strides` between windows, `dilations` between a window's taps."""

    strides: Sequence[int]
    dilations: Sequence[int]

    def places(self, windows: _Loops, taps: _Loops) -> list[Expr]:
        """The index, along each dimension, of the element that the window at the loops `windows` reads at `taps`."""
        return [
            window * s + tap * d
            for (window, _), s, (tap, _), d in zip(windows, self.strides, taps, self.dilations, strict=True)
        ]


def plain_convolution(batch: int, groups: int, weight: Shape, sizes: Shape, spacing: Spacing) -> Program:
    """Y[n, g, o, p…] = sum over c, k… of X[n, g, c, p * stride + k * dilation…] * W[g, o, c, k…] in float32.

    Parameters, all float32: X [batch, groups, channels of a group, *sizes], where `sizes` includes pads; W [groups,
    *weight], where `weight` is (filters of a group, channels of a group, *kernel); Y [batch, groups, filters of a
    group, *outputs]. The statement is called "sum".
    """
    filters, channels, *kernel = weight
    outputs = outputs_of(sizes, kernel, spacing)
    x = Buffer(name="X", shape=(batch, groups, channels, *sizes), dtype=FLOAT)
    w = Buffer(name="W", shape=(groups, *weight), dtype=FLOAT)
    y = Buffer(name="Y", shape=(batch, groups, filters, *outputs), dtype=FLOAT)
    n, g, o, c = (Var(v) for v in "ngoc")
    at, taps = _loops("p", outputs), _loops("k", kernel)
    place = spacing.places(at, taps)
    positions, offsets = [p for p, _ in at], [k for k, _ in taps]
    total = Reduce.into(
        "sum",
        "add",
        y[n, g, o, *positions],
        x[(n, g, c, *place)] * w[(g, o, c, *offsets)],
        all_of(equal(c, 0), *[equal(k, 0) for k in offsets]),
    )
    loops = [(n, batch), (g, groups), (o, filters), *at, (c, channels), *taps]
    return Program(name="plain_convolution", parameters=(x, w, y), body=nest(loops, total))


def plain_transposed(
    batch: int,
    groups: int,
    weight: Shape,
    sizes: Shape,
    spacing: Spacing,
    before: Sequence[int],
    outputs: Shape,
) -> Program:
    """Y[n, g, o, p…] = sum of X[n, g, c, i…] * W[g, c, o, k…] over c, i, k with p = i * stride + k * dilation - before.

    Parameters, all float32: X [batch, groups, channels of a group, *sizes]; W [groups, *weight], where `weight` is
    (channels of a group, filters of a group, *kernel); Y [batch, groups, filters of a group, *outputs]. `before`: pads
    in front of each dimension. The buffer `whole` holds the result before the pads are removed.
    """
    channels, filters, *kernel = weight
    whole_sizes = [
        max((i - 1) * s + (k - 1) * d + 1, b + o)
        for i, s, k, d, b, o in zip(
            sizes, spacing.strides, kernel, spacing.dilations, before, outputs, strict=True
        )
    ]
    x = Buffer(name="X", shape=(batch, groups, channels, *sizes), dtype=FLOAT)
    w = Buffer(name="W", shape=(groups, *weight), dtype=FLOAT)
    y = Buffer(name="Y", shape=(batch, groups, filters, *outputs), dtype=FLOAT)
    whole = Buffer(name="whole", shape=(batch, groups, filters, *whole_sizes), dtype=FLOAT)
    head = [(Var(f"begin.{v}"), size) for v, size in zip("ngo", whole.shape, strict=False)]
    at = _loops("begin.p", tuple(whole_sizes))
    place = tuple([var for var, _ in (*head, *at)])
    begin = nest([*head, *at], Assign.to("begin", whole[place], Const(0.0, FLOAT)))
    n, g, o, c = (Var(v) for v in "ngoc")
    inside, taps = _loops("i", sizes), _loops("k", kernel)
    spread = spacing.places(inside, taps)
    total = Reduce.into(
        "sum",
        "add",
        whole[n, g, o, *spread],
        x[(n, g, c, *[i for i, _ in inside])] * w[(g, c, o, *[k for k, _ in taps])],
    )
    summed = nest([(n, batch), (g, groups), (c, channels), (o, filters), *inside, *taps], total)
    head = [(Var(f"cut.{v}"), size) for v, size in zip("ngo", whole.shape, strict=False)]
    at = _loops("cut.p", outputs)
    outer, positions = [var for var, _ in head], [var for var, _ in at]
    value = whole[(*outer, *[p + b for p, b in zip(positions, before, strict=True)])]
    cut = nest([*head, *at], Assign.to("cut", y[*outer, *positions], value))
    return Program(
        name="plain_transposed", parameters=(x, w, y), body=Alloc(buffer=whole, body=seq(begin, summed, cut))
    )


def plain_pool(
    outer: int, sizes: Shape, kernel: Shape, spacing: Spacing, op: Literal["add", "max"]
) -> Program:
    """A pool over any number of dimensions, in float32: Y[n, p…] = the sum or maximum (`op`) of X[n, p * stride + k *
    dilation…] over all positions k… of the window. The caller has added the pads to X.

    Parameters, both float32: X [outer, *sizes]; Y [outer, *outputs]. The statement is called "pool".
    """
    outputs = outputs_of(sizes, kernel, spacing)
    x = Buffer(name="X", shape=(outer, *sizes), dtype=FLOAT)
    y = Buffer(name="Y", shape=(outer, *outputs), dtype=FLOAT)
    n = Var("n")
    at, taps = _loops("p", outputs), _loops("k", kernel)
    place = spacing.places(at, taps)
    pooled = Reduce.into(
        "pool", op, y[n, *[p for p, _ in at]], x[(n, *place)], all_of(*[equal(k, 0) for k, _ in taps])
    )
    return Program(name="plain_pool", parameters=(x, y), body=nest([(n, outer), *at, *taps], pooled))


def plain_product(
    batch_x: Shape, batch_w: Shape, rows: int, depth: int, columns: int, dtype: DType
) -> Program:
    """Y = X @ W in any type, with batch dimensions that broadcast; integers wrap.

    Parameters of type `dtype`: X [*BX, rows, depth], W [*BW, depth, columns] and Y [*BY, rows, columns], where
    `te.merge.merge_broadcast` merges the batch dimensions BX, BW and BY. The statement is called "sum". Raises
    ValueError if the batches do not broadcast.
    """
    batch, (of_x, of_w) = merge_broadcast([batch_x, batch_w])
    x = Buffer(name="X", shape=(*of_x, rows, depth), dtype=dtype)
    w = Buffer(name="W", shape=(*of_w, depth, columns), dtype=dtype)
    y = Buffer(name="Y", shape=(*batch, rows, columns), dtype=dtype)
    b, (i, j, k) = _loops("b", batch), (Var(v) for v in "ijk")
    at = [var for var, _ in b]
    x_at, w_at = (
        [0 if size == 1 else var for size, var in zip(shape, at, strict=True)] for shape in (of_x, of_w)
    )
    total = Reduce.into("sum", "add", y[*at, i, j], x[(*x_at, i, k)] * w[(*w_at, k, j)], equal(k, 0))
    return Program(
        name="plain_product",
        parameters=(x, w, y),
        body=nest([*b, (i, rows), (k, depth), (j, columns)], total),
    )


def outputs_of(sizes: Sequence[int], kernel: Sequence[int], spacing: Spacing) -> Shape:
    """Number of windows along each dimension. Raises ValueError if no window fits."""
    found = tuple(
        (size - (k - 1) * d - 1) // s + 1
        for size, k, s, d in zip(sizes, kernel, spacing.strides, spacing.dilations, strict=True)
    )
    if min(found) < 1:
        raise ValueError(
            f"its windows of {tuple(kernel)} elements do not fit into its padded input of {tuple(sizes)} elements"
        )
    return found


def _loops(prefix: str, sizes: Sequence[int]) -> _Loops:
    return [(Var(f"{prefix}{d}"), size) for d, size in enumerate(sizes)]
