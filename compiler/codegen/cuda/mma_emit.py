"""Emits operations on fragments (matrices in the registers of a warp) as C++ calls of `mma_functions`."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ...ir.affine import LinearForm
from ...ir.bounds import Interval
from ...ir.expr import Buffer, Expr, Var
from ...ir.grid import FRAGMENT
from ...ir.kernels import WARP
from ...ir.printer import format_region, summarize
from ...ir.stmt import Intrinsic, Region
from ...ir.types import DType
from .errors import LoweringError
from .mma import TF32
from .mma_fragments import MATRIX_A, Fragment, matrix_row
from .storage import REGISTER_ALIGNMENT, Storage, row_major

if TYPE_CHECKING:
    from .statements import KernelEmitter

LANE = Var("lane'")
"""Variable that stands in addresses for the number of the lane in a warp or warpgroup; no loop has this name."""
FEW_REGISTERS = 8
"""Largest number of registers that are cleared with one line of code each; more registers are cleared in a loop."""
ROW_BYTES = 16
"""Bytes of a row that `ldmatrix` loads, and the alignment of its address (PTX ISA, "ldmatrix")."""


def fragment_storage(buffer: Buffer, name: str, distribution: tuple[str | None, ...]) -> Storage:
    """The storage, in the registers of one lane, of a buffer in a fragment scope, with the C identifier `name`.
    `distribution`: for each dimension, the thread axis over which the dimension is distributed, or None. The strides of
    the storage count registers. The strides of the two dimensions of the matrix are 0, since operations take a whole
    matrix.

    Raises LoweringError for matrices that no operation supports, and for a matrix that is distributed over threads.
    """
    fragment = Fragment.of(buffer)
    if any(distribution[-2:]):
        raise LoweringError(
            f"{buffer.name} @ {buffer.scope}: the last two dimensions are a matrix that a whole warp holds, so they "
            "cannot be distributed over threads"
        )
    held = distribution[:-2]
    shape = tuple([1 if axis else size for size, axis in zip(buffer.shape, held, strict=False)])
    strides = [
        0 if axis else stride * fragment.registers
        for stride, axis in zip(row_major(shape), held, strict=True)
    ]
    return Storage(
        buffer=buffer,
        name=name,
        strides=(*strides, 0, 0),
        elements=prod(shape) * fragment.registers,
        space="register",
        alignment=REGISTER_ALIGNMENT,
    )


def emit_mma(kernel: KernelEmitter, use: Intrinsic) -> None:
    """Emits mma.sync, which adds a product of two fragments to the registers of a fragment of sums."""
    kernel.values.used.add(use.declaration.name)
    c, a, b = (first_register(kernel, use, region) for region in use.operands)
    kernel.source.line(f"{use.declaration.name}({c}, {a}, {b});")


def emit_zero(kernel: KernelEmitter, use: Intrinsic) -> None:
    """Emits code that sets each register of a fragment to zero."""
    (target,) = use.operands
    count = Fragment.of(target.buffer).registers
    if count <= FEW_REGISTERS:
        for register in range(count):
            kernel.source.line(f"{_register(kernel, use, target, register)} = 0;")
        return
    name = kernel.names.make("register")
    kernel.source.line("#pragma unroll")
    with kernel.source.block(f"for (int {name} = 0; {name} < {count}; ++{name})"):
        kernel.source.line(f"({first_register(kernel, use, target)})[{name}] = 0;")


def emit_ldmatrix(kernel: KernelEmitter, use: Intrinsic) -> None:
    """Emits ldmatrix.x4, to which each of the 32 lanes passes the address of one row of 16 bytes (`matrix_row`)."""
    to, source = use.operands
    order = use.declaration.name.rpartition("_")[2]
    is_a = to.buffer.scope == MATRIX_A
    transposed = order == ("columns" if is_a else "rows")
    per_row = ROW_BYTES * 8 // source.buffer.dtype.bits
    with _lanes(kernel) as lane:
        row, piece = matrix_row(lane, columns_first=transposed == is_a)
        at = _indices(source, row, piece * per_row)
        form = kernel.values.offset(source.buffer, at)
        storage = kernel.values.storages[source.buffer.name]
        if storage.space != "shared" or storage.vector_elements(form, per_row) < per_row:
            raise LoweringError(
                f"`{summarize(use)}`: rows of {format_region(source)} do not provably begin at multiples of "
                f"{ROW_BYTES} bytes of shared memory; widen its rows, or use plain loads"
            )
        address = kernel.values.pointer(source.buffer, form)
    name = "load_transposed" if transposed else "load_matrices"
    kernel.values.used.add(name)
    registers = first_register(kernel, use, to)
    kernel.source.line(f"{name}({registers}, {address});")
    if _rounds(use):
        kernel.values.used.add("round_registers")
        kernel.source.line(f"round_registers<4>({registers});")


def emit_load(kernel: KernelEmitter, use: Intrinsic) -> None:
    """Emits plain loads: every lane reads its elements and packs them into registers, the first in the lowest bits."""
    to, source = use.operands
    fragment = Fragment.of(to.buffer)
    columns = use.declaration.name.endswith("_columns")
    dtype = to.buffer.dtype
    with _lanes(kernel) as lane:
        for register in range(fragment.registers):
            parts: list[str] = []
            for part in range(fragment.packed):
                row, column = fragment.position(lane // 4, lane % 4, register, part)
                at = _indices(source, column, row) if columns else _indices(source, row, column)
                text = kernel.values.element(source.buffer, at).text
                parts.append(_bits(kernel, text, dtype, part, rounds=_rounds(use)))
            kernel.source.line(f"{_register(kernel, use, to, register)} = {' | '.join(parts)};")


def _rounds(use: Intrinsic) -> bool:
    """Whether a load of a fragment rounds float32 elements to tf32. The name of the load's declaration says so."""
    return "_tf32_" in use.declaration.name


