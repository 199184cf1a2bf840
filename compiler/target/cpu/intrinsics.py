"""Hardware instructions for tensorization: what each computes, and how it is emitted. One instruction each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...ir.expr import Buffer, Const, Var, cast
from ...ir.printer import summarize
from ...ir.stmt import Intrinsic, IntrinsicDeclaration, Reduce, nest
from ...ir.types import DType
from .errors import LoweringError
from .text import type_text

if TYPE_CHECKING:
    from .expressions import ExpressionEmitter

Emission = Callable[["ExpressionEmitter", Intrinsic], None]

DOT_LANES, DOT_DEPTH = 16, 4


def dot_u8s8(lanes: int = DOT_LANES) -> IntrinsicDeclaration:
    """VPDPBUSD on 512 bits: total int32[lanes] += sum over k < 4 of data uint8[4] times weights int8[lanes, 4].

    `lanes` is at most 16; fewer use a part of the register. Products and sums are exact; the sum wraps as int32 does.
    It always adds: clear the sum first (decompose_reduction).
    """
    total = Buffer(name="total", shape=(lanes,), dtype=DType.INT32, scope="register")
    data = Buffer(name="data", shape=(DOT_DEPTH,), dtype=DType.UINT8)
    weights = Buffer(name="weights", shape=(lanes, DOT_DEPTH), dtype=DType.INT8)
    j, k = Var("j"), Var("k")
    reduce = Reduce(
        name="dot",
        op="add",
        buffer=total,
        indices=(j,),
        value=cast(data[k], DType.INT32) * cast(weights[j, k], DType.INT32),
    )
    body = nest([(j, lanes), (k, DOT_DEPTH)], reduce)
    return IntrinsicDeclaration(name=f"dot_u8s8_{lanes}", parameters=(total, data, weights), body=body)


def intrinsics() -> dict[str, IntrinsicDeclaration]:
    """All instructions of this target by name, as `schedule.replay` takes them."""
    declarations = [dot_u8s8(lanes) for lanes in range(1, DOT_LANES + 1)]
    return {d.name: d for d in declarations}


def emission_of(declaration: IntrinsicDeclaration) -> Emission:
    """How a declaration is emitted; LoweringError for those of other targets."""
    if declaration.name.startswith("dot_u8s8_"):
        return _emit_dot
    raise LoweringError(f"the instruction {declaration.name} is not one of this target")


def _emit_dot(values: ExpressionEmitter, use: Intrinsic) -> None:
    if not values.target.dot_product:
        raise LoweringError(f"`{summarize(use)}`: this CPU has no such instruction; leave it as loops")
    block = values.block
    pointers = [_contiguous(values, use, position) for position in range(3)]
    vector = type_text(DType.INT32, DOT_LANES)
    lanes = use.declaration.parameters[0].shape[0]
    if not values.storages[use.operands[0].buffer.name].on_stack:
        raise LoweringError(f"`{summarize(use)}`: the sum is too large for the stack; make its tile smaller")
    # A stack slot has room for whole registers, see `stack_layout`.
    total = block.assign(f"load {vector}, ptr {pointers[0]}, align 4")
    data = block.define(f"load i32, ptr {pointers[1]}, align 1", DType.INT32)
    if lanes == DOT_LANES:
        weights = block.assign(f"load <64 x i8>, ptr {pointers[2]}, align 1")
    else:
        name = "@llvm.masked.load.v64i8.p0"
        values.declarations.add(f"declare <64 x i8> {name}(ptr, <64 x i1>, <64 x i8>)")
        mask = ", ".join(f"i1 {'true' if i < lanes * DOT_DEPTH else 'false'}" for i in range(64))
        weights = block.assign(
            f"call <64 x i8> {name}(ptr align 1 {pointers[2]}, <64 x i1> <{mask}>, <64 x i8> zeroinitializer)"
        )
    wide = block.splat(data, DOT_LANES)
    octets = block.assign(f"bitcast {wide.typed} to <64 x i8>")
    name = "@llvm.x86.avx512.vpdpbusd.512"
    values.declarations.add(f"declare {vector} {name}({vector}, <64 x i8>, <64 x i8>)")
    result = block.assign(f"call {vector} {name}({vector} {total}, <64 x i8> {octets}, <64 x i8> {weights})")
    block.do(f"store {vector} {result}, ptr {pointers[0]}, align 4")


def _contiguous(values: ExpressionEmitter, use: Intrinsic, position: int) -> str:
    """The address of an operand whose elements follow one another as the formal's do."""
    region, formal = use.operands[position], use.declaration.parameters[position]
    storage = values.storages[region.buffer.name]
    expected = 1
    sizes = [int(e.value) if isinstance(e, Const) else 0 for e in region.extents]
    for size, stride in zip(reversed(sizes), reversed(storage.strides), strict=True):
        if size != 1 and stride != expected:
            raise LoweringError(
                f"`{summarize(use)}`: the elements of {formal.name} do not follow one another"
            )
        expected *= size
    return values.address(storage, region.starts)[0]
