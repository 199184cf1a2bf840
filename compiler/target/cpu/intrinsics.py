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


def dot_u8s8(accumulator_scope: str = "register") -> IntrinsicDeclaration:
    """VPDPBUSD on 512 bits: total int32[16] += sum over k < 4 of data uint8[4] times weights int8[16, 4].

    Products and sums are exact; the sum wraps as int32 does. It always adds: clear the sum first (decompose_reduction).
    """
    total = Buffer(name="total", shape=(DOT_LANES,), dtype=DType.INT32, scope=accumulator_scope)
    data = Buffer(name="data", shape=(DOT_DEPTH,), dtype=DType.UINT8)
    weights = Buffer(name="weights", shape=(DOT_LANES, DOT_DEPTH), dtype=DType.INT8)
    j, k = Var("j"), Var("k")
    reduce = Reduce(
        name="dot",
        op="add",
        buffer=total,
        indices=(j,),
        value=cast(data[k], DType.INT32) * cast(weights[j, k], DType.INT32),
    )
    body = nest([(j, DOT_LANES), (k, DOT_DEPTH)], reduce)
    return IntrinsicDeclaration(name="dot_u8s8", parameters=(total, data, weights), body=body)


def emission_of(declaration: IntrinsicDeclaration) -> Emission:
    """How a declaration is emitted; LoweringError for those of other targets."""
    match declaration.name:
        case "dot_u8s8":
            return _emit_dot
    raise LoweringError(f"the instruction {declaration.name} is not one of this target")


def _emit_dot(values: ExpressionEmitter, use: Intrinsic) -> None:
    if not values.target.dot_product:
        raise LoweringError(f"`{summarize(use)}`: this CPU has no such instruction; leave it as loops")
    block = values.block
    pointers = [_contiguous(values, use, position) for position in range(3)]
    vector = type_text(DType.INT32, DOT_LANES)
    total = block.assign(f"load {vector}, ptr {pointers[0]}, align 4")
    data = block.define(f"load i32, ptr {pointers[1]}, align 1", DType.INT32)
    weights = block.assign(f"load <64 x i8>, ptr {pointers[2]}, align 1")
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
            raise LoweringError(f"`{summarize(use)}`: the elements of {formal.name} do not follow one another")
        expected *= size
    return values.address(storage, region.starts)[0]