def _bits(kernel: KernelEmitter, element: str, dtype: DType, part: int, *, rounds: bool) -> str:
    """The text of an element as bits at its position in a 32-bit register. `part`: number of the element in the
    register, the lowest bits first. `rounds`: a float32 element is rounded to tf32 first.
    """
    if rounds:
        kernel.values.used.add("round_tf32")
        element = f"round_tf32({element})"
    if dtype is TF32:
        return f"__float_as_uint({element})"
    if dtype in (DType.FLOAT16, DType.BFLOAT16):
        kernel.values.used.add(dtype.value)
        bits = f"(unsigned){element}.bits"
    else:
        bits = f"(unsigned)(unsigned char){element}"
    return f"{bits} << {part * dtype.bits}" if part else bits


def emit_store(kernel: KernelEmitter, use: Intrinsic) -> None:
    """Emits the stores of a fragment of sums: each lane stores pairs of elements that are neighbours in a row."""
    target, sums = use.operands
    fragment = Fragment.of(sums.buffer)
    with _lanes(kernel, fragment.lanes) as lane:
        for register in range(0, fragment.registers, 2):
            values = [_register(kernel, use, sums, register + i) for i in range(2)]
            at = [_indices(target, *fragment.position(lane // 4, lane % 4, register + i)) for i in range(2)]
            form = kernel.values.offset(target.buffer, at[0])
            if kernel.values.storages[target.buffer.name].vector_elements(form, 2) == 2:
                kernel.values.used.add("Vector")
                pair = f"Vector<{fragment.c_type}, 2>"
                address = kernel.values.pointer(target.buffer, form)
                kernel.source.line(f"*({pair}*){address} = {pair}{{{{{values[0]}, {values[1]}}}}};")
            else:
                for place, value in zip(at, values, strict=True):
                    kernel.source.line(f"{kernel.values.element(target.buffer, place).text} = {value};")


def emit_convert(kernel: KernelEmitter, use: Intrinsic) -> None:
    """Emits the conversion of two fragments of sums to a fragment of A: each register gets two neighbouring sums."""
    to, sums = use.operands
    name = f"pack_{to.buffer.dtype}"
    kernel.values.used.add(name)
    stride = kernel.values.storages[sums.buffer.name].strides[-3]
    for register in range(Fragment.of(to.buffer).registers):
        first = register // 2 * stride + register % 2 * 2
        values = ", ".join(_register(kernel, use, sums, first + i) for i in range(2))
        kernel.source.line(f"{_register(kernel, use, to, register)} = {name}({values});")


class _lanes:
    """A `with` context in which addresses may contain the variable `LANE`. In the generated text, the thread's
    coordinate along x (a number below `lanes`) takes the place of `LANE`.
    """

    def __init__(self, kernel: KernelEmitter, lanes: int = WARP) -> None:
        self.lanes = lanes
        self.values = kernel.values
        self.text = kernel.thread("x")

    def __enter__(self) -> Expr:
        self.values.variables[LANE.name] = self.text
        self.values.ranges[LANE.name] = Interval(0, self.lanes - 1)
        return LANE

    def __exit__(self, *_: object) -> None:
        del self.values.variables[LANE.name]
        del self.values.ranges[LANE.name]


def _indices(region: Region, row: Expr, column: Expr) -> tuple[Expr, ...]:
    """The buffer indices of the element at (`row`, `column`) of the matrix in `region`. The last two dimensions of
    `region` are the matrix.
    """
    *lead, top, left = region.starts
    return (*lead, top + row, left + column)


def first_register(kernel: KernelEmitter, use: Intrinsic, region: Region) -> str:
    """The address of the first register of the fragment that is operand `region` of `use`."""
    form = _form(kernel, use, region)
    storage = kernel.values.storages[region.buffer.name]
    text = kernel.values.offset_text(form)
    return storage.name if text == "0" else f"{storage.name} + {text}"


def _register(kernel: KernelEmitter, use: Intrinsic, region: Region, register: int) -> str:
    """The text of register number `register` of the fragment that is operand `region` of `use`."""
    form = _form(kernel, use, region).offset(register)
    storage = kernel.values.storages[region.buffer.name]
    return f"{storage.name}[{kernel.values.offset_text(form)}]"


def _form(kernel: KernelEmitter, use: Intrinsic, region: Region) -> LinearForm:
    if not region.buffer.scope.startswith(FRAGMENT):
        raise LoweringError(f"`{summarize(use)}`: {format_region(region)} is not in a fragment scope")
    return kernel.values.offset(region.buffer, region.starts)
