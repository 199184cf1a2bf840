"""The space of convolutions on a processor: all settings of `conv2d_cpu_knobs.Knobs` for one shape."""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np

from ...ir.stmt import Program
from ...ir.types import DType
from ...target.cpu.machine import CpuTarget
from ...te.blocks import Window
from ..space import Axis, Space, Values
from .conv2d_cost import (
    INNER,
    PANELS,
    TILES,
    Shape,
    account,
    effective,
    least_bound,
    shape_of,
    statements_of,
)
from .conv2d_default import choose_knobs
from .conv2d_knobs import Knobs
from .peak import MOST_STATEMENTS, PART_SIZES, SLACK, UNROLLED, block_sizes
from .reduction_order import unrolled_steps


def space(target: CpuTarget, program: Program, window: Window) -> Space:
    """The space of `te.ops.blocked_convolution` with this window; costs are seconds."""
    shape = shape_of(program, window)
    lanes = min(shape.co, target.lanes(DType.FLOAT32))
    halves = (shape.co, lanes // 2) if shape.co == lanes > 1 else (shape.co,)
    most = max(1, target.vector_registers - 2)
    default = choose_knobs(target, program, window)
    column = {name: np.array([value]) for name, value in default_values(target, program, window).items()}
    most_statements = max(MOST_STATEMENTS, int(statements_of(shape, effective(shape, column))[0]))
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
        account=partial(account, target, shape, most_statements),
        floor=least_bound(target, shape, axes),
        slack=SLACK,
    )


def knobs_of(program: Program, window: Window, values: Values) -> Knobs:
    """The knobs of a point's values."""
    shape = shape_of(program, window)
    columns = {name: np.array([value], dtype=np.int64) for name, value in values.items()}
    e = {name: int(column[0]) for name, column in effective(shape, columns).items()}
    order = shape.orders[e["reduction"]]
    inner = unrolled_steps([shape.loops[loop] for loop in order], e["unroll"])
    return Knobs(
        rows=e["rows"],
        columns=e["columns"],
        vectors=e["vectors"],
        row_block=e["row_block"],
        column_block=e["column_block"],
        panels=PANELS[e["panels"]],
        tiles=TILES[e["tiles"]],
        copy=shape.copies[e["copy"]],
        reduction=order,
        unroll=prod(inner),
        part=e["part"] * shape.loops[order[0]] // shape.depth,
        lanes=e["lanes"],
        inner=INNER[e["inner"]],
        strips=e["strips"] or None,
    )


def default_values(target: CpuTarget, program: Program, window: Window) -> dict[str, int]:
    """The point of `choose_knobs`: the same program but for loops of one iteration."""
    shape = shape_of(program, window)
    knobs = choose_knobs(target, program, window)
    return {
        "rows": knobs.rows,
        "columns": knobs.columns,
        "vectors": knobs.vectors,
        "row_block": min(knobs.row_block, shape.oh),
        "column_block": min(knobs.column_block or shape.ow, shape.ow),
        "panels": 0,
        "tiles": 0,
        "copy": 0,
        "reduction": 0,
        "unroll": 1,
        "part": _part(shape, knobs),
        "lanes": shape.co,
        "inner": 0,
        "strips": knobs.strips or 0,
    }


def _part(shape: Shape, knobs: Knobs) -> int:
    """Terms that are added in a row with default knobs."""
    return shape.default_terms if knobs.part is None else shape.depth // shape.loops["ic"] * knobs.part


def _part_sizes(depth: int, *defaults: int) -> tuple[int, ...]:
    return tuple(sorted({*(size for size in PART_SIZES if size < depth), *defaults, depth}))


def _strips(blocks: int, default: int | None) -> tuple[int, ...]:
    """Strips of sums in memory, and 0 for sums in registers."""
    powers = {1 << i for i in range(blocks.bit_length()) if 1 << i <= blocks}
    return tuple(sorted({0, *powers, default or 0}))
