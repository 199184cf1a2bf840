"""Direct convolutions on a GPU: blocks of threads that compute tiles of rows, columns and filters of an image.

A block fetches all inputs that the windows of its tile read, and the weights of several channels, into shared memory. A
thread computes several filters at several positions: it multiplies the weights with the elements of the windows, and
adds up the products in registers. Each input element is fetched once by a block. A product of matrices (`conv2d`)
fetches an element once for every tap that reads the element.
"""

from __future__ import annotations

from math import inf, prod

import numpy as np

from ...codegen.cuda.machine import GpuTarget
from ...ir.stmt import Program
from ...schedule import Schedule
from ...schedule.share_copy import Axes
from ...te.blocks import Pair
from ..columns import Columns, Values, one_point
from ..space import Axis, CostEstimates
from .conv2d import gathered_problem
from .direct_cost import Knobs, Layer, best_knobs, estimate_cost, layer_of
from .gemm_cost import MOST_UNROLLED, best_tile
from .split_axes import cut, drop_single, extent_of, loops_around, pack_digits, shape_of, unroll
from .tile import VECTOR, bind_blocks, fetch
from .tuned import Tuned, fields_of


def choose_knobs(target: GpuTarget, program: Program) -> Knobs:
    """The knobs that `schedule` uses by default for `program`, of any shape."""
    return best_knobs(target, layer_of(program))[0]


def is_faster(target: GpuTarget, program: Program) -> bool:
    """Whether the cost models expect the direct method to be faster than `conv2d`, a matrix product on gathered inputs
    (implicit GEMM).
    """
    if (seconds := seconds_of(target, program)) == inf:
        return False
    layer = layer_of(program)
    problem = gathered_problem(
        filters=layer.filters,
        positions=layer.batch * prod(layer.outputs),
        channels=layer.channels,
        taps=prod(layer.taps),
    )
    return seconds < best_tile(target, problem)[1]


def seconds_of(target: GpuTarget, program: Program) -> float:
    """Estimated seconds with `choose_knobs`; infinity if the direct method does not apply.

    It does not apply if the window has a single tap, if no tile fits into shared memory, or if the target may round
    factors to tf32 (`tensor_float`), for tensor cores.
    """
    layer = layer_of(program)
    if target.tensor_float or prod(layer.taps) == 1:
        return inf
    try:
        return best_knobs(target, layer)[1]
    except ValueError:
        return inf


def schedule(target: GpuTarget, program: Program, knobs: Knobs | None = None) -> Schedule:
    """Puts a program of `te.ops.direct_conv2d` into kernel form (all work inside loops over GPU blocks), tiled by
    `knobs` (default: `choose_knobs`). W is packed ahead into tiles (`schedule.pack`).

    Loops whose extent is no multiple of the tile's are padded (`schedule.pad`), and stores guarded. Raises ValueError
    for knobs below 1, or for another program.
    """
    layer = layer_of(program)
    knobs = knobs or choose_knobs(target, program)
    if min(getattr(knobs, name) for name in knobs.__slots__) < 1:
        raise ValueError(f"{knobs} are invalid: all sizes must be at least 1")
    s = Schedule(program)
    filters, rows, columns = knobs.tile
    channels = min(knobs.channels, layer.channels)
    counts = {
        "f": (knobs.threads_z, knobs.filters),
        "y": (knobs.rows, knobs.threads_y),
        "x": (knobs.columns, knobs.threads_x),
    }
    for loop, multiple in (("f", filters), ("y", rows), ("x", columns), ("c", channels)):
        s.pad(f"conv.{loop}", multiple)
    f0, tf, rf = _tiles(s, "conv.f", counts["f"])
    y0, ry, ty = _tiles(s, "conv.y", counts["y"])
    x0, rx, tx = _tiles(s, "conv.x", counts["x"])
    c0, c1 = s.split("conv.c", channels)
    kh, kw = "conv.kh", "conv.kw"
    s.reorder("conv.n", f0, y0, x0, c0, tf, ty, tx, c1, kh, kw, ry, rx, rf)
    last = _store(s, x0, knobs, counts)
    s.decompose_reduction("conv", c0)
    for stage in ("b", "a"):
        s.compute_at(stage, c0)
        s.set_scope(stage, "shared")
    # The weights of one tap for a thread's filters are adjacent: loaded as vectors.
    s.cache_read("a", kw, "register")
    bind_blocks(s, ["conv.n", f0], y0, x0)
    start = [f"{loop}.init" for loop in (tf, ty, tx, ry, rx, rf)]
    own = unrolled_loops(layer, knobs)
    steps = [loop for loop, whole in zip((c1, kh, kw), own, strict=True) if whole]
    for threads, others in ((start[:3], start[3:]), ((tf, ty, tx), (*steps, ry, rx, rf)), last):
        for loop, axis in zip(threads, ("thread.z", "thread.y", "thread.x"), strict=True):
            s.bind(loop, axis)
        unroll(s, others)
    drop_single(s, (c1, kh, kw))
    axes: Axes = (
        ("thread.z", knobs.threads_z),
        ("thread.y", knobs.threads_y),
        ("thread.x", knobs.threads_x),
    )
    for stage in ("b", "a"):
        fetch(s, stage, c0, axes, VECTOR, ("W",))
    if (ready := min(knobs.stages, extent_of(s, c0))) > 1:
        s.pipeline(c0, ready)
    return s


