"""Declarations of intrinsics for `tensorize`: the operations of a warp on tensor cores, and the loads and stores of
fragments.

A whole warp executes an operation, on fragments (see `mma_fragments`). So each use of an operation is inside loops over
warps (thread.y, thread.z), but not inside a loop over lanes. Products of the factors are exact; the hardware determines
the order in which sums are rounded.
"""

from __future__ import annotations

from itertools import product
from typing import Literal

from ...ir.expr import Buffer, Const, Expr, Var, cast
from ...ir.stmt import Assign, IntrinsicDeclaration, Reduce, Stmt, nest
from ...ir.types import HALVES, DType
from ...te.scalars import round_tf32
from .mma_fragments import COLUMNS, MATRIX_A, MATRIX_B, MATRIX_C, ROWS, depth_of

FACTORS: tuple[tuple[DType, DType], ...] = (
    (DType.FLOAT16, DType.FLOAT16),
    (DType.BFLOAT16, DType.BFLOAT16),
    (DType.FLOAT32, DType.FLOAT32),
    (DType.INT8, DType.INT8),
    (DType.UINT8, DType.INT8),
    (DType.UINT8, DType.UINT8),
    (DType.INT8, DType.UINT8),
)
"""Pairs of element types (of the left factor A, of the right factor B) that an `mma` instruction multiplies; float32
stands for tf32.
"""
TF32 = DType.FLOAT32

Order = Literal["rows", "columns"]
"""Storage order of a factor in shared memory: adjacent elements are neighbours in a row of the factor ("rows") or in a
column ("columns").
"""


def sum_type(factor: DType) -> DType:
    """The type in which products of factors of type `factor` are summed."""
    return DType.INT32 if factor.is_integer else DType.FLOAT32


def mma(a: DType, b: DType) -> IntrinsicDeclaration:
    """mma.sync.m16n8k{8, 16, 32}: c [16, 8] += a [16, depth] times b [depth, 8], where depth is `depth_of(a)`.

    The sum is float32 or int32 (which wraps). The operation always adds: clear the sum first (decompose_reduction,
    `zero`). tf32 factors are stored as float32, which the loads of fragments have rounded. Raises ValueError if no
    operation multiplies these types.
    """
    if (a, b) not in FACTORS:
        known = ", ".join(f"{x} by {y}" for x, y in FACTORS)
        raise ValueError(f"no mma instruction multiplies {a} by {b}; there are {known}")
    depth, total = depth_of(a), sum_type(a)
    x = Buffer(name="a", shape=(ROWS, depth), dtype=a, scope=MATRIX_A)
    y = Buffer(name="b", shape=(depth, COLUMNS), dtype=b, scope=MATRIX_B)
    c = Buffer(name="c", shape=(ROWS, COLUMNS), dtype=total, scope=MATRIX_C)
    i, j, k = Var("i"), Var("j"), Var("k")
    reduce = Reduce.into("mma", "add", c[i, j], cast(x[i, k], total) * cast(y[k, j], total))
    body = nest([(i, ROWS), (j, COLUMNS), (k, depth)], reduce)
    return IntrinsicDeclaration(name=f"mma_{_types(a, b)}", parameters=(c, x, y), body=body)


def zero(total: DType) -> IntrinsicDeclaration:
    """Declares an operation that clears a fragment of sums c [16, 8] of type `total`."""
    c = Buffer(name="c", shape=(ROWS, COLUMNS), dtype=total, scope=MATRIX_C)
    i, j = Var("i"), Var("j")
    value = Const(0.0 if total.is_float else 0, total)
    body = nest([(i, ROWS), (j, COLUMNS)], Assign.to("zero", c[i, j], value))
    return IntrinsicDeclaration(name=f"zero_fragment_{total.value}", parameters=(c,), body=body)


def load_a(
    dtype: DType, order: Order = "rows", *, matrix: bool = True, rounds: bool = True
) -> IntrinsicDeclaration:
    """Declares a load of a fragment of A, [16, depth], from shared memory. The source matrix is [16, depth], or [depth,
    16] in order "columns".

    `matrix`: whether `ldmatrix` loads the fragment. Rows of the source must then begin at multiples of 16 bytes, and
    order "columns" (`.trans`) requires 16-bit types. Without `matrix`, each lane loads its own elements. `rounds`:
    whether the load rounds float32 to tf32; if not, the source already holds tf32. Raises ValueError for fragments that
    `ldmatrix` cannot load.
    """
    depth = depth_of(dtype)
    return _load(dtype, order, matrix, MATRIX_A, (ROWS, depth), rounds)


