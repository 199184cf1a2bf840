"""Memory accesses of a vectorized loop: whole, masked, strided and scattered, one element for each lane.

A mask says which lanes are active (None: all); only their elements are accessed, and inactive lanes of a load are zero.

Transposed moves exchange rows and columns of tiles between source and destination, through registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...ir.bounds import loop_range
from ...ir.expr import Const, Expr, Load, Select, Var
from ...ir.simplify import simplify
from ...ir.stmt import Assign, For
from ...ir.types import DType
from ...ir.visit import free_vars
from .arithmetic import memory_suffix
from .memory import Storage
from .text import Block, Value, constant, first_lanes, memory_type

if TYPE_CHECKING:
    from .expressions import ExpressionEmitter


def from_memory(block: Block, value: Value) -> Value:
    """A loaded value in register form; for bools, any byte except 0 is true."""
    if value.dtype is not DType.BOOL:
        return value
    zero = "0" if value.lanes == 1 else "zeroinitializer"
    memory = memory_type(DType.BOOL, value.lanes)
    return block.define(f"icmp ne {memory} {value.text}, {zero}", DType.BOOL, value.lanes)


def to_memory(block: Block, value: Value) -> str:
    """The text of a value in the form in which memory holds it; bools become bytes."""
    if value.dtype is not DType.BOOL:
        return value.text
    return block.assign(f"zext {value.typed} to {memory_type(DType.BOOL, value.lanes)}")


def masked_load(block: Block, pointer: str, dtype: DType, lanes: int, mask: Value | None) -> str:
    """Loads lanes from consecutive elements."""
    if mask is None:
        return block.load_at(pointer, dtype, lanes)
    wide = memory_type(dtype, lanes)
    return block.call(
        wide,
        f"llvm.masked.load.{memory_suffix(dtype, lanes)}.p0",
        ("ptr", f"align {dtype.bits // 8} {pointer}"),
        (mask.type, mask.text),
        (wide, "zeroinitializer"),
    )


def masked_store(
    block: Block,
    pointer: str,
    text: str,
    dtype: DType,
    lanes: int,
    mask: Value | None,
) -> None:
    """Stores lanes to consecutive elements."""
    if mask is None:
        block.store_at(text, pointer, dtype, lanes)
        return
    block.call(
        "void",
        f"llvm.masked.store.{memory_suffix(dtype, lanes)}.p0",
        (memory_type(dtype, lanes), text),
        ("ptr", f"align {dtype.bits // 8} {pointer}"),
        (mask.type, mask.text),
    )


def strided_load(
    block: Block,
    pointer: str,
    stride: int,
    dtype: DType,
    lanes: int,
    mask: Value | None,
) -> str:
    """Loads lanes from every `stride`th element, by whole loads and shuffles, many times faster than by a gather.

    Pieces overlap so that none reaches beyond the last lane's element.
    """
    wide = memory_type(dtype, lanes)
    reach = (lanes - 1) * stride + 1
    result, taken = "poison", 0
    while taken < lanes:
        start = min(taken * stride, reach - lanes)
        at = block.assign(f"getelementptr inbounds {memory_type(dtype)}, ptr {pointer}, i64 {start}")
        spread = None
        if mask is not None:
            # Lane i of the piece is element start + i, used if it is the element of an active lane.
            sources = [divmod(start + i, stride) for i in range(lanes)]
            order = ", ".join(f"i32 {lanes if rest else lane}" for lane, rest in sources)
            spread = block.define(
                f"shufflevector {mask.typed}, {mask.type} zeroinitializer, <{lanes} x i32> <{order}>",
                DType.BOOL,
                lanes,
            )
        piece = masked_load(block, at, dtype, lanes, spread)
        end = min(lanes, (start + lanes - 1) // stride + 1)
        chosen = [i if i < taken else lanes + i * stride - start if i < end else -1 for i in range(lanes)]
        order = ", ".join("i32 poison" if i < 0 else f"i32 {i}" for i in chosen)
        result = block.assign(f"shufflevector {wide} {result}, {wide} {piece}, <{lanes} x i32> <{order}>")
        taken = end
    return result


def spread_store(block: Block, pointer: str, stride: int, value: Value) -> None:
    """Stores all lanes to every `stride`th element by one store of the whole range, masked to their elements.

    Many times faster than a scatter on processors with masked stores, and no slower on others if the stride is a power
    of two, so that LLVM splits the range into whole registers.
    """
    lanes, dtype = value.lanes, value.dtype
    span = lanes * stride
    narrow = memory_type(dtype, lanes)
    order = ", ".join(f"i32 {'poison' if i % stride else i // stride}" for i in range(span))
    text = to_memory(block, value)
    spread = block.assign(f"shufflevector {narrow} {text}, {narrow} poison, <{span} x i32> <{order}>")
    ours = ", ".join(f"i1 {'false' if i % stride else 'true'}" for i in range(span))
    masked_store(block, pointer, spread, dtype, span, Value(f"<{ours}>", DType.BOOL, span))


def gather(block: Block, pointers: str, dtype: DType, lanes: int, mask: Value | None) -> str:
    """Loads lanes from arbitrary addresses."""
    wide = memory_type(dtype, lanes)
    mask = mask or constant(True, DType.BOOL, lanes)
    return block.call(
        wide,
        f"llvm.masked.gather.{memory_suffix(dtype, lanes)}.v{lanes}p0",
        (f"<{lanes} x ptr>", f"align {dtype.bits // 8} {pointers}"),
        (mask.type, mask.text),
        (wide, "zeroinitializer"),
    )


def scatter(block: Block, pointers: str, value: Value, dtype: DType, mask: Value | None) -> None:
    """Stores the lanes of a value to arbitrary addresses."""
    lanes = value.lanes
    mask = mask or constant(True, DType.BOOL, lanes)
    block.call(
        "void",
        f"llvm.masked.scatter.{memory_suffix(dtype, lanes)}.v{lanes}p0",
        (memory_type(dtype, lanes), to_memory(block, value)),
        (f"<{lanes} x ptr>", f"align {dtype.bits // 8} {pointers}"),
        (mask.type, mask.text),
    )


def pointers(block: Block, pointer: str, stride: int, offsets: Value | None, dtype: DType, lanes: int) -> str:
    """The address of each lane i: `pointer` plus `stride` * i elements, plus `offsets` elements (None: none)."""
    steps = Value("<" + ", ".join(f"i64 {stride * i}" for i in range(lanes)) + ">", DType.INT64, lanes)
    if offsets is not None:
        steps = block.binary("add nsw", steps, offsets)
    return block.assign(f"getelementptr {memory_type(dtype)}, ptr {pointer}, {steps.typed}")


MOST_SIDE = 16
"""Most rows and columns of a tile: larger tiles do not fit into registers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Access:
    """An address that increases by `rows` and `columns` elements along the loops of a tile, from `start` on."""

    storage: Storage
    start: dict[Expr, int]
    offset: int
    rows: int
    columns: int


