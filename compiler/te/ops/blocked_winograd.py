"""Winograd's method for processors, over activations in blocks of channels; `te.ops.winograd` describes the method.

Between the two programs of this module, a 1 x 1 convolution computes the n * n matrix products. The convolution has a
group for each of the n * n positions in a tile; its input has one row, with a column for each tile.
"""

from __future__ import annotations

from ...ir.expr import Buffer, Const, Expr, Load, Var, all_of, minimum, select
from ...ir.stmt import Alloc, Assign, Program, Stmt, allocated, nest, seq
from ...ir.types import DType
from ..blocks import Pair, ceil_div
from .convolution import WINOGRAD_TAPS, Convolution, suits_winograd, tile_counts
from .sums import Epilogue, program_of
from .winograd import applied, transforms


def blocked_tiles(shape: Convolution, m: int, *, block: int) -> Program:
    """Transforms the input of a convolution by Winograd's method: B^T d B for each tile d of n x n inputs, n = m + 2.

    Parameters, both float32 and zero beyond the channels: X [batch, blocks of channels, height, width, block]; Y [n *
    n, blocks, tiles, block]. Tiles of m x m outputs are numbered row by row over all images.

    Loops n, c and y (images, blocks, rows of tiles) contain two stages. The first stage computes B^T d in the buffer
    `half` [n, columns, block]: statements "left" and "right" set the padding columns to zero; statements "rows.0",
    "rows.1", … (one for each row of B^T, in loops x, j) compute the other columns from rows of X. The second stage
    multiplies by B: statements "columns.0", "columns.1", … (loops i, t, l) combine columns of `half` into Y.

    Raises ValueError for a convolution that `suits_winograd` rejects, or a window that does not fit.
    """
    if not suits_winograd(shape):
        raise ValueError(f"Winograd's method is for 3 x 3 taps with stride 1 and one group, not for {shape}")
    n, matrix = m + WINOGRAD_TAPS - 1, transforms(m).inputs
    high, wide = tile_counts(m, shape)
    top, left, _, _ = shape.window.pads
    blocks, columns = ceil_div(shape.channels, block), wide * m + WINOGRAD_TAPS - 1
    x_in = _buffer("X", shape.batch, blocks, shape.height, shape.width, block)
    y_out = _buffer("Y", n * n, blocks, shape.batch * high * wide, block)
    half = _buffer("half", n, columns, block)
    image, c, y, x, j, t, i, lane = (Var(v) for v in ("n", "c", "y", "x", "j", "t", "i", "l"))

    def read(k: Expr) -> Expr:
        row = y * m + k - top
        at = Load(x_in, (image, c, row, x, j))
        return select(all_of(row >= 0, row < shape.height), at, Const(0.0, DType.FLOAT32))

    inside = min(shape.width, columns - left)
    rows = applied("rows", matrix, half, lambda q: (q, x + left, j), read)
    across = applied(
        "columns",
        matrix,
        y_out,
        lambda q: (i * n + q, c, (image * high + y) * wide + t, lane),
        lambda k: half[i, t * m + k, lane],
    )
    body = [
        *_zeros("left", half, 0, left),
        *_zeros("right", half, left + inside, columns - left - inside),
        nest([(x, inside), (j, block)], rows),
        nest([(i, n), (t, wide), (lane, block)], across),
    ]
    around = [(image, shape.batch), (c, blocks), (y, high)]
    return program_of("winograd_tiles", (x_in, y_out), (), nest(around, Alloc(buffer=half, body=seq(*body))))


def blocked_outputs(
    *, batch: int, filters: int, outputs: Pair, m: int, block: int, epilogue: Epilogue | None = None
) -> Program:
    """The outputs of a convolution from the products of its tiles: epilogue(A^T p A) for each tile's n x n products p.

    Parameters, all float32: X [n * n, blocks of filters, tiles, block]; B [blocks * block] if the epilogue adds a bias;
    R, of Y's shape, if it adds an operand; Y [batch, blocks, OH, OW, block], which is zero beyond the filters. In loops
    n, f, y, t (a tile), statements "rows" (loops q, j) write combinations of rows of X to `half` [m, n, block], and
    statements "columns" (loops r, k) combinations of columns of `half` to `result` [m, m, block]; statement "store"
    (loops dy, dx, l) writes Y. Raises ValueError for m without matrices (`winograd.OUTPUTS`).
    """
    n, matrix = m + WINOGRAD_TAPS - 1, transforms(m).outputs
    oh, ow = outputs
    high, wide = ceil_div(oh, m), ceil_div(ow, m)
    blocks = ceil_div(filters, block)
    x_in = _buffer("X", n * n, blocks, batch * high * wide, block)
    y_out = _buffer("Y", batch, blocks, oh, ow, block)
    operands = (epilogue or Epilogue()).buffers((blocks * block,), y_out)
    half, result = (_buffer(v, m, size, block, scope="register") for v, size in (("half", n), ("result", m)))
    image, f, y, t = (Var(v) for v in ("n", "f", "y", "t"))
    q, j, r, k, dy, dx, lane = (Var(v) for v in ("q", "j", "r", "k", "dy", "dx", "l"))
    tile = (image * high + y) * wide + t
    rows = applied("rows", matrix, half, lambda p: (p, q, j), lambda s: x_in[s * n + q, f, tile, j])
    columns = applied("columns", matrix, result, lambda p: (r, p, k), lambda s: half[r, s, k])
    at = (image, f, y * m + dy, t * m + dx, lane)
    value = operands.value(result[dy, dx, lane], (f * block + lane,), at)
    if filters % block:
        value = select(f * block + lane < filters, value, Const(0.0, DType.FLOAT32))
    store = Assign.to("store", y_out[at], value)
    inside = [
        (v, Const(m) if size % m == 0 else minimum(m, size - start * m))
        for v, size, start in ((dy, oh, y), (dx, ow, t))
    ]
    body = seq(
        nest([(q, n), (j, block)], rows),
        nest([(r, m), (k, block)], columns),
        nest([*inside, (lane, block)], store),
    )
    around = [(image, batch), (f, blocks), (y, high), (t, wide)]
    return program_of(
        "winograd_outputs",
        (x_in, operands.bias, operands.operand, y_out),
        (),
        nest(around, allocated((half, result), body)),
    )


def _buffer(name: str, *shape: int, scope: str = "dram") -> Buffer:
    return Buffer(name=name, shape=shape, dtype=DType.FLOAT32, scope=scope)


def _zeros(name: str, half: Buffer, first: int, count: int) -> list[Stmt]:
    """Statements that set `count` columns of `half`, from `first` on, to zero: columns outside of the input."""
    if count <= 0:
        return []
    rows, _, block = half.shape
    i, x, j = (Var(f"{name}.{v}") for v in ("i", "x", "j"))
    zero = Assign.to(name, half[i, x + first, j], Const(0.0, DType.FLOAT32))
    return [nest([(i, rows), (x, count), (j, block)], zero)]
