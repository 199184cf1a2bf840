"""The space of element-wise operators on a processor: all settings of `elementwise.Knobs` for one shape.

The split among threads is no knob: trials run on one thread, on which all splits are equally fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ...codegen.cpu.machine import CpuTarget
from ...ir.types import DType
from ...te.blocks import ceil_div
from ...te.merge import Shape, merge_broadcast
from ..space import Account, Axis, Columns, Space, one_point
from .conv2d_knobs import REMOTE_BYTES_CYCLE
from .elementwise import Knobs
from .loops import vector_width
from .peak import CLOCK_HERTZ, FRAME, MEMORY_BYTES_CYCLE
from .points import estimates, knobs_at

if TYPE_CHECKING:
    from ...te.scalar_steps import Steps

HALVES = (1, 2, 3, 4, 6, 8, 12, 16)
"""Widths of a step, in half vectors."""
WRITTEN = (1, 2, 3, 4, 6, 8)
"""Numbers of unrolled steps, and of unrolled rows."""
LEAST_BLOCK = 64
"""Elements of the smallest block; each larger one has twice as many."""
MOST_STATEMENTS = 2048
"""Most vector instructions (estimate) of all kernels of a program, unless the default knobs have more."""
FUNCTION_WEIGHT = 16
"""Instructions of a function like exp (estimate); other operations count as one."""
LOOP_CYCLES = 2.0
"""Cycles of loop overhead for an iteration of the loop over steps."""
NEAR_BYTES_CYCLE = 192.0
"""Most bytes that a core moves in a cycle between registers and first-level cache: two loads and a store of 64 bytes
(Golden Cove, Zen 5)."""
SLACK = 1.0
"""Slack of the space. The bound counts only the bytes that every program moves, so it excludes no point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """Sizes of an element-wise operator. `blocks`: values of the axis "block". `weight`: instructions (estimate) for a
    vector of the result. `moved`: bytes of all tensors.
    """

    result: Shape
    inputs: tuple[Shape, ...]
    lanes: int
    blocks: tuple[int, ...]
    weight: float
    moved: int

    def sizes(self, along: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Size of the dimension that vectors run along, and of the dimension of the rows (1 if there is none), int64
        [n] each.
        """
        beside = self.beside(along)
        shape = np.array(self.result)
        return shape[along], np.where(beside == along, 1, shape[beside])

    def beside(self, along: np.ndarray) -> np.ndarray:
        """Index of the dimension of the rows, int64 [n]; `along` itself if there is only one dimension."""
        last = len(self.result) - 1
        return np.where(along == last, max(0, last - 1), last)


def space(target: CpuTarget, shapes: Sequence[Shape], steps: Steps) -> Space:
    """The space of `te.ops.float_elementwise` for inputs of these shapes and a body of `steps`; costs are seconds."""
    shape = _shape(target, shapes, steps)
    default = default_values(target, shapes)
    along = _along(shape.result, shape.lanes)
    half = max(1, shape.lanes // 2)
    sizes, rows = shape.sizes(np.array(along))
    size = int(sizes.max())
    outside = range(len(shape.result) - 1)
    # Another order of loops may read repeated elements again sooner.
    orders = tuple(outside) if any(_reread(shape.inputs, d) for d in outside) and len(outside) > 1 else (0,)
    axes = (
        Axis(
            name="width", values=tuple(sorted({*_up_to(size, [half * k for k in HALVES]), default["width"]}))
        ),
        Axis(name="unroll", values=_up_to(ceil_div(size, half), WRITTEN)),
        Axis(name="rows", values=_up_to(int(rows.max()), WRITTEN)),
        Axis(name="along", values=along),
        Axis(name="block", values=shape.blocks),
        Axis(name="level", values=orders if len(shape.blocks) > 1 else (0,)),
        Axis(name="outer", values=orders),
    )
    most = max(MOST_STATEMENTS, int(_statements(shape, _effective(shape, one_point(default)))[0]))
    near = target.cache_bytes[0]
    moving = max(shape.moved / NEAR_BYTES_CYCLE, (shape.moved - near) / MEMORY_BYTES_CYCLE)
    floor = moving / CLOCK_HERTZ
    return Space(
        template="elementwise_cpu",
        axes=axes,
        account=partial(_estimated, target, shape, most, floor),
        floor=floor,
        slack=SLACK,
    )


def knobs_of(target: CpuTarget, shapes: Sequence[Shape], steps: Steps, values: Mapping[str, int]) -> Knobs:
    """The knobs with the values of a point."""
    shape = _shape(target, shapes, steps)
    effective = _effective(shape, one_point(values))
    block = int(_block(shape, effective, effective["block"])[0]) if effective["block"][0] else None
    return replace(knobs_at(Knobs, effective), block=block)


def default_values(target: CpuTarget, shapes: Sequence[Shape]) -> dict[str, int]:
    """The point of the knobs that `elementwise.choose_knobs` returns."""
    result, _ = merge_broadcast(shapes)
    values = {"width": vector_width(target, result[-1]), "unroll": 1, "rows": 1, "along": len(result) - 1}
    return {**values, "block": 0, "level": 0, "outer": 0}


def _shape(target: CpuTarget, shapes: Sequence[Shape], steps: Steps) -> _Shape:
    from ...te.scalar_steps import FUNCTIONS, step_weights

    result, inputs = merge_broadcast(shapes)
    lanes = target.lanes(DType.FLOAT32)
    # Blocks pay if elements are read repeatedly along a dimension and do not all stay in the cache.
    size = max([result[d] for d in _along(result, lanes) if _reread(inputs, d)], default=0)
    blocks = [LEAST_BLOCK << k for k in range(size.bit_length()) if LEAST_BLOCK << k < size]
    return _Shape(
        result=result,
        inputs=inputs,
        lanes=lanes,
        blocks=(0, *blocks),
        weight=len(inputs)
        + 1
        + step_weights(steps, lambda name: FUNCTION_WEIGHT if name in FUNCTIONS else 1),
        moved=4 * (prod(result) + sum(map(prod, inputs))),
    )


def _along(result: Shape, lanes: int) -> tuple[int, ...]:
    """Dimensions that vectors may run along: the last one, and the one before if the last does not fill a vector."""
    last = len(result) - 1
    return (last - 1, last) if last > 0 and result[last] < lanes else (last,)


def _reread(inputs: Sequence[Shape], dimension: int) -> bool:
    """Whether an input that varies along `dimension` is broadcast along another dimension, and so read repeatedly."""
    return any(shape[dimension] > 1 and min(shape) == 1 for shape in inputs)


def _up_to(most: int, values: Sequence[int]) -> tuple[int, ...]:
    """The `values` below `most`, and then the next value or `most`, whichever is smaller."""
    below = [value for value in values if value < most]
    return (*below, min(most, values[len(below)])) if len(below) < len(values) else tuple(below)


def _block(shape: _Shape, e: Columns, block: np.ndarray) -> np.ndarray:
    """Elements of a block, rounded up to whole steps; all elements for block 0."""
    size, _ = shape.sizes(e["along"])
    step = e["width"] * e["unroll"]
    return np.where(block == 0, size, np.minimum(-(-block // step) * step, size))


def _effective(shape: _Shape, points: Columns) -> dict[str, np.ndarray]:
    """Canonical values of points: knobs without effect are set to one representative, so equal programs are equal."""
    e = dict(points)
    size, beside = shape.sizes(e["along"])
    e["width"], e["rows"] = np.minimum(e["width"], size), np.minimum(e["rows"], beside)
    e["unroll"] = np.minimum(e["unroll"], -(-size // e["width"]))
    wanted, least = _block(shape, e, e["block"]), e["block"]
    for value in reversed(shape.blocks):
        least = np.where(_block(shape, e, np.full_like(least, value)) == wanted, value, least)
    e["block"] = least
    e["level"] = np.where(least == 0, 0, e["level"])
    return e


def _statements(shape: _Shape, e: Columns) -> np.ndarray:
    """Size of the code of each point: instructions (estimate) of all kernels that peeling makes."""
    size, beside = shape.sizes(e["along"])
    step, block = e["width"] * e["unroll"], _block(shape, e, e["block"])
    rest = size - size // block * block
    # Steps of whole blocks, whole steps of the last block, and a last, partial step.
    columns = step * (rest != size) + step * (rest >= step) + rest % step
    columns = np.where(block == size, np.minimum(step, size) + np.where(step < size, size % step, 0), columns)
    rows = e["rows"] + beside % e["rows"]
    return rows * (-(-columns // shape.lanes) * shape.weight + FRAME)


def _estimated(target: CpuTarget, shape: _Shape, most: int, floor: float, points: Columns) -> Account:
    e = _effective(shape, points)
    size, beside = shape.sizes(e["along"])
    width, unroll, rows = e["width"], e["unroll"], e["rows"]
    n = len(width)
    step, block = width * unroll, _block(shape, e, e["block"])
    lines = prod(shape.result) // size
    at_once = -(-width // shape.lanes)
    vectors = lines * (size // width * at_once + -(-(size % width) // shape.lanes))
    steps = lines // beside * -(-beside // rows) * -(-size // step)
    loads, streams, again = np.zeros(n), np.ones(n), np.zeros(n)
    for given in shape.inputs:
        varies, vary_rows = (np.array(given)[at] > 1 for at in (e["along"], shape.beside(e["along"])))
        shared = np.where(varies, np.where(vary_rows, 1.0, 1.0 / rows), 1.0 / (at_once * unroll))
        loads = loads + np.where(varies | vary_rows, shared, 0.0)
        streams = streams + np.where(vary_rows, rows, 1) * varies
        again = again + varies * (prod(given) < prod(shape.result)) * 4.0 * prod(shape.result)
    statements = _statements(shape, e)
    level1, level2 = target.cache_bytes
    held = 4.0 * block * streams
    busy = (vectors * (shape.weight - len(shape.inputs) + loads)) / 2 + steps * LOOP_CYCLES
    remote = shape.moved + np.where(held > 0.75 * level2, again, 0.0)
    quantities = {
        "estimated cycles": busy + remote / REMOTE_BYTES_CYCLE,
        "arithmetic cycles": busy,
        "bytes": shape.moved,
        "instructions of a vector": shape.weight,
        "vectors": vectors,
        "vectors at once": at_once,
        "vectors of a step": at_once * unroll * rows,
        "lanes in use": prod(shape.result) / (vectors * shape.lanes),
        "distance of lanes": np.where(e["along"] == len(shape.result) - 1, 1, beside),
        "loads of a vector": loads,
        "steps": steps,
        "statements": statements,
        "streams": streams,
        "remote bytes": remote,
        "block to level 1": held / level1,
        "block to level 2": held / level2,
        "everything to level 2": shape.moved / level2,
        "loops around blocks": 1 + e["level"],
        "outermost loop": 1 + e["outer"],
    }
    limits = {"the size of the code": statements <= most}
    return estimates(limits, np.full(n, floor), quantities, e)
