"""The chain memory is on-chip memory that keeps a layer's output for the next layer. This module gives the address
ranges that stores write in the chain memory, and emits the stores of the pads around a tensor there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from vdla.isa.config import Config

from ...ir.expr import Buffer
from ...te.blocks import Blocks
from .columns import Column, Rows, item
from .machine import Span
from .placement import ChainBuffer

if TYPE_CHECKING:
    from .emit import LayerEmitter


def chain_span(config: Config, address: Column, size: Column) -> Span:
    """The range of input vectors that contain bytes `address` .. `address` + `size` - 1 of the chain memory (on-chip
    memory that keeps a layer's output for the next layer). The first vector of the chain memory has the number
    `Config.chain_base`.
    """
    first, last = address // config.inp_bytes, -(-(address + size) // config.inp_bytes)
    return Span("inp", config.chain_base + first, config.chain_base + last)


def margin_runs(config: Config, buffer: Buffer, place: ChainBuffer) -> Iterator[tuple[int, int, int, int]]:
    """Yields the places of the pads around the tensor `buffer` [images, blocks, rows, columns, batch, block_out], which
    is at `place` in the chain memory (on-chip memory between layers). The buffer's rows and columns include the pads.

    Each item is a rectangle of pad vectors: (first vector, number of rows, vectors in a row, distance from one row to
    the next), in output vectors from the buffer's start. The pads at the end of a plane and the pads at the beginning
    of the next plane form a single row.
    """
    vectors = Blocks.of(config).outputs
    top, left, bottom, right = place.margins
    images, blocks, rows, pitch = buffer.shape[:4]
    before, after = top * pitch + left * vectors, right * vectors + bottom * pitch
    side, planes, plane = (left + right) * vectors, images * blocks, rows * pitch
    between = rows - top - bottom - 1
    for p in range(planes + 1):
        first = 0 if p == 0 else p * plane - after
        length = (before if p < planes else 0) + (after if p > 0 else 0)
        if length:
            yield first, 1, length, length
        if p < planes and side and between > 0:
            yield p * plane + (top + 1) * pitch - right * vectors, between, side, pitch


def fill_margins(
    emitter: LayerEmitter, buffer: Buffer, place: ChainBuffer, positions: Rows, at: tuple[Column, Column]
) -> None:
    """Adds the stores that write the pads around the tensor `buffer`, which is at `place` in the chain memory (on-chip
    memory between layers). The pad stores follow the stores at `positions` (numbers of iterations in program order),
    and are spread evenly over them. Both clamping limits of a pad store equal the pad value, so the store writes this
    value.

    `at`: the (accumulator, parameter entry) that the store at each of `positions` reads. The following pad stores read
    the same accumulator and entry, so that they wait for no other data.
    """
    runs = list(margin_runs(emitter.config, buffer, place))
    parts = min(len(runs), len(positions))
    for part in range(parts):
        row = part * len(positions) // parts
        mine = runs[part * len(runs) // parts : (part + 1) * len(runs) // parts]
        _pad(emitter, place, mine, positions[row : row + 1], (item(at[0], row), item(at[1], row)))


def _pad(
    emitter: LayerEmitter,
    place: ChainBuffer,
    runs: Sequence[tuple[int, int, int, int]],
    position: Rows,
    at: tuple[int, int],
) -> None:
    """Emits stores that write pads around the tensor at `place`, after the store at `position` in program order.
    `runs`: the pad vectors to write, from `margin_runs`. `at`: (accumulator, parameter entry) that the pad stores read.
    """
    config, element = emitter.config, emitter.config.out_bytes
    accumulator, entry = at
    value: dict[str, Column] = {
        "zero_point": 0,
        "low": place.pad_value,
        "high": place.pad_value,
        "operand_zero_point": 0,
    }
    emitter.set_register("REQUANTIZE", position, value)
    emitter.set_register("ADDRESS", position, {"y_stride": 0, "x_stride": 0})
    window: dict[str, Column] = dict.fromkeys(
        ("rows_minus_1", "columns_minus_1", "row_stride", "column_stride", "sum"), 0
    )
    emitter.set_register("WINDOW", position, window)
    for first, rows, columns, stride in runs:
        base = place.address // element + first
        emitter.add(
            "STORE.POST",
            position,
            {
                "sram_base": accumulator,
                "dram_base": base,
                "par_index": entry,
                "y_size": rows,
                "x_size": columns,
                "x_stride": stride,
                "chain": 1,
            },
            reads=(Span("acc", accumulator, accumulator + 1), Span("par", entry, entry + 1)),
            writes=(chain_span(config, base * element, ((rows - 1) * stride + columns) * element),),
        )
