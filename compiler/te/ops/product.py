"""Products of matrices of any types and batches, optionally with copies of their operands as stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ...ir.expr import Buffer, Expr, Load, Var, cast
from ...ir.named_nodes import rewrite_at
from ...ir.stmt import Copy, Program, Reduce, Region, Stmt, nest, region, whole
from ...ir.types import DType
from ...ir.visit import map_expr
from ..merge import Shape, merge_broadcast
from ..scalars import round_tf32
from .sums import Epilogue, program_of, stored, summed

FACTORS = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.INT8, DType.UINT8)
"""Types of factors on tensor cores; float32 factors are rounded to tf32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrices:
    """Sizes of the products X [*batch_x, rows, depth] @ W [*batch_w, depth, columns], whose batches broadcast.

    `transposed_x`, `transposed_w`: whether a matrix is stored with rows and columns exchanged.
    """

    rows: int
    depth: int
    columns: int
    batch_x: Shape = ()
    batch_w: Shape = ()
    transposed_x: bool = False
    transposed_w: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Types:
    """Types of X, W, the sums and Y."""

    x: DType = DType.FLOAT32
    w: DType = DType.FLOAT32
    total: DType = DType.FLOAT32
    y: DType = DType.FLOAT32


FLOAT = Types()
DOT_INT8 = Types(x=DType.UINT8, w=DType.INT8, total=DType.INT32, y=DType.INT32)
"""Types of the dot product instructions of processors; their sums wrap."""


def product(
    sizes: Matrices,
    *,
    types: Types = FLOAT,
    epilogue: Epilogue | None = None,
    beside: Sequence[Shape] = (),
    staged: Literal["as they lie", "by depth"] | None = None,
    name: str = "dense",
) -> Program:
    """Y = epilogue(X @ W) for every matrix of a batch; batch dimensions broadcast as by numpy's matmul.

    Parameters: X and W as in `Matrices`; B [columns] if the epilogue adds a bias; R, of Y's shape, if it adds an
    operand; Y [batch dimensions, rows, columns]. `te.merge.merge_broadcast` merges the batch dimensions of X, W and Y.
    The merged dimensions must also suit `beside`: shapes of tensors that the caller broadcasts against the batch of Y.
    Intermediate: `sum`, shaped like Y, in the type of the sums (statement "dense", loops dense.b0, …, dense.i, dense.j,
    dense.k). Statement "post" in loops b0, …, i, j stores Y. The epilogue is computed in float32 if Y is a float.

    With `staged`, the sum's statement and loops are called "gemm", and the sum reads a copy `a` of X and a copy `b` of
    W. For "as they lie" both copies have the layout of the original. For "by depth", `b` is [batch, depth, columns]
    also if W is transposed (the copy then has loops b.b0, …, b.j, b.k). Sizes are not rounded up: `schedule.pad` makes
    them multiples of tiles. Raises ValueError if the batches do not broadcast.
    """
    batch, of_x, of_w = (), (), ()
    if sizes.batch_x or sizes.batch_w or any(beside):
        batch, (of_x, of_w, *_) = merge_broadcast([sizes.batch_x, sizes.batch_w, *beside])
    left = (sizes.depth, sizes.rows) if sizes.transposed_x else (sizes.rows, sizes.depth)
    right = (sizes.columns, sizes.depth) if sizes.transposed_w else (sizes.depth, sizes.columns)
    x = Buffer(name="X", shape=(*of_x, *left), dtype=types.x)
    w = Buffer(name="W", shape=(*of_w, *right), dtype=types.w)
    y = Buffer(name="Y", shape=(*batch, sizes.rows, sizes.columns), dtype=types.y)
    total = Buffer(name="sum", shape=y.shape, dtype=types.total)
    operands = (epilogue or Epilogue()).buffers((sizes.columns,), y)

    a, b, transposed, copies = x, w, sizes.transposed_w, list[Stmt]()
    if staged is not None:
        a, b = Buffer(name="a", shape=x.shape, dtype=x.dtype), Buffer(name="b", shape=w.shape, dtype=w.dtype)
        copies = [_stage(a, x), _stage(b, w)]
        if transposed and staged == "by depth":
            b = Buffer(name="b", shape=(*of_w, sizes.depth, sizes.columns), dtype=w.dtype)
            copies[1], transposed = _transposed(b, w), False

    def value(*at: Var) -> Expr:
        *matrix, i, j, k = at
        x_at, w_at = (
            [0 if size == 1 else loop for size, loop in zip(shape, matrix, strict=True)]
            for shape in (of_x, of_w)
        )
        return cast(a[*x_at, *((k, i) if sizes.transposed_x else (i, k))], types.total) * cast(
            b[*w_at, *((j, k) if transposed else (k, j))], types.total
        )

    def finish(*at: Var) -> Expr:
        result = cast(total[at], DType.FLOAT32) if types.y.is_float else total[at]
        return cast(operands.value(result, (at[-1],), at), types.y)

    outputs = {f"b{d}": size for d, size in enumerate(batch)} | {"i": sizes.rows, "j": sizes.columns}
    statement = "dense" if staged is None else "gemm"
    return program_of(
        name,
        (x, w, operands.bias, operands.operand, y),
        [total] if staged is None else [a, b, total],
        *copies,
        summed(statement, total, outputs, {"k": sizes.depth}, value),
        stored(y, outputs, finish),
    )


