"""Boxes of accessed buffer elements against brute-force enumeration, and operations on boxes."""

from __future__ import annotations

from itertools import product

from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.ir.bounds import Interval
from vdla.compiler.ir.expr import FIRST, Buffer, Cast, Const, Expr, Var, equal, minimum, select
from vdla.compiler.ir.printer import format_region
from vdla.compiler.ir.regions import (
    expr_bounds,
    operand_access,
    read_buffers,
    read_regions,
    write_buffers,
    write_regions,
)
from vdla.compiler.ir.stmt import (
    Alloc,
    Assign,
    Copy,
    For,
    IntrinsicDeclaration,
    Reduce,
    Stmt,
    nest,
    region,
    seq,
)
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.visit import substitute_expr

Y, X, KH, KW, O = Var("y"), Var("x"), Var("kh"), Var("kw"), Var("o")  # noqa: E741
A = Buffer(name="A", shape=(32, 32), dtype=DType.INT8)
C = Buffer(name="C", shape=(16, 16), dtype=DType.INT32)


def convolution(stride: int = 2) -> Reduce:
    value = Cast(A[stride * Y + KH, X * stride + KW], DType.INT32)
    first = equal(KH, 0) & equal(KW, 0)
    return Reduce(name="sum", op="add", buffer=C, indices=(Y, X), value=value, first=first)


def texts(regions: dict[Buffer, object]) -> list[str]:
    return [format_region(r) for r in regions.values()]  # type: ignore[arg-type]


def test_window() -> None:
    tile = nest([(Y, 4), (KH, 3), (KW, 3)], convolution())
    assert texts(read_regions(tile, targets=False)) == ["A[0:9, x * 2:x * 2 + 3]"]
    assert texts(write_regions(tile)) == ["C[0:4, x]"]
    assert texts(read_regions(tile)) == ["A[0:9, x * 2:x * 2 + 3]", "C[0:4, x]"]
    assert texts(read_regions(tile, over={"x": Interval(0, 4)}, targets=False)) == ["A[0:9, 0:11]"]


def test_split_with_tail_keeps_its_min() -> None:
    inner = Var("x.1")
    tail = minimum(4, 14 - O * 4)
    body = Assign(name="put", buffer=C, indices=(Const(0), O * 4 + inner), value=Const(1, DType.INT32))
    loop = For(var=inner, extent=tail, body=body)
    assert texts(write_regions(loop)) == ["C[0, o * 4:o * 4 + min(14 - o * 4, 4)]"]
    outer = For(var=O, extent=Const(4), body=loop)
    assert texts(write_regions(outer)) == ["C[0, 0:14]"]
    assert texts(write_regions(loop, ranges={"o": Interval(0, 2)})) == ["C[0, o * 4:o * 4 + 4]"]


def test_union_and_guard() -> None:
    low = Assign(name="a", buffer=C, indices=(Y, X), value=Cast(A[Y, X + 3], DType.INT32))
    guarded = select(X > 0, Cast(A[Y, X - 1], DType.INT32), 0)
    both = seq(low, Assign(name="b", buffer=C, indices=(Y, X), value=guarded))
    # The guard is not looked at: the box starts at -1 and is for the reader to clamp or pad.
    assert texts(read_regions(nest([(X, 8)], both))) == ["A[y, -1:11]"]


def test_hidden_buffers_copies_and_memory_indices() -> None:
    T = Buffer(name="T", shape=(9, 16), dtype=DType.INT8, scope="inp")
    load = Copy(name="load", destination=region(T, (0, 9), (0, 9)), source=region(A, (Y * 8 - 1, 9), (0, 9)))
    use = Assign(name="use", buffer=C, indices=(Y, X), value=Cast(T[X, X], DType.INT32))
    body = Alloc(buffer=T, body=seq(load, nest([(X, 8)], use)))
    assert texts(read_regions(body)) == ["A[y * 8 - 1:y * 8 + 8, 0:9]"]
    assert texts(write_regions(body)) == ["C[y, 0:8]"]
    gather = Assign(name="g", buffer=C, indices=(Y, Cast(A[Y, X], DType.INT64)), value=Const(0, DType.INT32))
    assert texts(write_regions(gather)) == ["C[y, 0:16]"]


