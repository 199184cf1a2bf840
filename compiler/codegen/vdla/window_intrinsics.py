"""Loop IR bodies of depthwise products, loads of patches, and stores over a ring of rows."""

from __future__ import annotations

from vdla.isa.array_modes import TAPS
from vdla.isa.config import Config

from ...ir.expr import FIRST, Buffer, Const, Expr, Load, Var, all_of, cast, equal
from ...ir.stmt import IntrinsicDeclaration, Reduce, nest
from ...ir.types import DType
from ...te.blocks import Blocks, Pair
from ...te.ops.common import Views, rolling_point
from ...te.ops.patches import patch_declaration
from ...te.post import Post


def depthwise(
    config: Config, scope: str = "inp", positions: int = 1, zero_points: Pair = (0, 0)
) -> IntrinsicDeclaration:
    """The intrinsic of a depthwise product: for each lane, acc += the sum of inp * wgt over `positions` neighbouring
    positions (pixels) of a window; "=" in place of "+=" where FIRST is true. The instruction is DEPTHWISE for one
    position, and TAPS for several.

    Let B, ci and co be batch, block_in and block_out. The operands are acc: int32[B, co], inp: int8[positions, B, co]
    and wgt: int8[positions, co]; for a single position, inp and wgt have no position dimension. If co = r * ci with r >
    1, the lanes of one position take r input vectors and r rows of weights: inp is int8[positions * r, B, ci], and wgt
    is int8[positions * r, ci]. If co is a divisor of ci, inp and wgt have only co of the ci lanes of a vector.

    `scope`: memory of inp, the input scratchpad or the chain memory (on-chip memory between layers). `zero_points`:
    values to subtract from inp and from wgt; if they are not 0, the intrinsic needs `intrinsics.gemm_attributes`.
    """
    b_size, lanes = config.batch, config.block_out
    vectors, narrow = config.position_inputs, min(config.block_in, lanes)
    count = positions * vectors
    # A single vector has no dimension of its own.
    of = () if count == 1 else (count,)
    acc = Buffer(name="acc", shape=(b_size, lanes), dtype=DType.INT32, scope="acc")
    inp = Buffer(name="inp", shape=(*of, b_size, narrow), dtype=DType.INT8, scope=scope)
    wgt = Buffer(name="wgt", shape=(*of, narrow), dtype=DType.INT8, scope="wgt")
    t, b, j = Var("t"), Var("b"), Var("j")
    number = t if vectors == 1 else (t * vectors + j // narrow if positions > 1 else j // narrow)
    lane = j if vectors == 1 else j % narrow
    at = () if count == 1 else (number,)
    left = cast(inp[(*at, b, lane)], DType.INT32) - zero_points[0]
    product = left * (cast(wgt[(*at, lane)], DType.INT32) - zero_points[1])
    name, loops, first = "depthwise", [(b, b_size), (j, lanes)], FIRST
    if positions > 1:
        name, loops, first = "taps", [(t, positions), *loops], all_of(FIRST, equal(t, 0))
    reduce = Reduce(name=name, op="add", buffer=acc, indices=(b, j), value=product, first=first)
    return IntrinsicDeclaration(name=name, parameters=(acc, inp, wgt), body=nest(loops, reduce))


def taps(config: Config, scope: str = "inp", zero_points: Pair = (0, 0)) -> IntrinsicDeclaration:
    """The intrinsic of instruction TAPS, which adds the products of several neighbouring positions of a window, lane by
    lane: `depthwise` with the number of positions that the hardware multiplies at once.
    """
    return depthwise(config, scope, TAPS, zero_points)


def post_rows(config: Config, constants: Post, window: Pair) -> IntrinsicDeclaration:
    """The intrinsic of a STORE.POST that takes the maximum over a window. Each row r of the window is an operand of its
    own, acc.r int32[columns, B, co], because the rows form a ring and need not be adjacent in the accumulators. In all
    other respects the intrinsic is that of `intrinsics.post`.
    """
    lanes = (config.batch, config.block_out)
    out = Buffer(name="out", shape=lanes, dtype=DType.INT8)
    rows = [
        Buffer(name=f"acc.{r}", shape=(window[1], *lanes), dtype=DType.INT32, scope="acc")
        for r in range(window[0])
    ]
    par = Buffer(name="par", shape=(2, lanes[1]), dtype=DType.INT32, scope="par")
    operand = Buffer(name="operand", shape=lanes, dtype=DType.INT8) if constants.has_operand else None

    def accumulator(r: Expr, c: Expr, b: Expr, j: Expr) -> Load:
        assert isinstance(r, Const)
        return rows[int(r.value)][c, b, j]

    views = Views(
        out=lambda b, j: out[b, j],
        accumulator=accumulator,
        parameter=lambda row, j: par[row, j],
        operand=None if operand is None else lambda b, j: operand[b, j],
    )
    body = rolling_point(Blocks.of(config), views, constants, window)
    parameters = (out, par, *rows) if operand is None else (out, par, *rows, operand)
    return IntrinsicDeclaration(name="post_rows", parameters=parameters, body=body)


def patch(config: Config, rows: int, run: int) -> IntrinsicDeclaration:
    """The intrinsic that loads one patch by LOAD.PATCH: `rows` image rows of `run` bytes, packed into vectors."""
    return patch_declaration(Blocks.of(config), rows, run)
