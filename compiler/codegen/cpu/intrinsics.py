"""Hardware instructions for tensorization: the semantics of each, and the emission of its LLVM code."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

from ...ir.expr import Buffer, Const, Var, cast
from ...ir.printer import summarize
from ...ir.stmt import Intrinsic, IntrinsicDeclaration, Reduce, nest
from ...ir.types import DType
from ...schedule.prefetch import AHEAD, PREFIX
from .errors import LoweringError
from .memory import ALIGNMENT
from .text import first_lanes, type_text

if TYPE_CHECKING:
    from .expressions import ExpressionEmitter

Emission = Callable[["ExpressionEmitter", Intrinsic], None]

LANGUAGE = "llvm"
"""Key of the code for processors, LLVM IR, in a user's declaration of an intrinsic."""

DOT_LANES, DOT_DEPTH = 16, 4


def dot_u8s8(lanes: int = DOT_LANES) -> IntrinsicDeclaration:
    """VPDPBUSD or USDOT: adds, in each lane, the scalar product of data (uint8[4]) and the lane's row of weights
    (int8[lanes, 4]) to total (int32[lanes]). `lanes`: number of used lanes of a register. Products and sums are exact;
    the sum wraps as int32 does. The instruction always adds, so the sum must be cleared first (decompose_reduction).
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
    """The dot-product instructions of this target by name, for the argument `intrinsics` of `schedule.replay`."""
    declarations = [dot_u8s8(lanes) for lanes in range(1, DOT_LANES + 1)]
    return {d.name: d for d in declarations}


def emission_of(declaration: IntrinsicDeclaration) -> Emission:
    """The function that emits code for uses of the hardware instruction `declaration`. Raises LoweringError for
    instructions of other targets.
    """
    if declaration.code:
        return _emit_code
    if declaration.name.startswith("dot_u8s8_"):
        return _emit_dot
    if declaration.name.startswith(PREFIX):
        return _emit_prefetch
    raise LoweringError(f"processors have no code for {declaration.name}; use another intrinsic")


def _emit_code(values: ExpressionEmitter, use: Intrinsic) -> None:
    """Emits a call of a function whose body is the user's LLVM IR; LLVM inlines it. The parameters of the function are
    the pointers %NAME to the operands. Lines that begin with "declare" declare functions that the body calls.
    """
    declaration, block = use.declaration, values.block
    text = dict(declaration.code).get(LANGUAGE)
    if text is None:
        raise LoweringError(
            f"`{summarize(use)}`: the intrinsic has code for {' and '.join(dict(declaration.code))}, not for {LANGUAGE}"
        )
    pointers = [_contiguous(values, use, position) for position in range(len(use.operands))]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    block.declarations.update(line for line in lines if line.startswith("declare "))
    function = f'@"vdla.own.{declaration.name}"'
    parameters = ", ".join(f"ptr %{parameter.name}" for parameter in declaration.parameters)
    body = [f"  {line}" for line in lines if not line.startswith("declare ")]
    head = f"define internal void {function}({parameters}) alwaysinline nounwind {{"
    block.declarations.add("\n".join([head, *body, "  ret void", "}"]))
    block.do(f"call void {function}({', '.join(f'ptr {pointer}' for pointer in pointers)})")


def _emit_dot(values: ExpressionEmitter, use: Intrinsic) -> None:
    target = values.target
    if not target.dot_product:
        raise LoweringError(f"`{summarize(use)}`: this CPU has no such instruction; leave it as loops")
    block = values.block
    pointers = [_contiguous(values, use, position) for position in range(3)]
    width = target.lanes(DType.INT32)
    vector, octets = type_text(DType.INT32, width), f"<{width * DOT_DEPTH} x i8>"
    lanes = use.declaration.parameters[0].shape[0]
    if lanes > width:
        raise LoweringError(f"`{summarize(use)}`: a register holds {width} sums, not {lanes}; split the loop")
    if not values.storages[use.operands[0].buffer.name].on_stack:
        raise LoweringError(f"`{summarize(use)}`: the sum is too large for the stack; make its tile smaller")
    # A stack slot has room for whole registers, see `stack_layout`.
    total = block.assign(f"load {vector}, ptr {pointers[0]}, align 4")
    data = block.define(f"load i32, ptr {pointers[1]}, align 1", DType.INT32)
    if lanes == width:
        weights = block.assign(f"load {octets}, ptr {pointers[2]}, align 1")
    else:
        # In units of a sum's elements, for which all processors with masks have masked accesses.
        mask = first_lanes(lanes, width)
        part = block.call(
            vector,
            f"llvm.masked.load.v{width}i32.p0",
            ("ptr", f"align 1 {pointers[2]}"),
            (mask.type, mask.text),
            (vector, "zeroinitializer"),
        )
        weights = block.assign(f"bitcast {vector} {part} to {octets}")
    wide = block.splat(data, width)
    data_octets = block.assign(f"bitcast {wide.typed} to {octets}")
    if target.triple.startswith(("aarch64", "arm64")):
        name = f"llvm.aarch64.neon.usdot.v{width}i32.v{width * DOT_DEPTH}i8"
    else:
        name = f"llvm.x86.avx512.vpdpbusd.{target.vector_bits}"
    result = block.call(vector, name, (vector, total), (octets, data_octets), (octets, weights))
    block.do(f"store {vector} {result}, ptr {pointers[0]}, align 4")


def _emit_prefetch(values: ExpressionEmitter, use: Intrinsic) -> None:
    """Emits prefetches into the first-level cache. The prefetched lines are behind the operand, at a distance in bytes
    that attribute AHEAD gives.
    """
    block, data = values.block, use.declaration.parameters[0]
    start = _contiguous(values, use, 0)
    ahead = int(dict(use.attributes)[AHEAD])
    size = prod(data.shape) * data.dtype.bits // 8
    for offset in range(0, size, ALIGNMENT):
        # The address may be outside the buffer, so it is not inbounds.
        at = block.assign(f"getelementptr i8, ptr {start}, i64 {ahead + offset}")
        block.call("void", "llvm.prefetch.p0", ("ptr", at), ("i32", "0"), ("i32", "3"), ("i32", "1"))


def _contiguous(values: ExpressionEmitter, use: Intrinsic, position: int) -> str:
    """The address of the operand with index `position`. Raises LoweringError unless the operand's elements follow one
    another in memory in row-major order.
    """
    region, formal = use.operands[position], use.declaration.parameters[position]
    storage = values.storages[region.buffer.name]
    expected = 1
    sizes = [int(e.value) if isinstance(e, Const) else 0 for e in region.extents]
    for size, stride in zip(reversed(sizes), reversed(storage.strides), strict=True):
        if size != 1 and stride != expected:
            raise LoweringError(
                f"`{summarize(use)}`: operand {formal.name} must be contiguous in memory; pack its buffer or copy it"
            )
        expected *= size
    return values.address(storage, region.starts)
