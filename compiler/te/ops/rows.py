"""Softmax and normalization over all channels of each position (a row), in tiles of positions. The result for an
element is its share of the row (its softmax or normalized value).
"""

from __future__ import annotations

from dataclasses import dataclass

from vdla.isa.rows import DIFFERENCE_BITS

from ...ir.expr import Buffer, Call, Const, Expr, Var, all_of, cast, equal, maximum, select
from ...ir.stmt import (
    Alloc,
    Assign,
    Copy,
    Intrinsic,
    IntrinsicDeclaration,
    Program,
    Reduce,
    Stmt,
    nest,
    region,
    seq,
    whole,
)
from ...ir.types import DType
from ..blocks import Blocks, ceil_div
from ..post import Post, post_value
from .common import CHAIN

LEAST = -1 << (DIFFERENCE_BITS - 1)
"""Padding elements have this value when the maximum of a row is computed: the least signed number of DIFFERENCE_BITS
bits, so that no padding element exceeds an element of the row.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The kind and the constants of a row operator, which computes for each element of a row its share of the row.
    `look_up`: true for a softmax, with a table of exponentials; false for a normalization.

    `length`: number of elements of a row. The last block is padded; the padding is ignored, and its results are 0.
    `own`: each channel has its own post-processing parameters; else all channels have the same. The other fields are
    for normalizations: `zero_point` is subtracted from each element, and the mean if `centre` is set. `epsilon` and
    `epsilon_shift` (mantissa and shift) encode the number that is added to the variance.
    """

    look_up: bool
    length: int
    own: bool
    zero_point: int = 0
    centre: bool = False
    epsilon: int = 0
    epsilon_shift: int = 0


def rows_declaration(
    blocks: Blocks, count: int, positions: int, shares: Shares, post: Post, *, chained: bool = False
) -> IntrinsicDeclaration:
    """Declares the intrinsic that computes a tile of `positions` rows with `count` blocks of channels. Operands: the
    result out int8[count, positions, 1, co]; acc int32 of the same shape, the input; par int32[count, 2, co], the
    post-processing ([1, 2, co] unless `shares.own`); for softmax (`shares.look_up`) a table of exponentials, int8[768].

    With `chained`, out is in the chain memory (on-chip memory that keeps results for later operations), and par in the
    parameter table.
    """
    lanes = (count, positions, blocks.batch, blocks.block_out)
    entries = (count if shares.own else 1, 2, blocks.block_out)
    out = Buffer(name="out", shape=lanes, dtype=DType.INT8, scope=CHAIN if chained else "dram")
    acc = Buffer(name="acc", shape=lanes, dtype=DType.INT32, scope="acc")
    par = Buffer(name="par", shape=entries, dtype=DType.INT32, scope="par" if chained else "dram")
    table = Buffer(name="table", shape=(768,), dtype=DType.INT8)
    value, total = (
        Buffer(name=name, shape=(1,), dtype=DType.INT64, scope="register") for name in ("value", "total")
    )
    p, o, j = Var("p"), Var("o"), Var("j")

    def over_row(name: str, make: Stmt) -> Stmt:
        return nest([(Var(f"{name}.o"), count), (Var(f"{name}.j"), blocks.block_out)], make)

    def element(name: str) -> Expr:
        return cast(acc[Var(f"{name}.o"), p, 0, Var(f"{name}.j")], DType.INT64)

    def elements_only(at: tuple[Expr, Expr], value: Expr, other: int) -> Expr:
        if shares.length == count * blocks.block_out:
            return value
        return select(at[0] * blocks.block_out + at[1] < shares.length, value, Const(other, DType.INT64))

    def first(name: str) -> Expr:
        return all_of(equal(Var(f"{name}.o"), 0), equal(Var(f"{name}.j"), 0))

    def entry(x: Expr) -> Expr:
        place = (x - value[0]) % 256
        planes = [cast(table[place + 256 * plane,], DType.INT64) % 256 for plane in range(3)]
        return planes[0] + planes[1] * 256 + planes[2] * 65536

    def reduce(name: str, op, buffer: Buffer, element_value: Expr) -> Stmt:
        value = elements_only(
            (Var(f"{name}.o"), Var(f"{name}.j")), element_value, LEAST if op == "max" else 0
        )
        return over_row(name, Reduce.into(name, op, buffer[Const(0)], value, first(name)))

    x = cast(acc[o, p, 0, j], DType.INT64)
    if shares.look_up:
        statistics = seq(
            reduce("largest", "max", value, element("largest")),
            reduce("sum", "add", total, entry(element("sum"))),
        )
        w, root, below = entry(x), False, total[0]
    else:
        d = element("squares") - shares.zero_point
        statistics = seq(
            reduce("differences", "add", value, element("differences") - shares.zero_point),
            reduce("squares", "add", total, d * d),
        )
        mean = value[0] * int(shares.centre)
        w = (x - shares.zero_point) * shares.length - mean
        below = maximum(total[0] * shares.length - mean * mean + (shares.epsilon << shares.epsilon_shift), 0)
        root = True
    w = elements_only((o, j), w, 0)
    share = Call("row_share", (w, below, Const(root, DType.BOOL)), DType.INT32)
    own = o if shares.own else Const(0)
    result = post_value(share + par[own, 0, j], par[own, 1, j], None, post)
    finish = nest(
        [(o, count), (j, blocks.block_out)],
        Assign.to("share", out[o, p, Const(0), j], result),
    )
    body = nest([(p, positions)], Alloc(buffer=value, body=Alloc(buffer=total, body=seq(statistics, finish))))
    parameters = (out, acc, par, table) if shares.look_up else (out, acc, par)
    return IntrinsicDeclaration(name="rows", parameters=parameters, body=body)


