"""What the operators have in common: buffers of the blocked layout, and the loops of the post-processing."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.expr import Buffer, Expr, Var
from ...ir.stmt import Stmt, nest
from ...ir.types import DType
from ..blocks import Blocks, Pair, Window
from ..post import PoolOperator, Post, Views, post_point

Area = tuple[int, int, int, int]
"""Rows and columns of an output: (first row, first column, row behind the last, column behind the last)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What computing one area of an output takes: `outputs` of it, and the `inputs` from row and column `start` on.

    Starts and sizes are (rows, columns); inputs include pads, so starts may be negative.
    """

    start: Pair
    inputs: Pair
    outputs: Pair

    @staticmethod
    def of(window: Window, height: int, width: int, area: Area | None) -> Part:
        """The part that `area` (None: everything, all pads included) of a window operator's output stands for."""
        top, left, _, _ = window.pads
        if area is None:
            return Part(
                start=(-top, -left),
                inputs=window.padded(height, width),
                outputs=window.outputs(height, width),
            )
        first, last = area[:2], area[2:]
        outputs = (last[0] - first[0], last[1] - first[1])
        spans = [(k - 1) * d + 1 for k, d in zip(window.kernel, window.dilations, strict=True)]
        (sy, sx), (rows, columns) = window.strides, outputs
        return Part(
            start=(first[0] * sy - top, first[1] * sx - left),
            inputs=((rows - 1) * sy + spans[0], (columns - 1) * sx + spans[1]),
            outputs=outputs,
        )


def activation(name: str, shape: tuple[int, int, int, int], lanes: Pair, dtype: DType = DType.INT8) -> Buffer:
    """A tensor of (batch blocks, channel blocks, rows, columns) vectors of `lanes` = (batch, channels)."""
    return Buffer(name=name, shape=(*shape, *lanes), dtype=dtype)


def output_buffers(
    blocks: Blocks, shape: tuple[int, int, int, int], post: Post
) -> tuple[Buffer, Buffer, Buffer | None]:
    """The parameters P int32[OB, 2, co] and Y int8[shape, B, co], and R like Y where the combination has an operand."""
    lanes = (blocks.batch, blocks.block_out)
    parameters = Buffer(name="P", shape=(shape[1], 2, blocks.block_out), dtype=DType.INT32)
    operand = activation("R", shape, lanes) if post.has_operand else None
    return parameters, activation("Y", shape, lanes), operand


def post_nest(
    blocks: Blocks,
    accumulator: Buffer,
    buffers: tuple[Buffer, Buffer, Buffer | None],
    post: Post,
    window: Pair = (1, 1),
    strides: Pair = (1, 1),
    pool: PoolOperator = "max",
    area: Area | None = None,
) -> Stmt:
    """Loops n, o, y, x around one output vector each; its window starts at accumulator row y * strides[0].

    With `area` only that part of the output is computed; y and x then count from its corner.
    """
    parameters, out, operand = buffers
    n, o, y, x = Var("n"), Var("o"), Var("y"), Var("x")

    if area is None:
        area = (0, 0, out.shape[2], out.shape[3])
    top, left, bottom, right = area

    def at(buffer: Buffer, b: Expr, j: Expr):
        return buffer[n, o, y + top, x + left, b, j]

    views = Views(
        out=lambda b, j: at(out, b, j),
        accumulator=lambda r, c, b, j: accumulator[n, o, y * strides[0] + r, x * strides[1] + c, b, j],
        parameter=lambda row, j: parameters[o, row, j],
        operand=None if operand is None else lambda b, j: at(operand, b, j),
    )
    point = post_point(blocks, views, post, window, pool)
    extents = (out.shape[0], out.shape[1], bottom - top, right - left)
    return nest(list(zip((n, o, y, x), extents, strict=True)), point)


def parameters_of(*buffers: Buffer | None) -> tuple[Buffer, ...]:
    """The buffers that are there."""
    return tuple(b for b in buffers if b is not None)