def transposed_move(values: ExpressionEmitter, outer: For, rows: int) -> bool:
    """Emits an unrolled loop of `rows` iterations around a vectorized loop as a transposition; False, without code, if
    they do not transpose.

    for r in unroll(4): for c in vectorize(4): Y[…, r, c] = X[…, c, r] becomes four loads along r, shuffles, and four
    stores along c, instead of four gathers. Loads come first, so source and destination must be different buffers.
    Columns for which a condition is false get the constant on its other side.
    """
    inner = outer.body
    if values.vector is not None or values.mask is not None or not 1 < rows <= MOST_SIDE:
        return False
    if not isinstance(inner, For) or inner.kind != "vectorize" or not isinstance(inner.body, Assign):
        return False
    columns, move = values.known(inner.extent), inner.body
    if not isinstance(columns, int) or not 1 < columns <= MOST_SIDE:
        return False
    split = _sides(move.value)
    if split is None:
        return False
    load, condition, fill = split
    dtype = move.buffer.dtype
    if load.buffer.dtype is not dtype or dtype is DType.BOOL or load.buffer.name == move.buffer.name:
        return False
    source = _access(values, outer, inner, rows, load.buffer.name, load.indices)
    target = _access(values, outer, inner, rows, move.buffer.name, move.indices)
    if source is None or target is None or source.storage.on_stack or target.storage.on_stack:
        return False
    if source.rows != 1 or source.columns in (0, 1) or target.columns != 1:
        return False
    read = _columns_read(values, inner, columns, condition)
    if read is None:
        return False
    side = 1 << (max(rows, columns) - 1).bit_length()
    block = values.block
    wide = memory_type(dtype, side)
    base, top = _pointer(values, source), _pointer(values, target)
    mask = None if rows == side else first_lanes(rows, side)
    vectors: list[str] = []
    for column in range(side):
        if column >= columns:
            vectors.append("poison")
        elif column not in read:
            assert fill is not None
            vectors.append(constant(fill, dtype, side).text)
        else:
            at = block.element(base, dtype, column * source.columns)
            vectors.append(masked_load(block, at, dtype, side, mask))
    mask = None if columns == side else first_lanes(columns, side)
    for row, vector in enumerate(_transpose(block, vectors, wide)[:rows]):
        at = block.element(top, dtype, row * target.rows)
        masked_store(block, at, vector, dtype, side, mask)
    return True


