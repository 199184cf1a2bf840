"""The space of matrix products on a processor: all settings of `dense.Knobs` for one size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ...codegen.cpu.machine import CpuTarget
from ...ir.stmt import Program
from ...ir.types import DType
from ...passes.sum_in_blocks import LONGEST
from ..columns import Columns, Values, one_point
from ..space import Account, Axis, Space
from .conv2d_knobs import COPY_BYTES_CYCLE, REMOTE_BYTES_CYCLE
from .dense import Knobs, choose_knobs, product_sizes
from .partial_sums import part_size
from .peak import (
    CLOCK_HERTZ,
    FRAME,
    MEMORY_BYTES_CYCLE,
    MOST_STATEMENTS,
    PART_SIZES,
    SLACK,
    UNROLLED,
    block_sizes,
    least_cycles,
    rounded_block,
    written_out,
)
from .points import estimates, grid_of, knobs_at, point_of
from .register_tile import TILE_OVERHEAD, fits, step_cycles

MOST_ROWS = 16
"""Most rows of a tile: each row is a memory stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    """Sizes of a product. `lanes`: lanes of a full vector. `default_part`: terms of a partial sum in default
    schedules.
    """

    rows: int
    depth: int
    columns: int
    lanes: int
    default_part: int


def space(target: CpuTarget, program: Program) -> Space:
    """The space of `te.ops.product`; costs are seconds."""
    size = _size(target, program)
    default = default_values(target, program)
    vectors = min(-(-size.columns // size.lanes), max(1, target.vector_registers - 2))
    parts = {*(part for part in PART_SIZES if part < size.depth), size.default_part, size.depth}
    axes = (
        Axis(name="rows", values=tuple(range(1, min(size.rows, MOST_ROWS) + 1))),
        Axis(name="vectors", values=tuple(range(1, vectors + 1))),
        Axis(name="row_block", values=block_sizes(size.rows, default["row_block"])),
        Axis(name="column_block", values=block_sizes(size.columns)),
        Axis(name="blocks", values=(0, 1)),
        Axis(name="tiles", values=(0, 1)),
        Axis(name="stage", values=(0, 1)),
        Axis(
            name="unroll", values=tuple(u for u in UNROLLED if size.depth % u == 0 and u < size.depth) or (1,)
        ),
        Axis(name="part", values=tuple(sorted(parts))),
        Axis(name="lanes", values=tuple(sorted({size.lanes, max(1, size.lanes // 2)}, reverse=True))),
        Axis(name="inner", values=(0, 1)),
    )
    e = dict(grid_of(axes, "rows", "vectors", "lanes"))
    # Bounds increase with the length of a partial sum: take the shortest.
    e["part"] = np.ones_like(e["rows"])
    kept = fits(target, e["rows"], e["vectors"])
    floor = _bound(target, size, {name: values[kept] for name, values in e.items()}).min()
    most = max(MOST_STATEMENTS, int(_statements(size, _effective(size, one_point(default)))[0]))
    return Space(
        template="dense_cpu",
        axes=axes,
        account=partial(_estimated, target, size, most),
        floor=float(floor),
        slack=SLACK,
    )


def knobs_of(target: CpuTarget, program: Program, values: Values) -> Knobs:
    """The knobs with the values of a point."""
    size = _size(target, program)
    return knobs_at(Knobs, _effective(size, one_point(values)))


def default_values(target: CpuTarget, program: Program) -> dict[str, int]:
    """The point of the knobs that `choose_knobs` returns: its program is equal, except for a loop over the only block
    of columns.
    """
    size = _size(target, program)
    knobs = choose_knobs(target, size.rows, size.depth, size.columns)
    knobs = replace(knobs, row_block=min(knobs.row_block, size.rows))
    return point_of(knobs, {"column_block": size.columns, "part": size.default_part, "lanes": size.lanes})


def _size(target: CpuTarget, program: Program) -> _Size:
    rows, depth, columns = product_sizes(program)
    return _Size(
        rows=rows,
        depth=depth,
        columns=columns,
        lanes=target.lanes(DType.FLOAT32),
        default_part=part_size(depth) or depth,
    )


def _effective(size: _Size, points: Columns) -> dict[str, np.ndarray]:
    """Canonical values of points: knobs without effect are set to one representative, so equal programs are equal."""
    e = dict(points)
    width = e["vectors"] * e["lanes"]
    e["row_block"] = rounded_block(e["row_block"], e["rows"], size.rows)
    e["column_block"] = rounded_block(e["column_block"], width, size.columns)
    one_row, one_column = e["row_block"] >= size.rows, e["column_block"] >= size.columns
    # If rows are staged and the loop over blocks of rows is inside, a block is copied again for each block of
    # columns.
    e["blocks"] = np.where(one_column | (one_row & (e["stage"] == 0)), 0, e["blocks"])
    e["tiles"] = np.where((e["row_block"] <= e["rows"]) | (e["column_block"] <= width), 0, e["tiles"])
    e["inner"] = np.where((e["rows"] == 1) | (e["vectors"] == 1), 0, e["inner"])
    steps = size.depth // e["unroll"]
    e["part"] = np.clip(e["part"] // e["unroll"], 1, steps) * e["unroll"]
    return e


def _bound(target: CpuTarget, size: _Size, e: Columns) -> np.ndarray:
    width = e["vectors"] * e["lanes"]
    # The last vector of a row may be shorter, but takes as long.
    sides = ((size.rows, e["rows"]), (-(-size.columns // e["lanes"]), e["vectors"]))
    cycles = least_cycles(target, sides, np.ones_like(width), size.depth, e["part"])
    moved = 4 * (size.rows * size.depth + size.depth * size.columns + size.rows * size.columns)
    return np.maximum(cycles, moved / MEMORY_BYTES_CYCLE) / CLOCK_HERTZ


def _statements(size: _Size, e: Columns) -> np.ndarray:
    """Size of the code of each point: vectors of sums times unrolled steps, over all kernels that peeling makes."""
    width = e["vectors"] * e["lanes"]
    columns = written_out(size.columns, e["column_block"], width)
    return (
        written_out(size.rows, e["row_block"], e["rows"]) * -(-columns // e["lanes"]) * (e["unroll"] + FRAME)
    )


def _estimated(target: CpuTarget, size: _Size, most: int, points: Columns) -> Account:
    e = _effective(size, points)
    rows, vectors = e["rows"], e["vectors"]
    width = vectors * e["lanes"]
    row_tiles, column_tiles = -(-size.rows // rows), -(-size.columns // width)
    row_blocks, column_blocks = -(-size.rows // e["row_block"]), -(-size.columns // e["column_block"])
    step = step_cycles(rows, vectors)
    busy = (step * size.depth + TILE_OVERHEAD * rows) * row_tiles * column_tiles / 2
    block_rows, block_columns = (
        np.minimum(e["row_block"], size.rows),
        np.minimum(e["column_block"], size.columns),
    )
    panel_bytes = 4.0 * size.depth * np.where(e["tiles"] == 0, width, block_columns)
    block_bytes = 4.0 * size.depth * np.where(e["tiles"] == 0, block_rows, rows)
    near = 0.75 * target.cache_bytes[1]
    x_bytes, w_bytes = 4.0 * size.rows * size.depth, 4.0 * size.depth * size.columns
    # Panels outside: rows are reloaded for each panel of a block unless they fit the cache; rows outside:
    # vice versa.
    stays = panel_bytes + block_bytes <= near
    rows_again = np.where(stays, column_blocks, np.where(e["tiles"] == 0, column_tiles, column_blocks))
    weights_again = np.where(stays, row_blocks, np.where(e["tiles"] == 0, row_blocks, row_tiles))
    everything = x_bytes + w_bytes <= near
    remote = np.where(everything, x_bytes + w_bytes, x_bytes * rows_again + w_bytes * weights_again)
    staged = e["stage"] * 2.0 * x_bytes * np.where(e["blocks"] == 1, column_blocks, 1)
    statements = _statements(size, e)
    products = 1.0 * size.rows * size.depth * size.columns
    level1, level2 = target.cache_bytes
    limits = {
        "the registers": fits(target, rows, vectors),
        "the length of partial sums": e["part"] <= max(LONGEST, size.default_part),
        "the size of the code": statements <= most,
        # Staged rows are in pieces of a vector; it cannot be proven that a last, shorter vector ends inside
        # one piece.
        "the parts of staged rows": (e["stage"] == 0) | (size.depth % e["part"] == 0),
    }
    quantities = {
        "estimated cycles": busy + remote / REMOTE_BYTES_CYCLE + staged / COPY_BYTES_CYCLE,
        "arithmetic cycles": busy,
        "multiplications": products,
        "tiles": row_tiles * column_tiles,
        "depth": size.depth,
        "rows of a tile": rows,
        "vectors of a tile": vectors,
        "lanes": e["lanes"],
        "sums in registers": rows * vectors,
        "loads a multiplication": (rows + vectors) / (rows * vectors),
        "issued share": step / (rows * vectors),
        "ragged share": row_tiles * rows * column_tiles * width / (size.rows * size.columns),
        "steps written out": e["unroll"],
        "statements": statements,
        "parts": -(-size.depth // e["part"]),
        "rows inside": 1 + e["inner"],
        "order of blocks": 1 + e["blocks"],
        "order of tiles": 1 + e["tiles"],
        "staged": 1 + e["stage"],
        "blocks of rows": row_blocks,
        "blocks of columns": column_blocks,
        "remote bytes": remote,
        "remote bytes a multiplication": remote / products,
        "staged bytes": staged,
        "rows of a tile to level 1": 4.0 * rows * size.depth / level1,
        "panel to level 1": panel_bytes / level1,
        "panel to level 2": panel_bytes / level2,
        "rows of a block to level 1": block_bytes / level1,
        "rows of a block to level 2": block_bytes / level2,
        "panel and rows to level 2": (panel_bytes + block_bytes) / level2,
    }
    return estimates(limits, _bound(target, size, e), quantities, e)
