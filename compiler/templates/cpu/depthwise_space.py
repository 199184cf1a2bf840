"""The space of depthwise convolutions on a processor: all settings of `depthwise.Knobs` for one shape."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import get_args, get_type_hints

import numpy as np

from ...codegen.cpu.machine import CpuTarget
from ...ir.stmt import Program
from ...te.blocks import Window
from ..space import Account, Axis, Columns, Space, Values, one_point
from .conv2d_knobs import COPY_BYTES_CYCLE, REMOTE_BYTES_CYCLE
from .depthwise import Knobs, choose_knobs
from .peak import (
    CLOCK_HERTZ,
    FRAME,
    MEMORY_BYTES_CYCLE,
    SLACK,
    block_sizes,
    least_cycles,
    rounded_block,
    written_out,
)
from .points import estimates, grid_of, knobs_at
from .register_tile import TILE_OVERHEAD

WORDS = {"window": (("kh", "kw"), ("kw", "kh"))}
COPIES = get_args(get_type_hints(Knobs)["copy"])
MOST_STATEMENTS = 1024
"""Most vectors of sums times unrolled taps, over all kernels of a program, unless the default knobs have more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """Sizes of a depthwise convolution; `rows`, `columns`: (span, stride) of the window. `moved`: bytes of all
    tensors.
    """

    outer: int
    oh: int
    ow: int
    block: int
    height: int
    width: int
    kernel: tuple[int, int]
    rows: tuple[int, int]
    columns: tuple[int, int]
    pads: tuple[int, int, int, int]
    moved: int

    @property
    def padded(self) -> bool:
        return any(self.pads)


