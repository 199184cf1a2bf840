"""Products of a warpgroup (sm_90a): 128 threads multiply tiles of shared memory and keep the sums in registers.

A warpgroup is one iteration of a loop over thread.y or thread.z. The operation is not inside a loop over thread.x: the
128 threads along x execute the operation together.

The factors are in shared memory as *core matrices*, each of 8 consecutive lines of 16 bytes (PTX ISA, "Asynchronous
Warpgroup Level Matrix Instructions", "Shared Memory Matrix Layout", without swizzling). A line is a contiguous piece of
a row or of a column of the factor. A factor of `lines` x `length` elements is thus a buffer [lines / 8, length / 8, 8,
8], with possible gaps between core matrices.

Alternatively the factors have the layout of bulk tensor copies (`bulk_copies`): swizzled rows of 32, 64 or 128 bytes.
If the swizzled rows run along the depth, the factor's buffer is [lines, length]. If they run across the depth, the
buffer is [length / row, lines, row], with `row` elements in a swizzled row. Factors of 8 and of 32 bits must be
swizzled, with rows along the depth; factors of 16 bits may be stored in either order ("rows", "columns"), and as core
matrices. float32 stands for tf32: the hardware reads only the bits of tf32, and bulk copies have rounded the elements
to tf32.
"""

from __future__ import annotations

from math import gcd

from ...ir.expr import Buffer, Const, Expr, Load, Var, cast
from ...ir.stmt import Assign, IntrinsicDeclaration, Reduce, nest
from ...ir.types import HALVES, DType
from ...te.scalars import round_tf32
from .mma import FACTORS, TF32, Order, sum_type
from .mma_fragments import GROUP_ROWS, MATRIX_D, MOST_GROUP_COLUMNS, depth_of

HALF_DEPTH = depth_of(DType.FLOAT16)
CORE = 8
"""A core matrix has this number of lines (contiguous pieces of a row or column); a line has as many 16-bit elements."""
COLUMNS = tuple(range(CORE, MOST_GROUP_COLUMNS + 1, CORE))
"""All widths of a product of floats (PTX ISA, "wgmma.mma_async", its .shape)."""
SWIZZLES = (128, 64, 32)
"""Possible sizes of swizzled rows, in bytes."""
SWIZZLED = "_swizzled"
"""Suffix of the names of products of swizzled factors."""
ARCHITECTURE = "sm_90a"
"""The only architecture with products of warpgroups."""


def columns_of(dtype: DType) -> tuple[int, ...]:
    """The widths of products with a left factor of type `dtype`; for integers, widths above 32 are multiples of 16."""
    return tuple([n for n in COLUMNS if n < 32 or n % 16 == 0 or not dtype.is_integer])


def wgmma(
    dtype: DType,
    columns: int,
    order_a: Order = "rows",
    order_b: Order = "columns",
    *,
    right: DType | None = None,
    swizzled: bool = False,
) -> IntrinsicDeclaration:
    """wgmma.mma_async.m64nNk{8, 16, 32}: c [64, `columns`] += a [64, depth] times b [depth, `columns`].

    `dtype` and `right` are the types of a and b (`right` None: both `dtype`); the depth is `depth_of`, the type of the
    sums `sum_type`. `order_a`, `order_b`: whether adjacent elements in memory are neighbours in a row of the factor
    ("rows") or in a column ("columns").

    Without `swizzled`, factors are core matrices: a is [8, 2, 8, 8] (in order "columns" [2, 8, 8, 8]), b is [columns /
    8, 2, 8, 8] (in order "rows" [2, columns / 8, 8, 8]). With `swizzled`, a is [64, depth] (in order "columns" [1, 16,
    64]), b is [columns, depth] (in order "rows" [columns / n, 16, n], with n from `row_elements`).

    The operation always adds: clear the sums first (`zero`). Raises ValueError if no operation has these types, orders
    and width.
    """
    right = right or dtype
    if (dtype, right) not in FACTORS:
        types = ", ".join(dict.fromkeys(a.value for a, _ in FACTORS))
        raise ValueError(f"no wgmma instruction multiplies {dtype} by {right}; the types are {types}")
    if dtype not in HALVES and (order_a, order_b, swizzled) != ("rows", "columns", True):
        raise ValueError(
            f"factors of {dtype} must be stored in swizzled rows along the depth: order_a='rows', order_b='columns', "
            "swizzled=True"
        )
    _check_columns(columns, dtype)
    c = _sums(columns, sum_type(dtype))
    if swizzled:
        loops, row, x, y = _swizzled_factors(dtype, right, columns, order_a, order_b)
        at = row
    else:
        i1, i2, j1, j2, k1, k2 = (Var(name) for name in ("i1", "i2", "j1", "j2", "k1", "k2"))
        held, place = _factor("a", dtype, GROUP_ROWS, (i1, i2), (k1, k2), along_depth=order_a == "rows")
        x = held[place]
        held, place = _factor("b", right, columns, (j1, j2), (k1, k2), along_depth=order_b == "columns")
        y = held[place]
        loops = [*_digits((i1, i2), GROUP_ROWS), *_digits((j1, j2), columns), *_digits((k1, k2), HALF_DEPTH)]
        at = (i1 * CORE + i2, _matrix(j1, columns) * CORE + j2)
    reduce = Reduce.into("wgmma", "add", c[at], _read(x) * _read(y))
    types = "_".join(dict.fromkeys((dtype.value, right.value)))
    name = f"wgmma_{types}_n{columns}_{order_a}_{order_b}{SWIZZLED if swizzled else ''}"
    return IntrinsicDeclaration(name=name, parameters=(c, x.buffer, y.buffer), body=nest(loops, reduce))


