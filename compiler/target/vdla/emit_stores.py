"""Post-processing stores: requantized accumulators become rows and columns of STORE.POST."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...ir.stmt import Intrinsic
from .columns import Access, Column, Iterations, full, group_rows, item, pick, where
from .machine import Span

if TYPE_CHECKING:
    from .emit import Chain, LayerEmitter

_FLAGS = ("combine", "operand", "multiply", "swap", "unsigned")


def emit_post(emitter: LayerEmitter, chain: Chain, leaf: Intrinsic, around: Iterations) -> None:
    """STORE.POST: two of the loops become its rows and columns, the others are unrolled."""
    out, accumulators, parameters, operand = _operands(emitter, leaf)
    zero = around.fixed(chain.names).values
    runs = [where(extent(zero) > 1, 1, 0) for _, extent in chain.loops]
    steps = [out.step(zero, name) for name in chain.names]
    moves = [parameters.step(zero, name) for name in chain.names]
    # Tiles at an edge may have loops of one iteration, and then other loops that can fold.
    for rows in group_rows([*runs, *steps, *moves], len(around)):
        free = [
            (name, item(step, rows[0]))
            for name, run, step, move in zip(chain.names, runs, steps, moves, strict=True)
            if item(run, rows[0]) and item(move, rows[0]) == 0
        ]
        x_loop, y_loop = _rows_and_columns(free)
        folded = frozenset(name for name in (x_loop, y_loop) if name is not None)
        inner = chain.iterations(around.chosen(rows), folded)
        extents = dict(chain.loops)
        columns: Column = 1 if x_loop is None else extents[x_loop](inner.values)
        lines: Column = 1 if y_loop is None else extents[y_loop](inner.values)
        stored = (full(lines, len(inner)) > 0) & (full(columns, len(inner)) > 0)
        if not stored.all():
            inner, columns, lines = inner.chosen(stored), pick(columns, stored), pick(lines, stored)
        _emit_stores(
            emitter, leaf, inner, (out, accumulators, parameters, operand), (y_loop, x_loop), (lines, columns)
        )


def _emit_stores(
    emitter: LayerEmitter,
    leaf: Intrinsic,
    inner: Iterations,
    operands: tuple[Access, list[Access], Access, Access | None],
    loops: tuple[str | None, str | None],
    sizes: tuple[Column, Column],
) -> None:
    """One instruction an iteration: its rows and columns are `loops`, of `sizes` iterations."""
    attributes = {name: int(value) for name, value in leaf.attributes}
    out, accumulators, parameters, operand = operands
    accumulator, at, (rows, columns) = accumulators[0], inner.values, sizes
    config, element = emitter.config, emitter.config.out_bytes
    _set_stages(emitter, inner, attributes)
    first, start = accumulator.base(at) + accumulator.offset(at), out.offset(at)
    y_step, x_step = (accumulator.step(at, loop) for loop in loops)
    stride = where(rows > 1, out.step(at, loops[0]), columns)
    window_rows, window_columns = _window(accumulator, inner)
    row_stride, column_stride = _window_strides(accumulator)
    corners = [first]
    if len(accumulators) > 1:
        window_rows = len(accumulators)
        corners = [row.base(at) + row.offset(at) for row in accumulators]
        row_stride = (corners[1] - first) % config.acc_depth
        for r, corner in enumerate(corners):
            if np.any((corner - first - r * row_stride) % config.acc_depth):
                raise ValueError("the rows of a window must lie at one distance from each other")
    emitter.set_register("ADDRESS", inner.position, {"y_stride": y_step, "x_stride": x_step})
    emitter.set_register(
        "WINDOW",
        inner.position,
        {
            "rows_minus_1": window_rows - 1,
            "columns_minus_1": window_columns - 1,
            "row_stride": where(window_rows > 1, row_stride, 0),
            "column_stride": where(window_columns > 1, column_stride, 0),
            "sum": where(window_rows * window_columns > 1, attributes["sum"], 0),
        },
    )
    dram = emitter.dram(out.buffer)
    base = dram.address // element + start
    size = ((rows - 1) * stride + columns) * element
    reach = (rows - 1) * y_step + (columns - 1) * x_step + (window_columns - 1) * column_stride
    if len(accumulators) == 1:
        reach = reach + (window_rows - 1) * row_stride
    entry = parameters.base(at) + parameters.offset(at)
    reads = [*(Span("acc", corner, corner + reach + 1) for corner in corners), Span("par", entry, entry + 1)]
    if operand is not None:
        other = emitter.dram(operand.buffer).address // element + operand.offset(at)
        emitter.set_register("OPERAND", inner.position, {"delta": other - base})
        reads.extend(emitter.emission.dram_span(other * element, size))
    emitter.add(
        "STORE.POST",
        inner.position,
        {
            "sram_base": first,
            "dram_base": base,
            "par_index": entry,
            "y_size": rows,
            "x_size": columns,
            "x_stride": stride,
            **{name: attributes[name] for name in _FLAGS if attributes.get(name)},
        },
        reads=tuple(reads),
        writes=emitter.emission.dram_span(base * element, size),
    )


def _operands(emitter: LayerEmitter, leaf: Intrinsic) -> tuple[Access, list[Access], Access, Access | None]:
    """Output, accumulator windows (one, or one a row), parameters and operand of a post-processing."""
    by_formal = {
        formal.name: emitter.access(operand)
        for formal, operand in zip(leaf.declaration.parameters, leaf.operands, strict=True)
    }
    accumulators = [access for name, access in by_formal.items() if name.split(".")[0] == "acc"]
    return by_formal["out"], accumulators, by_formal["par"], by_formal.get("operand")


def _set_stages(emitter: LayerEmitter, inner: Iterations, attributes: dict[str, int]) -> None:
    emitter.set_register(
        "REQUANTIZE",
        inner.position,
        {
            "zero_point": attributes["zero_point"],
            "low": attributes["low"],
            "high": attributes["high"],
            "operand_zero_point": attributes.get("operand_zero_point", 0),
        },
    )
    if attributes.get("combine"):
        emitter.set_register(
            "RATIO",
            inner.position,
            {"ratio_self": attributes["ratio_self"], "ratio_operand": attributes["ratio_operand"]},
        )
        emitter.set_register(
            "COMBINE",
            inner.position,
            {
                "offset": attributes["offset"],
                "low": attributes["combine_low"],
                "high": attributes["combine_high"],
                "zero_point": attributes["combine_zero_point"],
            },
        )


def _rows_and_columns(free: list[tuple[str, int]]) -> tuple[str | None, str | None]:
    """The loops that become columns (dense in DRAM) and rows, of those (name, step in DRAM) that leave the
    parameter entry alone.
    """
    columns = next((name for name, step in reversed(free) if step == 1), None)
    rest = [name for name, step in free if name != columns and step < 1 << 16]
    return columns, rest[-1] if rest else None


def _window(accumulator: Access, inner: Iterations) -> tuple[Column, Column]:
    """Rows and columns of the accumulator window: the operand's last two leading extents."""
    if len(accumulator.extents) < 2:
        return 1, 1
    rows, columns = (extent(inner.values) for extent in accumulator.extents[-2:])
    return rows, columns


def _window_strides(accumulator: Access) -> tuple[int, int]:
    if len(accumulator.strides) < 2:
        return 0, 0
    return accumulator.strides[-2], accumulator.strides[-1]
