"""Products of matrices of low precision, as tensor cores compute them: staged factors, exact products, wide sums."""

from __future__ import annotations

from ...ir.expr import Buffer, Expr, Load, Var, cast, equal
from ...ir.stmt import Alloc, Assign, Copy, Program, Reduce, Stmt, nest, seq, whole
from ...ir.types import DType
from ...ir.visit import map_expr, rewrite_at
from ..epilogue import Epilogue
from ..scalars import round_tf32
from .common import parameters_of

FACTORS = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.INT8, DType.UINT8)
"""Types of factors; float32 ones are rounded to tf32."""


def tensor_gemm(
    *,
    rows: int,
    depth: int,
    columns: int,
    dtype: DType,
    weight_dtype: DType | None = None,
    output: DType | None = None,
    batch: int | None = None,
    transposed_x: bool = False,
    transposed_w: bool = False,
    epilogue: Epilogue | None = None,
    name: str = "tensor_gemm",
) -> Program:
    """Y = epilogue(X @ W), factors of `dtype` (and `weight_dtype`, by default the same), for every matrix of a batch.

    Parameters X [rows, depth] (`transposed_x`: [depth, rows]), W [depth, columns] (`transposed_w`: [columns, depth]), B
    float32[columns] with a bias, R float32 like Y with an operand, Y [rows, columns]; all but B with a dimension
    [batch] before these if `batch` is given. Floats are summed in float32, those of float32 rounded to tf32 before
    (`round_factors`); integers in int32, which wraps. `output` is the type of Y: by default that of the sums; a float,
    rounded to nearest; int32 for sums of integers without epilogue. Stages, names and loops are those of `te.ops.gemm`,
    a batch's loops gemm.b0 and b0. ValueError for types or an epilogue that do not go together.
    """
    epilogue, weight_dtype = epilogue or Epilogue(), weight_dtype or dtype
    total = DType.INT32 if dtype.is_integer else DType.FLOAT32
    output = output or total
    if dtype not in FACTORS or not (
        weight_dtype is dtype or (weight_dtype in FACTORS and dtype.is_integer and weight_dtype.is_integer)
    ):
        raise ValueError(f"there is no product of {dtype} and {weight_dtype}")
    if not (output.is_float or (output is DType.INT32 is total and epilogue.is_identity)):
        raise ValueError(f"an output of {output} is none of {dtype}, or has no epilogue")
    lead = () if batch is None else (batch,)
    left = (*lead, depth, rows) if transposed_x else (*lead, rows, depth)
    right = (*lead, columns, depth) if transposed_w else (*lead, depth, columns)
    x, a = (Buffer(name=n, shape=left, dtype=dtype) for n in ("X", "a"))
    w, b = (Buffer(name=n, shape=right, dtype=weight_dtype) for n in ("W", "b"))
    y = Buffer(name="Y", shape=(*lead, rows, columns), dtype=output)
    sums = Buffer(name="sum", shape=y.shape, dtype=total)
    bias = Buffer(name="B", shape=(columns,), dtype=DType.FLOAT32) if epilogue.bias else None
    operand = Buffer(name="R", shape=y.shape, dtype=DType.FLOAT32) if epilogue.operand else None

    of = [Var("gemm.b0") for _ in lead]
    i, j, k = Var("gemm.i"), Var("gemm.j"), Var("gemm.k")
    factors = (
        a[*of, k, i] if transposed_x else a[*of, i, k],
        b[*of, j, k] if transposed_w else b[*of, k, j],
    )
    value = cast(factors[0], total) * cast(factors[1], total)
    reduce = Reduce(name="gemm", op="add", buffer=sums, indices=(*of, i, j), value=value, first=equal(k, 0))
    product = nest([*zip(of, lead, strict=True), (i, rows), (j, columns), (k, depth)], reduce)
    of = [Var("b0") for _ in lead]
    i, j = Var("i"), Var("j")
    value = cast(sums[*of, i, j], DType.FLOAT32) if output.is_float else sums[*of, i, j]
    value = epilogue.value(
        value, None if bias is None else bias[j], None if operand is None else operand[*of, i, j]
    )
    post = Assign(name="post", buffer=y, indices=(*of, i, j), value=cast(value, output))
    finish = nest([*zip(of, lead, strict=True), (i, rows), (j, columns)], post)
    copies = [Copy(name=to.name, destination=whole(to), source=whole(of)) for to, of in ((a, x), (b, w))]
    body: Stmt = seq(*copies, product, finish)
    for buffer in (sums, b, a):
        body = Alloc(buffer=buffer, body=body)
    program = Program(name=name, parameters=parameters_of(x, w, bias, operand, y), body=body)
    return round_factors(program) if dtype is DType.FLOAT32 else program


def round_factors(program: Program) -> Program:
    """A product whose statement "gemm" multiplies float32, as tensor cores compute it: every factor rounded to tf32."""

    def factor(e: Expr) -> Expr:
        return round_tf32(e) if isinstance(e, Load) and e.buffer.dtype is DType.FLOAT32 else e

    def rounded(statement: Stmt) -> Stmt:
        if not isinstance(statement, Reduce):
            raise ValueError(f"{program.name}: gemm is not a sum")
        return Reduce(
            name=statement.name,
            op=statement.op,
            buffer=statement.buffer,
            indices=statement.indices,
            value=map_expr(statement.value, factor),
            first=statement.first,
        )

    return rewrite_at(program, "gemm", rounded)
