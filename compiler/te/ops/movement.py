"""Operators that only move data, of any type: permutations, slices, pads, tiles, concatenations, gathers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np

from ...ir.expr import Buffer, Const, Expr, Var, maximum, minimum, select, wrap
from ...ir.limits import MOST_POSITIONS, MOST_RUNS
from ...ir.stmt import Assign, For, Program, Stmt, each, nest, seq
from ...ir.types import DType
from ..merge import Shape, around_axis

PadMode = Literal["constant", "edge", "reflect", "wrap"]
PAD_MODES: Mapping[str, PadMode] = MappingProxyType({mode: mode for mode in get_args(PadMode)})
"""Modes of pads by ONNX's names, which are numpy's."""


def permute(shape: Shape, axes: Sequence[int], *, dtype: DType = DType.FLOAT32) -> Program:
    """Y = X with its axes permuted: axis d of Y is axis `axes`[d] of X.

    The shapes of the parameters X and Y lack dimensions of size 1, and axes that are neighbours in X and in Y are
    merged into one. Loops d0, d1, … over the dimensions of Y contain statement "move". Raises ValueError if `axes` is
    no permutation.
    """
    if sorted(axes) != list(range(len(shape))):
        raise ValueError(f"{tuple(axes)} is not a permutation of the axes of shape {shape}")
    groups: list[list[int]] = []
    kept = [d for d in range(len(shape)) if shape[d] != 1]
    order = {d: i for i, d in enumerate(kept)}
    for axis in (a for a in axes if a in order):
        if groups and order[groups[-1][-1]] + 1 == order[axis]:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    if not groups:
        groups = [[]]
    loops = [Var(f"d{d}") for d in range(len(groups))]
    sizes = [prod(shape[a] for a in group) for group in groups]
    of_x = sorted(range(len(groups)), key=lambda d: groups[d])
    x = Buffer(name="X", shape=tuple([sizes[d] for d in of_x]), dtype=dtype)
    y = Buffer(name="Y", shape=tuple(sizes), dtype=dtype)
    move = each("move", y[tuple(loops)], x[tuple([loops[d] for d in of_x])])
    return Program(name="permute", parameters=(x, y), body=move)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of `count` elements: `first`, `first` + `step`, … of the input; if `first` is None, `count` fill values.

    A step of 0 repeats one element.
    """

    count: int
    first: int | None
    step: int = 1


Runs = tuple[Run, ...]


def slice_runs(start: int, count: int, step: int) -> Runs:
    """The runs (evenly spaced elements, see `Run`) of a slice of `count` elements; a negative step goes backwards."""
    return (Run(count=count, first=start, step=step),)


def pad_runs(size: int, before: int, after: int, mode: PadMode = "constant") -> Runs:
    """The runs of an axis of `size` with pads as in ONNX's Pad: negative pads remove elements before positive pads add
    elements.

    Modes other than "constant" copy elements into the pads. In these modes, raises ValueError if negative pads remove
    all elements, or if the result has more than MOST_POSITIONS.
    """
    if mode == "constant":
        start, end = -before, size + after
        first, last = max(0, start), min(size, end)
        if first >= last:
            return (Run(count=end - start, first=None),) if end > start else ()
        parts = ((first - start, None), (last - first, first), (end - last, None))
        return tuple([Run(count=count, first=place) for count, place in parts if count])
    if size + before + after > MOST_POSITIONS:
        raise ValueError(
            f"its pads {before}, {after} make an axis of {size + before + after:,} elements, more than the "
            f"{MOST_POSITIONS:,} that mode {mode} allows"
        )
    cut = min(max(0, -before), size)
    left = size - cut - min(max(0, -after), size - cut)
    if left != size and left > 0:
        return runs_of((_positions(left, max(0, before), max(0, after), mode) + cut).tolist())
    if left == 0:
        raise ValueError(f"its pads {before}, {after} crop all of an axis of {size} elements")
    return runs_of(_positions(size, before, after, mode).tolist())


