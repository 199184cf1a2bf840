"""Instructions for `tensorize`: the declaration of each instruction's semantics, and the emission of the instruction as
C++.

An instruction of one thread is in a phase (code that each thread runs by itself), like any other statement. An
instruction of a warp, or of a warpgroup (four warps), is inside a loop over thread.y but not inside a loop over
thread.x: the threads along x execute the instruction together.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from ...ir.expr import Buffer, Const, Var, cast
from ...ir.grid import exchanging_lanes
from ...ir.printer import format_region, summarize
from ...ir.regions import operand_access
from ...ir.stmt import Intrinsic, IntrinsicDeclaration, Reduce, Region, nest
from ...ir.types import DType
from . import mma, mma_emit, mma_fragments, shuffles, wgmma, wgmma_emit
from .architectures import Capability
from .errors import LoweringError
from .text import Text

if TYPE_CHECKING:
    from .statements import KernelEmitter

Emission = Callable[["KernelEmitter", Intrinsic], None]

LANGUAGES = {"CUDA C++": "cuda", "OpenCL C": "opencl"}
"""For each dialect in which a user may declare intrinsics, the dialect's key in the declaration's `code`."""

DOT_DEPTH = 4


def dot_s8(*, scope: str = "register") -> IntrinsicDeclaration:
    """DP4A: total += scalar product of a and b, where a and b are vectors of four int8 and total is an int32. `scope`:
    the memory of a and b.

    Products and sums are exact; the sum wraps as int32 does (CUDA C++ Programming Guide, `__dp4a`). The instruction
    always adds: clear the sum first (decompose_reduction).
    """
    total = Buffer(name="total", shape=(1,), dtype=DType.INT32, scope="register")
    a = Buffer(name="a", shape=(DOT_DEPTH,), dtype=DType.INT8, scope=scope)
    b = Buffer(name="b", shape=(DOT_DEPTH,), dtype=DType.INT8, scope=scope)
    k = Var("k")
    reduce = Reduce.into("dot", "add", total[Const(0)], cast(a[k], DType.INT32) * cast(b[k], DType.INT32))
    return IntrinsicDeclaration(
        name=f"dot_s8_{scope}", parameters=(total, a, b), body=nest([(k, DOT_DEPTH)], reduce)
    )


@cache
def intrinsics() -> Mapping[str, IntrinsicDeclaration]:
    """All built-in instructions of this target by name, for the argument `intrinsics` of `schedule.replay`. The first
    call makes all declarations; later calls return the same mapping.
    """
    declarations = [dot_s8(scope=scope) for scope in ("register", "shared")]
    declarations += [*shuffles.declarations(), *mma.declarations(), *wgmma.declarations()]
    return MappingProxyType({d.name: d for d in declarations})


def emission_of(declaration: IntrinsicDeclaration) -> Emission:
    """The function that writes the text of an intrinsic with this declaration. Raises LoweringError for declarations of
    other targets.
    """
    if declaration.code:
        return _emit_code
    for prefix, emission in _EMISSIONS.items():
        if declaration.name.startswith(prefix):
            return emission
    raise LoweringError(f"GPUs have no code for {declaration.name}; use another intrinsic")


def capability_of(declaration: IntrinsicDeclaration) -> Capability | None:
    """The capability that an instruction requires of a GPU; None for an operation that a user declares."""
    if declaration.code:
        return None
    if lanes_of(declaration) == 1:
        return "int8 dot products"
    if exchanging_lanes(declaration):
        return "shuffles"
    return "wgmma" if lanes_of(declaration) == mma_fragments.WARPGROUP else "mma"


def lanes_of(declaration: IntrinsicDeclaration) -> int:
    """The number of threads along x that execute an instruction together."""
    if declaration.name.startswith("dot_s8_") or declaration.code:
        return 1
    if lanes := exchanging_lanes(declaration):
        return lanes
    group = any(parameter.scope == mma_fragments.MATRIX_D for parameter in declaration.parameters)
    return mma_fragments.WARPGROUP if group else mma_fragments.WARP


def _emit_code(kernel: KernelEmitter, use: Intrinsic) -> None:
    """Emits the code of an intrinsic that a user declared, inside braces. Before the code, it declares a pointer for
    each operand, with the operand's name.
    """
    values, declaration = kernel.values, use.declaration
    code, language = dict(declaration.code), LANGUAGES.get(values.dialect.name)
    if language not in code:
        raise LoweringError(
            f"`{summarize(use)}`: the intrinsic has code for {' and '.join(code)}, not for "
            f"{values.dialect.name}"
        )
    pointers: list[str] = []
    kernel.source.line(f"// {declaration.name}")
    with kernel.source.block():
        for formal, region, (_, writes) in zip(
            declaration.parameters, use.operands, operand_access(declaration), strict=True
        ):
            _check_contiguous(kernel, use, formal, region)
            storage = values.storages[region.buffer.name]
            if storage.space == "register":
                kernel.aligned.add(region.buffer.name)
            address = values.pointer(region.buffer, values.offset(region.buffer, region.starts))
            kind = values.dialect.pointer(
                values.dialect.type_of(formal.dtype), storage.space, const=not writes
            )
            held = kernel.names.make(f"{formal.name}_operand")
            kernel.source.line(f"{kind} {held} = {address};")
            pointers.append(f"{kind} {formal.name} = {held};")
        # In a block of its own, since an operand may be called as an array of the kernel is.
        with kernel.source.block():
            for line in [*pointers, *textwrap.dedent(code[language]).strip().splitlines()]:
                kernel.source.line(line)


def _check_contiguous(kernel: KernelEmitter, use: Intrinsic, formal: Buffer, region: Region) -> None:
    """Raises LoweringError unless the elements of an operand follow one another in memory."""
    expected, strides = 1, kernel.values.storages[region.buffer.name].strides
    for extent, stride in zip(reversed(region.extents), reversed(strides), strict=True):
        size = int(extent.value) if isinstance(extent, Const) else 0
        if size != 1 and stride != expected:
            raise LoweringError(
                f"`{summarize(use)}`: operand {formal.name} must be contiguous in memory; pack its buffer or copy it"
            )
        expected *= size


def _emit_dot(kernel: KernelEmitter, use: Intrinsic) -> None:
    total, a, b = use.operands
    words = [_word(kernel, use, region, align=DOT_DEPTH) for region in (a, b)]
    values = kernel.values
    storage, at = values.storages[total.buffer.name], values.at(total.buffer, total.starts)
    held = values.dialect.element(storage, at).text
    added = values.dialect.dot.format(a=words[0], b=words[1], total=held)
    kernel.source.line(values.dialect.stored(storage, at, Text(added)))


def _word(kernel: KernelEmitter, use: Intrinsic, region: Region, *, align: int) -> str:
    """Text of the expression that reads operand `region` of instruction `use` as a 32-bit word. Raises LoweringError
    unless the operand's address is a multiple of `align` bytes.
    """
    form = kernel.values.offset(region.buffer, region.starts)
    storage = kernel.values.storages[region.buffer.name]
    size = region.buffer.dtype.bits // 8
    if storage.vector_elements(form, align // size) * size < align:
        raise LoweringError(
            f"`{summarize(use)}`: {format_region(region)} is not provably aligned to {align} bytes; pad its rows"
        )
    if storage.space == "register":
        kernel.aligned.add(region.buffer.name)
    return kernel.values.dialect.word(storage, kernel.values.offset_text(form))


_EMISSIONS: Mapping[str, Emission] = {
    "dot_s8_": _emit_dot,
    "warp_": shuffles.emit_shuffle,
    "neighbours_": shuffles.emit_shuffle,
    "mma_": mma_emit.emit_mma,
    "wgmma_": wgmma_emit.emit_wgmma,
    "ldmatrix_": mma_emit.emit_ldmatrix,
    "load_": mma_emit.emit_load,
    "zero_fragment_": mma_emit.emit_zero,
    "store_fragment_": mma_emit.emit_store,
    "convert_fragment_": mma_emit.emit_convert,
}
"""Functions that emit an instruction as C++. The key is a prefix of the name of the instruction's declaration."""
