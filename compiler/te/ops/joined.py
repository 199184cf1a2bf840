"""Concatenations and remaps (slices, pads, tiles of an input) in one loop nest over the whole output, so that a GPU
needs one kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir.expr import Buffer, Const, Expr, Var, all_of, select, wrap
from ...ir.stmt import Program, each
from ...ir.types import DType
from ..merge import Shape
from .movement import Runs, clamped, concat, merge_runs


def joined_concat(shapes: Sequence[Shape], axis: int, *, dtype: DType = DType.FLOAT32) -> Program:
    """The concatenation of `te.ops.movement.concat`, with the same parameters, but as one loop nest: loops o and d
    contain the only statement, "move".
    """
    *inputs, y = concat(shapes, axis, dtype=dtype).parameters
    o, d = Var("o"), Var("d")
    value: Expr = wrap(0, dtype)
    start = y.shape[1]
    for x in reversed(inputs):
        end, start = start, start - x.shape[1]
        inside = [Const(start) <= d] * (start > 0) + [d < end] * (end < y.shape[1])
        value = select(all_of(*inside), x[o, d - start], value)
    return Program(name="concat", parameters=(*inputs, y), body=each("move", y[o, d], value))


def joined_remap(
    shape: Shape, runs: Sequence[Runs], *, fill: float = 0.0, dtype: DType = DType.FLOAT32
) -> tuple[Program, dict[str, np.ndarray]]:
    """Computes `te.ops.movement.remap` in one loop nest: loops d0, d1, … over the output around the statement "move".
    Returns (the program; the arrays of its index tables, by parameter).

    The parameters are X, the tables, and Y; X and Y have the shapes that `remap` gives them. If an axis has a single
    run that copies elements, the program computes the index of the input. For any other axis d, the program reads the
    index from the table Td, int64 [size of the output], in which -1 means `fill`.
    """
    sizes, merged = merge_runs(shape, runs)
    x = Buffer(name="X", shape=sizes, dtype=dtype)
    counts = tuple([sum(run.count for run in of_axis) for of_axis in merged])
    y = Buffer(name="Y", shape=counts, dtype=dtype)
    loops = [Var(f"d{d}") for d in range(len(sizes))]
    tables: dict[str, np.ndarray] = {}
    buffers: list[Buffer] = []
    inside: list[Expr] = []
    places: list[Expr] = []
    for d, (loop, of_axis) in enumerate(zip(loops, merged, strict=True)):
        taken = [i for i, run in enumerate(of_axis) if run.first is not None]
        if len(taken) == 1:
            run = of_axis[taken[0]]
            start = sum(r.count for r in of_axis[: taken[0]])
            end = start + run.count
            inside += [Const(start) <= loop] * (start > 0) + [loop < end] * (end < counts[d])
            assert run.first is not None
            place = (loop - start) * run.step + run.first
            places.append(place if run.step == 1 else clamped(place, sizes[d]))
            continue
        table = Buffer(name=f"T{d}", shape=(counts[d],), dtype=DType.INT64)
        elements = [
            np.full(r.count, -1) if r.first is None else r.first + r.step * np.arange(r.count)
            for r in of_axis
        ]
        tables[table.name] = np.concatenate(elements).astype(np.int64)
        buffers.append(table)
        if len(taken) < len(of_axis):
            inside.append(Const(0) <= table[loop])
        places.append(clamped(table[loop], sizes[d]))
    value = select(all_of(*inside), x[tuple(places)], fill) if inside else x[tuple(places)]
    move = each("move", y[tuple(loops)], value)
    return Program(name="remap", parameters=(x, *buffers, y), body=move), tables
