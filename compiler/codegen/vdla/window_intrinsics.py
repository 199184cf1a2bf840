"""Loop IR bodies of depthwise products."""

from __future__ import annotations

from vdla.isa.array_modes import TAPS
from vdla.isa.config import Config

from ...ir.expr import FIRST, Buffer, Var, all_of, cast, equal
from ...ir.stmt import IntrinsicDeclaration, Reduce, nest
from ...ir.types import DType
from ...te.blocks import Pair


def depthwise(
    config: Config, scope: str = "inp", positions: int = 1, zero_points: Pair = (0, 0)
) -> IntrinsicDeclaration:
    """The intrinsic of a depthwise product. For each lane, acc += sum of inp * wgt over `positions` neighbouring
    positions (pixels) of a window. Where FIRST is true, the sum overwrites acc. The instruction is DEPTHWISE for one
    position, and TAPS for several.

    Let B, ci and co be batch, block_in and block_out. The operands are acc: int32[B, co], inp: int8[positions, B, co]
    and wgt: int8[positions, co]; for a single position, inp and wgt have no position dimension. If co = r * ci with r >
    1, the lanes of one position take r input vectors and r rows of weights: inp is int8[positions * r, B, ci], and wgt
    is int8[positions * r, ci]. If co is less than ci and divides ci, inp and wgt have only co of the ci lanes of a
    vector.

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
