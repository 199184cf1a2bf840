"""CUDA C++ of every kind of statement and expression, run on the CPU and compared with the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from cuda_on_host import HostRunError, Sparse, run_jobs
from cuda_on_host.agreement import Case, agree
from cuda_on_host.modules import job_of

from vdla.compiler.codegen.cuda.options import parse_target
from vdla.compiler.ir.conditions import not_equal
from vdla.compiler.ir.expr import (
    Buffer,
    Const,
    Expr,
    ExprLike,
    Load,
    Var,
    binary,
    cast,
    equal,
    index,
    maximum,
    minimum,
    select,
    wrap,
)
from vdla.compiler.ir.stmt import (
    Alloc,
    Assign,
    Commit,
    Copy,
    For,
    LoopKind,
    Program,
    Reduce,
    Stmt,
    Wait,
    region,
    seq,
)
from vdla.compiler.ir.types import DType
from vdla.compiler.te import scalars

TARGET = parse_target("cuda -arch=sm_90")
F32 = DType.FLOAT32


def array(name: str, *shape: int, dtype: DType = F32, scope: str = "dram") -> Buffer:
    return Buffer(name=name, shape=shape, dtype=dtype, scope=scope)


def loop(name: str, extent: ExprLike, body: Stmt, kind: LoopKind = "serial") -> Stmt:
    return For(var=Var(name), extent=index(extent), body=body, kind=kind)


def put(name: str, buffer: Buffer, at: Sequence[ExprLike], value: ExprLike) -> Stmt:
    return Assign(name=name, buffer=buffer, indices=tuple(map(index, at)), value=wrap(value, buffer.dtype))


def case(name: str, inputs: Sequence[Buffer], output: Buffer, body: Stmt) -> Case:
    return Case(name=name, program=Program(name="program", parameters=(*inputs, output), body=body))


# Expressions


def elementwise(
    name: str, inputs: Sequence[DType], output: DType, value: Callable[..., Expr], size: int = 64
) -> Case:
    """A case of Y[e] = value(e, element e of each input), for e below `size`, computed by two blocks."""
    arrays = [array(f"X{n}", size, dtype=dtype) for n, dtype in enumerate(inputs)]
    y = array("Y", size, dtype=output)
    half = size // 2
    e = Var("b") * half + Var("t")
    body = loop(
        "b", 2, loop("t", half, put("s", y, [e], value(e, *[a[e] for a in arrays])), "thread.x"), "block.x"
    )
    return case(f"{name} {inputs}", arrays, y, body)


def integers() -> Iterator[Case]:
    for dtype in (DType.INT8, DType.UINT8, DType.INT32, DType.INT64):
        two = (dtype, dtype)
        yield elementwise("wrapping", two, dtype, lambda e, a, b: a * b - a * 3 + b)
        yield elementwise("extremes", two, dtype, lambda e, a, b: minimum(a, b) + maximum(a, b) * 2)
        yield elementwise(
            "quotient",
            two,
            dtype,
            lambda e, a, b: binary("//", a, select(not_equal(b, 0), b, 3)) - b // 7 + a // 8,
        )
        yield elementwise(
            "rest", two, dtype, lambda e, a, b: binary("%", a, select(not_equal(b, 0), b, 3)) - b % 5 + a % 16
        )
        yield elementwise("comparison", two, DType.BOOL, lambda e, a, b: (a < b) & (a <= 3) | equal(a, b))
        for to in (DType.UINT8, DType.INT32, F32, DType.BOOL):
            yield elementwise(f"to {to}", (dtype,), to, lambda e, a, to=to: cast(a, to))
    for dtype in (DType.INT8, DType.INT32):
        yield elementwise("negative divisor", (dtype,), dtype, lambda e, a: a // -7 + a % -5)


def floats() -> Iterator[Case]:
    two = (F32, F32)
    yield elementwise(
        "functions",
        two,
        F32,
        lambda e, a, b: (
            scalars.exp(a)
            + scalars.tanh(b) * scalars.sigmoid(a)
            - scalars.erf(b)
            + scalars.sqrt(scalars.absolute(a))
            + scalars.log(scalars.absolute(b) + 1.0)
            + scalars.divide(a, b * b + 0.1)
        ),
    )
    yield elementwise("round_tf32", (F32,), F32, lambda e, a: scalars.round_tf32(a))
    yield elementwise("parentheses", two, F32, lambda e, a, b: a - (b - (a - b)) - a * (b + 1.0) * -1.0)
    yield elementwise("nan", two, F32, lambda e, a, b: maximum(scalars.log(a), minimum(b, scalars.sqrt(b))))
    yield elementwise("of indices", (F32,), F32, lambda e, a: cast((e - 40) // 3 + (e - 9) % 7, F32) * a)
    for dtype in (DType.INT8, DType.INT32, DType.INT64, DType.BOOL, DType.FLOAT16, DType.BFLOAT16):
        yield elementwise(f"to {dtype}", (F32,), dtype, lambda e, a, to=dtype: cast(a * 9.0, to))
    for dtype, other in ((DType.FLOAT16, DType.BFLOAT16), (DType.BFLOAT16, DType.FLOAT16)):
        halves = (dtype, dtype)
        yield elementwise("sum", halves, dtype, lambda e, a, b: a * b + maximum(a, b))
        yield elementwise("wide sum", halves, F32, lambda e, a, b: cast(a, F32) * cast(b, F32))
        yield elementwise("less", halves, DType.BOOL, lambda e, a, b: a < b)
        yield elementwise("other half", (dtype,), other, lambda e, a, to=other: cast(a, to))


def test_expressions() -> None:
    x, y = array("X", 64), array("Y", 64)
    e = Var("t")
    shifted = select(e < 60, Load(x, (minimum(e + 3, 63),)), -1.0) + select(
        (e - 5 >= 0) & (e - 5 < 64), Load(x, (maximum(e - 5, 0),)), 2.0
    )
    guarded = case(
        "guarded loads", [x], y, loop("b", 1, loop("t", 64, put("s", y, [e], shifted), "thread.x"), "block.x")
    )
    agree([*integers(), *floats(), guarded], TARGET, orders=1)


# Phases


def phases() -> Iterator[Case]:
    b = Var("b")
    for width, rows, size in ((16, 4, 150), (32, 2, 130)):
        x, y, s = array("X", size), array("Y", size), array("s", 64, scope="shared")
        i, g, t = Var("p.y") * width + Var("p.x"), Var("g"), Var("q.x")
        fill = loop("g", minimum(1, size - (b * 64 + i)), put("fill", s, [i + g], x[b * 64 + i + g]))
        take = put("take", y, [b * 64 + t], s[minimum(64, size - b * 64) - 1 - t] * 2.0)
        body = seq(
            loop("p.y", rows, loop("p.x", width, fill, "thread.x"), "thread.y"),
            loop("q.x", minimum(64, size - b * 64), take, "thread.x"),
        )
        yield case(
            f"ragged, {size}", [x], y, loop("b", -(-size // 64), Alloc(buffer=s, body=body), "block.x")
        )
    yield distributed_registers()
    x, y = array("X", 8, 16), array("Y", 8, 16)
    s, row = array("s", 8, 16, scope="shared"), array("row", 16, scope="shared")
    total = Reduce(
        name="sum",
        op="add",
        buffer=row,
        indices=(Var("r"),),
        value=s[Var("k"), Var("r")],
        first=equal(Var("k"), 0),
    )
    body = seq(
        loop(
            "a.y",
            8,
            loop("a.x", 16, put("l", s, [Var("a.y"), Var("a.x")], x[Var("a.y"), Var("a.x")]), "thread.x"),
            "thread.y",
        ),
        loop("r", 16, loop("k", 8, total), "thread.x"),
        loop(
            "c.y",
            8,
            loop("c.x", 16, put("o", y, [Var("c.y"), Var("c.x")], row[Var("c.x")] * 0.5), "thread.x"),
            "thread.y",
        ),
    )
    body = Alloc(buffer=row, body=Alloc(buffer=s, body=body))
    yield case("a phase along one axis", [x], y, loop("b", 1, body, "block.x"))
    yield tree()
    x, y, s = array("X", 37), array("Y", 37), array("s", 8, scope="shared")
    k, end = Var("k"), minimum(8, 37 - Var("k") * 8)
    body = seq(
        loop("a", end, put("l", s, [Var("a")], x[k * 8 + Var("a")]), "thread.x"),
        loop("c", end, put("o", y, [k * 8 + Var("c")], s[end - 1 - Var("c")]), "thread.x"),
    )
    yield case("phases in a loop", [x], y, loop("b", 1, Alloc(buffer=s, body=loop("k", 5, body)), "block.x"))
    yield siblings()
    for elements in (12288, 12320, 57000):
        yield much_shared_memory(elements)


def distributed_registers() -> Case:
    """A case in which three phases pass data through registers of threads along z, y and x."""
    x, y, r = array("X", 4, 6, 8), array("Y", 4, 6, 8), array("r", 4, 6, 2, 4, scope="register")

    def phase(name: str, kind: LoopKind, make: Callable[..., Stmt]) -> Stmt:
        z, row, t, v = (Var(f"{name}.{axis}") for axis in "zyxv")
        body = loop(f"{name}.v", 2, make(z, row, t, v), kind)
        for axis, extent in (("x", 4), ("y", 6), ("z", 4)):
            body = loop(f"{name}.{axis}", extent, body, f"thread.{axis}")  # type: ignore[arg-type]
        return body

    body = seq(
        phase("a", "virtual_thread", lambda z, i, t, v: put("l", r, [z, i, v, t], x[z, i, t * 2 + v])),
        phase("c", "serial", lambda z, i, t, v: put("m", r, [z, i, v, t], r[z, i, 1 - v, t] + r[z, i, v, t])),
        phase("d", "vectorize", lambda z, i, t, v: put("s", y, [z, i, t * 2 + v], r[z, i, v, t])),
    )
    return case("registers", [x], y, loop("b", 1, Alloc(buffer=r, body=body), "block.x"))


def tree() -> Case:
    x, y, s = array("X", 3, 128), array("Y", 3), array("s", 128, scope="shared")
    steps = [loop("l", 128, put("load", s, [Var("l")], x[Var("b"), Var("l")]), "thread.x")]
    for half in (64, 32, 16, 8, 4, 2, 1):
        t = Var(f"t{half}")
        steps.append(loop(t.name, half, put(f"add{half}", s, [t], s[t] + s[t + half]), "thread.x"))
    steps.append(loop("z", 1, put("store", y, [Var("b")], s[0]), "thread.x"))
    return case("tree", [x], y, loop("b", 3, Alloc(buffer=s, body=seq(*steps)), "block.x"))


def siblings() -> Case:
    """A case with two shared buffers that may have the same address, because their lifetimes do not overlap."""
    x, y, r = array("X", 64), array("Y", 64), array("r", 64, scope="register")
    s, u = array("s", 64, scope="shared"), array("u", 64, scope="shared")
    a, c, d, e = (Var(name) for name in "acde")
    first = seq(
        loop("a", 64, put("a1", s, [a], x[a]), "thread.x"),
        loop("c", 64, put("a2", r, [c], s[63 - c]), "thread.x"),
    )
    second = seq(
        loop("d", 64, put("a3", u, [d], r[d] * 2.0), "thread.x"),
        loop("e", 64, put("a4", y, [e], u[63 - e] + 1.0), "thread.x"),
    )
    body = Alloc(buffer=r, body=seq(Alloc(buffer=s, body=first), Alloc(buffer=u, body=second)))
    return case("siblings", [x], y, loop("b", 1, body, "block.x"))


def much_shared_memory(elements: int) -> Case:
    x, y = array("X", 64), array("Y", 64)
    s, marks = array("s", elements, scope="shared"), array("marks", 32, dtype=DType.INT8, scope="shared")
    b, a, c, step = Var("b"), Var("a"), Var("c"), elements // 32
    fill = seq(put("a1", s, [a * step], x[b * 32 + a]), put("a0", marks, [a], cast(a * 5, DType.INT8)))
    take = put("a2", y, [b * 32 + c], s[(31 - c) * step] + cast(marks[31 - c], F32))
    body = seq(loop("a", 32, fill, "thread.x"), loop("c", 32, take, "thread.x"))
    body = Alloc(buffer=marks, body=Alloc(buffer=s, body=body))
    return case(f"{elements} elements", [x], y, loop("b", 2, body, "block.x"))


def test_phases() -> None:
    agree([*phases()], TARGET)


# Copies and vectors


def tile(
    name: str, dtype: DType, pad: float, width: int, start: tuple[ExprLike, ExprLike], shape: tuple[int, int]
) -> Case:
    """A case that copies tiles of 8 x 32 to shared memory (`width` elements a copy, `pad` outside of the source), and
    then to Y; a tile for each of three blocks. `shape` of the source; `start`: row and column of a tile's first element
    in it.
    """
    x, s, y = (
        array("X", *shape, dtype=dtype),
        array("s", 8, 32, dtype=dtype, scope="shared"),
        array("Y", 3, 8, 32, dtype=dtype),
    )
    i, j = Var("c.y"), Var("c.x") * width
    copy = Copy(
        name="copy",
        destination=region(s, (i, 1), (j, width)),
        source=region(x, (start[0] + i, 1), (start[1] + j, width)),
        pad=Const(pad, dtype),
    )
    out = put("out", y, [Var("b"), Var("o.y"), Var("o.x")], s[Var("o.y"), Var("o.x")])
    body = seq(
        loop("c.y", 8, loop("c.x", 32 // width, copy, "thread.x"), "thread.y"),
        loop("o.y", 8, loop("o.x", 32, out, "thread.x"), "thread.y"),
    )
    return case(f"{name} {dtype} {width}", [x], y, loop("b", 3, Alloc(buffer=s, body=body), "block.x"))


def copies() -> Iterator[Case]:
    b = Var("b")
    pads = {F32: 2.5, DType.INT8: -7, DType.FLOAT16: 0}
    for (dtype, pad), width in product(pads.items(), (1, 4, 16)):
        yield tile("even", dtype, pad, width, (b * 8, Const(0)), (20, 32))
        yield tile("before", dtype, pad, width, (b * 8 - 4, b * 16 - 16), (20, 32))
        yield tile("odd", dtype, pad, width, (b * 7 - 1, b * 5 - 3), (19, 37))
    b, t = Var("b"), Var("t")
    x, y, r = array("X", 6, 10, 12), array("Y", 6, 12), array("r", 2, 6, scope="register")
    of, to = region(x, (b * 2, 2), (3, 1), (t * 6, 6)), region(y, (b * 2, 2), (t * 6, 6))
    kept = region(r, (0, 2), (0, 6))
    through = seq(
        Copy(name="load", destination=kept, source=of), Copy(name="store", destination=to, source=kept)
    )
    body = loop("b", 3, loop("t", 2, Alloc(buffer=r, body=through), "thread.x"), "block.x")
    yield case("boxes through registers", [x], y, body)
    x, y = array("X", 4, 37, dtype=DType.INT8), array("Y", 4, 37, dtype=DType.INT32)
    run = (t * 8, minimum(8, 37 - t * 8))
    copy = Copy(name="widen", destination=region(y, (b, 1), run), source=region(x, (b, 1), run))
    yield case("ragged boxes that widen", [x], y, loop("b", 4, loop("t", 5, copy, "thread.x"), "block.x"))


def vectors() -> Iterator[Case]:
    b, t, v = Var("b"), Var("t"), Var("v")
    for width in (2, 4, 8):
        j = t * width + v

        def vector(
            name: str, x: Buffer, y: Buffer, at: Sequence[ExprLike], value: Expr, width: int = width
        ) -> Case:
            body = loop("t", 32 // width, loop("v", width, put("s", y, at, value), "vectorize"), "thread.x")
            return case(f"{name} {width}", [x], y, loop("b", 8, body, "block.x"))

        x, y, turned = array("X", 8, 32), array("Y", 8, 32), array("Y", 32, 8)
        bytes_ = array("X", 8, 32, dtype=DType.INT8)
        odd = array("X", 8, 33)
        yield vector("aligned", x, y, [b, j], x[b, j] * x[b, 3] + 1.0)
        yield vector("of bytes", bytes_, y, [b, j], cast(bytes_[b, j], F32) * 0.5)
        yield vector("not aligned", odd, y, [b, j], odd[b, j + 1])
        yield vector("backwards", x, y, [b, j], x[b, 31 - j])
        yield vector("turned", x, turned, [j, b], x[b, j])
    x, y = array("X", 37), array("Y", 37)
    body = loop(
        "u", minimum(4, 37 - t * 4), put("s", y, [t * 4 + Var("u")], x[t * 4 + Var("u")] * 3.0), "unroll"
    )
    yield case("ragged, unrolled", [x], y, loop("b", 1, loop("t", 10, body, "thread.x"), "block.x"))


def test_copies_and_vectors() -> None:
    agree([*copies(), *vectors()], TARGET, orders=1)


def ring(stages: int, rows: int = 5) -> Case:
    """A case of a pipeline: `rows` rows are copied asynchronously to a ring of `stages` buffers, up to `stages` - 1
    rows ahead of the row that is written to Y with its elements in reverse order.
    """
    x, y, s = array("X", rows, 32), array("Y", rows, 32), array("s", stages, 32, scope="shared")
    k = Var("k")

    def fetch(name: str, row: Expr) -> Stmt:
        at = (Var(f"{name}.x") * 4, 4)
        copy = Copy(
            name=name,
            destination=region(s, (row % stages, 1), at),
            source=region(x, (row, 1), at),
            asynchronous=True,
        )
        return loop(f"{name}.x", 8, copy, "thread.x")

    turn = loop("t", 32, put("turn", y, [k, Var("t")], s[k % stages, 31 - Var("t")]), "thread.x")
    ahead = loop("a", stages - 1, seq(fetch("first", Var("a")), Commit()))
    more = loop("g", minimum(1, rows - (stages - 1) - k), fetch("next", k + (stages - 1) + Var("g")))
    body = seq(ahead, loop("k", rows, seq(more, Commit(), Wait(pending=stages - 1), turn)), Wait(pending=0))
    return case(f"{stages} stages", [x], y, loop("b", 1, Alloc(buffer=s, body=body), "block.x"))


def test_asynchronous_copies() -> None:
    agree([ring(2), ring(3), ring(4)], TARGET)


@pytest.mark.parametrize(
    ("old", "new"),
    [("wait_async<1>()", "wait_async<2>()"), ("__syncthreads();", ""), ("commit_async();", "")],
)
def test_what_an_emitter_could_get_wrong_is_seen(old: str, new: str) -> None:
    rows = ring(2)
    module = rows.module(TARGET)
    assert old in module.source
    x = np.random.default_rng(0).standard_normal((5, 32), np.float32)
    broken = replace(module, source=module.source.replace(f"    {old}", f"    {new}"))
    try:
        out = run_jobs([job_of(broken, {"X": x})])[0]["Y"]
    except HostRunError as error:
        assert "depends on the order" in str(error)
    else:
        assert not np.array_equal(out, x[:, ::-1])


# The host


def test_loops_around_kernels() -> None:
    x, y, u, w = array("X", 5, 16), array("Y", 5, 16), array("u", 16), array("w", 16)
    h, a, b, c, d = (Var(name) for name in ("h", "a", "b", "c", "d"))
    clear = loop("z.b", 1, loop("z", 16, put("clear", w, [Var("z")], 0.0), "thread.x"), "block.x")
    step = seq(
        loop("a.b", 1, loop("a", 16, put("add", u, [a], w[15 - a] + x[h, a]), "thread.x"), "block.x"),
        loop(
            "b.b",
            2,
            loop(
                "b",
                8,
                put("scale", w, [Var("b.b") * 8 + b], u[Var("b.b") * 8 + b] * cast(h + 1, F32)),
                "thread.x",
            ),
            "block.x",
        ),
        loop("c.b", 1, loop("c", 16, put("keep", y, [h, c], w[c]), "thread.x"), "block.x"),
    )
    body = Alloc(buffer=w, body=Alloc(buffer=u, body=seq(clear, loop("h", 5, step))))
    steps = case("steps", [x], y, body)
    x, y = array("X", 3, 4, 8), array("Y", 3, 4, 8)
    g = Var("g")
    inner = loop(
        "d.b",
        1,
        loop("d", 8, put("s", y, [h, g, d], x[2 - h, g, d] + cast(h * 10 + g, F32)), "thread.x"),
        "block.x",
    )
    nested = case("nested", [x], y, loop("h", 3, loop("g", 4, inner)))
    x, y = array("float", 3, 4, 5, 6), array("int", 3, 4, 5, 6)
    at, back = [Var(n) for n in ("for", "if.y", "tx", "threadIdx")], [2, 3, 4, 5]
    body = put("while", y, at, x[tuple(size - v for size, v in zip(back, at, strict=True))])
    for name, extent, kind in (
        ("threadIdx", 6, "thread.x"),
        ("tx", 5, "block.x"),
        ("if.y", 4, "block.y"),
        ("for", 3, "block.z"),
    ):
        body = loop(name, extent, body, kind)  # type: ignore[arg-type]
    agree([steps, nested, case("names that C++ has", [x], y, body)], TARGET)
    assert len(steps.module(TARGET).launches) == 16


def test_indices_beyond_32_bits() -> None:
    """Kernels access elements whose index needs more than 32 bits. The arrays are sparse: only the accessed bytes are
    stored.
    """
    step = 2**26 - 5
    x, y = array("X", 64 * step, dtype=DType.INT8), array("Y", 64, dtype=DType.INT8)
    e = Var("b") * 32 + Var("t")

    def module_of(to: Buffer, at: Expr, value: Expr):
        body = loop("b", 2, loop("t", 32, put("s", to, [at], value), "thread.x"), "block.x")
        return case("far", [x if to is y else y], to, body).module(TARGET)

    data = np.arange(64, dtype=np.int8)
    far = Sparse(bytes=64 * step, pieces={i * step: data[i : i + 1] for i in range(64)})
    gather, scatter = module_of(y, e, x[e * step]), module_of(x, e * step, y[e])
    empty = Sparse(bytes=64 * step, pieces={i * step: np.zeros(1, np.int8) for i in range(64)})
    jobs = [
        replace(job_of(replace(module, parameters=(y,)), {"Y": given}), arrays={"X": other, "Y": given})
        for module, other, given in ((gather, far, np.zeros(64, np.int8)), (scatter, empty, data))
    ]
    out = run_jobs(jobs, orders=1)
    np.testing.assert_array_equal(out[0]["Y"], data)
    np.testing.assert_array_equal(out[1]["X"], data)
