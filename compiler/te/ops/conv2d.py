"""Convolution over blocked activations."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.expr import Buffer, Const, Var, all_of, cast, equal
from ...ir.stmt import Alloc, Assign, Copy, Program, Reduce, Stmt, nest, region, seq, whole
from ...ir.types import DType
from ..blocks import Blocks, Pair, Window, ceil_div
from ..post import Post
from .common import activation, output_buffers, parameters_of, post_nest

INT32_MIN = -(2**31)


def conv2d(
    *,
    blocks: Blocks,
    batch: int,
    channels: int,
    height: int,
    width: int,
    filters: int,
    window: Window,
    pad_value: int,
    post: Post,
    pool: Window | None = None,
    name: str = "conv2d",
) -> Program:
    """Y = post(bias + sum over the window of W * X), positions outside X reading as `pad_value`.

    Parameters, with B, ci, co = `blocks`, NB = ceil(batch / B), CB and OB the channel blocks:
    X int8[NB, CB, H, W, B, ci], W int8[OB, CB, KH, KW, co, ci], P int32[OB, 2, co] (row 0 the biases, row 1 the bits of
    the float32 scales), R int8 like Y where `post` combines with an operand, Y int8[NB, OB, OH, OW, B, co].
    Intermediates: `padded` (statement "pad") and `acc` (statement "conv").

    With `pool` the maximum over its windows (dilation 1) comes before `post`, and Y has the pool's size. `acc` then
    holds the pool's pads too: statements "border.top", "border.left", … fill them with the least int32.
    ValueError if a window does not fit.
    """
    b_size, ci, co = blocks.batch, blocks.block_in, blocks.block_out
    nb, cb, ob = ceil_div(batch, b_size), ceil_div(channels, ci), ceil_div(filters, co)
    (kh_size, kw_size), (sy, sx), (dy, dx) = window.kernel, window.strides, window.dilations
    top, left, _, _ = window.pads
    rows, columns = window.padded(height, width)
    oh, ow = window.outputs(height, width)

    x_in = activation("X", (nb, cb, height, width), (b_size, ci))
    weight = Buffer(name="W", shape=(ob, cb, kh_size, kw_size, co, ci), dtype=DType.INT8)
    padded = activation("padded", (nb, cb, rows, columns), (b_size, ci))
    pad = Copy(
        name="pad",
        destination=whole(padded),
        source=region(x_in, (0, nb), (0, cb), (-top, rows), (-left, columns), (0, b_size), (0, ci)),
        pad=Const(pad_value, DType.INT8),
    )

    ring = Ring.of(pool, oh, ow)
    acc = activation("acc", (nb, ob, *ring.shape), (b_size, co), DType.INT32)
    n, o, y, x, b, j = (Var(f"conv.{v}") for v in ("n", "o", "y", "x", "b", "j"))
    ic, kh, kw, k = (Var(f"conv.{v}") for v in ("ic", "kh", "kw", "k"))
    data = padded[n, ic, y * sy + kh * dy, x * sx + kw * dx, b, k]
    conv = Reduce(
        name="conv",
        op="add",
        buffer=acc,
        indices=acc[n, o, y + ring.top, x + ring.left, b, j].indices,
        value=cast(data, DType.INT32) * cast(weight[o, ic, kh, kw, j, k], DType.INT32),
        first=all_of(equal(ic, 0), equal(kh, 0), equal(kw, 0), equal(k, 0)),
    )
    spatial = [(n, nb), (o, ob), (y, ring.rows), (x, ring.columns), (b, b_size), (j, co)]
    summed = nest([*spatial, (ic, cb), (kh, kh_size), (kw, kw_size), (k, ci)], conv)

    size = (oh, ow) if pool is None else pool.outputs(oh, ow)
    outputs = output_buffers(blocks, (nb, ob, *size), post)
    finish = post_nest(
        blocks,
        acc,
        outputs,
        post,
        window=(1, 1) if pool is None else pool.kernel,
        strides=(1, 1) if pool is None else pool.strides,
    )
    body = seq(pad, *ring.fills(acc), summed, finish)
    parameters, out, operand = outputs
    return Program(
        name=name,
        parameters=parameters_of(x_in, weight, parameters, operand, out),
        body=Alloc(buffer=padded, body=Alloc(buffer=acc, body=body)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """Where convolution results lie among the positions that a pool over them reads.

    `shape` rows and columns in all, of which `rows` x `columns` from (`top`, `left`) on are results, the rest pads.
    """

    shape: Pair
    top: int
    left: int
    rows: int
    columns: int

    @staticmethod
    def of(pool: Window | None, rows: int, columns: int) -> Ring:
        """The ring for a pool (None: no pads) over `rows` x `columns` results; those that no window reads fall away."""
        if pool is None:
            return Ring(shape=(rows, columns), top=0, left=0, rows=rows, columns=columns)
        if pool.dilations != (1, 1):
            raise ValueError("a pool with dilations cannot follow a convolution directly")
        counts = pool.outputs(rows, columns)
        shape = (
            (counts[0] - 1) * pool.strides[0] + pool.kernel[0],
            (counts[1] - 1) * pool.strides[1] + pool.kernel[1],
        )
        top, left = pool.pads[0], pool.pads[1]
        return Ring(
            shape=shape,
            top=top,
            left=left,
            rows=min(rows, shape[0] - top),
            columns=min(columns, shape[1] - left),
        )

    def fills(self, acc: Buffer) -> list[Stmt]:
        """Statements that fill the pads with the least int32: boxes above, below, left and right of the results."""
        bottom, right = self.top + self.rows, self.left + self.columns
        height, width = self.shape
        boxes = {
            "top": ((0, self.top), (0, width)),
            "bottom": ((bottom, height - bottom), (0, width)),
            "left": ((self.top, self.rows), (0, self.left)),
            "right": ((self.top, self.rows), (right, width - right)),
        }
        return [
            _fill(acc, f"border.{side}", *box)
            for side, box in boxes.items()
            if box[0][1] > 0 and box[1][1] > 0
        ]


def _fill(acc: Buffer, name: str, rows: Pair, columns: Pair) -> Stmt:
    n, o, y, x, b, j = (Var(f"{name}.{v}") for v in ("n", "o", "y", "x", "b", "j"))
    fill = Assign(
        name=name,
        buffer=acc,
        indices=acc[n, o, y + rows[0], x + columns[0], b, j].indices,
        value=Const(INT32_MIN, DType.INT32),
    )
    extents = (acc.shape[0], acc.shape[1], rows[1], columns[1], acc.shape[4], acc.shape[5])
    return nest(list(zip((n, o, y, x, b, j), extents, strict=True)), fill)