def _positions(size: int, before: int, after: int, mode: PadMode) -> np.ndarray:
    """The index of the element at each position of an axis that is padded with its own elements."""
    positions = np.arange(-before, size + after)
    match mode:
        case "edge":
            positions = positions.clip(0, size - 1)
        case "wrap":
            positions = positions % size
        case "reflect":
            period = max(1, 2 * (size - 1))
            positions = (period // 2) - abs(positions % period - period // 2) if size > 1 else positions * 0
    return positions


def runs_of(positions: Sequence[int]) -> Runs:
    """The fewest runs (evenly spaced elements) that together cover the input `positions` in order; a negative position
    is the fill value.
    """
    runs: list[Run] = []
    i = 0
    while i < len(positions):
        first, end = positions[i], i + 1
        if first < 0:
            while end < len(positions) and positions[end] < 0:
                end += 1
            runs.append(Run(count=end - i, first=None))
        else:
            step = positions[end] - first if end < len(positions) and positions[end] >= 0 else 1
            while end < len(positions) and positions[end] == first + step * (end - i):
                end += 1
            runs.append(Run(count=end - i, first=first, step=step))
        i = end
    return tuple(runs)


def remap(shape: Shape, runs: Sequence[Runs], *, fill: float = 0.0, dtype: DType = DType.FLOAT32) -> Program:
    """Slices, pads and tiles a tensor: along each axis d, Y consists of the elements of X that `runs`[d] lists, in
    order. A run is a number of evenly spaced elements, or of elements `fill`.

    Parameters of type `dtype`: X and Y, in which neighbouring axes are merged if the inner one is copied whole. There
    is one loop nest for each combination of runs: loops d0.…, d1.… around the statement "move.…" or "fill.…", where "…"
    stands for the numbers of the runs. Raises ValueError for runs that go outside X or are empty, and for more than
    MOST_RUNS nests.
    """
    for size, of_axis in zip(shape, runs, strict=True):
        ends = [
            e for r in of_axis if r.first is not None for e in (r.first, r.first + (r.count - 1) * r.step)
        ]
        if not of_axis or any(r.count < 1 for r in of_axis) or any(not 0 <= e < size for e in ends):
            raise ValueError(
                f"{of_axis}: an axis of {size} elements needs at least one run, and each run elements inside the axis"
            )
    pieces = prod(map(len, runs))
    if pieces > MOST_RUNS:
        raise ValueError(
            f"the output has {pieces:,} regions that are copied one by one, more than {MOST_RUNS:,}"
        )
    sizes, merged = merge_runs(shape, runs)
    x = Buffer(name="X", shape=sizes, dtype=dtype)
    y = Buffer(name="Y", shape=tuple([sum(r.count for r in rs) for rs in merged]), dtype=dtype)
    filling = wrap(fill, dtype)

    def visit(axis: int, tag: str, at: tuple[Expr, ...], of: tuple[Expr, ...] | None) -> Stmt:
        if axis == len(sizes):
            if of is None:
                return Assign.to(f"fill{tag}", y[at], filling)
            return Assign.to(f"move{tag}", y[at], x[of])
        # If everything further inside is filled, one loop nest covers all inner runs.
        inside = merged[axis] if of is not None else (Run(count=y.shape[axis], first=None),)
        parts: list[Stmt] = []
        start = 0
        for number, run in enumerate(inside):
            var = Var(f"d{axis}{tag}.{number}")
            source = None if of is None or run.first is None else (*of, var * run.step + run.first)
            body = visit(axis + 1, f"{tag}.{number}", (*at, var + start), source)
            parts.append(For(var=var, extent=Const(run.count), body=body))
            start += run.count
        return seq(*parts)

    return Program(name="remap", parameters=(x, y), body=visit(0, "", (), ()))


def merge_runs(shape: Shape, runs: Sequence[Runs]) -> tuple[Shape, tuple[Runs, ...]]:
    """The input's sizes and runs, with neighbouring axes merged. Two axes are merged if the inner axis is copied whole,
    and each run of the outer axis has step 1 or a single element.
    """
    sizes: list[int] = []
    merged: list[Runs] = []
    for size, of_axis in zip(shape, runs, strict=True):
        whole = of_axis == (Run(count=size, first=0),) or (
            size == 1 and of_axis[0].count == len(of_axis) == 1
        )
        if sizes and whole and all(r.first is None or r.step == 1 or r.count == 1 for r in merged[-1]):
            merged[-1] = tuple(
                [
                    Run(count=r.count * size, first=None if r.first is None else r.first * size)
                    for r in merged[-1]
                ]
            )
            sizes[-1] *= size
        else:
            sizes.append(size)
            merged.append(of_axis)
    return tuple(sizes) or (1,), tuple(merged) or ((Run(count=1, first=0),),)


def concat(shapes: Sequence[Shape], axis: int, *, dtype: DType = DType.FLOAT32) -> Program:
    """Y = the concatenation of the inputs along `axis`.

    Parameters of type `dtype`: the inputs X0, X1, … and Y, each [outer, size of the axis * inner]. For input i, loops
    o.i and d.i contain the statement "move.i". Raises ValueError if the shapes differ in other axes, or lack this axis.
    """
    rank = len(shapes[0])
    if not -rank <= axis < rank:
        raise ValueError(f"shape {shapes[0]} has no axis {axis}")
    axis %= rank
    rest = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    if len(rest) > 1 or any(len(shape) != rank for shape in shapes):
        raise ValueError(f"shapes {', '.join(map(str, shapes))} differ along an axis other than axis {axis}")
    outer, inner = prod(shapes[0][:axis]), prod(shapes[0][axis + 1 :])
    sizes = [shape[axis] * inner for shape in shapes]
    y = Buffer(name="Y", shape=(outer, sum(sizes)), dtype=dtype)
    inputs: list[Buffer] = []
    parts: list[Stmt] = []
    start = 0
    for i, size in enumerate(sizes):
        x = Buffer(name=f"X{i}", shape=(outer, size), dtype=dtype)
        o, d = Var(f"o.{i}"), Var(f"d.{i}")
        move = Assign.to(f"move.{i}", y[o, d + start], x[o, d])
        parts.append(nest([(o, outer), (d, size)], move))
        inputs.append(x)
        start += size
    return Program(name="concat", parameters=(*inputs, y), body=seq(*parts))


def gather(shape: Shape, axis: int, count: int, *, dtype: DType = DType.FLOAT32) -> Program:
    """Y = the elements of X at the indices I along `axis`; negative indices count from the end.

    Parameters: X [outer, size, inner] of `dtype`; I int64 [count]; Y [outer, count, inner] of `dtype`. X and Y lack the
    last dimension if inner is 1. An index outside the axis selects the element at the nearer end. Loops o, i, d contain
    the statement "move". Raises ValueError for an axis that the shape does not have.
    """
    if not -len(shape) <= axis < len(shape):
        raise ValueError(f"shape {shape} has no axis {axis}")
    outer, size, inner = around_axis(shape, axis % len(shape))
    single = inner == 1
    x = Buffer(name="X", shape=(outer, size) if single else (outer, size, inner), dtype=dtype)
    y = Buffer(name="Y", shape=(outer, count) if single else (outer, count, inner), dtype=dtype)
    indices = Buffer(name="I", shape=(count,), dtype=DType.INT64)
    o, i, d = Var("o"), Var("i"), Var("d")
    rest = () if single else (d,)
    move = each("move", y[o, i, *rest], x[(o, inside(indices[i], size), *rest)])
    return Program(name="gather", parameters=(x, indices, y), body=move)


def clamped(index: Expr, size: int) -> Expr:
    """An index of an axis of `size`, moved to the nearer end if it is outside."""
    return minimum(maximum(index, 0), size - 1)


def inside(index: Expr, size: int) -> Expr:
    """Normalizes an index of an axis of `size`: counts a negative index from the end, then moves an index that is
    outside the axis to the nearer end.
    """
    return clamped(select(index < 0, index + size, index), size)
