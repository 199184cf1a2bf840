"""Products of a warpgroup (sm_90a): 128 threads multiply tiles of shared memory and keep the sums in registers.

A warpgroup is an iteration of a loop over thread.y or thread.z, with none over thread.x around the operation: the 128
threads along x execute it together. Its factors lie in shared memory as *core matrices*, 8 lines of 16 bytes one after
the other (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions", "Shared Memory Matrix Layout", without
swizzling): a line is what neighbours in memory make, a piece of a row or of a column of the factor. So a factor of
`lines` x `length` elements is a buffer [lines / 8, length / 8, 8, 8]; between core matrices there may be room.
"""

from __future__ import annotations

from math import gcd

from ...ir.expr import Buffer, Const, Expr, Var, cast
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
ARCHITECTURE = "sm_90a"
"""The only architecture that has them."""


def wgmma(
    dtype: DType, columns: int, order_a: Order = "rows", order_b: Order = "columns"
) -> IntrinsicDeclaration:
    """wgmma.mma_async.m64nNk16: c [64, `columns`] += a [64, 16] times b [16, `columns`], sums in float32.

    Orders say whether neighbours in a line are neighbours in a row of the factor or in a column. Core matrices:
    a [8, 2, 8, 8] (in order "columns" [2, 8, 8, 8]), b [columns / 8, 2, 8, 8] (in order "rows" [2, columns / 8, 8, 8]).
    It always adds: clear the sums first (`zero`). ValueError for types and widths that no such operation has.
    """
    if dtype not in FACTORS:
        raise ValueError(f"no wgmma multiplies {dtype}; there are {', '.join(t.value for t in FACTORS)}")
    _check_columns(columns)
    c = _sums(columns)
    i1, i2, j1, j2, k1, k2 = (Var(name) for name in ("i1", "i2", "j1", "j2", "k1", "k2"))
    x, at_x = _factor("a", dtype, GROUP_ROWS, (i1, i2), (k1, k2), along_depth=order_a == "rows")
    y, at_y = _factor("b", dtype, columns, (j1, j2), (k1, k2), along_depth=order_b == "columns")
    reduce = Reduce(
        name="wgmma",
        op="add",
        buffer=c,
        indices=(i1 * CORE + i2, _matrix(j1, columns) * CORE + j2),
        value=cast(x[at_x], DType.FLOAT32) * cast(y[at_y], DType.FLOAT32),
    )
    loops = [*_digits((i1, i2), GROUP_ROWS), *_digits((j1, j2), columns), *_digits((k1, k2), DEPTH)]
    name = f"wgmma_{dtype.value}_n{columns}_{order_a}_{order_b}"
    return IntrinsicDeclaration(name=name, parameters=(c, x, y), body=nest(loops, reduce))


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
        found += [zero(columns), store(columns), store(columns, "dram")]
    return found


def descriptor(start: int, leading: int, stride: int) -> int:
    """The 64 bits that name a matrix in shared memory to `wgmma`; all in bytes, multiples of 16.

    `leading`: from a core matrix to the next one in depth; `stride`: to the next one in rows of A, or columns of B.
    PTX ISA, "Matrix Descriptor Format": each as bits 4 to 17 of an address, from bits 0, 16 and 32 on; the bits for a
    base offset and for swizzling are zeros.
    """
    fields = (start, leading, stride)
    if gcd(*fields) % 16:
        raise ValueError(f"{start}, {leading} and {stride} bytes are no multiples of 16")
    return sum((field & 0x3FFFF) >> 4 << 16 * at for at, field in enumerate(fields))


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


def _matrix(variable: Var, size: int) -> Expr:
    """The number of a core matrix; the only one's is 0, as programs say it that are simplified."""
    return variable if size > CORE else Const(0)


def _digits(variables: tuple[Var, Var], size: int) -> list[tuple[Var, int]]:
    return [(variables[0], size // CORE), (variables[1], CORE)]
