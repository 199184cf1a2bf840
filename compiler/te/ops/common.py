"""Common parts of the operators: buffers in blocks of channels, and the loops of the post-processing.

The operators and the hardware declaration of the store unit both call `post_point`, so that tensorization, which
compares the two expressions, finds them equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...ir.expr import Buffer, Const, Expr, ExprLike, Load, Var, all_of, equal, minimum
from ...ir.stmt import Alloc, Assign, Copy, Reduce, Stmt, nest, region, seq, whole
from ...ir.types import DType
from ..blocks import Blocks, Pads, Pair, Window, ceil_div
from ..post import PoolOperator, Post, post_value

Area = tuple[int, int, int, int]
"""Rows and columns of an output as (first row, first column, end row, end column); ends are exclusive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One area of an output, of size `outputs`, and the inputs that it reads: `inputs` rows and columns from `start`
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

    With a `pitch`, rows of outputs are stored one after the other in a plane of a single row. The place of output (0,
    0) in the tensor is the kernel's byte offset. With `adjacent`, Y has a single block of
    filters: block o of an output is stored o positions behind block 0.
    """

    plane: Pair
    steps: Pair
    pitch: int = 0
    adjacent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Memory and layout of an operator's tensors (input X, output Y, second operand R, parameters P of the
    post-processing), and the computed part of the output; default: whole tensors in DRAM.

    `area`: if given, only these rows and columns of the output are computed. `spread`: strides between the area's
    outputs in Y (requires `area`). `resident`: X is in the chain memory (on-chip, for tensors between layers), with its
    pads. `margins`: if given, Y is in the chain memory, with these (top, left, bottom, right) pads around it; with an
    R, all must be 0. `apart`: distance in vectors from one position to the next in X, Y and R. `planes`: R has a single
    position for each plane of Y. `turned`: P and R differ between columns but not between filters; P is
    int32[columns, 2, co], and R has a single block of filters. Raises ValueError if `area` and `margins` are given.
    """

    area: Area | None = None
    spread: Spread | None = None
    resident: bool = False
    margins: Pads | None = None
    apart: int = 1
    planes: bool = False
    turned: bool = False

    def __post_init__(self) -> None:
        if self.area is not None and self.margins is not None:
            raise ValueError("a placement with `area`, a part of an output, cannot have `margins`")


WHOLE = Placement()
"""The default placement: whole tensors in DRAM, with adjacent vectors."""

CHAIN = "chain"
"""Scope of tensors in the chain memory (on-chip, between layers): written by the store unit, read by the array."""


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

    X has `shape` (batch blocks, channel blocks, rows, columns) of vectors of `lanes` (batch, channels). The buffer is
    `padded`, the `part` of X with its pads; for a `resident` X the buffer is X itself, which is in the chain memory
    (on-chip memory for tensors between layers) with its pads, and there is no statement.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """The operands with which the accelerator computes one output vector, each as a function that returns one element.
    The element belongs to the image at index b of the batch and to channel j of the vector.

    `accumulator` takes (row in the window, column in the window, b, j). `parameter` takes (0 for the bias or 1 for the
    bits of the scale, j). `out` and `operand` take (b, j). `table`: the look-up table T.
    """

    out: Callable[[Expr, Expr], Load]
    accumulator: Callable[[Expr, Expr, Expr, Expr], Load]
    parameter: Callable[[Expr, Expr], Load]
    operand: Callable[[Expr, Expr], Load] | None
    table: Buffer | None = None


def post_point(
    blocks: Blocks,
    views: Views,
    post: Post,
    window: Pair = (1, 1),
    pool: PoolOperator = "max",
    *,
    ring: bool = False,
) -> Stmt:
    """The statements that compute one output vector: loops b, j (batch and channel in the vector) around the Assign
    "post".

    With a window of more than one position (row, column), a buffer `window` int32[batch, block_out] first receives the
    maximum or sum over the window, in loops window.b, window.j, r, window.c around the Reduce "pool". With `ring`, the
    rows of the window need not be contiguous in memory: row k has a Reduce of its own, "pool.k", in loops window.k.b,
    window.k.j, window.k.c.
    """
    lanes = (blocks.batch, blocks.block_out)
    if window == (1, 1) and not ring:
        return _finish(blocks, views, post, lambda b, j: views.accumulator(Const(0), Const(0), b, j))
    values = Buffer(name="window", shape=lanes, dtype=DType.INT32, scope="register")
    reductions: list[Stmt] = []
    for k in range(window[0] if ring else 1):
        row, several = (Const(k), []) if ring else (Var("r"), [(Var("r"), window[0])])
        part = f".{k}" if ring else ""
        b, j, c = (Var(f"window{part}.{v}") for v in "bjc")
        first = all_of(*(equal(r, 0) for r, _ in several), equal(c, 0)) if k == 0 else None
        reduce = Reduce.into(f"pool{part}", pool, values[b, j], views.accumulator(row, c, b, j), first)
        reductions.append(nest([(b, lanes[0]), (j, lanes[1]), *several, (c, window[1])], reduce))
    last_stage = _finish(blocks, views, post, lambda b, j: values[b, j])
    return Alloc(buffer=values, body=seq(*reductions, last_stage))


