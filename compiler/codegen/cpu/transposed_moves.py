"""Moves that transpose a tile: its rows in the source become its columns in the destination, through registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...ir.bounds import loop_range
from ...ir.expr import Const, Expr, Load, Select, Var
from ...ir.simplify import simplify
from ...ir.stmt import Assign, For
from ...ir.types import DType
from ...ir.visit import free_vars
from .memory import Storage
from .text import Block, constant, first_lanes, memory_type

if TYPE_CHECKING:
    from .expressions import ExpressionEmitter
from .vector_memory import masked_load, masked_store

MOST_SIDE = 16
"""Largest number of rows and of columns of a tile: larger tiles do not fit into registers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Access:
    """The index of a tile's element in `storage`. The first index is `start` (a linear form: coefficients by atom) +
    `offset`. It grows by `rows` in each iteration of the outer loop, and by `columns` in each iteration of the inner
    loop.
    """

    storage: Storage
    start: dict[Expr, int]
    offset: int
    rows: int
    columns: int


def transposed_move(values: ExpressionEmitter, outer: For, inner: For, move: Assign, rows: int) -> bool:
    """Emits the assignment `move` as a transposition. `move` is inside the vectorized loop `inner`, which is inside the
    unrolled loop `outer` of `rows` iterations. If `move` does not transpose, emits nothing and returns False.

    for r in unroll(4): for c in vectorize(4): Y[…, r, c] = X[…, c, r] becomes four loads along r, shuffles, and four
    stores along c, instead of four gathers. Loads come first, so source and destination must be different buffers. If
    the moved value is a Select between a load and a constant, columns for which the condition is false get the
    constant.
    """
    if values.vector is not None or values.mask is not None or not 1 < rows <= MOST_SIDE:
        return False
    columns = values.known(inner.extent)
    if not isinstance(columns, int) or not 1 < columns <= MOST_SIDE:
        return False
    split = _sides(move.value)
    if split is None:
        return False
    load, condition, fill = split
    dtype = move.buffer.dtype
    if load.buffer.dtype is not dtype or dtype is DType.BOOL or load.buffer.name == move.buffer.name:
        return False
    source = _access(values, outer, inner, load.buffer.name, load.indices)
    target = _access(values, outer, inner, move.buffer.name, move.indices)
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
    """Decomposes a moved value into a load, its condition (None: unconditional), and the constant that replaces the
    load where the condition is false. Returns None for other forms of expressions.
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
    """The columns for which `condition` is true (None: all columns), so that their elements are read from the source. A
    column is one of the `columns` iterations of `inner`. Returns None if known variables do not determine the
    condition.
    """
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
    values: ExpressionEmitter, outer: For, inner: For, name: str, indices: tuple[Expr, ...]
) -> _Access | None:
    """The access to buffer `name` at `indices`, split into a part that does not change in the loops `outer` and `inner`
    and a constant coefficient for each loop; None if there is no such split.
    """
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
    """The address of the first element that `access` touches in a tile."""
    pointer, dtype = access.storage.pointer, access.storage.buffer.dtype
    if access.start:
        start = values.sum(access.start, 0)
        pointer = values.block.assign(
            f"getelementptr inbounds {memory_type(dtype)}, ptr {pointer}, {start.typed}"
        )
    return values.block.element(pointer, dtype, access.offset)


def _transpose(block: Block, vectors: list[str], wide: str) -> list[str]:
    """The transpose of n vectors of n lanes, each of LLVM type `wide`: lane i of vector j becomes lane j of vector i
    (Eklundh's block exchange).
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
