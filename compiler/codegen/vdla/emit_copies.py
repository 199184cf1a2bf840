"""Emission of copies from DRAM: a box (rectangular part of a tensor) becomes two-dimensional, padded loads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain as joined
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...ir.expr import Const
from ...ir.quick_init import quick_init
from ...ir.stmt import Copy
from ...ir.types import DType
from .columns import Column, Iterations, greater, group_rows, item, lesser, pick
from .errors import EmissionError
from .machine import Span

if TYPE_CHECKING:
    from .emit import Chain, LayerEmitter

_MAX_PAD = 15

LOADS = {
    ("inp", DType.INT8): "INP",
    ("wgt", DType.INT8): "WGT",
    ("acc", DType.INT8): "ACC8",
    ("acc", DType.INT32): "ACC",
    ("par", DType.INT32): "PAR",
}
"""Maps (scratchpad, type of an element in DRAM) to the memory type of instruction LOAD."""


@quick_init
@dataclass(frozen=True, slots=True)
class _Axis:
    """A dimension of a copied box. `extent`: number of its elements, pads included. `before`, `after`: numbers of pads
    before and after the data. `to`, `origin`: strides of the elements in the scratchpad and in DRAM.
    """

    extent: int
    to: int
    origin: int
    before: int
    after: int

    @property
    def data(self) -> int:
        return self.extent - self.before - self.after


class _Transfer(NamedTuple):
    """One load instruction for a part of a box (the rectangular region that a copy moves), in elements.

    `target`, `origin`: addresses in scratchpad and DRAM relative to the box's start. `y_size`, `x_size`: rows and
    columns in DRAM. `x_stride`: distance of the rows in DRAM. All other fields: pads above, below, left and right.
    """

    target: int
    origin: int
    y_size: int
    x_size: int
    x_stride: int
    y_pad_0: int = 0
    y_pad_1: int = 0
    x_pad_0: int = 0
    x_pad_1: int = 0

    def moved(self, target: int, origin: int) -> _Transfer:
        return _Transfer(self.target + target, self.origin + origin, *self[2:])


@dataclass(frozen=True, slots=True)
class _Box:
    """The sizes of the boxes that many copies move, as columns (one row for each copy). `to`: size of each dimension in
    the scratchpad. `origin`: for each dimension, (size of the data in DRAM, pads before the data, pads after the data).

    Boxes of equal sizes need the same load instructions, wherever they begin.
    """

    to: tuple[Column, ...]
    origin: tuple[tuple[Column, Column, Column], ...]


def emit_copy(emitter: LayerEmitter, chain: Chain, leaf: Copy, around: Iterations) -> None:
    """Emits a copy from DRAM to a scratchpad as two-dimensional, padded loads. `LOADS` has the kinds of loads. With
    `fold`, a weight tile is several elements. Raises EmissionError if no kind loads this element type to this
    scratchpad.
    """
    scope = leaf.destination.buffer.scope
    tiles = emitter.config.tile_parts if scope == "wgt" else 1
    inner = chain.iterations(around)
    destination, source = emitter.access(leaf.destination), emitter.access(leaf.source)
    target = destination.base(inner.values) + destination.offset(inner.values)
    extents = tuple([extent(inner.values) for extent in destination.extents])
    moving_from: list[tuple[Column, Column, Column]] = []
    origin: Column = 0
    for start, extent, stride, size in zip(
        source.starts, source.extents, source.strides, source.sizes, strict=True
    ):
        first, count = start(inner.values), extent(inner.values)
        before = lesser(greater(0, -first), count)
        after = lesser(greater(0, first + count - size), count - before)
        origin = origin + lesser(greater(first, 0), size - 1) * stride
        moving_from.append((count, before, after))
    box = _Box(extents, tuple(moving_from))
    groups = group_rows([*extents, *joined.from_iterable(moving_from)], len(inner))
    table: list[_Transfer] = []
    parts: list[int] = []
    padded: list[bool] = []
    for row in groups.first.tolist():
        axes = _axes(box, row, destination.strides, source.strides)
        if axes is not None and tiles > 1:
            axes = [replace(axis, to=axis.to * tiles, origin=axis.origin * tiles) for axis in axes]
            axes.append(_Axis(tiles, 1, 1, 0, 0))
        transfers = [] if axes is None else _transfers(_merge(axes))
        table.extend(transfers)
        parts.append(len(transfers))
        padded.append(axes is not None and any(axis.before or axis.after for axis in axes))
    if (kind := LOADS.get((scope, leaf.source.buffer.dtype))) is None:
        tensor, known = leaf.source.buffer, " or ".join(dtype for memory, dtype in LOADS if memory == scope)
        raise EmissionError(
            f"{emitter.program.name}: {leaf.name} copies {tensor.name} of type {tensor.dtype} to {scope}, where the "
            f"accelerator loads {known} only"
        )
    if scope in ("inp", "acc") and any(padded):
        value = int(leaf.pad.value) if isinstance(leaf.pad, Const) else 0
        register = "LOAD_PAD" if scope == "inp" else "COMPUTE_PAD"
        emitter.set_register(register, inner.position[np.array(padded)[groups.of]], {"pad_value": value})
    if not table:
        return
    # For each transfer of all boxes: `rows` is its box, `place` its index in the table.
    counts, starts = np.array(parts), np.cumsum(parts) - parts
    rows = np.repeat(np.arange(len(inner)), counts[groups.of])
    begin = np.cumsum(counts[groups.of]) - counts[groups.of]
    place = starts[groups.of][rows] + np.arange(len(rows)) - begin[rows]
    columns = _columns(table, place)
    element = emitter.config.element_bytes(kind.lower())
    sram = pick(target * tiles, rows) + columns.pop("target")
    first = emitter.dram(leaf.source.buffer, inner.values) // element
    dram = pick(first, rows) + pick(origin * tiles, rows) + columns.pop("origin")
    read = ((columns["y_size"] - 1) * columns["x_stride"] + columns["x_size"]) * (columns["y_size"] > 0)
    height = columns["y_pad_0"] + columns["y_size"] + columns["y_pad_1"]
    width = columns["x_pad_0"] + columns["x_size"] + columns["x_pad_1"]
    emitter.add(
        f"LOAD.{kind}",
        inner.position[rows],
        {"sram_base": sram, "dram_base": dram, **columns},
        reads=emitter.emission.dram_span(dram * element, read * element),
        writes=(Span(scope, sram // tiles, -(-(sram + height * width) // tiles)),),
    )


def _columns(table: Sequence[_Transfer], place: np.ndarray) -> dict[str, Column]:
    """The transfers' fields as columns: row i of each column belongs to the transfer `table[place[i]]`."""
    values = np.array(table, dtype=np.int64).T
    same = (values == values[:, :1]).all(axis=1)
    return {
        name: int(column[0]) if constant else column[place]
        for name, column, constant in zip(_Transfer._fields, values, same.tolist(), strict=True)
    }