def _read(element: Load) -> Expr:
    """The value of an element as a factor in the product: converted to the type of the sum, or rounded to tf32."""
    dtype = element.buffer.dtype
    return round_tf32(element) if dtype is TF32 else cast(element, sum_type(dtype))


def reads_swizzled(declaration: IntrinsicDeclaration) -> bool:
    """Whether a declaration is a product of swizzled factors."""
    return declaration.name.endswith(SWIZZLED)


def row_elements(size: int) -> int | None:
    """Number of 16-bit elements in a swizzled row, for a factor with `size` rows (of A) or columns (of B) whose
    swizzled rows run across the depth. None if no allowed row length divides `size`.
    """
    return next((n // 2 for n in SWIZZLES if size % (n // 2) == 0), None)


def zero(columns: int, total: DType = DType.FLOAT32) -> IntrinsicDeclaration:
    """Declares an operation that clears the sums c [64, `columns`], of type `total`, of a warpgroup."""
    _check_columns(columns)
    c = _sums(columns, total)
    i1, i2, j1, j2 = (Var(name) for name in ("i1", "i2", "j1", "j2"))
    assign = Assign.to(
        "zero",
        c[i1 * CORE + i2, _matrix(j1, columns) * CORE + j2],
        Const(0.0 if total.is_float else 0, total),
    )
    body = nest([*_digits((i1, i2), GROUP_ROWS), *_digits((j1, j2), columns)], assign)
    name = f"zero_fragment_wgmma_{total.value}_n{columns}"
    return IntrinsicDeclaration(name=name, parameters=(c,), body=body)


def store(columns: int, scope: str = "shared", total: DType = DType.FLOAT32) -> IntrinsicDeclaration:
    """The intrinsic that stores the sums of a warpgroup, [64, `columns`] of type `total`, to a matrix in shared memory
    or device memory (`scope` "shared" or "dram").
    """
    _check_columns(columns)
    c = _sums(columns, total)
    target = Buffer(name="target", shape=c.shape, dtype=c.dtype, scope=scope)
    i, j = Var("i"), Var("j")
    assign = Assign.to("store", target[i, j], c[i, j])
    body = nest([(i, GROUP_ROWS), (j, columns)], assign)
    name = f"store_fragment_wgmma_{total.value}_n{columns}_{scope}"
    return IntrinsicDeclaration(name=name, parameters=(target, c), body=body)


def declarations() -> list[IntrinsicDeclaration]:
    """The declarations of all operations of warpgroups."""
    orders: tuple[Order, Order] = ("rows", "columns")
    found = [wgmma(t, n, a, b) for t in HALVES for n in COLUMNS for a in orders for b in orders]
    for columns in COLUMNS:
        fitting = orders if row_elements(columns) else orders[1:]
        found += [wgmma(t, columns, a, b, swizzled=True) for t in HALVES for a in orders for b in fitting]
    others = [(a, b) for a, b in FACTORS if a not in HALVES]
    found += [wgmma(a, n, right=b, swizzled=True) for a, b in others for n in columns_of(a)]
    for total in (DType.FLOAT32, DType.INT32):
        for columns in COLUMNS:
            found += [zero(columns, total), store(columns, total=total), store(columns, "dram", total)]
    return found


def descriptor(start: int, leading: int, stride: int, swizzle: int = 0) -> int:
    """The 64-bit descriptor of a matrix in shared memory for `wgmma`. Arguments are in bytes; raises ValueError unless
    `start`, `leading` and `stride` are multiples of 16.

    `start`: address of the matrix. `swizzle`: bytes of a swizzled row, 0 for core matrices. For core matrices,
    `leading` is the distance from one core matrix to the next along the depth, and `stride` the distance to the next
    along the rows of A or the columns of B.

    For swizzled rows, `stride` is the distance from a group of 8 rows to the next group. If swizzled rows run along the
    depth, `leading` is not used. If swizzled rows run across the depth, a line of the factor may need several of them;
    then `leading` is the distance from one of these rows to the next.

    Format (PTX ISA, "Matrix Descriptor Format"): bits 4 to 17 of `start`, `leading` and `stride` are stored in the
    descriptor's bits from 0, 16 and 32 on. Bits 62 and 63 are 1, 2 or 3 for swizzled rows of 128, 64 or 32 bytes. The
    base offset is zero, because groups of 8 swizzled rows begin at multiples of their size.
    """
    fields = (start, leading, stride)
    if gcd(*fields) % 16:
        raise ValueError(
            f"start ({start} bytes), leading ({leading} bytes) and stride ({stride} bytes) must be multiples of 16 "
            "bytes"
        )
    mode = swizzle_mode(swizzle) << 62
    return mode | sum((field & 0x3FFFF) >> 4 << 16 * at for at, field in enumerate(fields))


def swizzle_mode(swizzle: int) -> int:
    """The code, in a descriptor, of swizzled rows of `swizzle` bytes (0: not swizzled)."""
    return SWIZZLES.index(swizzle) + 1 if swizzle else 0


def _check_columns(columns: int, dtype: DType = DType.FLOAT16) -> None:
    if columns not in columns_of(dtype):
        step = 16 if dtype.is_integer and columns >= 32 else CORE
        raise ValueError(
            f"no wgmma instruction for {dtype} has {columns} columns; use a multiple of {step} up to "
            f"{MOST_GROUP_COLUMNS}"
        )


def _sums(columns: int, total: DType) -> Buffer:
    return Buffer(name="c", shape=(GROUP_ROWS, columns), dtype=total, scope=MATRIX_D)


def _factor(
    name: str, dtype: DType, size: int, data: tuple[Var, Var], depth: tuple[Var, Var], *, along_depth: bool
) -> tuple[Buffer, tuple[Expr, ...]]:
    """Returns the shared-memory buffer `name` of one factor (A or B) of a wgmma product, stored as core matrices (8
    lines of 16 bytes), and the buffer indices of one element of the factor.

    `size`: number of rows of A, or of columns of B. `data`: the element's row of A or column of B. `depth`: the
    element's coordinate along the dimension that is summed. Both coordinates are given as (multiple of 8, remainder).
    `along_depth`: whether the lines of core matrices run along the depth.
    """
    deep = (HALF_DEPTH, depth)
    lines, length = ((size, data), deep) if along_depth else (deep, (size, data))
    shape = (lines[0] // CORE, length[0] // CORE, CORE, CORE)
    at = (_matrix(lines[1][0], lines[0]), _matrix(length[1][0], length[0]), lines[1][1], length[1][1])
    return Buffer(name=name, shape=shape, dtype=dtype, scope="shared"), at


def _swizzled_factors(
    left: DType, right: DType, columns: int, order_a: Order, order_b: Order
) -> tuple[list[tuple[Var, int]], tuple[Expr, Expr], Load, Load]:
    """Describes the product of two swizzled factors, A of type `left` and B of type `right`, with `columns` columns.
    `order_a`, `order_b`: the factors' storage orders. Returns the product's loops as (variable, extent), the row and
    column of the sum, and the loads of the multiplied elements of A and B.
    """
    k = Var("k")
    row, rows, x = _swizzled_factor("a", left, GROUP_ROWS, "i", k, along_depth=order_a == "rows")
    column, across, y = _swizzled_factor("b", right, columns, "j", k, along_depth=order_b == "columns")
    return [*rows, *across, (k, depth_of(left))], (row, column), x, y


def _swizzled_factor(
    name: str, dtype: DType, size: int, data: str, k: Var, *, along_depth: bool
) -> tuple[Expr, list[tuple[Var, int]], Load]:
    """Describes one wgmma factor that is stored in swizzled rows in the buffer `name`. Returns (index, loops, load):
    the index of an element among the `size` rows of A or columns of B, the loops (variable, extent) whose variables
    form this index, and the load of the element with this index at depth `k`.

    `data`: the beginning of the loop variables' names. `along_depth`: whether swizzled rows run along the depth. Raises
    ValueError if swizzled rows run across the depth and `size` does not fill a whole number of them.
    """
    if along_depth:
        i = Var(data)
        held = Buffer(name=name, shape=(size, depth_of(dtype)), dtype=dtype, scope="shared")
        return i, [(i, size)], held[i, k]
    row = row_elements(size)
    if row is None:
        raise ValueError(
            f"factor {name} has {size} rows or columns; swizzled rows need a multiple of {SWIZZLES[-1] // 2}"
        )
    outer, inner = Var(f"{data}1"), Var(f"{data}2")
    held = Buffer(name=name, shape=(size // row, HALF_DEPTH, row), dtype=dtype, scope="shared")
    if size == row:
        return inner, [(inner, row)], held[0, k, inner]
    return outer * row + inner, [(outer, size // row), (inner, row)], held[outer, k, inner]


def _matrix(variable: Var, size: int) -> Expr:
    """The index of a core matrix along a dimension of `size` elements. The index is the loop's `variable`, or 0 if the
    dimension has only one core matrix.
    """
    return variable if size > CORE else Const(0)


def _digits(variables: tuple[Var, Var], size: int) -> list[tuple[Var, int]]:
    return [(variables[0], size // CORE), (variables[1], CORE)]
