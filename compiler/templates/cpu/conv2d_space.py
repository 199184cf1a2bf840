"""The search space of convolutions on a processor: all settings of `conv2d_knobs.Knobs` for one shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from math import prod
from typing import Any, Literal

import numpy as np

from ...codegen.cpu.machine import CpuTarget
from ...ir.stmt import Program
from ...ir.types import DType
from ...passes.sum_in_blocks import LONGEST
from ...te.blocks import Window
from ..columns import Columns, Values, one_point
from ..space import Axis, CostEstimates, Space
from .conv2d_cost import NEAR_VECTOR_COST, PANELS, Shape, cycles, input_extent, shape_of
from .conv2d_default import choose_knobs
from .conv2d_knobs import Knobs
from .partial_sums import unrolled_steps
from .peak import (
    CLOCK_HERTZ,
    FRAME,
    MEMORY_BYTES_CYCLE,
    MOST_STATEMENTS,
    PART_SIZES,
    SLACK,
    UNROLLED,
    Sides,
    block_sizes,
    least_cycles,
    rounded_block,
    unrolled_extent,
)
from .register_tile import VECTOR_COST, fits, step_cycles

TILES: tuple[Literal["rows", "columns"], ...] = ("rows", "columns")
INNER: tuple[Literal["filters", "positions"], ...] = ("filters", "positions")
MOST_WORKSPACE = 1 << 28
"""Largest workspace of a kernel (copies and sums), in bytes."""


def space(target: CpuTarget, program: Program, window: Window) -> Space:
    """The search space of `te.ops.blocked_convolution` with this `window`; costs are in seconds."""
    shape = shape_of(program, window)
    lanes = min(shape.co, target.lanes(DType.FLOAT32))
    halves = (shape.co, lanes // 2) if shape.co == lanes > 1 else (shape.co,)
    most = max(1, target.vector_registers - 2)
    default = choose_knobs(target, program, window)
    point = one_point(default_values(target, program, window))
    most_statements = max(MOST_STATEMENTS, int(_statements(shape, _effective(shape, point))[0]))
    axes = (
        Axis(name="rows", values=tuple(range(1, min(shape.oh, 8) + 1))),
        Axis(name="columns", values=tuple(range(1, min(shape.ow, most) + 1))),
        Axis(name="vectors", values=tuple(range(1, min(shape.blocks, 8) + 1))),
        Axis(name="row_block", values=block_sizes(shape.oh, min(default.row_block, shape.oh))),
        Axis(
            name="column_block",
            values=block_sizes(shape.ow, min(default.column_block or shape.ow, shape.ow)),
        ),
        Axis(name="panels", values=tuple(range(len(PANELS)))),
        Axis(name="tiles", values=tuple(range(len(TILES)))),
        Axis(name="copy", values=tuple(range(len(shape.copies)))),
        Axis(name="reduction", values=tuple(range(len(shape.orders)))),
        Axis(name="unroll", values=tuple(u for u in UNROLLED if u <= shape.depth)),
        Axis(name="part", values=_part_sizes(shape.depth, shape.default_terms, _part(shape, default))),
        Axis(name="lanes", values=halves),
        Axis(name="inner", values=tuple(range(len(INNER)))),
        Axis(name="strips", values=_strips(shape.blocks, default.strips)),
    )
    return Space(
        template="conv2d_cpu",
        axes=axes,
        cost=partial(_estimated, target, shape, most_statements),
        floor=_least_bound(target, shape, axes),
        slack=SLACK,
    )


def knobs_of(program: Program, window: Window, values: Values) -> Knobs:
    """Converts the values of a point of the search space to knobs."""
    shape = shape_of(program, window)
    e = _effective(shape, one_point(values))
    order = shape.orders[int(e["reduction"][0])]
    steps = unrolled_steps([shape.loops[loop] for loop in order], int(e["unroll"][0]))
    words = _words(shape)
    at = {name: int(column[0]) for name, column in e.items()}
    knobs: dict[str, Any] = {name: words[name][i] if name in words else i for name, i in at.items()}
    part = at["part"] * shape.loops[order[0]] // shape.depth
    return Knobs(**knobs | {"unroll": prod(steps), "part": part, "strips": at["strips"] or None})


def default_values(target: CpuTarget, program: Program, window: Window) -> dict[str, int]:
    """The point of the space for the knobs that `choose_knobs` returns: its program is equal, except for loops of one
    iteration.
    """
    shape = shape_of(program, window)
    knobs = choose_knobs(target, program, window)
    full = {"column_block": shape.ow, "copy": shape.copies[0], "lanes": shape.co, "strips": 0}
    words = _words(shape) | {"reduction": (knobs.reduction,)}
    values: dict[str, Any] = {}
    for name, held in asdict(knobs).items():
        value = full.get(name) if held is None else held
        values[name] = words[name].index(value) if name in words else value
    values["row_block"] = min(values["row_block"], shape.oh)
    values["column_block"] = min(values["column_block"], shape.ow)
    return {**values, "part": _part(shape, knobs)}


def _words(shape: Shape) -> dict[str, Sequence[Any]]:
    """The axes of the space whose values are indices into a list: for each of them, the list of the knob's values."""
    of_shape: dict[str, Sequence[Any]] = {"copy": shape.copies, "reduction": shape.orders}
    return {"panels": PANELS, "tiles": TILES, "inner": INNER, **of_shape}


