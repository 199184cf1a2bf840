"""Direct convolutions on a GPU: blocks of threads that compute tiles of rows, columns and filters of an image.

A block fetches what a tile's windows read, with its halo, and the weights of some channels into shared memory; a thread
multiplies each of its filters' weights with each of its positions' elements, and keeps the sums in registers. That
fetches an element once where a product of matrices (`conv2d`) gathers it once for every tap that reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...ir.affine import linear_form
from ...ir.expr import Buffer, Expr, Var
from ...ir.stmt import Program, Reduce
from ...ir.visit import loads_in, path_to
from ...schedule import Schedule
from ...schedule.share_copy import Axes
from ...target.cuda.machine import CudaTarget
from ...te.blocks import Pair
from .digits import cut, drop_single, extent_of, loops_around, pack_digits, shape_of, unroll
from .gemm_account import MOST_UNROLLED
from .tile import VECTOR, bind_blocks, fetch


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """How a direct convolution is cut up.

    A block has `threads_z` x `threads_y` x `threads_x` threads along filters, rows and columns, each of which computes
    `filters` neighbouring filters of `rows` x `columns` positions; these are apart by the threads along their axis, so
    that neighbouring threads read neighbours. A step takes so many `channels`; `stages` steps are in shared memory at
    once: one waits for its copies, of more the copies run ahead.
    """

    threads_z: int
    threads_y: int
    threads_x: int
    filters: int
    rows: int
    columns: int
    channels: int
    stages: int = 2

    @property
    def tile(self) -> tuple[int, int, int]:
        """Filters, rows and columns of a block."""
        return self.threads_z * self.filters, self.threads_y * self.rows, self.threads_x * self.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The sizes of a `te.ops.direct_conv2d`; pairs are (rows, columns)."""

    batch: int
    channels: int
    filters: int
    outputs: Pair
    taps: Pair
    strides: Pair
    dilations: Pair

    def inputs(self, rows: int, columns: int) -> Pair:
        """Rows and columns of the input that a tile of so many outputs reads."""
        spans = [(k - 1) * d + 1 for k, d in zip(self.taps, self.dilations, strict=True)]
        return (rows - 1) * self.strides[0] + spans[0], (columns - 1) * self.strides[1] + spans[1]


def layer_of(program: Program) -> Layer:
    """The sizes of a `te.ops.direct_conv2d` that is not scheduled yet; ValueError for any other program."""
    try:
        conv = path_to(program, "conv")[-1]
    except KeyError:
        conv = None
    loads = {e.buffer.name: e for e in loads_in(conv.value)} if isinstance(conv, Reduce) else {}
    if not isinstance(conv, Reduce) or not {"a", "b"} <= loads.keys() or len(loads["a"].indices) != 4:
        raise ValueError(f"{program.name} is no direct convolution of one group (te.ops.direct_conv2d)")
    weights: Buffer = loads["a"].buffer
    channels, taps_y, taps_x, filters = weights.shape
    batch, _, *outputs = conv.buffer.shape
    steps = [
        [_step(index, f"conv.{v}") for v in pair]
        for index, pair in zip(loads["b"].indices[2:], (("y", "kh"), ("x", "kw")), strict=True)
    ]
    (sy, dy), (sx, dx) = steps
    return Layer(
        batch=batch,
        channels=channels,
        filters=filters,
        outputs=(outputs[0], outputs[1]),
        taps=(taps_y, taps_x),
        strides=(sy, sx),
        dilations=(dy, dx),
    )


def schedule_direct(program: Program, knobs: Knobs) -> Schedule:
    """`te.ops.direct_conv2d` cut up as `knobs` say, in kernel form; W is packed, see `schedule.pack`.

    Loops whose extents are no multiples of the tile's are padded (`schedule.pad`), and stores guarded. ValueError for
    knobs below 1, or if the program is another one.
    """
    layer = layer_of(program)
    if min(getattr(knobs, name) for name in knobs.__slots__) < 1:
        raise ValueError(f"{knobs} cut up no convolution: all sizes are at least 1")
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
    # The weights of a tap are as many neighbours as a thread has filters: vectors.
    s.cache_read("a", kw, "register")
    bind_blocks(s, ["conv.n", f0], y0, x0)
    start = [f"{loop}.init" for loop in (tf, ty, tx, ry, rx, rf)]
    own = written_out(layer, knobs)
    steps = [loop for loop, whole in zip((c1, kh, kw), own, strict=True) if whole]
    # An order of copies of weights that threads of one filter share.
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


def written_out(layer: Layer, knobs: Knobs) -> tuple[bool, bool, bool]:
    """Whether the loops over a step's channels, its window's rows and its columns are unrolled, the last ones first."""
    products = knobs.filters * knobs.rows * knobs.columns
    found: list[bool] = []
    for extent in (layer.taps[1], layer.taps[0], min(knobs.channels, layer.channels)):
        products *= extent
        found.append(products <= MOST_UNROLLED)
    return found[2], found[1], found[0]


def _tiles(s: Schedule, loop: str, counts: Pair) -> list[str]:
    """A padded loop as one over blocks, and those of `counts`."""
    return cut(s, loop, (extent_of(s, loop) // prod(counts), *counts))


def _store(
    s: Schedule, x0: str, knobs: Knobs, counts: dict[str, Pair]
) -> tuple[tuple[str, str, str], tuple[str, ...]]:
    """Moves "post" behind the tile that it takes, which goes to registers; its loops over threads, and those in them."""
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
    # Image and blocks; threads along filters, rows and columns; a thread's own.
    s.pack("sum", (), (0, 1, 4, 7, 2, 6, 9, 3, 5, 8))
    s.reverse_compute_at("post", x0)
    for loop in ("n", block_f, block_y, block_x):
        s.peel(loop)
    return (tf, ty, tx), (rf, ry, rx)


def _step(index: Expr, loop: str) -> int:
    """What an index grows by with a variable."""
    return linear_form(index).terms.get(Var(loop), 0)