def load_b(
    dtype: DType, order: Order = "columns", *, matrix: bool = True, rounds: bool = True
) -> IntrinsicDeclaration:
    """Declares a load of a fragment of B, [depth, 8], from shared memory, like `load_a`. The source matrix is [depth,
    8], or [8, depth] in order "columns". With `matrix` the instruction loads two neighbouring fragments at once, [2,
    depth, 8], from a source of [depth, 16] or [16, depth].
    """
    depth = depth_of(dtype)
    return _load(dtype, order, matrix, MATRIX_B, (depth, COLUMNS), rounds)


def _load(
    dtype: DType, order: Order, matrix: bool, scope: str, shape: tuple[int, int], rounds: bool
) -> IntrinsicDeclaration:
    # Neighbours in a register of A or B differ in depth; ldmatrix returns such pairs of a stored row or, transposing,
    # of a stored column.
    along_depth = order == ("rows" if scope == MATRIX_A else "columns")
    if matrix and not along_depth and dtype.bits != 16:
        raise ValueError(f"ldmatrix transposes elements of 16 bits only, not {dtype}")
    rows, columns = shape
    tiles = 2 if matrix and scope == MATRIX_B else 1
    t, i, j = Var("t"), Var("i"), Var("j")
    stored = (rows, columns * tiles)
    at: tuple[Expr, Expr] = (i, t * columns + j if tiles > 1 else j)
    if order == "columns":
        stored, at = stored[::-1], (at[1], at[0])
    held = (tiles, *shape) if tiles > 1 else shape
    fragment = Buffer(name="fragment", shape=held, dtype=dtype, scope=scope)
    source = Buffer(name="source", shape=stored, dtype=dtype, scope="shared")
    value: Expr = source[at]
    if dtype is TF32 and rounds:
        value = round_tf32(value)
    indices = (t, i, j) if tiles > 1 else (i, j)
    body: Stmt = Assign.to("load", fragment[indices], value)
    body = nest([(i, rows), (j, columns)], body)
    if tiles > 1:
        body = nest([(t, tiles)], body)
    how = "ldmatrix" if matrix else "load"
    letter = scope[-1]
    name = f"{how}_{letter}_{_types(dtype) if rounds else dtype.value}_{order}"
    return IntrinsicDeclaration(name=name, parameters=(fragment, source), body=body)


def store(total: DType, scope: str = "shared") -> IntrinsicDeclaration:
    """Declares a store of a fragment of sums, [16, 8] of type `total`, to memory of a scope ("shared" or "dram")."""
    c = Buffer(name="c", shape=(ROWS, COLUMNS), dtype=total, scope=MATRIX_C)
    target = Buffer(name="target", shape=(ROWS, COLUMNS), dtype=total, scope=scope)
    i, j = Var("i"), Var("j")
    assign = Assign.to("store", target[i, j], c[i, j])
    body = nest([(i, ROWS), (j, COLUMNS)], assign)
    name = f"store_fragment_{total.value}_{scope}"
    return IntrinsicDeclaration(name=name, parameters=(target, c), body=body)


def convert(dtype: DType) -> IntrinsicDeclaration:
    """The intrinsic that rounds float32 sums to a 16-bit type, and makes them a factor of another product. It puts two
    fragments of sums, c [2, 16, 8], side by side into the fragment a [16, 16]. Lanes exchange no elements, because each
    lane already holds the elements of its part of the result (`ir.lane_elements`).
    """
    a = Buffer(name="a", shape=(ROWS, depth_of(dtype)), dtype=dtype, scope=MATRIX_A)
    c = Buffer(name="c", shape=(2, ROWS, COLUMNS), dtype=DType.FLOAT32, scope=MATRIX_C)
    t, i, j = Var("t"), Var("i"), Var("j")
    assign = Assign.to("convert", a[i, t * COLUMNS + j], cast(c[t, i, j], dtype))
    body = nest([(t, 2), (i, ROWS), (j, COLUMNS)], assign)
    return IntrinsicDeclaration(name=f"convert_fragment_{dtype.value}", parameters=(a, c), body=body)


def _types(*dtypes: DType) -> str:
    names = ["tf32" if dtype is TF32 else dtype.value for dtype in dict.fromkeys(dtypes)]
    return "_".join(names)


def declarations() -> list[IntrinsicDeclaration]:
    """The declarations of all operations on fragments."""
    orders: tuple[Order, Order] = ("rows", "columns")
    found = [mma(a, b) for a, b in FACTORS]
    for dtype in dict.fromkeys(a for a, _ in FACTORS):
        for load, along_depth in ((load_a, "rows"), (load_b, "columns")):
            for order, rounds in product(orders, (True, False) if dtype is TF32 else (True,)):
                if order == along_depth or dtype.bits == 16:
                    found.append(load(dtype, order, rounds=rounds))
                found.append(load(dtype, order, matrix=False, rounds=rounds))
    for total in (DType.FLOAT32, DType.INT32):
        found += [zero(total), store(total), store(total, "dram")]
    return [*found, *(convert(dtype) for dtype in HALVES)]
