"""A first convolution fused with the max-pool after it, with accumulator rows in a ring.

Windows of a 3x3 pool with stride 2 overlap by a row. Separate tiles would compute this row twice. With a ring of rows
that advances with the pool, every convolution result is computed once and never stored in DRAM.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.expr import Buffer, Const, Expr, Var, maximum, minimum
from ...ir.stmt import Alloc, Assign, Program, Reduce, Stmt, nest, parameters_of, seq
from ...ir.types import DType
from ..blocks import Window, ceil_div
from ..post import Post
from .common import Outputs, Views, post_point
from .patches import Patches

INT32_MIN = -(2**31)
"""Value of the pads of a max-pool over accumulators: the least int32, which never is the maximum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """The accumulator ring: `rows` rows of `pitch` vectors. In each row, `filters` blocks of filters have `width`
    vectors (columns) each; vectors beyond these are unused.
    """

    rows: int
    pitch: int
    filters: int
    width: int


def rings_of(
    pool: Window,
    outputs: tuple[int, int],
    *,
    filter_blocks: int,
    together: int,
    most_filters: int,
    acc_depth: int,
) -> tuple[Ring, ...]:
    """Candidate accumulator rings for a max-pool fused with a convolution, by ascending number of rows; none if the
    pool does not fit. `outputs`: (height, width) of the convolution's output; `acc_depth`: number of accumulator
    vectors.

    A ring row holds one row of several blocks of filters. The number of these blocks is a multiple of `together` and at
    most `most_filters`; `filter_blocks` is the number of all blocks. A ring has at least one row more than a window of
    the pool, so that the array can compute while a window is read; more rows let the array compute further ahead.

    Windows must overlap by as many rows as the pool has top pads, so that every step computes `stride` new rows. A
    window may continue from the last ring row to the first, so the number of rows must divide `acc_depth`.
    """
    width = (pool.outputs(*outputs)[1] - 1) * pool.strides[1] + pool.kernel[1]
    if pool.dilations != (1, 1) or pool.kernel[0] - pool.strides[0] != pool.pads[0]:
        return ()
    found: list[Ring] = []
    for rows in (least := 1 << pool.kernel[0].bit_length(), 2 * least):
        pitch = acc_depth // rows
        most, parts = min(most_filters, pitch // width) // together, filter_blocks // together
        if most >= 1 and acc_depth % rows == 0:
            filters = ceil_div(parts, ceil_div(parts, min(most, parts)))
            found.append(Ring(rows=rows, pitch=pitch, filters=filters * together, width=width))
    return tuple(found)


def patch_conv2d_pool(
    *,
    patches: Patches,
    pool: Window,
    ring: Ring,
    post: Post,
    name: str = "patch_conv2d_pool",
) -> Program:
    """A convolution of patches (gathered windows of the image), fused with the max-pool after it: Y = post(bias + the
    greatest sum of the convolution in each window of the pool).

    Parameters X, W, P are those of `patch_conv2d`. Y int8[NB, OB, PH, PW, B, co], and the operand R of the same shape
    if `post` has one, are as in `conv2d`. There are two intermediates: `patches` as in `patch_conv2d`, and the ring of
    accumulators `acc` int32[ring.rows, ring.pitch, B, co]. Let top and left be the pads of the pool. The sum at
    convolution row r and column x, of filter block o within its group, is in ring row (r + top) % ring.rows at vector o
    * ring.width + x + left. All other elements that the pool reads hold the least int32.

    The outer loops are og (groups of ring.filters filter blocks), n (images), and ty (rows of Y). For each row of Y,
    loops conv.y, conv.o and conv.x first fill the ring; conv.y runs over the convolution rows that no earlier row of Y
    has needed. Then loops o and x and, if a block has several output vectors, loop s compute the row of Y. If several
    output columns share a patch, conv.x runs over patches, and a loop conv.xi over the columns of a patch.

    If `patches.ring` is not None, patches are in a ring too, of `patches.ring` rows. Statement "ahead" gathers the
    first `layout.reach` rows of patches before loop ty; statement "patch" gathers one further row in each iteration of
    conv.y.
    """
    blocks, convolution, patch_rows = patches.blocks, patches.convolution, patches.ring
    batch, filters = convolution.batch, convolution.filters
    b_size, co = blocks.batch, blocks.block_out
    nb, ob = ceil_div(batch, b_size), ceil_div(filters, co)
    oh, ow = convolution.outputs
    ph, pw = pool.outputs(oh, ow)
    pool_top, pool_left = pool.pads[0], pool.pads[1]
    layout = patches.layout

    acc = Buffer(name="acc", shape=(ring.rows, ring.pitch, b_size, co), dtype=DType.INT32, scope="acc")
    outputs = Outputs.of(blocks, (nb, ob, ph, pw), post)
    parameters, out, operand = outputs.parameters, outputs.out, outputs.operand

    og, n, ty = Var("og"), Var("n"), Var("ty")
    members = _members(og, ob, ring.filters)
    columns = min(ow, ring.width - pool_left)
    row0 = ty * pool.strides[0]
    added: Expr = Const(pool.strides[0])
    below = oh < ph * pool.strides[0]  # The last windows extend below the last convolution row.
    if below:
        added = maximum(0, minimum(pool.strides[0], oh - row0))
    cy, o, x, xi, b, j = (Var(f"conv.{v}") for v in ("y", "o", "x", "xi", "b", "j"))
    row, sharing, reduction = row0 + cy, layout.columns, patches.reduction()
    column = x if sharing == 1 else x * sharing + xi
    conv = Reduce.into(
        "conv",
        "add",
        acc[(row + pool_top) % ring.rows, o * ring.width + column + pool_left, b, j],
        patches.product((n, row, x, b), og * ring.filters + o, j, reduction, None if sharing == 1 else xi),
        reduction.first,
    )
    positions = [(o, members), (x, layout.patch_columns(columns)), *([(xi, sharing)] if sharing > 1 else [])]
    summed = nest([*positions, (b, b_size), (j, co), *reduction.loops], conv)
    if patch_rows is None:
        convolve = nest([(cy, added)], summed)
    else:
        gathered = patches.gather_rows(n, row + layout.reach, 1)
        convolve = nest([(cy, added)], seq(gathered, summed))

    o, x, s, together = Var("o"), Var("x"), Var("s"), blocks.outputs
    several = together > 1
    mine = o * together + s if several else o
    block, column = og * (ring.filters // together) + o, x * together + s if several else x
    views = Views(
        out=lambda b, j: out[n, block, ty, column, b, j],
        accumulator=lambda r, c, b, j: acc[
            (row0 + r) % ring.rows, mine * ring.width + x * pool.strides[1] + c, b, j
        ],
        parameter=lambda part, j: parameters[og * ring.filters + mine, part, j],
        operand=None if operand is None else lambda b, j: operand[n, block, ty, column, b, j],
    )
    stored = [(o, _members(og, ob // together, ring.filters // together)), (x, pw)]
    finish = nest(
        [*stored, (s, together)] if several else stored,
        post_point(blocks, views, post, pool.kernel, ring=True),
    )

    fills = [_fill(acc, "border.top", (0, pool_top), ring.filters, (0, ring.width), ring.width)]
    fills += [
        _fill(acc, f"border.{side}", (0, ring.rows), ring.filters, span, ring.width)
        for side, span in (("left", (0, pool_left)), ("right", (pool_left + columns, ring.width)))
    ]
    step: list[Stmt] = [convolve]
    if below:
        step.append(_fill_below(acc, ring, row0 + pool_top + added, added, pool.strides[0]))
    if layout.reach and patch_rows is not None:
        fills.append(patches.gather_rows(n, Const(0), layout.reach, "ahead"))
    body = seq(*(fill for fill in fills if fill is not None), nest([(ty, ph)], seq(*step, finish)))
    groups = nest([(og, ceil_div(ob, ring.filters)), (n, nb)], Alloc(buffer=acc, body=body))
    if patch_rows is None:
        groups = seq(patches.gather_all(), groups)
    return Program(
        name=name,
        parameters=parameters_of(patches.image, patches.weight, parameters, operand, out),
        body=Alloc(buffer=patches.held, body=groups),
    )


def _members(group: Var, blocks: int, most: int) -> Expr:
    """Number of filter blocks in group number `group`: `most`, or fewer in the last group of all `blocks`."""
    return Const(most) if blocks % most == 0 else minimum(most, blocks - group * most)


def _fill(
    acc: Buffer, name: str, rows: tuple[int, int], filters: int, columns: tuple[int, int], width: int
) -> Stmt | None:
    """Loops that fill a part of the ring of accumulators with the least int32: ring rows `rows` and columns `columns`,
    both given as (first, end), of each of `filters` blocks of filters. A block has `width` columns in a ring row. None
    if the part is empty.
    """
    if rows[0] >= rows[1] or columns[0] >= columns[1]:
        return None
    y, o, x, b, j = (Var(f"{name}.{v}") for v in ("y", "o", "x", "b", "j"))
    fill = Assign.to(name, acc[y + rows[0], o * width + x + columns[0], b, j], Const(INT32_MIN, DType.INT32))
    extents = (rows[1] - rows[0], filters, columns[1] - columns[0], *acc.shape[2:])
    return nest(list(zip((y, o, x, b, j), extents, strict=True)), fill)


def _fill_below(acc: Buffer, ring: Ring, first: Expr, added: Expr, stride: int) -> Stmt:
    """Fills the ring rows below the last row of convolution outputs with the least int32, so that the max-pool ignores
    them. A step adds `stride` rows to the ring. Only `added` of these rows are convolution outputs; the other rows
    begin at row `first`.
    """
    y, x, b, j = (Var(f"border.bottom.{v}") for v in ("y", "x", "b", "j"))
    fill = Assign.to("border.bottom", acc[(first + y) % ring.rows, x, b, j], Const(INT32_MIN, DType.INT32))
    extents = (stride - added, ring.filters * ring.width, *acc.shape[2:])
    return nest(list(zip((y, x, b, j), extents, strict=True)), fill)
