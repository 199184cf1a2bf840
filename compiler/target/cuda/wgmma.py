"""Products of a warpgroup (sm_90a): 128 threads multiply tiles of shared memory and keep the sums in registers.

A warpgroup is an iteration of a loop over thread.y or thread.z, with none over thread.x around the operation: the 128
threads along x execute it together. Its factors lie in shared memory as *core matrices*, 8 lines of 16 bytes one after
the other (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions", "Shared Memory Matrix Layout", without
swizzling): a line is what neighbours in memory make, a piece of a row or of a column of the factor. So a factor of
`lines` x `length` elements is a buffer [lines / 8, length / 8, 8, 8]; between core matrices there may be room.

Or they lie there as bulk tensor copies bring them (`bulk_copies`), in rows of 32, 64 or 128 bytes that are swizzled: a
factor whose rows are along the depth as [lines, length], one whose rows are across it as [length / row, lines, row].
"""

from __future__ import annotations

from math import gcd

from ...ir.expr import Buffer, Const, Expr, Load, Var, cast
from ...ir.stmt import Assign, IntrinsicDeclaration, Reduce, nest
from ...ir.types import DType
from .mma import Order
from .mma_fragments import GROUP_ROWS, MATRIX_D, MOST_GROUP_COLUMNS

FACTORS = (DType.FLOAT16, DType.BFLOAT16)
"""Types of the factors, both alike; sums are float32."""
DEPTH = 16
"""Of one product."""
CORE = 8
"""Lines of a core matrix, and elements of a line."""
COLUMNS = tuple(range(CORE, MOST_GROUP_COLUMNS + 1, CORE))
"""All widths of a product (PTX ISA, "wgmma.mma_async", its .shape)."""
SWIZZLES = (128, 64, 32)
"""Bytes of swizzled rows."""
_SWIZZLED = "_swizzled"
"""What the names of products of swizzled factors end with."""
ARCHITECTURE = "sm_90a"
"""The only architecture that has them."""


def wgmma(
    dtype: DType,
    columns: int,
    order_a: Order = "rows",
    order_b: Order = "columns",
    *,
    swizzled: bool = False,
) -> IntrinsicDeclaration:
    """wgmma.mma_async.m64nNk16: c [64, `columns`] += a [64, 16] times b [16, `columns`], sums in float32.

    Orders say whether neighbours in a line are neighbours in a row of the factor or in a column. Core matrices:
    a [8, 2, 8, 8] (in order "columns" [2, 8, 8, 8]), b [columns / 8, 2, 8, 8] (in order "rows" [2, columns / 8, 8, 8]).
    Swizzled: a [64, 16] (in order "columns" [1, 16, 64]), b [columns, 16] (in order "rows" [columns / n, 16, n], n as
    `row_elements` has it). It always adds: clear the sums first (`zero`). ValueError for types and widths that no such
    operation has.
    """
    if dtype not in FACTORS:
        raise ValueError(f"no wgmma multiplies {dtype}; there are {', '.join(t.value for t in FACTORS)}")
    _check_columns(columns)
    c = _sums(columns)
    if swizzled:
        loops, row, x, y = _swizzled_factors(dtype, columns, order_a, order_b)
        at = row
    else:
        i1, i2, j1, j2, k1, k2 = (Var(name) for name in ("i1", "i2", "j1", "j2", "k1", "k2"))
        held, place = _factor("a", dtype, GROUP_ROWS, (i1, i2), (k1, k2), along_depth=order_a == "rows")
        x = held[place]
        held, place = _factor("b", dtype, columns, (j1, j2), (k1, k2), along_depth=order_b == "columns")
        y = held[place]
        loops = [*_digits((i1, i2), GROUP_ROWS), *_digits((j1, j2), columns), *_digits((k1, k2), DEPTH)]
        at = (i1 * CORE + i2, _matrix(j1, columns) * CORE + j2)
    reduce = Reduce(
        name="wgmma",
        op="add",
        buffer=c,
        indices=at,
        value=cast(x, DType.FLOAT32) * cast(y, DType.FLOAT32),
    )
    name = f"wgmma_{dtype.value}_n{columns}_{order_a}_{order_b}{_SWIZZLED if swizzled else ''}"
    return IntrinsicDeclaration(name=name, parameters=(c, x.buffer, y.buffer), body=nest(loops, reduce))


def reads_swizzled(declaration: IntrinsicDeclaration) -> bool:
    """Whether a declaration is a product of swizzled factors."""
    return declaration.name.endswith(_SWIZZLED)


