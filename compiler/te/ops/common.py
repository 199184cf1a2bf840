"""Common parts of the operators: buffers in blocks of channels, and the loops of the post-processing."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.expr import Buffer, Const, Expr, ExprLike, Var, minimum
from ...ir.stmt import Copy, Stmt, nest, region, whole
from ...ir.types import DType
from ..blocks import Blocks, Pads, Pair, Window, ceil_div
from ..post import PoolOperator, Post, Views, post_point

Area = tuple[int, int, int, int]
"""Rows and columns of an output as (first row, first column, end row, end column); ends are exclusive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One area of an output: its size `outputs`, and the inputs that it needs: `inputs` rows and columns from `start`
    on.

    Starts and sizes are (rows, columns). Inputs include pads, so starts may be negative.
    """

    start: Pair
    inputs: Pair
    outputs: Pair

    @staticmethod
    def of(window: Window, height: int, width: int, area: Area | None) -> Part:
        """The part for an `area` of a window operator's output (None: the whole output, with all pads)."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Outputs that are not adjacent: output (y, x) is at (y * `steps`[0], y * `pitch` + x * `steps`[1]) of a `plane`.

    With a `pitch`, rows of outputs are stored one after the other in a plane of a single row. The kernel's offset gives
    the position of the first output.
    """

    plane: Pair
    steps: Pair
    pitch: int = 0


CHAIN = "chain"
"""The scope of tensors in the chain memory, which the store unit writes and the array reads."""


def activation(
    name: str,
    shape: tuple[int, int, int, int],
    lanes: Pair,
    dtype: DType = DType.INT8,
    scope: str = "dram",
) -> Buffer:
    """A tensor of (batch blocks, channel blocks, rows, columns) vectors of `lanes` = (batch, channels)."""
    return Buffer(name=name, shape=(*shape, *lanes), dtype=dtype, scope=scope)


def padded_input(
    window: Window,
    part: Part,
    shape: tuple[int, int, int, int],
    lanes: Pair,
    *,
    pad_value: int,
    resident: bool,
) -> tuple[Buffer, Buffer, tuple[Stmt, ...]]:
    """The parameter X, the buffer that windows read, and the statement "pad" that fills the buffer.

    X has `shape` (batch blocks, channel blocks, rows, columns). The buffer is `padded`, the `part` of X with its pads;
    for a `resident` X it is X itself, which is in the chain memory with its pads.
    """
    blocks, (rows, columns) = shape[:2], part.inputs
    if resident:
        x_in = activation("X", (*blocks, *window.padded(*shape[2:])), lanes, scope=CHAIN)
        return x_in, x_in, ()
    x_in = activation("X", shape, lanes)
    padded = activation("padded", (*blocks, rows, columns), lanes)
    pad_to_blocks, all_lanes = ([(0, size) for size in sizes] for sizes in (blocks, lanes))
    source = region(x_in, *pad_to_blocks, (part.start[0], rows), (part.start[1], columns), *all_lanes)
    pad = Copy(name="pad", destination=whole(padded), source=source, pad=Const(pad_value, DType.INT8))
    return x_in, padded, (pad,)


def output_buffers(
    blocks: Blocks,
    shape: tuple[int, int, int, int],
    post: Post,
    apart: int = 1,
    margins: Pads | None = None,
    planes: bool = False,
    turned: bool = False,
) -> tuple[Buffer, Buffer, Buffer | None]:
    """The parameters P int32[OB, 2, co], Y int8[shape, B, co] and, if `post` combines with an operand, R like Y.

    `shape` is (images, OB, rows, columns), in output vectors. The `blocks.outputs` vectors of a position of a block are
    adjacent columns of Y. With `apart` above 1, Y has a further dimension of this size behind the columns. With
    `margins` Y is in the chain memory, surrounded by margins of (top, left, bottom, right) positions; with an operand
    all must be 0, since R and Y have the same layout. With `planes` R has a single position for each plane of Y. With
    `turned`, parameters and operand differ between columns but not between filters: P is int32[columns, 2, co], and R
    has a single block of filters.
    """
    lanes, (images, filters, rows, columns) = (blocks.batch, blocks.block_out), shape
    if filters % blocks.outputs:
        raise ValueError(f"{filters} blocks of filters are no multiple of the {blocks.outputs} of a position")
    stored = (images, filters // blocks.outputs, rows, columns * blocks.outputs)
    stored = (*stored, *(() if apart == 1 else (apart,)), *lanes)
    entries = columns if turned else filters
    parameters = Buffer(name="P", shape=(entries, 2, blocks.block_out), dtype=DType.INT32)
    like = (*stored[:2], 1, 1, *stored[4:]) if planes else stored
    like = (stored[0], 1, *stored[2:]) if turned else like
    operand = Buffer(name="R", shape=like, dtype=DType.INT8) if post.has_operand else None
    if margins is None:
        return parameters, Buffer(name="Y", shape=stored, dtype=DType.INT8), operand
    if operand is not None and any(margins):
        raise ValueError("an operand lies like the output, which has margins")
    top, left, bottom, right = margins
    around = (images, stored[1], rows + top + bottom, (columns + left + right) * blocks.outputs, *stored[4:])
    return parameters, Buffer(name="Y", shape=around, dtype=DType.INT8, scope=CHAIN), operand


def filter_vectors(blocks: Blocks, filters: int) -> Pair:
    """Output vectors of a position that hold some of `filters`, and those of whole blocks."""
    own = ceil_div(filters, blocks.block_out)
    return own, ceil_div(own, blocks.outputs) * blocks.outputs


def table_of(post: Post) -> Buffer | None:
    """The parameter T int8[256] if `post` has a table; else None."""
    return Buffer(name="T", shape=(256,), dtype=DType.INT8) if post.table else None


def post_nest(
    blocks: Blocks,
    accumulator: Buffer,
    buffers: tuple[Buffer, Buffer, Buffer | None],
    post: Post,
    window: Pair = (1, 1),
    strides: Pair = (1, 1),
    pool: PoolOperator = "max",
    area: Area | None = None,
    margins: Pads | None = None,
    spread: Spread | None = None,
    turned: bool = False,
    filters: int | None = None,
    neighbours: int = 1,
) -> Stmt:
    """Loops n, o, y, x around one output vector each; its window starts at accumulator row y * strides[0].

    With several output vectors in a block a loop "s" inside of them runs over those of a position; o counts blocks, and
    the accumulator may have a dimension for them behind that of blocks. Of all blocks `filters` (None: all) vectors of
    a position are stored; the others do not change.
    With `neighbours` above 1 x counts groups of `neighbours` columns, and a loop "xi" inside of it the columns of a
    group, for which the accumulator has a dimension behind the one of groups; windows are then single sums.
    With `area` only that part of the output is computed; y and x then count from its corner. `margins` are those of
    `output_buffers`, and so is `turned`. With `spread` the `area`, which is then required, is spread over the output.
    """
    parameters, out, operand = buffers
    n, o, y, x, xi, s = (Var(name) for name in ("n", "o", "y", "x", "xi", "s"))
    several = (xi,) if neighbours > 1 else ()
    outputs = blocks.outputs

    if area is None:
        area = (0, 0, out.shape[2], out.shape[3] // outputs)
        if margins is not None:
            area = (margins[0], margins[1], area[2] - margins[2], area[3] - margins[3])
    elif margins is not None:
        raise ValueError("a part of an output has no margins")
    top, left, bottom, right = area
    down = along = 1
    pitch = 0
    if spread is not None:
        bottom, right, top, left, (down, along) = bottom - top, right - left, 0, 0, spread.steps
        pitch = spread.pitch
    vector = o if outputs == 1 else o * outputs + s
    place = (o, s) if len(accumulator.shape) > 6 + len(several) else (vector,)

    def at(buffer: Buffer, b: Expr, j: Expr):
        row, column = y * down + top, y * pitch + x * along + left
        if several:
            column = column * neighbours + xi
        column = column if outputs == 1 else column * outputs + s
        first = (0,) * (len(buffer.shape) - 6)  # Strides of outputs that are not adjacent.
        if buffer.shape[2:4] == (1, 1) != out.shape[2:4]:
            return buffer[n, o, 0, 0, *first, b, j]
        return buffer[n, 0 if turned and buffer is operand else o, row, column, *first, b, j]

    views = Views(
        out=lambda b, j: at(out, b, j),
        accumulator=lambda r, c, b, j: accumulator[
            (n, *place, y * strides[0] + r, x * strides[1] + c, *several, b, j)
        ],
        parameter=lambda row, j: parameters[x if turned else vector, row, j],
        operand=None if operand is None else lambda b, j: at(operand, b, j),
        table=table_of(post),
    )
    point = post_point(blocks, views, post, window, pool)
    loops: list[tuple[Var, ExprLike]] = [(n, out.shape[0]), (o, out.shape[1]), (y, bottom - top)]
    loops += [(x, (right - left) // neighbours), *((xi, neighbours) for xi in several)]
    if outputs > 1:
        filters = out.shape[1] * outputs if filters is None else filters
        loops = [*loops, (s, vectors_of(o, outputs, filters))]
    return nest(loops, point)


def vectors_of(block: Expr, vectors: int, count: int) -> ExprLike:
    """Number of output vectors of a position in `block`: `vectors` in whole blocks; all blocks together
    have `count`.
    """
    if count % vectors == 0:
        return vectors
    return count if count < vectors else minimum(vectors, count - block * vectors)


def parameters_of(*buffers: Buffer | None) -> tuple[Buffer, ...]:
    """The buffers, without those that are None."""
    return tuple(b for b in buffers if b is not None)