def _part(shape: Shape, knobs: Knobs) -> int:
    """Number of terms of a partial sum that these knobs produce."""
    return shape.default_terms if knobs.part is None else shape.depth // shape.loops["ic"] * knobs.part


def _part_sizes(depth: int, *defaults: int) -> tuple[int, ...]:
    return tuple(sorted({*(size for size in PART_SIZES if size < depth), *defaults, depth}))


def _strips(blocks: int, default: int | None) -> tuple[int, ...]:
    """Values of the axis "strips": 0 for sums in registers, powers of 2 for sums in memory."""
    powers = {1 << i for i in range(blocks.bit_length()) if 1 << i <= blocks}
    return tuple(sorted({0, *powers, default or 0}))


def _effective(shape: Shape, points: Columns) -> dict[str, np.ndarray]:
    """Canonical form of `points` (settings of the knobs): each knob that has no effect at a point is set to a fixed
    value there, so that points with equal programs are equal.
    """
    e = dict(points)
    e["row_block"] = rounded_block(e["row_block"], e["rows"], shape.oh)
    e["column_block"] = rounded_block(e["column_block"], e["columns"], shape.ow)
    one_row, one_column = e["row_block"] >= shape.oh, e["column_block"] >= shape.ow
    copies = {name: i for i, name in enumerate(shape.copies)}
    # A single block of columns: it is a block of rows.
    e["copy"] = np.where(one_column & (e["copy"] == copies["columns"]), copies["rows"], e["copy"])
    e["unroll"], e["part"] = _terms(shape, e["reduction"], e["unroll"], e["part"])
    # If a part is the whole sum, sums stay in registers. There are at most as many strips as filters.
    strips = np.minimum(e["strips"], -(-shape.blocks // e["vectors"]))
    e["strips"] = np.where(e["part"] < shape.depth, strips, 0)
    one_panel = e["vectors"] * np.maximum(e["strips"], 1) >= shape.blocks
    panels = np.where(one_panel | (one_row & one_column & (e["copy"] != copies["rows"])), 0, e["panels"])
    panels = np.where(one_column & (panels == 1), 0, panels)
    e["panels"] = np.where(one_row & (panels == 1) & (e["copy"] != copies["rows"]), 2, panels)
    if shape.padded and shape.outer == 1:
        # The rows of the only block are the whole image, copied once unless the loop over panels is outside
        # of all others.
        whole = one_row & (e["panels"] != 2) & (e["copy"] == copies["rows"])
        e["copy"] = np.where(whole, copies["whole"], e["copy"])
        e["panels"] = np.where(whole & (e["panels"] == 1), 2, e["panels"])
    single = (e["row_block"] <= e["rows"]) | (e["column_block"] <= e["columns"])
    e["tiles"] = np.where(single, 0, e["tiles"])
    vectors = e["vectors"] * (shape.co // e["lanes"])
    e["inner"] = np.where((vectors == 1) | (e["rows"] * e["columns"] == 1), 0, e["inner"])
    return e


def _terms(
    shape: Shape, orders: np.ndarray, unroll: np.ndarray, part: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Effective number of unrolled steps, and of terms in a partial sum, after rounding both to extents of the
    loops.
    """
    steps, terms = np.ones_like(unroll), np.full_like(part, shape.depth)
    for i, order in enumerate(shape.orders):
        extents = [shape.loops[loop] for loop in order]
        unit = shape.depth // extents[0]
        for wanted in np.unique(unroll):
            here = (orders == i) & (unroll == wanted)
            steps[here] = prod(unrolled_steps(extents, int(wanted)))
        here = orders == i
        terms[here] = np.clip(part[here] // unit, 1, extents[0]) * unit
    return steps, terms


def _sides(shape: Shape, e: Columns) -> Sides:
    return (
        (shape.oh, e["rows"]),
        (shape.ow, e["columns"]),
        (shape.blocks, e["vectors"]),
    )


def _bound(target: CpuTarget, shape: Shape, e: Columns) -> np.ndarray:
    """Lower bounds, in seconds (float64), on the time of the programs at points (settings of the knobs) with effective
    values `e`.
    """
    cycles = shape.outer * least_cycles(
        target, _sides(shape, e), shape.co // e["lanes"], shape.least_depth, e["part"]
    )
    bytes_ = shape.outer * shape.in_bytes * shape.height * shape.width + shape.weight_bytes + shape.out_bytes
    return np.maximum(cycles, bytes_ / MEMORY_BYTES_CYCLE) / CLOCK_HERTZ


def _least_bound(target: CpuTarget, shape: Shape, axes: tuple[Axis, ...]) -> float:
    """The least lower bound on the time, in seconds, over all register tiles."""
    chosen = [axis for axis in axes if axis.name in ("rows", "columns", "vectors", "lanes")]
    grid = np.meshgrid(*(np.array(axis.values) for axis in chosen), indexing="ij")
    e = {axis.name: column.ravel() for axis, column in zip(chosen, grid, strict=True)}
    # Bounds increase with the length of a partial sum: take the shortest.
    e["part"] = np.ones_like(e["rows"])
    kept = fits(target, e["rows"] * e["columns"], e["vectors"] * (shape.co // e["lanes"]))
    return float(_bound(target, shape, {name: values[kept] for name, values in e.items()}).min())


def _statements(shape: Shape, e: Columns) -> np.ndarray:
    """Code size of each point (setting of the knobs): vectors of sums times unrolled steps, added up over all loop
    nests into which peeling cuts the loops.
    """
    tiles = (
        unrolled_extent(shape.oh, e["row_block"], e["rows"])
        * unrolled_extent(shape.ow, e["column_block"], e["columns"])
        * unrolled_extent(shape.blocks, e["vectors"] * np.maximum(e["strips"], 1), e["vectors"])
    )
    return tiles * (shape.co // e["lanes"]) * (e["unroll"] + FRAME)


def _estimated(target: CpuTarget, shape: Shape, most: int, points: Columns) -> CostEstimates:
    """The cost model's result for many points (settings of the knobs): legality limits, lower bounds and estimates.
    `most`: limit of the number of statements.
    """
    e = _effective(shape, points)
    cost = cycles(target, shape, e)
    rows, columns, panels = e["rows"], e["columns"], e["panels"]
    positions, vectors = rows * columns, e["vectors"] * (shape.co // e["lanes"])
    step = step_cycles(positions, vectors, np.where(e["strips"] > 0, NEAR_VECTOR_COST, VECTOR_COST))
    tiles = -(-shape.oh // rows) * -(-shape.ow // columns) * shape.outer
    panel_count = -(-shape.blocks // e["vectors"])
    vectors_out = shape.outer * shape.oh * shape.ow * shape.blocks * (shape.co // e["lanes"])
    statements = _statements(shape, e)
    block_rows, block_columns = np.minimum(e["row_block"], shape.oh), np.minimum(e["column_block"], shape.ow)
    whole = shape.in_bytes * shape.height * shape.width
    row_count, column_count = -(-shape.oh // block_rows), -(-shape.ow // block_columns)
    panel_bytes = shape.weight_bytes / panel_count
    copy, box, block_bytes, sums_bytes = cost.copy, cost.box, cost.block_bytes, cost.sums_bytes
    remote, copied = cost.remote, cost.copied
    limits = {
        "the registers": fits(target, positions, vectors),
        "the length of partial sums": e["part"] <= max(LONGEST, shape.default_terms),
        "the size of the code": statements <= most,
        # Without pads in the input, it cannot be proven that a last, smaller block or tile reads only inside.
        "the blocks that are copied": shape.padded
        | (copy == 0)
        | (
            (shape.oh % block_rows == 0)
            & (block_rows % rows == 0)
            & (shape.ow % block_columns == 0)
            & (block_columns % columns == 0)
        ),
        "the workspace": np.where(copy == 3, shape.outer, 1) * box + sums_bytes <= MOST_WORKSPACE,
    }
    tile_bytes = (
        shape.in_bytes
        / shape.loops["ic"]
        * input_extent(*shape.rows, rows)
        * input_extent(*shape.columns, columns)
    )
    order = np.array([[o.index(loop) + 1 for loop in ("ic", "kh", "kw", "k")] for o in shape.orders])
    level1, level2 = target.cache_bytes
    quantities = {
        "estimated cycles": cost.total,
        "arithmetic cycles": cost.busy,
        "multiplications": 1.0 * vectors_out * shape.depth,
        "tiles": tiles * panel_count,
        "depth": float(shape.depth),
        "rows of a tile": rows,
        "columns of a tile": columns,
        "vectors of a tile": vectors,
        "sums in registers": positions * vectors,
        "loads a multiplication": (positions + vectors) / (positions * vectors),
        "issued share": step / np.maximum(positions * vectors, 1),
        "ragged share": 1.0
        * (tiles * positions)
        * panel_count
        * e["vectors"]
        / (shape.outer * shape.oh * shape.ow * shape.blocks),
        "steps written out": e["unroll"],
        "statements": statements,
        "parts": -(-shape.depth // e["part"]),
        "strips": 1 + e["strips"],
        "sums in memory to level 2": sums_bytes / level2,
        "vectors of a block": shape.co // e["lanes"],
        "positions inside": 1 + e["inner"],
        "order of panels": 1 + panels,
        "order of tiles": 1 + e["tiles"],
        "kind of copy": 1 + copy,
        **{f"place of {loop}": order[e["reduction"], i] for i, loop in enumerate(("ic", "kh", "kw", "k"))},
        "blocks of rows": row_count,
        "blocks of columns": column_count,
        "panels": panel_count,
        "remote bytes": remote,
        "remote bytes a multiplication": remote / (vectors_out * shape.depth),
        "copied bytes": copied,
        "copied share": copied / whole / shape.outer,
        "input of a tile to level 1": tile_bytes / level1,
        "panel to level 1": panel_bytes / level1,
        "panel to level 2": panel_bytes / level2,
        "input of a block to level 1": block_bytes / level1,
        "input of a block to level 2": block_bytes / level2,
        "weights and input to level 2": (shape.weight_bytes + block_bytes) / level2,
    }
    described = {
        name: np.maximum(np.broadcast_to(values, len(rows)), 1e-9).astype(np.float64)
        for name, values in quantities.items()
    }
    return CostEstimates(limits=limits, bound=_bound(target, shape, e), quantities=described, effective=e)