def _axes(box: _Box, row: int, to: tuple[int, ...], origin: tuple[int, ...]) -> list[_Axis] | None:
    """The dimensions of copy number `row` in `box`, except unpadded dimensions of size 1. None if the copy is empty.
    `to`: strides in the scratchpad. `origin`: strides in DRAM. Raises ValueError if sizes in the two memories differ.
    """
    extents = [item(extent, row) for extent in box.to]
    if any(extent <= 0 for extent in extents):
        return None
    left = [(extent, stride) for extent, stride in zip(extents, to, strict=True) if extent != 1]
    axes: list[_Axis] = []
    for columns, stride in zip(box.origin, origin, strict=True):
        count, before, after = (item(column, row) for column in columns)
        if count == 1:
            # A dimension of one padded element has no counterpart in the scratchpad.
            if before or after:
                axes.append(_Axis(1, 0, stride, before, after))
            continue
        extent, step = left.pop(0)
        if extent != count:
            raise ValueError(
                f"source and destination of a copy must have equal extents, not {extent} and {count} elements"
            )
        axes.append(_Axis(count, step, stride, before, after))
    if left:
        raise ValueError("source and destination of a copy must have the same number of dimensions")
    return axes


def _merge(axes: list[_Axis]) -> list[_Axis]:
    """The axes, with neighbours merged into one axis if they have no pads and are contiguous in both memories."""
    merged: list[_Axis] = []
    for axis in axes:
        if merged:
            outer = merged[-1]
            dense = outer.to == axis.extent * axis.to and outer.origin == axis.extent * axis.origin
            if dense and not (outer.before or outer.after or axis.before or axis.after):
                merged[-1] = _Axis(outer.extent * axis.extent, axis.to, axis.origin, 0, 0)
                continue
        merged.append(axis)
    return merged