def test_buffers_are_those_of_the_boxes() -> None:
    hidden = Buffer(name="H", shape=(32, 32), dtype=DType.INT8, scope="shared")
    fill = Copy(name="fill", destination=region(hidden, (0, 4), (0, 4)), source=region(A, (Y, 4), (0, 4)))
    add = Reduce(name="add", op="add", buffer=C, indices=(Y, X), value=Cast(hidden[X, Y], DType.INT32))
    body = nest([(Y, 3), (X, 4)], Alloc(buffer=hidden, body=seq(fill, add)))
    for node in (fill, add, body):
        assert read_buffers(node) == set(read_regions(node))
        assert write_buffers(node) == set(write_regions(node))
    assert (read_buffers(body), write_buffers(body)) == ({A, C}, {C})


def test_operand_access() -> None:
    source = Buffer(name="s", shape=(4,), dtype=DType.INT32, scope="inp")
    target = Buffer(name="d", shape=(4,), dtype=DType.INT32, scope="acc")
    body = Reduce(name="r", op="add", buffer=target, indices=(X,), value=source[X], first=FIRST)
    declaration = IntrinsicDeclaration(name="add", parameters=(source, target), body=nest([(X, 4)], body))
    assert operand_access(declaration) == ((True, False), (True, True))


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(st.integers(-3, 3), min_size=3, max_size=3),
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(1, 4),
    st.sampled_from(["plain", "floor", "modulo", "tail", "min"]),
)
def test_bounds_hold_every_index(factors: list[int], n: int, m: int, k: int, shape: str) -> None:
    """`expr_bounds` of an index in x, y and kh: for every value of the outer variable x below n, the bounds contain the
    index for all y < m and kh < k (fewer kh for the shape "tail"). `factors`: those of x, y and kh; `shape`: the form
    of the index, "plain" for the plain sum, whose bounds are exact.
    """
    expr: Expr = factors[0] * X + factors[1] * Y + factors[2] * KH
    expr = {"floor": expr // k, "modulo": expr % k, "min": minimum(expr, X + k)}.get(shape, expr)
    tail = minimum(k, Const(m * k - 1) - Y * k + X) if shape == "tail" else Const(k)
    inner = {"y": Interval(0, m - 1), "kh": tail if shape == "tail" else Interval(0, k - 1)}
    found = expr_bounds(expr, inner, {"x": Interval(0, n - 1)})
    assert found is not None
    low, high = found
    for x in range(n):
        ys = ((y, h) for y, h in product(range(m), range(k)) if shape != "tail" or h < m * k - 1 - y * k + x)
        values = [value(expr, x=x, y=y, kh=h) for y, h in ys]
        if not values:
            continue
        assert value(low, x=x) <= min(values)
        assert value(high, x=x) >= max(values)
        if shape == "plain":
            assert (value(low, x=x), value(high, x=x)) == (min(values), max(values))


def value(expr: Expr, **at: int) -> int:
    result = substitute_expr(expr, {name: Const(v) for name, v in at.items()})
    assert isinstance(result, Const)
    return int(result.value)


def test_whole_nest_statement_regions_are_exact() -> None:
    body: Stmt = nest([(Y, 5), (X, 3), (KH, 3), (KW, 2)], convolution(stride=1))
    touched = {(y + h, x + w) for y, x, h, w in product(range(5), range(3), range(3), range(2))}
    box = read_regions(body, targets=False)[A]
    spans = [range(value(s), value(s) + value(e)) for s, e in zip(box.starts, box.extents, strict=True)]
    assert touched == set(product(*spans))