def _sides(value: Expr) -> tuple[Load, Expr | None, int | float | None] | None:
    """The load that is moved, its condition (None: always) and the constant otherwise; None for expressions of other
    forms.
    """
    match value:
        case Load():
            return value, None, None
        case Select(condition=condition, then=Load() as load, otherwise=Const(value=fill)):
            return load, condition, fill
    return None


def _columns_read(
    values: ExpressionEmitter, inner: For, columns: int, condition: Expr | None
) -> set[int] | None:
    """The columns that are read from the source; None if known variables do not decide the condition."""
    if condition is None:
        return set(range(columns))
    read: set[int] = set()
    for column in range(columns):
        values.variables[inner.name] = column
        chosen = values.known(condition)
        del values.variables[inner.name]
        if chosen is None:
            return None
        if chosen:
            read.add(column)
    return read


def _access(
    values: ExpressionEmitter, outer: For, inner: For, rows: int, name: str, indices: tuple[Expr, ...]
) -> _Access | None:
    """The access as a sum in which each of the two loops has one coefficient; None if it is no such sum."""
    storage = values.storages[name]
    ranges = {loop.name: loop_range(loop.extent) for loop in (outer, inner)}
    weighted: dict[Expr, int] = {}
    for index, stride in zip(indices, storage.strides, strict=True):
        index = simplify(index, ranges)
        weighted[index] = weighted.get(index, 0) + stride
    terms, offset = values.terms(weighted)
    along = [terms.pop(Var(loop.name), 0) for loop in (outer, inner)]
    if any({outer.name, inner.name} & free_vars(atom) for atom in terms):
        return None
    return _Access(storage=storage, start=terms, offset=offset, rows=along[0], columns=along[1])


def _pointer(values: ExpressionEmitter, access: _Access) -> str:
    """The address of a tile's first element."""
    pointer, dtype = access.storage.pointer, access.storage.buffer.dtype
    if access.start:
        start = values.sum(access.start, 0)
        pointer = values.block.assign(
            f"getelementptr inbounds {memory_type(dtype)}, ptr {pointer}, {start.typed}"
        )
    return values.block.element(pointer, dtype, access.offset)


def _transpose(block: Block, vectors: list[str], wide: str) -> list[str]:
    """The transpose of n vectors of n lanes: lane i of vector j becomes lane j of vector i (Eklundh's block
    exchange).
    """
    side = len(vectors)
    distance = side // 2
    while distance:
        for i in (i for i in range(side) if not i & distance):
            a, b = vectors[i], vectors[i + distance]
            low = [k if not k & distance else side + k - distance for k in range(side)]
            high = [k + distance if not k & distance else side + k for k in range(side)]
            vectors[i] = _shuffled(block, wide, a, b, low)
            vectors[i + distance] = _shuffled(block, wide, a, b, high)
        distance //= 2
    return vectors


def _shuffled(block: Block, wide: str, a: str, b: str, lanes: list[int]) -> str:
    if a == b == "poison":
        return "poison"
    order = ", ".join(f"i32 {lane}" for lane in lanes)
    return block.assign(f"shufflevector {wide} {a}, {wide} {b}, <{len(lanes)} x i32> <{order}>")