def _transfers(axes: list[_Axis]) -> list[_Transfer]:
    """The load instructions that move a box (rectangular region) with the dimensions `axes`."""
    # Columns must be contiguous on both sides, rows contiguous in the scratchpad; all other dimensions are
    # unrolled.
    x = _Axis(1, 1, 1, 0, 0)
    rest = list(axes)
    if rest and rest[-1].origin == 1 and rest[-1].to in (0, 1):
        x = rest.pop()
    y = _Axis(1, x.extent, 1, 0, 0)
    if rest and (rest[-1].to == x.extent or rest[-1].extent == 1) and rest[-1].origin < 1 << 16:
        y = rest.pop()
    positions = [(0, 0, True)]
    for axis in rest:
        new = []
        for base, start, real in positions:
            for i in range(axis.extent):
                inside = axis.before <= i < axis.extent - axis.after
                moved = start + max(0, i - axis.before) * axis.origin
                new.append((base + i * axis.to, moved if inside else start, real and inside))
        positions = new
    real_box, empty_box = _load(y, x), pads(y.extent, x.extent)
    return [
        transfer.moved(base, start)
        for base, start, real in positions
        for transfer in (real_box if real else empty_box)
    ]


def pads(rows: int, width: int, target: int = 0, origin: int = 0) -> list[_Transfer]:
    """Loads that only write pads: `rows` rows of `width` elements from `target` on. `origin` is not read."""
    transfers: list[_Transfer] = []
    while rows > 0:
        count = min(rows, 2 * _MAX_PAD)
        first = min(count, _MAX_PAD)
        transfers.append(_Transfer(target, origin, 0, width, width, first, count - first))
        target += count * width
        rows -= count
    return transfers


def _load(y: _Axis, x: _Axis, target: int = 0, origin: int = 0) -> list[_Transfer]:
    width = x.extent
    if y.data <= 0 or x.data <= 0:
        return pads(y.extent, width, target, origin)
    if x.before > _MAX_PAD or x.after > _MAX_PAD:
        return _load_with_wide_pads(y, x)
    above = min(y.before, _MAX_PAD)
    below = min(y.after, _MAX_PAD)
    rows, columns = y.data, x.data
    stride = y.origin if rows > 1 else columns
    start = target + (y.before - above) * width
    end = start + (above + rows + below) * width
    return [
        *pads(y.before - above, width, target, origin),
        _Transfer(start, origin, rows, columns, stride, above, below, x.before, x.after),
        *pads(y.after - below, width, end, origin),
    ]


def _load_with_wide_pads(y: _Axis, x: _Axis) -> list[_Transfer]:
    """Loads the rows `y` one by one. Separate loads write the pads of the columns `x` beyond the limit of a load."""
    left, right = min(x.before, _MAX_PAD), min(x.after, _MAX_PAD)
    before, after = x.before - left, x.after - right
    row = _Axis(left + x.data + right, 1, 1, left, right)
    line = _Axis(1, 0, 1, 0, 0)
    transfers: list[_Transfer] = []
    target = 0

    def blank(count: int) -> None:
        nonlocal target
        if count > 0:
            transfers.extend(pads(1, count, target))
            target += count

    blank(y.before * x.extent + before)
    for number in range(y.data):
        if number > 0:
            blank(after + before)
        transfers.extend(_load(line, row, target, number * y.origin))
        target += row.extent
    blank(after + y.after * x.extent)
    return transfers
