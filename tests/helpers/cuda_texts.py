"""Small GPU programs, each for one feature of code generation. `python tests/helpers/cuda_texts.py` rewrites their
golden texts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpu_kernels import windows

from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.module import (
    CudaModule,
    IntegerArgument,
    KernelLaunch,
    ParameterArgument,
    TensorMapArgument,
    WorkspaceArgument,
    lower,
)
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.ir.expr import Buffer, Const, Var, cast, equal, maximum, minimum, select
from vdla.compiler.ir.stmt import (
    Alloc,
    Assign,
    Copy,
    For,
    Program,
    Reduce,
    nest,
    region,
    seq,
    whole,
)
from vdla.compiler.ir.types import DType
from vdla.compiler.schedule import Schedule
from vdla.compiler.te.scalars import divide

GOLDEN = Path(__file__).parent.parent / "compiler" / "codegen" / "cuda" / "golden"
F32 = DType.FLOAT32
ZERO = Const(0.0, F32)


def buffer(name: str, *shape: int, dtype: DType = F32, scope: str = "dram") -> Buffer:
    return Buffer(name=name, shape=shape, dtype=dtype, scope=scope)


def tiled_gemm(rows: int, columns: int, depth: int, *, stages: int, tile: int = 16) -> Program:
    """A program of Y = max(X W, 0), with X [rows, depth] and W [depth, columns]: blocks of tile x tile results, 4 x 4
    results for each thread, operands staged in shared memory 8 deep, in a pipeline of `stages` (1: no pipeline).
    """

    def up(size: int, step: int) -> int:
        return -(-size // step) * step

    m, n, k = up(rows, tile), up(columns, tile), up(depth, 8)
    x, w, y = buffer("X", rows, depth), buffer("W", depth, columns), buffer("Y", rows, columns)
    a, b, total = buffer("a", m, k), buffer("b", k, n), buffer("sum", m, n)
    load_a = Copy(name="a", destination=whole(a), source=region(x, (0, m), (0, k)), pad=ZERO)
    load_b = Copy(name="b", destination=whole(b), source=region(w, (0, k), (0, n)), pad=ZERO)
    i, j, p, r, c = Var("i"), Var("j"), Var("k"), Var("row"), Var("column")
    product = Reduce(
        name="gemm", op="add", buffer=total, indices=(i, j), value=a[i, p] * b[p, j], first=equal(p, 0)
    )
    post = Assign(name="post", buffer=y, indices=(r, c), value=maximum(total[r, c], 0.0))
    body = seq(load_a, load_b, nest([(i, m), (j, n), (p, k)], product), nest([(r, rows), (c, columns)], post))
    for held in (total, b, a):
        body = Alloc(buffer=held, body=body)
    s = Schedule(Program(name="gemm", parameters=(x, w, y), body=body))
    i0, i1 = s.split("i", tile)
    j0, j1 = s.split("j", tile)
    k0, k1 = s.split("k", 8)
    ti, ri = s.split(i1, 4)
    tj, rj = s.split(j1, 4)
    s.reorder(i0, j0, k0, ti, tj, k1, ri, rj)
    s.decompose_reduction("gemm", k0)
    s.reverse_compute_at("post", j0)
    s.compute_at("a", k0)
    s.compute_at("b", k0)
    for name in ("a", "b"):
        s.set_scope(name, "shared")
    r0, r1 = s.split("row", 4)
    c0, c1 = s.split("column", 4)
    s.reorder(r0, c0, r1, c1)
    s.set_scope("sum", "register")
    s.pack("sum", ((0, 4), (1, 4)), (0, 1, 2, 3))
    s.bind(i0, "block.y")
    s.bind(j0, "block.x")
    threads = tile // 4
    for name in ("a", "b"):
        s.share_copy(name, (("thread.y", threads), ("thread.x", threads)), 4)
    if stages > 1:
        s.pipeline(k0, stages)
    for rows_of, columns_of in ((ti, tj), (f"{ti}.init", f"{tj}.init"), (r0, c0)):
        s.bind(rows_of, "thread.y")
        s.bind(columns_of, "thread.x")
    s.unroll(k1)
    return s.program


def element_wise(size: int = 1000, lanes: int = 4) -> Program:
    """A program of Y = X / (1 + |X|) with vectors of `lanes` elements; some threads of the last block have no work."""
    x, y = buffer("X", size), buffer("Y", size)
    b, t, v = Var("i.0"), Var("i.1"), Var("i.2")
    at = (b * 64 + t) * lanes + v
    size_of = select(x[at] < 0.0, 0.0 - x[at], x[at])
    body = Assign(name="soft", buffer=y, indices=(at,), value=divide(x[at], size_of + 1.0))
    work = size // lanes
    inside = For(var=v, extent=Const(lanes), body=body, kind="vectorize")
    threads = For(var=t, extent=minimum(64, work - b * 64), body=inside, kind="thread.x")
    return Program(
        name="soft",
        parameters=(x, y),
        body=For(var=b, extent=Const(-(-work // 64)), body=threads, kind="block.x"),
    )


def patches() -> Program:
    """A program that copies the 3 x 3 neighbourhood of every element of an image, one row of the neighbourhood at a
    time; elements outside of the image are 1.
    """
    x, y = buffer("X", 5, 7), buffer("Y", 5, 7, 3, 3)
    i, j, k = Var("i"), Var("j"), Var("k")
    copy = Copy(
        name="patch",
        destination=region(y, (i, 1), (j, 1), (k, 1), (0, 3)),
        source=region(x, (i + k - 1, 1), (j - 1, 3)),
        pad=Const(1.0, F32),
    )
    body = For(var=k, extent=Const(3), body=copy)
    body = For(var=j, extent=Const(7), body=body, kind="thread.x")
    return Program(
        name="patches", parameters=(x, y), body=For(var=i, extent=Const(5), body=body, kind="block.x")
    )


def row_sums() -> Program:
    """A program of sums over rows: 32 threads each sum a part, and a tree in shared memory adds the parts."""
    x, y = buffer("X", 3, 160), buffer("Y", 3)
    parts = buffer("parts", 32, scope="shared")
    i, t, k, u, h, s = Var("i"), Var("t"), Var("k"), Var("u"), Var("h"), Var("s")
    part = Reduce(
        name="part", op="add", buffer=parts, indices=(t,), value=x[i, k * 32 + t], first=equal(k, 0)
    )
    first = For(var=t, extent=Const(32), body=nest([(k, 5)], part), kind="thread.x")
    half = Reduce(name="half", op="add", buffer=parts, indices=(u,), value=parts[u + 8])
    rest = Reduce(name="rest", op="add", buffer=parts, indices=(h,), value=parts[h + 16])
    half_loop = For(var=u, extent=Const(8), body=half, kind="thread.x")
    rest_loop = For(var=h, extent=Const(16), body=rest, kind="thread.x")
    total = Reduce(name="total", op="add", buffer=y, indices=(i,), value=parts[s], first=equal(s, 0))
    last = For(var=Var("one"), extent=Const(1), body=nest([(s, 8)], total), kind="thread.x")
    body = Alloc(buffer=parts, body=seq(first, rest_loop, half_loop, last))
    return Program(
        name="row_sums", parameters=(x, y), body=For(var=i, extent=Const(3), body=body, kind="block.x")
    )


def steps() -> Program:
    """A program with a loop that runs on the host. Each iteration launches two kernels; the first kernel writes a row
    to the workspace in global memory, and the second reads it.
    """
    x, y, held = buffer("X", 4, 32), buffer("Y", 4, 32), buffer("held", 32)
    t, b, i, c, j = Var("t"), Var("b"), Var("i"), Var("c"), Var("j")

    def kernel(block: Var, thread: Var, body: Assign) -> For:
        inside = For(var=thread, extent=Const(32), body=body, kind="thread.x")
        return For(var=block, extent=Const(1), body=inside, kind="block.x")

    double = Assign(name="double", buffer=held, indices=(i,), value=x[t, i] * 2.0)
    turn = Assign(name="turn", buffer=y, indices=(t, j), value=held[31 - j])
    body = Alloc(buffer=held, body=seq(kernel(b, i, double), kernel(c, j, turn)))
    return Program(name="steps", parameters=(x, y), body=nest([(t, 4)], body))


def halves() -> Program:
    """A program of sums of squares of float16 numbers, accumulated in float32 and rounded to bfloat16; it needs more
    than 48 KiB of shared memory.
    """
    x = buffer("X", 256, 64, dtype=DType.FLOAT16)
    y = buffer("Y", 256, dtype=DType.BFLOAT16)
    held = buffer("held", 256, 128, dtype=DType.FLOAT16, scope="shared")
    i, r, k = Var("i"), Var("r"), Var("k")
    load = Copy(name="load", destination=region(held, (i, 1), (0, 64)), source=region(x, (i, 1), (0, 64)))
    total = buffer("total", 1, scope="register")
    value = cast(held[r, k], F32) * cast(held[r, k], F32)
    square = Reduce(
        name="square", op="add", buffer=total, indices=(Const(0),), value=value, first=equal(k, 0)
    )
    put = Assign(name="put", buffer=y, indices=(r,), value=cast(total[0], DType.BFLOAT16))
    phases = seq(
        For(var=i, extent=Const(256), body=load, kind="thread.x"),
        For(
            var=r,
            extent=Const(256),
            body=Alloc(buffer=total, body=seq(nest([(k, 64)], square), put)),
            kind="thread.x",
        ),
    )
    body = Alloc(buffer=held, body=phases)
    return Program(
        name="halves", parameters=(x, y), body=For(var=Var("b"), extent=Const(1), body=body, kind="block.x")
    )


CASES: dict[str, Callable[[], Program]] = {
    "gemm": lambda: tiled_gemm(35, 18, 20, stages=1),
    "pipelined-gemm": lambda: tiled_gemm(32, 32, 32, stages=3),
    "element-wise": element_wise,
    "patches": patches,
    "row-sums": row_sums,
    "steps": steps,
    "halves": halves,
    "whole-blocks": windows,
}


def module(name: str, arch: str = "sm_90") -> CudaModule:
    """The generated CUDA module of case `name` for the architecture `arch`."""
    target = cuda_target(arch)
    return lower(prepare(CASES[name](), target), target, name=name.replace("-", "_"))


def text(name: str) -> str:
    """The golden text of a case: its launches, then its CUDA C++."""
    made = module(name)
    return "\n".join([*map(_line, made.launches), "", made.source])


def _line(launch: KernelLaunch) -> str:
    shape = f"grid {launch.grid}, block {launch.block}, {launch.shared_bytes} bytes shared"
    shape += ", overlaps" * launch.overlaps
    arguments: list[str] = []
    for argument in launch.arguments:
        match argument:
            case IntegerArgument(value=value):
                arguments.append(str(value))
            case TensorMapArgument(array=array, tensor=tensor):
                box, swizzle = "x".join(map(str, tensor.box)), tensor.swizzle
                arguments.append(f"boxes of {box} in {_array(array)}, swizzled by {swizzle}")
            case _:
                arguments.append(_array(argument))
    return f"// {launch.function}({', '.join(arguments)}): {shape}"


def _array(argument: ParameterArgument | WorkspaceArgument) -> str:
    match argument:
        case ParameterArgument(name=name):
            return name
        case WorkspaceArgument(offset=offset):
            return f"workspace + {offset}"


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for path in GOLDEN.glob("*.cu"):
        path.unlink()
    for name in CASES:
        (GOLDEN / f"{name}.cu").write_text(text(name), encoding="utf-8")
