"""The space of pools on a processor: all settings of `pool.Knobs` for one shape."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np

from ...codegen.cpu.machine import CpuTarget
from ...ir.stmt import Program
from ...ir.types import DType
from ...te.blocks import Window
from ..space import Account, Axis, Columns, Space, Values, one_point
from .conv2d_knobs import REMOTE_BYTES_CYCLE
from .peak import CLOCK_HERTZ, FRAME, MEMORY_BYTES_CYCLE
from .points import estimates, knobs_at, point_of
from .pool import Knobs, choose_knobs
from .register_tile import TILE_OVERHEAD

WORDS = {"window": (("kh", "kw"), ("kw", "kh"))}
MOST_STATEMENTS = 1024
"""Most vectors of windows times unrolled taps, over all kernels of a program, unless the defaults have more."""
SLACK = 1.0
"""The bound counts the bytes that every program moves, so it excludes no point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """Sizes of a pool; `channels`: of a block, `lanes`: of a full vector."""

    outer: int
    oh: int
    ow: int
    channels: int
    lanes: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    width: int
    moved: int


def space(target: CpuTarget, program: Program, window: Window) -> Space:
    """The space of `te.ops.float_pool` with this window; costs are seconds."""
    shape = _shape(target, program, window)
    default = default_values(target, program, window)
    half = max(1, shape.lanes // 2)
    if shape.channels == 1:
        columns, widths = tuple(half * count for count in (1, 2, 3, 4, 6, 8)), (shape.lanes,)
    else:
        columns = tuple(range(1, max(default["columns"], min(shape.ow, 16)) + 1))
        most_halves = min(8, -(-shape.channels // half))
        widths = tuple(sorted({*(half * count for count in range(1, most_halves + 1)), default["width"]}))
    axes = (
        Axis(name="rows", values=tuple(range(1, max(default["rows"], min(shape.oh, 8)) + 1))),
        Axis(name="columns", values=columns),
        Axis(name="width", values=widths),
        Axis(name="tiles", values=(0, 1)),
        Axis(name="window", values=(0, 1)),
        Axis(name="unroll", values=(0, 1)),
    )
    effective = _effective(shape, one_point(default))
    most = max(MOST_STATEMENTS, int(_statements(shape, effective)[0]))
    registers = max(target.vector_registers, int(_sums(shape, effective)[0]) + 1)
    floor = shape.moved / MEMORY_BYTES_CYCLE / CLOCK_HERTZ
    return Space(
        template="pool_cpu",
        axes=axes,
        account=partial(_estimated, target, shape, most, registers),
        floor=floor,
        slack=SLACK,
    )


def knobs_of(target: CpuTarget, program: Program, window: Window, values: Values) -> Knobs:
    """The knobs of a point's values."""
    shape = _shape(target, program, window)
    return knobs_at(Knobs, _effective(shape, one_point(values)), WORDS)


def default_values(target: CpuTarget, program: Program, window: Window) -> dict[str, int]:
    """The point of `choose_knobs`."""
    return point_of(choose_knobs(target, program, window), {}, WORDS)


def _shape(target: CpuTarget, program: Program, window: Window) -> _Shape:
    shapes = {b.name: b.shape for b in program.parameters}
    outer, oh, ow, channels = shapes["Y"]
    return _Shape(
        outer=outer,
        oh=oh,
        ow=ow,
        channels=channels,
        lanes=target.lanes(DType.FLOAT32),
        kernel=window.kernel,
        strides=window.strides,
        pads=window.pads,
        width=shapes["X"][2],
        moved=4 * sum(prod(s) for s in shapes.values()),
    )


def _effective(shape: _Shape, points: Columns) -> dict[str, np.ndarray]:
    """Canonical values of points: knobs without effect are set to one representative, so equal programs are equal."""
    e = dict(points)
    e["rows"], e["columns"] = np.minimum(e["rows"], shape.oh), np.minimum(e["columns"], shape.ow)
    e["width"] = np.minimum(e["width"], shape.channels)
    single = (e["rows"] >= shape.oh) | (e["columns"] >= shape.ow)
    e["tiles"] = np.where(single, 0, e["tiles"])
    if min(shape.kernel) == 1:
        e["window"] = np.zeros_like(e["window"])
    if max(shape.kernel) == 1:
        e["unroll"] = np.ones_like(e["unroll"])
    return e


def _sums(shape: _Shape, e: Columns) -> np.ndarray:
    """Number of vectors of a tile."""
    if shape.channels == 1:
        return e["rows"] * -(-e["columns"] // shape.lanes)
    return e["rows"] * e["columns"] * -(-e["width"] // shape.lanes)


def _statements(shape: _Shape, e: Columns) -> np.ndarray:
    """Size of the code: vectors times unrolled taps, over all kernels that peeling makes."""
    kernels = np.ones_like(e["rows"])
    sizes = ((shape.oh, e["rows"], shape.pads[0::2]), (shape.ow, e["columns"], shape.pads[1::2]))
    for size, tile, (first, last) in sizes:
        ragged = np.minimum(size % tile, 1)
        kernels = kernels * np.minimum(-(-size // tile), 1 + min(first, 1) + np.maximum(min(last, 1), ragged))
    return kernels * _sums(shape, e) * (np.where(e["unroll"] == 1, prod(shape.kernel), 1) + FRAME)


def _estimated(target: CpuTarget, shape: _Shape, most: int, registers: int, points: Columns) -> Account:
    e = _effective(shape, points)
    rows, columns = e["rows"], e["columns"]
    sums = _sums(shape, e)
    taps = prod(shape.kernel)
    blocks = -(-shape.channels // e["width"])
    tiles = shape.outer * blocks * -(-shape.oh // rows) * -(-shape.ow // columns)
    busy = tiles * (sums * taps / 2 + TILE_OVERHEAD)
    taken = ((rows - 1) * shape.strides[0] + shape.kernel[0]) * (
        (columns - 1) * shape.strides[1] + shape.kernel[1]
    )
    statements = _statements(shape, e)
    level1, level2 = target.cache_bytes
    limits = {"the registers": sums + 1 <= registers, "the size of the code": statements <= most}
    quantities = {
        "estimated cycles": busy + shape.moved / REMOTE_BYTES_CYCLE,
        "arithmetic cycles": busy,
        "bytes": shape.moved,
        "taps": taps,
        "tiles": tiles,
        "rows of a tile": rows,
        "columns of a tile": columns,
        "channels of a position": e["width"],
        "sums in registers": sums,
        "inputs of a tile an output": taken / (rows * columns),
        "rows of a tile to level 1": 4.0 * shape.width * shape.channels * (rows * shape.strides[0]) / level1,
        "everything to level 2": shape.moved / level2,
        "statements": statements,
        "taps written out": 1 + e["unroll"] * (taps - 1),
        "order of tiles": 1 + e["tiles"],
        "order of the window": 1 + e["window"],
    }
    bound = np.full(len(rows), shape.moved / MEMORY_BYTES_CYCLE / CLOCK_HERTZ)
    return estimates(limits, bound, quantities, e)
