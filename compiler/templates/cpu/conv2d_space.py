"""The space of convolutions on a processor: all settings of `conv2d_knobs.Knobs` for one shape."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod

from ...codegen.cpu.machine import CpuTarget
from ...ir.stmt import Program
from ...ir.types import DType
from ...te.blocks import Window
from ..space import Axis, Space, Values, one_point
from .conv2d_cost import (
    INNER,
    PANELS,
    TILES,
    Shape,
    effective,
    estimated,
    least_bound,
    shape_of,
    statements_of,
)
from .conv2d_default import choose_knobs
from .conv2d_knobs import Knobs
from .partial_sums import unrolled_steps
from .peak import MOST_STATEMENTS, PART_SIZES, SLACK, UNROLLED, block_sizes
from .points import knobs_at, point_of


def space(target: CpuTarget, program: Program, window: Window) -> Space:
    """The space of `te.ops.blocked_convolution` with this `window`; costs are seconds."""
    shape = shape_of(program, window)
    lanes = min(shape.co, target.lanes(DType.FLOAT32))
    halves = (shape.co, lanes // 2) if shape.co == lanes > 1 else (shape.co,)
    most = max(1, target.vector_registers - 2)
    default = choose_knobs(target, program, window)
    point = one_point(default_values(target, program, window))
    most_statements = max(MOST_STATEMENTS, int(statements_of(shape, effective(shape, point))[0]))
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
        account=partial(estimated, target, shape, most_statements),
        floor=least_bound(target, shape, axes),
        slack=SLACK,
    )


def knobs_of(program: Program, window: Window, values: Values) -> Knobs:
    """The knobs with the values of a point."""
    shape = shape_of(program, window)
    e = effective(shape, one_point(values))
    order = shape.orders[int(e["reduction"][0])]
    steps = unrolled_steps([shape.loops[loop] for loop in order], int(e["unroll"][0]))
    knobs = knobs_at(Knobs, e, {"copy": shape.copies, "reduction": shape.orders})
    part = int(e["part"][0]) * shape.loops[order[0]] // shape.depth
    return replace(knobs, unroll=prod(steps), part=part, strips=knobs.strips or None)


def default_values(target: CpuTarget, program: Program, window: Window) -> dict[str, int]:
    """The point of the knobs that `choose_knobs` returns: its program is equal, except for loops of one iteration."""
    shape = shape_of(program, window)
    knobs = choose_knobs(target, program, window)
    full = {
        "column_block": shape.ow,
        "copy": 0,
        "part": shape.default_terms,
        "lanes": shape.co,
        "strips": 0,
    }
    values = point_of(knobs, full, {"copy": shape.copies, "reduction": (knobs.reduction,)})
    values["row_block"] = min(values["row_block"], shape.oh)
    values["column_block"] = min(values["column_block"], shape.ow)
    return {**values, "part": _part(shape, knobs)}


def _part(shape: Shape, knobs: Knobs) -> int:
    """Terms of a partial sum with these knobs."""
    return shape.default_terms if knobs.part is None else shape.depth // shape.loops["ic"] * knobs.part


def _part_sizes(depth: int, *defaults: int) -> tuple[int, ...]:
    return tuple(sorted({*(size for size in PART_SIZES if size < depth), *defaults, depth}))


def _strips(blocks: int, default: int | None) -> tuple[int, ...]:
    """Values of the axis "strips": 0 for sums in registers, and powers of 2 for sums in memory."""
    powers = {1 << i for i in range(blocks.bit_length()) if 1 << i <= blocks}
    return tuple(sorted({0, *powers, default or 0}))