def space(target: CpuTarget, program: Program, window: Window) -> Space:
    """The space of `te.ops.blocked_convolution.blocked_depthwise` with this window; costs are seconds."""
    shape = _shape(program, window)
    most = max(1, target.vector_registers - 2)
    default = default_values(target, program, window)
    halves = (shape.block, shape.block // 2) if shape.block > 2 else (shape.block,)
    axes = (
        Axis(name="rows", values=tuple(range(1, min(shape.oh, 8) + 1))),
        Axis(name="columns", values=tuple(range(1, min(shape.ow, most) + 1))),
        Axis(name="tiles", values=(0, 1)),
        Axis(name="copy", values=(0, 1, 2) if shape.padded else (0,)),
        Axis(name="channels", values=(0, 1)),
        Axis(name="row_block", values=block_sizes(shape.oh)),
        Axis(name="column_block", values=block_sizes(shape.ow)),
        Axis(name="window", values=(0, 1)),
        Axis(name="unroll", values=(0, 1, 2)),
        Axis(name="inside", values=(0, 1)),
        Axis(name="lanes", values=halves),
    )
    e = grid_of(axes, "rows", "columns", "lanes")
    kept = _fits(target, shape, e)
    floor = _bound(target, shape, {name: values[kept] for name, values in e.items()}).min()
    most_code = max(MOST_STATEMENTS, int(_statements(shape, _effective(shape, one_point(default)))[0]))
    return Space(
        template="depthwise_cpu",
        axes=axes,
        account=partial(_estimated, target, shape, most_code),
        floor=float(floor),
        slack=SLACK,
    )


def knobs_of(program: Program, window: Window, values: Values) -> Knobs:
    """The knobs with the values of a point."""
    shape = _shape(program, window)
    knobs = knobs_at(Knobs, _effective(shape, one_point(values)), WORDS)
    return replace(
        knobs,
        row_block=_unless_all(knobs.row_block, shape.oh),
        column_block=_unless_all(knobs.column_block, shape.ow),
    )


def _unless_all(block: int | None, size: int) -> int | None:
    return None if block is None or block >= size else block


def default_values(target: CpuTarget, program: Program, window: Window) -> dict[str, int]:
    """The point of the knobs that `choose_knobs` returns, with the tile cut to the output."""
    shape = _shape(program, window)
    knobs = choose_knobs(target, program, window)
    return {
        "rows": min(knobs.rows, shape.oh),
        "columns": min(knobs.columns, shape.ow, max(1, target.vector_registers - 2)),
        "tiles": 0,
        "copy": 0,
        "channels": 0,
        "row_block": shape.oh,
        "column_block": shape.ow,
        "window": 0,
        "unroll": 2,
        "inside": 0,
        "lanes": shape.block,
    }


def _shape(program: Program, window: Window) -> _Shape:
    shapes = {b.name: b.shape for b in program.parameters}
    batch, blocks, oh, ow, block = shapes["Y"]
    height, width = window.padded(*shapes["X"][2:4])
    spans = [
        ((kernel - 1) * dilation + 1, stride)
        for kernel, dilation, stride in zip(window.kernel, window.dilations, window.strides, strict=True)
    ]
    return _Shape(
        outer=batch * blocks,
        oh=oh,
        ow=ow,
        block=block,
        height=height,
        width=width,
        kernel=window.kernel,
        rows=spans[0],
        columns=spans[1],
        pads=window.pads,
        moved=4 * sum(prod(s) for s in shapes.values()),
    )


def _effective(shape: _Shape, points: Columns) -> dict[str, np.ndarray]:
    """Canonical values of points: knobs without effect are set to one representative, so equal programs are equal."""
    e = dict(points)
    # If borders are peeled, planes are whole and the whole window is unrolled.
    peeled = shape.padded & (e["copy"] == COPIES.index("none"))
    e["row_block"] = rounded_block(np.where(peeled, shape.oh, e["row_block"]), e["rows"], shape.oh)
    e["column_block"] = rounded_block(np.where(peeled, shape.ow, e["column_block"]), e["columns"], shape.ow)
    one_row = e["row_block"] >= shape.oh
    e["copy"] = np.where(one_row & (e["copy"] == COPIES.index("rows")), COPIES.index("whole"), e["copy"])
    # Whole planes are copied for each block of channels: the loop over these blocks is outside.
    e["channels"] = np.where(one_row | (e["copy"] == COPIES.index("whole")), 0, e["channels"])
    e["tiles"] = np.where((e["row_block"] <= e["rows"]) | (e["column_block"] <= e["columns"]), 0, e["tiles"])
    e["unroll"] = np.where(peeled | (e["inside"] == 1), 2, e["unroll"])
    single = [min(1, k - 1) for k in shape.kernel]
    if not all(single):
        e["window"] = np.zeros_like(e["window"])
        # A loop of one iteration is always unrolled.
        e["unroll"] = np.where(e["unroll"] > 0, 2, 0) if any(single) else np.full_like(e["unroll"], 2)
    one = e["rows"] * e["columns"] * (shape.block // e["lanes"]) == 1
    e["inside"] = np.where(one, 0, e["inside"])
    return e


def _vectors(shape: _Shape, e: Columns) -> np.ndarray:
    """Number of vectors of one position of a block of channels."""
    return shape.block // e["lanes"]


def _fits(target: CpuTarget, shape: _Shape, e: Columns) -> np.ndarray:
    """Whether the sums, a weight and an input fit into the registers."""
    return e["rows"] * e["columns"] * _vectors(shape, e) + 2 <= target.vector_registers


def _bound(target: CpuTarget, shape: _Shape, e: Columns) -> np.ndarray:
    sides = ((shape.oh, e["rows"]), (shape.ow, e["columns"]))
    cycles = shape.outer * least_cycles(
        target, sides, _vectors(shape, e), prod(shape.kernel), prod(shape.kernel)
    )
    return np.maximum(cycles, shape.moved / MEMORY_BYTES_CYCLE) / CLOCK_HERTZ


def _taps(shape: _Shape, e: Columns) -> np.ndarray:
    """Number of unrolled taps of the window."""
    inner = np.where(e["window"] == 0, shape.kernel[1], shape.kernel[0])
    return np.choose(e["unroll"], [np.ones_like(inner), inner, np.full_like(inner, prod(shape.kernel))])


def _statements(shape: _Shape, e: Columns) -> np.ndarray:
    """Size of the code of each point: vectors of sums times unrolled taps, over all kernels that peeling makes."""
    peeled = (e["copy"] == COPIES.index("none")) & shape.padded
    sides = []
    for size, block, tile, ends in (
        (shape.oh, e["row_block"], e["rows"], shape.pads[0::2]),
        (shape.ow, e["column_block"], e["columns"], shape.pads[1::2]),
    ):
        first, last = (1 if end > 0 else 0 for end in ends)
        tiles = -(-size // tile)
        kernels = np.minimum(tiles, 1 + first + np.maximum(last, np.minimum(size % tile, 1)))
        sides.append(np.where(peeled, np.minimum(kernels * tile, size), written_out(size, block, tile)))
    return sides[0] * sides[1] * _vectors(shape, e) * (_taps(shape, e) + FRAME)


def _estimated(target: CpuTarget, shape: _Shape, most: int, points: Columns) -> Account:
    e = _effective(shape, points)
    rows, columns, copy = e["rows"], e["columns"], e["copy"]
    vectors = _vectors(shape, e)
    taps = prod(shape.kernel)
    sums = rows * columns * vectors
    tiles = shape.outer * -(-shape.oh // rows) * -(-shape.ow // columns)
    # Each product loads an input and a weight, except for inputs that a tile's rows share.
    step = np.maximum(sums + 0.0, 8.0) + 0.5 * sums
    busy = tiles * (step * taps + TILE_OVERHEAD * rows * columns) / 2
    block_rows, block_columns = np.minimum(e["row_block"], shape.oh), np.minimum(e["column_block"], shape.ow)
    row_count, column_count = -(-shape.oh // block_rows), -(-shape.ow // block_columns)
    taken = (block_rows - 1) * shape.rows[1] + shape.rows[0]
    plane = 4.0 * shape.width * shape.block
    copied = shape.outer * np.choose(
        copy, [0.0 * taken, plane * shape.height + 0.0 * taken, plane * taken * row_count]
    )
    held = np.choose(copy, [0.0 * taken, plane * shape.height + 0.0 * taken, plane * taken])
    tile_bytes = (
        4.0
        * shape.block
        * ((rows - 1) * shape.rows[1] + shape.rows[0])
        * ((columns - 1) * shape.columns[1] + shape.columns[0])
    )
    products = 1.0 * shape.outer * shape.oh * shape.ow * vectors * taps
    statements = _statements(shape, e)
    level1, level2 = target.cache_bytes
    remote = float(shape.moved)
    limits = {"the registers": _fits(target, shape, e), "the size of the code": statements <= most}
    quantities = {
        "estimated cycles": busy + remote / REMOTE_BYTES_CYCLE + copied / COPY_BYTES_CYCLE,
        "arithmetic cycles": busy,
        "multiplications": products,
        "bytes": remote,
        "tiles": tiles,
        "rows of a tile": rows,
        "columns of a tile": columns,
        "sums in registers": sums,
        "vectors of a position": vectors,
        "inputs of a tile a sum": tile_bytes / (4.0 * shape.block * rows * columns),
        "ragged share": 1.0 * tiles * rows * columns / (shape.outer * shape.oh * shape.ow),
        "taps written out": _taps(shape, e),
        "taps": taps,
        "statements": statements,
        "order of tiles": 1 + e["tiles"],
        "order of channels": 1 + e["channels"],
        "order of the window": 1 + e["window"],
        "window inside": 1 + e["inside"],
        "kind of copy": 1 + copy,
        "blocks of rows": row_count,
        "blocks of columns": column_count,
        "copied bytes": copied,
        "copy to level 1": held / level1,
        "copy to level 2": held / level2,
        "input of a tile to level 1": tile_bytes / level1,
        "rows of a tile to level 1": plane * ((rows - 1) * shape.rows[1] + shape.rows[0]) / level1,
        "everything to level 2": remote / level2,
    }
    return estimates(limits, _bound(target, shape, e), quantities, e)