def row_elements(size: int) -> int | None:
    """Elements of the swizzled rows across the depth of a factor of `size` rows or columns; None if none divide it."""
    return next((n // 2 for n in SWIZZLES if size % (n // 2) == 0), None)


def zero(columns: int) -> IntrinsicDeclaration:
    """Clears the sums c [64, `columns`] of a warpgroup."""
    _check_columns(columns)
    c = _sums(columns)
    i1, i2, j1, j2 = (Var(name) for name in ("i1", "i2", "j1", "j2"))
    assign = Assign(
        name="zero",
        buffer=c,
        indices=(i1 * CORE + i2, _matrix(j1, columns) * CORE + j2),
        value=Const(0.0, DType.FLOAT32),
    )
    body = nest([*_digits((i1, i2), GROUP_ROWS), *_digits((j1, j2), columns)], assign)
    return IntrinsicDeclaration(name=f"zero_fragment_wgmma_n{columns}", parameters=(c,), body=body)


def store(columns: int, scope: str = "shared") -> IntrinsicDeclaration:
    """The sums of a warpgroup to memory of a scope ("shared" or "dram"): target [64, `columns`] = c."""
    _check_columns(columns)
    c = _sums(columns)
    target = Buffer(name="target", shape=c.shape, dtype=c.dtype, scope=scope)
    i, j = Var("i"), Var("j")
    assign = Assign(name="store", buffer=target, indices=(i, j), value=c[i, j])
    body = nest([(i, GROUP_ROWS), (j, columns)], assign)
    return IntrinsicDeclaration(
        name=f"store_fragment_wgmma_n{columns}_{scope}", parameters=(target, c), body=body
    )


def declarations() -> list[IntrinsicDeclaration]:
    """All operations of warpgroups."""
    orders: tuple[Order, Order] = ("rows", "columns")
    found = [wgmma(t, n, a, b) for t in FACTORS for n in COLUMNS for a in orders for b in orders]
    for columns in COLUMNS:
        fitting = orders if row_elements(columns) else orders[1:]
        found += [wgmma(t, columns, a, b, swizzled=True) for t in FACTORS for a in orders for b in fitting]
    for columns in COLUMNS:
        found += [zero(columns), store(columns), store(columns, "dram")]
    return found


def descriptor(start: int, leading: int, stride: int, swizzle: int = 0) -> int:
    """The 64 bits that name a matrix in shared memory to `wgmma`; all in bytes, multiples of 16.

    Without swizzling, `leading`: from a core matrix to the next one in depth; `stride`: to the next one in rows of A,
    or columns of B. In swizzled rows, `stride`: from 8 lines to the next 8; `leading`: from one row's worth of elements
    across the depth to the next one, without meaning for rows along it. PTX ISA, "Matrix Descriptor Format": each as
    bits 4 to 17 of an address, from bits 0, 16 and 32 on; in bits 62 and 63 rows of 128, 64 and 32 bytes are 1, 2, 3.
    The base offset is zero: swizzled rows begin at multiples of 8 of them.
    """
    fields = (start, leading, stride)
    if gcd(*fields) % 16:
        raise ValueError(f"{start}, {leading} and {stride} bytes are no multiples of 16")
    mode = swizzle_mode(swizzle) << 62
    return mode | sum((field & 0x3FFFF) >> 4 << 16 * at for at, field in enumerate(fields))


def swizzle_mode(swizzle: int) -> int:
    """A descriptor's number for swizzled rows of so many bytes (0: none)."""
    return SWIZZLES.index(swizzle) + 1 if swizzle else 0


def _check_columns(columns: int) -> None:
    if columns not in COLUMNS:
        raise ValueError(
            f"no wgmma has {columns} columns; they are a multiple of {CORE} up to {MOST_GROUP_COLUMNS}"
        )


def _sums(columns: int) -> Buffer:
    return Buffer(name="c", shape=(GROUP_ROWS, columns), dtype=DType.FLOAT32, scope=MATRIX_D)


def _factor(
    name: str, dtype: DType, size: int, data: tuple[Var, Var], depth: tuple[Var, Var], *, along_depth: bool
) -> tuple[Buffer, tuple[Expr, ...]]:
    """A factor's core matrices, and the element that coordinates of 8s and 1s mean."""
    lines, length = ((size, data), (DEPTH, depth)) if along_depth else ((DEPTH, depth), (size, data))
    shape = (lines[0] // CORE, length[0] // CORE, CORE, CORE)
    at = (_matrix(lines[1][0], lines[0]), _matrix(length[1][0], length[0]), lines[1][1], length[1][1])
    return Buffer(name=name, shape=shape, dtype=dtype, scope="shared"), at


def _swizzled_factors(
    dtype: DType, columns: int, order_a: Order, order_b: Order
) -> tuple[list[tuple[Var, int]], tuple[Expr, Expr], Load, Load]:
    """The loops of a product of swizzled factors, the place of a sum, and the elements that are multiplied."""
    k = Var("k")
    row, rows, x = _swizzled_factor("a", dtype, GROUP_ROWS, "i", k, along_depth=order_a == "rows")
    column, across, y = _swizzled_factor("b", dtype, columns, "j", k, along_depth=order_b == "columns")
    return [*rows, *across, (k, DEPTH)], (row, column), x, y


def _swizzled_factor(
    name: str, dtype: DType, size: int, data: str, k: Var, *, along_depth: bool
) -> tuple[Expr, list[tuple[Var, int]], Load]:
    """Where an element stands in rows or columns, the loops over them, and the element."""
    if along_depth:
        i = Var(data)
        held = Buffer(name=name, shape=(size, DEPTH), dtype=dtype, scope="shared")
        return i, [(i, size)], held[i, k]
    row = row_elements(size)
    if row is None:
        raise ValueError(f"no swizzled row divides {size} columns of {dtype}; {SWIZZLES[-1] // 2} or more do")
    outer, inner = Var(f"{data}1"), Var(f"{data}2")
    held = Buffer(name=name, shape=(size // row, DEPTH, row), dtype=dtype, scope="shared")
    if size == row:
        return inner, [(inner, row)], held[0, k, inner]
    return outer * row + inner, [(outer, size // row), (inner, row)], held[outer, k, inner]


def _matrix(variable: Var, size: int) -> Expr:
    """The number of a core matrix; the only one's is 0, as programs say it that are simplified."""
    return variable if size > CORE else Const(0)


def _digits(variables: tuple[Var, Var], size: int) -> list[tuple[Var, int]]:
    return [(variables[0], size // CORE), (variables[1], CORE)]