def _finish(blocks: Blocks, views: Views, post: Post, total: Callable[[Expr, Expr], Expr]) -> Stmt:
    """Loops b, j (batch and channel in the vector) around the Assign "post", which computes an output from
    `total(b, j)`, the maximum or sum of the accumulators.
    """
    b, j = Var("b"), Var("j")
    value = post_value(
        total(b, j) + views.parameter(Const(0), j),
        views.parameter(Const(1), j),
        views.operand(b, j) if views.operand is not None else None,
        post,
        views.table,
    )
    out = views.out(b, j)
    assign = Assign.to("post", out, value)
    return nest([(b, blocks.batch), (j, blocks.block_out)], assign)


_LOOPS = tuple(Var(name) for name in ("n", "o", "y", "x", "xi", "s"))
"""Variables of the loops that `Outputs.finish` makes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outputs:
    """The output of an operator with the tensors that its post-processing `post` reads.

    `parameters`: P int32[OB, 2, co] for OB blocks of filters. `out`: Y int8[images, OB, rows, columns, B, co] in output
    vectors. `operand`: R, shaped like Y, if `post` combines with an operand. `table`: T int8[256] if `post` has a
    table. If a block of channels has several output vectors, the vectors of one position are adjacent columns of Y.
    These are the shapes by default; `placement` may change P, Y and R.
    """

    blocks: Blocks
    post: Post
    placement: Placement
    parameters: Buffer
    out: Buffer
    operand: Buffer | None
    table: Buffer | None

    @staticmethod
    def of(
        blocks: Blocks, shape: tuple[int, int, int, int], post: Post, placement: Placement = WHOLE
    ) -> Outputs:
        """The tensors of an output of `shape` (images, OB, rows, columns), counted in output vectors and without
        margins.

        With `placement.apart` above 1, Y has one more dimension of this size, directly after the columns.
        """
        lanes, (images, filters, rows, columns) = (blocks.batch, blocks.block_out), shape
        if filters % blocks.outputs:
            raise ValueError(
                f"{filters} output vectors do not fill whole positions, each of which has {blocks.outputs} vectors"
            )
        between = () if placement.apart == 1 else (placement.apart,)
        adjacent = placement.spread is not None and placement.spread.adjacent
        own = 1 if adjacent else filters // blocks.outputs
        stored = (images, own, rows, columns * blocks.outputs, *between, *lanes)
        entries = columns if placement.turned else filters
        like = (*stored[:2], 1, 1, *stored[4:]) if placement.planes else stored
        like = (stored[0], 1, *stored[2:]) if placement.turned else like
        operand = Buffer(name="R", shape=like, dtype=DType.INT8) if post.has_operand else None
        out = Buffer(name="Y", shape=stored, dtype=DType.INT8)
        if placement.margins is not None:
            if operand is not None and any(placement.margins):
                raise ValueError("an output with `margins` cannot have a second operand of the same layout")
            top, left, bottom, right = placement.margins
            around = (rows + top + bottom, (columns + left + right) * blocks.outputs)
            out = Buffer(name="Y", shape=(*stored[:2], *around, *stored[4:]), dtype=DType.INT8, scope=CHAIN)
        return Outputs(
            blocks=blocks,
            post=post,
            placement=placement,
            parameters=Buffer(name="P", shape=(entries, 2, blocks.block_out), dtype=DType.INT32),
            out=out,
            operand=operand,
            table=Buffer(name="T", shape=(256,), dtype=DType.INT8) if post.table else None,
        )

    @property
    def buffers(self) -> tuple[Buffer | None, ...]:
        """The last parameters of a program: `P` (post-processing), `T` (table), `R` (operand), `Y` (output). `T` and
        `R` are None if the post-processing uses no table or no operand.
        """
        return self.parameters, self.table, self.operand, self.out

    @property
    def extent(self) -> Area:
        """The area of Y that is computed, without margins; spread outputs (`placement.spread`) count as adjacent."""
        area, margins = self.placement.area, self.placement.margins
        if area is not None:
            return area
        top, left, bottom, right = (0, 0, 0, 0) if margins is None else margins
        return top, left, self.out.shape[2] - bottom, self.out.shape[3] // self.blocks.outputs - right

    def finish(
        self,
        accumulator: Buffer,
        *,
        window: Window | None = None,
        pool: PoolOperator = "max",
        filters: int | None = None,
        neighbours: int = 1,
    ) -> Stmt:
        """Makes loops n (images), o (output vectors), y (rows), x (columns). Each iteration computes the `pool`
        (maximum or sum) of a window of sums in `accumulator`, applies `post` and stores one output vector.

        The `window` (None: single sums) of output (y, x) starts at row y * strides[0] and column x * strides[1] of the
        accumulator; its pads and dilations are ignored. If a block has several output vectors, o counts blocks, and an
        innermost loop "s" runs over the vectors of a position; the accumulator may have a dimension for s after the
        dimension for o. The first `filters` (None: all) vectors of a position, counted over all blocks, are stored; the
        others do not change. With `neighbours` above 1, windows are single sums, x counts groups of `neighbours`
        columns, and a loop "xi" inside of x runs over the columns of a group; the accumulator has a dimension for xi
        after the dimension for x. If only an area of Y is computed, y and x count from the area's first row and column.
        """
        window = Window(kernel=(1, 1)) if window is None else window
        outputs = self.blocks.outputs
        n, o, y, x, xi, s = _LOOPS
        several = (xi,) if neighbours > 1 else ()
        vector = o if outputs == 1 else o * outputs + s
        place = (o, s) if len(accumulator.shape) > 6 + len(several) else (vector,)
        (sy, sx), operand, turned = window.strides, self.operand, self.placement.turned
        spread = self.placement.spread
        views = Views(
            out=self._element(self.out, neighbours),
            accumulator=lambda r, c, b, j: accumulator[(n, *place, y * sy + r, x * sx + c, *several, b, j)],
            parameter=lambda row, j: self.parameters[x if turned else vector, row, j],
            operand=None if operand is None else self._element(operand, neighbours),
            table=self.table,
        )
        point = post_point(self.blocks, views, self.post, window.kernel, pool)
        top, left, bottom, right = self.extent
        loops: list[tuple[Var, ExprLike]] = [
            (n, self.out.shape[0]),
            (o, self.parameters.shape[0] if spread is not None and spread.adjacent else self.out.shape[1]),
            (y, bottom - top),
        ]
        loops += [(x, (right - left) // neighbours), *((xi, neighbours) for xi in several)]
        if outputs > 1:
            filters = self.out.shape[1] * outputs if filters is None else filters
            loops = [*loops, (s, vectors_of(o, outputs, filters))]
        return nest(loops, point)

    def _element(self, buffer: Buffer, neighbours: int) -> Callable[[Expr, Expr], Load]:
        """The function from (b, j) to element (b, j) of a vector of `buffer` (Y or R), in loops that `finish` makes."""
        n, o, y, x, xi, s = _LOOPS
        spread, outputs = self.placement.spread, self.blocks.outputs
        top, left, _, _ = self.extent if spread is None else (0, 0, 0, 0)
        (down, along), pitch = ((1, 1), 0) if spread is None else (spread.steps, spread.pitch)
        row, column = y * down + top, y * pitch + x * along + left
        if neighbours > 1:
            column = column * neighbours + xi
        column = column if outputs == 1 else column * outputs + s
        first = (0,) * (len(buffer.shape) - 6)  # Strides of outputs that are not adjacent.
        block = 0 if self.placement.turned and buffer is self.operand else o
        if spread is not None and spread.adjacent:
            column, block = column + o, 0
        if buffer.shape[2:4] == (1, 1) != self.out.shape[2:4]:
            row, column, block = Const(0), Const(0), o
        return lambda b, j: buffer[(n, block, row, column, *first, b, j)]


def filter_vectors(blocks: Blocks, filters: int) -> Pair:
    """Numbers of output vectors at one (row, column): vectors with a filter, and vectors of all blocks together."""
    own = ceil_div(filters, blocks.block_out)
    return own, ceil_div(own, blocks.outputs) * blocks.outputs


def vectors_of(block: Expr, vectors: int, count: int) -> ExprLike:
    """Number of output vectors at one position (row, column) in block number `block`: `vectors`, or fewer in the last
    block, so that all blocks together have `count`.
    """
    if count % vectors == 0:
        return vectors
    return count if count < vectors else minimum(vectors, count - block * vectors)