def rows_attributes(shares: Shares, post: Post, lanes: int) -> tuple[tuple[str, int], ...]:
    """Attributes for code generation of the intrinsic `rows_declaration` (softmax or normalization), for blocks of
    `lanes` channels.
    """
    return (
        ("look_up", int(shares.look_up)),
        ("centre", int(shares.centre)),
        ("row_zero_point", shares.zero_point),
        ("length", 0 if shares.look_up else shares.length),
        ("epsilon", shares.epsilon),
        ("epsilon_shift", shares.epsilon_shift),
        ("lanes", shares.length % lanes),
        ("zero_point", post.zero_point),
        ("low", post.low),
        ("high", post.high),
    )


def rows(
    *,
    blocks: Blocks,
    images: int,
    positions: int,
    tile: int,
    shares: Shares,
    post: Post,
    plane: int | None = None,
    name: str = "rows",
) -> Program:
    """The program of a softmax or a normalization: Y = post(bias + share of X). A row is the set of all channels at one
    position. The share of an element is its softmax or its normalized value within its row.

    The positions are computed in tiles of `tile`; the last tile may be smaller. For each tile, statement "widen" copies
    the elements to the accumulators, and statement "rows" computes the results.

    The parameters of the program are as follows. `co` is the number of channels in a block (`blocks.block_out`), and
    `count` = ceil(`shares.length` / co) is the number of blocks in a row.

    - X: the input, int8[images, count, positions, 1, co].
    - P: the post-processing, int32[count, 2, co] if each channel has its own parameters (`shares.own`), else int32[1,
      2, co].
    - T: a table of exponentials, int8[768]; only for softmax.
    - Y: the output, shaped like X. If `plane` is given, Y has room for `plane` positions; only the first `positions`
      are written.
    """
    lanes, count = (blocks.batch, blocks.block_out), ceil_div(shares.length, blocks.block_out)
    x_in, y_out = (
        Buffer(name=name, shape=(images, count, size, *lanes), dtype=DType.INT8)
        for name, size in (("X", positions), ("Y", positions if plane is None else plane))
    )
    parameters = Buffer(name="P", shape=(count if shares.own else 1, 2, lanes[1]), dtype=DType.INT32)
    table = Buffer(name="T", shape=(768,), dtype=DType.INT8)
    attributes = rows_attributes(shares, post, lanes[1])

    def part(suffix: str, first: Expr, size: int, loops: list[tuple[Var, int]]) -> Stmt:
        n = loops[0][0]
        acc = Buffer(name=f"acc{suffix}", shape=(count, size, *lanes), dtype=DType.INT32, scope="acc")
        box = [(n, 1), (0, count), (first, size), *((0, lane) for lane in lanes)]
        widen = Copy(name=f"widen{suffix}", destination=whole(acc), source=region(x_in, *box))
        operands = [region(y_out, *box), whole(acc), whole(parameters)]
        share = Intrinsic(
            name=f"rows{suffix}",
            declaration=rows_declaration(blocks, count, size, shares, post),
            operands=(*operands, *([whole(table)] if shares.look_up else [])),
            attributes=attributes,
        )
        return nest(loops, Alloc(buffer=acc, body=seq(widen, share)), "virtual_thread")

    whole_tiles, rest = divmod(positions, tile)
    parts: list[Stmt] = []
    if whole_tiles:
        t = Var("t")
        parts.append(part("", t * tile, tile, [(Var("n"), images), (t, whole_tiles)]))
    if rest:
        parts.append(part(".rest", Const(whole_tiles * tile), rest, [(Var("n.rest"), images)]))
    buffers = (x_in, parameters, table, y_out) if shares.look_up else (x_in, parameters, y_out)
    return Program(name=name, parameters=buffers, body=seq(*parts))
