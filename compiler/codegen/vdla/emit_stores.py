"""Emission of post-processing: loops over output vectors become rows and columns of STORE.POST."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain as joined
from typing import TYPE_CHECKING

import numpy as np

from vdla.isa.store_stages import TABLE_BYTES

from ...ir.stmt import Intrinsic
from .chain_memory import chain_span, fill_margins
from .columns import Access, Column, Iterations, group_rows, item, where
from .machine import Span

if TYPE_CHECKING:
    from .emit import Chain, LayerEmitter

_FLAGS = ("combine", "operand", "multiply", "swap", "unsigned", "table")


@dataclass(frozen=True, slots=True)
class _Dimension:
    """The nested loops that together become the rows, or the columns, of a store instruction. `names`: the loops,
    outermost first. `extent`: number of all their iterations.

    `steps`: distances between the addresses of two neighbouring iterations, for the output, the accumulators (several
    if each row of a window is an operand), the parameters and the second operand.
    """

    names: tuple[str, ...]
    extent: int
    steps: tuple[int, ...]

    def around(self, inner: _Dimension) -> _Dimension | None:
        """The dimension that merges this dimension with `inner`. None if one step of this dimension differs from
        `inner.extent` steps of `inner` for any operand.
        """
        if any(mine != inner.extent * other for mine, other in zip(self.steps, inner.steps, strict=True)):
            return None
        return _Dimension((*self.names, *inner.names), self.extent * inner.extent, inner.steps)


_NONE = _Dimension((), 1, ())


def emit_post(emitter: LayerEmitter, chain: Chain, leaf: Intrinsic, around: Iterations) -> None:
    """Emits STORE.POST: contiguous loops are merged, two loops become its rows and columns, the others are unrolled."""
    if "table" in dict(leaf.attributes) and "look-up" not in emitter.tables_loaded:
        emitter.tables_loaded.add("look-up")
        _load_table(emitter, leaf, around)
    out, accumulators, parameters, operand = operands = _operands(emitter, leaf)
    accesses = [out, *accumulators, parameters, *([] if operand is None else [operand])]
    chain, around = chain.of_constant_steps(accesses, around)
    zero = around.fixed(chain.names).values
    extents = [extent(zero) for _, extent in chain.loops]
    steps = [[access.step(zero, name) for access in accesses] for name in chain.names]
    # Tiles at an edge may have other extents, and so other loops that can be merged.
    for rows in group_rows([*extents, *joined.from_iterable(steps)], len(around)):
        row = int(rows[0])
        if any(item(extent, row) < 1 for extent in extents):
            continue
        dimensions = _dimensions(
            [
                _Dimension((name,), item(extent, row), tuple([item(step, row) for step in moves]))
                for name, extent, moves in zip(chain.names, extents, steps, strict=True)
                if item(extent, row) > 1
            ]
        )
        columns, lines = _columns_and_rows(dimensions, len(accumulators) + 1)
        inner = chain.iterations(around.chosen(rows), frozenset((*columns.names, *lines.names)))
        _emit_stores(emitter, leaf, inner, operands, (lines, columns))


def _dimensions(loops: list[_Dimension]) -> list[_Dimension]:
    """The nested `loops`, outermost first, with contiguous neighbours merged into one dimension."""
    found: list[_Dimension] = []
    for loop in loops:
        both = found[-1].around(loop) if found else None
        if both is None:
            found.append(loop)
        else:
            found[-1] = both
    return found


def _columns_and_rows(dimensions: list[_Dimension], parameters: int) -> tuple[_Dimension, _Dimension]:
    """Chooses the dimensions that become the columns and the rows of a store. Columns must be contiguous in DRAM. The
    longest other dimension with steps below 2**16 in DRAM becomes the rows. Along both, the parameter entry moves by 0
    or 1. `parameters`: index, in `_Dimension.steps`, of the step of the parameter entry.
    """
    able = [item for item in dimensions if item.steps[parameters] in (0, 1)]
    columns = next((item for item in reversed(able) if item.steps[0] == 1), _NONE)
    rest = [item for item in able if item is not columns and item.steps[0] < 1 << 16]
    return columns, max(reversed(rest), key=lambda item: item.extent, default=_NONE)


def _emit_stores(
    emitter: LayerEmitter,
    leaf: Intrinsic,
    inner: Iterations,
    operands: tuple[Access, list[Access], Access, Access | None],
    dimensions: tuple[_Dimension, _Dimension],
) -> None:
    """Emits a STORE.POST for each iteration in `inner`. `dimensions`: rows, columns. `operands`: from `_operands`."""
    attributes = {name: int(value) for name, value in leaf.attributes}
    out, accumulators, parameters, operand = operands
    accumulator, at = accumulators[0], inner.values
    rows, columns = (dimension.extent for dimension in dimensions)
    (y_step, x_step), (by_y, by_x) = (
        [dimension.steps[place] if dimension.names else 0 for dimension in dimensions]
        for place in (1, len(accumulators) + 1)
    )
    config, element = emitter.config, emitter.config.out_bytes
    _set_stages(emitter, inner, attributes)
    first, start = accumulator.base(at) + accumulator.offset(at), out.offset(at)
    stride = dimensions[0].steps[0] if rows > 1 else columns
    window_rows, window_columns = _window(accumulator, inner)
    row_stride, column_stride = _window_strides(accumulator)
    corners = [first]
    if len(accumulators) > 1:
        window_rows = len(accumulators)
        corners = [row.base(at) + row.offset(at) for row in accumulators]
        row_stride = (corners[1] - first) % config.acc_depth
        for r, corner in enumerate(corners):
            if np.any((corner - first - r * row_stride) % config.acc_depth):
                raise ValueError("the rows of a pooling window must be evenly spaced in the accumulators")
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
    chained = emitter.chained(out.buffer)
    base = (emitter.dram(out.buffer, at) if chained is None else chained.address) // element + start
    size = ((rows - 1) * stride + columns) * element
    reach = (rows - 1) * y_step + (columns - 1) * x_step + (window_columns - 1) * column_stride
    if len(accumulators) == 1:
        reach = reach + (window_rows - 1) * row_stride
    entry = parameters.base(at) + parameters.offset(at)
    reads = [
        *(Span("acc", corner, corner + reach + 1) for corner in corners),
        Span("par", entry, entry + (rows - 1) * by_y + (columns - 1) * by_x + 1),
    ]
    if operand is not None:
        other = emitter.dram(operand.buffer, at) // element + operand.offset(at)
        shape = _operand_shape(dimensions, stride, len(accumulators) + 2)
        emitter.set_register("OPERAND", inner.position, {"delta": other - base, **shape})
        pitch, width = shape.get("stride", stride), 1 if shape.get("repeat") else columns
        reads.extend(emitter.emission.dram_span(other * element, ((rows - 1) * pitch + width) * element))
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
            **{name: 1 for name, step in (("par_by_x", by_x), ("par_by_y", by_y)) if step},
            **{name: attributes[name] for name in _FLAGS if attributes.get(name)},
            **({} if chained is None else {"chain": 1}),
        },
        reads=tuple(reads),
        writes=emitter.emission.dram_span(base * element, size)
        if chained is None
        else (chain_span(config, base * element, size),),
    )
    for buffer, place in emitter.padded:
        fill_margins(emitter, buffer, place, inner.position[:1], (first, entry))
    # Pads ahead need not be early, but after the last store no other store would hide them.
    for buffer, place in emitter.ahead:
        fill_margins(emitter, buffer, place, inner.position[: max(1, len(inner) - 1)], (first, entry))
    emitter.padded = emitter.ahead = ()


def _operand_shape(dimensions: tuple[_Dimension, _Dimension], stride: int, place: int) -> dict[str, int]:
    """The fields of register OPERAND if the strides of the second operand and of the output differ; else empty.
    `stride`: distance of the output's rows in vectors. `place`: index of the second operand's step in
    `_Dimension.steps`.
    """
    lines, columns = dimensions
    down, along = (item.steps[place] if item.names else 0 for item in dimensions)
    lies_alike = (not lines.names or down == stride) and (not columns.names or along == 1)
    if lies_alike:
        return {}
    if columns.names and along not in (0, 1):
        raise ValueError(f"the second operand of a store must have stride 0 or 1 along its rows, not {along}")
    return {"own_stride": 1, "stride": down, "repeat": int(bool(columns.names) and along == 0)}


def _load_table(emitter: LayerEmitter, leaf: Intrinsic, around: Iterations) -> None:
    """Emits LOAD.TABLE of the layer's only look-up table, before the first store of each kernel.

    The load cannot disturb the preceding layer, which may still use its own table: the store unit executes in order.
    """
    (region,) = [
        operand
        for formal, operand in zip(leaf.declaration.parameters, leaf.operands, strict=True)
        if formal.name == "table"
    ]
    address = emitter.dram(region.buffer, around.kernels())
    fields: dict[str, Column] = {"dram_base": address // TABLE_BYTES, "y_size": 1, "x_size": 1, "x_stride": 1}
    emitter.add("LOAD.TABLE", around.first_of_kernels(), fields)


def _operands(emitter: LayerEmitter, leaf: Intrinsic) -> tuple[Access, list[Access], Access, Access | None]:
    """The addresses that STORE.POST uses: output, accumulators, parameters, second operand or None."""
    by_formal = {
        formal.name: emitter.access(operand)
        for formal, operand in zip(leaf.declaration.parameters, leaf.operands, strict=True)
        if formal.name != "table"
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
            "table_zero_point": attributes.get("table_zero_point", 0),
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


def _window(accumulator: Access, inner: Iterations) -> tuple[Column, Column]:
    """The numbers of rows and columns of a pooling window; (1, 1) without a window. The last two extents of the operand
    `accumulator` are these numbers.
    """
    if len(accumulator.extents) < 2:
        return 1, 1
    rows, columns = (extent(inner.values) for extent in accumulator.extents[-2:])
    return rows, columns


def _window_strides(accumulator: Access) -> tuple[int, int]:
    if len(accumulator.strides) < 2:
        return 0, 0
    return accumulator.strides[-2], accumulator.strides[-1]