def unrolled_loops(layer: Layer, knobs: Knobs) -> tuple[bool, bool, bool]:
    """Whether each of three loops is unrolled: over the channels of a step, over the rows of a window, and over its
    columns.
    """
    positions = knobs.rows * knobs.columns
    # Multiply-adds of one tap, and the loads of their factors.
    written = positions * knobs.filters + positions + knobs.filters
    found: list[bool] = []
    for extent in (layer.taps[1], layer.taps[0], min(knobs.channels, layer.channels)):
        written *= extent
        found.append(written <= MOST_UNROLLED)
    return found[2], found[1], found[0]


def _tiles(s: Schedule, loop: str, counts: Pair) -> list[str]:
    """Splits a padded loop into a loop over blocks and two inner loops of `counts` iterations; returns their names."""
    return cut(s, loop, (extent_of(s, loop) // prod(counts), *counts))


def _store(
    s: Schedule, x0: str, knobs: Knobs, counts: dict[str, Pair]
) -> tuple[tuple[str, str, str], tuple[str, ...]]:
    """Moves the statement "post" into the loop `x0` over tiles, after the sums that "post" reads, and puts these sums
    in registers.

    `counts`: for each of the loops f, y and x, the extents of the two inner loops into which `_tiles` splits it.
    Returns two lists of the loops around "post": the loops that become threads, and the loops of a single thread inside
    them.
    """
    guards = [s.guard(loop, prod(counts[loop])) for loop in ("f", "y", "x")]
    guards = [loop for loop in guards if loop in loops_around(s, "post")]
    block_f, tf, rf = _tiles(s, "f", counts["f"])
    block_y, ry, ty = _tiles(s, "y", counts["y"])
    block_x, rx, tx = _tiles(s, "x", counts["x"])
    s.reorder("n", block_f, block_y, block_x, tf, ty, tx, rf, ry, rx, *guards)
    s.set_scope("sum", "register")
    for d, loop in ((3, "x"), (2, "y"), (1, "f")):
        pair = counts[loop]
        pack_digits(s, "sum", d, (shape_of(s, "sum")[d] // prod(pair), *pair))
    # Dimensions: image and blocks; threads along filters, rows and columns; a thread's own sums.
    s.pack("sum", (), (0, 1, 4, 7, 2, 6, 9, 3, 5, 8))
    s.reverse_compute_at("post", x0)
    for loop in ("n", block_f, block_y, block_x):
        s.peel(loop)
    return (tf, ty, tx), (rf, ry, rx)


AXES = (
    Axis(name="filters", values=(1, 2, 3, 4, 6, 8, 16)),
    Axis(name="rows", values=(1, 2, 4)),
    Axis(name="columns", values=(1, 2, 4, 8)),
    Axis(name="threads_z", values=(1, 2, 4, 8, 16, 32)),
    Axis(name="threads_y", values=(1, 2, 4, 7, 8, 16)),
    Axis(name="threads_x", values=(4, 5, 7, 8, 10, 14, 16, 28, 32)),
    Axis(name="channels", values=(1, 2, 3, 4, 8, 16, 32)),
    Axis(name="stages", values=(1, 2, 3, 4)),
)


def _effective(layer: Layer, points: Columns) -> dict[str, np.ndarray]:
    """Canonical form of points: each knob without effect is set to a fixed value, so that points with equal programs
    are equal.
    """
    e = dict(points)
    e["channels"] = np.minimum(e["channels"], layer.channels)
    e["stages"] = np.minimum(e["stages"], -(-layer.channels // e["channels"]))
    return e


def _cost(target: GpuTarget, layer: Layer, points: Columns) -> CostEstimates:
    return estimate_cost(target, layer, _effective(layer, points))


def _knobs_at(layer: Layer, values: Values) -> Knobs:
    found = _effective(layer, one_point(values))
    return Knobs(**{name: int(column[0]) for name, column in found.items()})


TUNED = Tuned(
    name="conv2d_direct_cuda",
    sizes=lambda workload: layer_of(workload.expression),
    axes=lambda _: AXES,
    cost=_cost,
    choose=lambda target, layer: best_knobs(target, layer)[0],
    knobs=_knobs_at,
    values=fields_of(AXES),
    schedule=lambda target, workload, knobs: schedule(target, workload.expression, knobs),
    floor_values={"channels": 1, "stages": 1},
)