def tensor_product(
    sizes: Matrices,
    dtype: DType,
    weight_dtype: DType | None = None,
    *,
    output: DType | None = None,
    epilogue: Epilogue | None = None,
) -> Program:
    """A `product` for tensor cores. The copies of the factors keep the factors' layout. Products are exact, and the
    sums are float32 or int32.

    Factors are of type `dtype` (W is of type `weight_dtype`, if given). Products of floats are summed in float32;
    float32 factors are first rounded to tf32 (`round_factors`). Products of integers are summed in int32, which wraps.
    `output` is the type of Y: by default the type of the sums; or a float type, to which the results are rounded; or
    int32 for sums of integers without epilogue. Raises ValueError for a combination of types and epilogue that is not
    supported.
    """
    weight_dtype = weight_dtype or dtype
    total = DType.INT32 if dtype.is_integer else DType.FLOAT32
    output = output or total
    if dtype not in FACTORS or not (
        weight_dtype is dtype or (weight_dtype in FACTORS and dtype.is_integer and weight_dtype.is_integer)
    ):
        raise ValueError(f"a product of {dtype} and {weight_dtype} is not supported")
    plain = epilogue is None or epilogue.is_identity
    if not (output.is_float or (output is DType.INT32 is total and plain)):
        raise ValueError(
            f"an output of {output} is not supported for factors of {dtype}; use a float type, or int32 for integer "
            "factors without epilogue"
        )
    types = Types(x=dtype, w=weight_dtype, total=total, y=output)
    program = product(sizes, types=types, epilogue=epilogue, staged="as they lie", name="tensor_gemm")
    return round_factors(program) if dtype is DType.FLOAT32 else program


def round_factors(program: Program) -> Program:
    """The program with every float32 factor of its statement "gemm" rounded to tf32, as tensor cores need. Raises
    ValueError if this statement is not a sum.
    """

    def factor(e: Expr) -> Expr:
        return round_tf32(e) if isinstance(e, Load) and e.buffer.dtype is DType.FLOAT32 else e

    def rounded(statement: Stmt) -> Stmt:
        if not isinstance(statement, Reduce):
            raise ValueError(f"{program.name}: the statement gemm is not a sum")
        return replace(statement, value=map_expr(statement.value, factor))

    return rewrite_at(program, "gemm", rounded)


def _stage(to: Buffer, of: Buffer) -> Stmt:
    return Copy(name=to.name, destination=whole(to), source=whole(of))


def _transposed(to: Buffer, of: Buffer) -> Stmt:
    """The transposing copy of `of` to `to`, element by element, in the order of the source's memory."""
    *batch, columns, depth = of.shape
    b = [Var(f"{to.name}.b{d}") for d in range(len(batch))]
    j, k = Var(f"{to.name}.j"), Var(f"{to.name}.k")

    def element(buffer: Buffer, *at: Var) -> Region:
        return region(buffer, *[(index, 1) for index in (*b, *at)])

    copy = Copy(name=to.name, destination=element(to, k, j), source=element(of, j, k))
    return nest([*zip(b, batch, strict=True), (j, columns), (k, depth)], copy)
