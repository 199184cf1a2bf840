"""The knobs of direct convolutions on a GPU, and the sizes of a layer."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.affine import linear_form
from ...ir.expr import Const, Expr, Var
from ...ir.named_nodes import find_loop
from ...ir.stmt import Program, Reduce
from ...ir.visit import loads_in, path_to
from ...te.blocks import Pair


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """The tiling of a direct convolution.

    A block has `threads_z` x `threads_y` x `threads_x` threads along filters, rows and columns. Each thread computes
    `filters` adjacent filters at `rows` x `columns` positions. Adjacent threads compute adjacent positions; so from one
    column of a thread to its next one the distance is `threads_x`, from row to row `threads_y`.

    A step processes `channels` channels. The inputs of `stages` steps are in shared memory at once. With one stage a
    step waits for its copies; with more stages, copies for later steps run meanwhile.
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
        """(filters, rows, columns) of a block's tile."""
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

    @property
    def spans(self) -> Pair:
        """Rows and columns of the input that a window covers."""
        (taps_y, taps_x), (dy, dx) = self.taps, self.dilations
        return (taps_y - 1) * dy + 1, (taps_x - 1) * dx + 1


def layer_of(program: Program) -> Layer:
    """The sizes of an unscheduled `te.ops.direct_conv2d`; raises ValueError for any other program."""
    try:
        conv = path_to(program, "conv")[-1]
    except LookupError:
        conv = None
    loads = {e.buffer.name: e for e in loads_in(conv.value)} if isinstance(conv, Reduce) else {}
    if not isinstance(conv, Reduce) or not {"a", "b"} <= loads.keys() or len(loads["b"].indices) != 4:
        raise ValueError(f"{program.name} is not a direct convolution of one group (te.ops.direct_conv2d)")
    channels = loads["a"].buffer.shape[0]
    batch, filters, *outputs = conv.buffer.shape
    taps = [find_loop(program, f"conv.{v}").extent for v in ("kh", "kw")]
    taps_y, taps_x = (int(extent.value) for extent in taps if isinstance(extent, Const))
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


def _step(index: Expr, loop: str) -> int:
    """The coefficient of the variable of `loop` in an index."""
    return linear_form(index).terms.get(Var(loop), 0)
