"""Simplification, interval bounds and printing of expressions agree with brute-force evaluation."""

from __future__ import annotations

from itertools import product

import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.ir.affine import coefficient_of, constant_difference, quotient
from vdla.compiler.ir.bounds import Interval, interval
from vdla.compiler.ir.expr import (
    COMPARISONS,
    Binary,
    Const,
    Expr,
    Select,
    Var,
    binary,
    dtype_of,
    equal,
    maximum,
    minimum,
)
from vdla.compiler.ir.expression_printer import format_expr
from vdla.compiler.ir.simplify import provably_equal, simplify
from vdla.compiler.ir.types import DType

X, Y, Z = Var("x"), Var("y"), Var("z")


def evaluate(expr: Expr, values: dict[str, int]) -> int:
    """The value of an expression, computed by Python's arithmetic, independent of the interpreter."""
    match expr:
        case Const(value=value):
            return int(value)
        case Var(name=name):
            return values[name]
        case Select(condition=c, then=a, otherwise=b):
            return evaluate(a if evaluate(c, values) else b, values)
        case Binary(op=op, a=a, b=b):
            x, y = evaluate(a, values), evaluate(b, values)
            table = {"+": x + y, "-": x - y, "*": x * y, "min": min(x, y), "max": max(x, y)}
            table |= {"<": x < y, "<=": x <= y, "==": x == y, "!=": x != y, "and": x and y, "or": x or y}
            return int(x // y if op == "//" else x % y if op == "%" else table[op])
    raise AssertionError(expr)


def index_exprs() -> st.SearchStrategy[Expr]:
    leaves = st.one_of(st.sampled_from([X, Y, Z]), st.integers(-9, 9).map(Const))

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        sums = st.builds(Binary, st.sampled_from(["+", "-", "*", "min", "max"]), inner, inner)
        splits = st.builds(Binary, st.sampled_from(["//", "%"]), inner, st.integers(1, 9).map(Const))
        condition = st.builds(Binary, st.sampled_from(COMPARISONS), inner, inner)
        return st.one_of(sums, splits, splits, st.builds(Select, condition, inner, inner))

    return st.recursive(leaves, grow, max_leaves=10)


def extents() -> st.SearchStrategy[dict[str, int]]:
    return st.fixed_dictionaries({name: st.integers(1, 5) for name in "xyz"})


def points(sizes: dict[str, int]) -> list[dict[str, int]]:
    return [dict(zip(sizes, at, strict=True)) for at in product(*(range(n) for n in sizes.values()))]


@settings(max_examples=examples(400), deadline=None)
@given(index_exprs(), extents())
def test_simplify_keeps_values_and_is_idempotent(expr: Expr, sizes: dict[str, int]) -> None:
    ranges = {name: Interval(0, n - 1) for name, n in sizes.items()}
    simple = simplify(expr, ranges)
    for at in points(sizes):
        assert evaluate(simple, at) == evaluate(expr, at), format_expr(simple)
    assert dtype_of(simple) is DType.INT64
    assert simplify(simple, ranges) is simple
    free = simplify(expr)
    for at in points(dict.fromkeys("xyz", 3)):
        at = {name: 5 * v - 7 for name, v in at.items()}
        assert evaluate(free, at) == evaluate(expr, at)


@settings(max_examples=examples(300), deadline=None)
@given(index_exprs(), extents())
def test_interval_holds_every_value(expr: Expr, sizes: dict[str, int]) -> None:
    held = interval(expr, {name: Interval(0, n - 1) for name, n in sizes.items()})
    values = [evaluate(expr, at) for at in points(sizes)]
    assert held.low is not None and held.high is not None
    assert held.low <= min(values) and max(values) <= held.high


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.integers(-5, 5), min_size=4, max_size=4), extents())
def test_interval_of_affine_is_exact(factors: list[int], sizes: dict[str, int]) -> None:
    expr = factors[0] * X + factors[1] * Y + factors[2] * Z + factors[3]
    held = interval(expr, {name: Interval(0, n - 1) for name, n in sizes.items()})
    values = [evaluate(expr, at) for at in points(sizes)]
    assert (held.low, held.high) == (min(values), max(values))


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(1, 20), st.integers(1, 7), st.integers(-3, 3), st.integers(-3, 3))
def test_interval_of_split_tail(n: int, factor: int, a: int, b: int) -> None:
    """Bounds an inner loop's variable whose range depends on the outer loop's, as in the last, shorter part of a loop
    split by a factor: the index factor * outer + inner gets exactly 0 .. n - 1, and other linear expressions get an
    interval that contains all their values.
    """
    blocks = -(-n // factor)
    tail = minimum(factor, n - factor * X)
    ranges = {"x": Interval(0, blocks - 1), "y": tail}
    assert interval(factor * X + Y, ranges) == Interval(0, n - 1)
    values = [a * o + b * i for o in range(blocks) for i in range(min(factor, n - factor * o))]
    held = interval(a * X + b * Y, ranges)
    assert held.low is not None and held.high is not None
    assert held.low <= min(values) and max(values) <= held.high
    assert interval(factor * X + tail, ranges).high == n


@settings(max_examples=examples(200), deadline=None)
@given(index_exprs(), extents(), st.integers(1, 6))
def test_multiples(expr: Expr, sizes: dict[str, int], factor: int) -> None:
    for scaled in (expr, expr * factor, minimum(expr * factor, 2 * factor) - factor):
        part = quotient(scaled, factor)
        if part is not None:
            assert all(evaluate(scaled, at) == factor * evaluate(part, at) for at in points(sizes))
    assert quotient(minimum(expr * factor, 2 * factor) - factor, factor) is not None
    assert quotient(X * factor + minimum(Y, 5 * factor), 2 * factor) is None


def test_unbounded() -> None:
    assert interval(X + Y, {"x": Interval(0, 3)}) == Interval(None, None)
    assert interval(minimum(X, Y), {"x": Interval(0, 3)}) == Interval(None, 3)
    assert interval(X % 4, {}) == Interval(0, 3)


RANGES = {"x": Interval(0, 3), "y": Interval(0, 15), "z": Interval(-1, 1)}


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Y + X + 1 + X, "x * 2 + y + 1"),
        (X - X, "0"),
        (3 - X, "3 - x"),
        (0 - X - Y, "x * -1 - y"),
        ((Y * 4 + X) // 4, "y"),
        ((Y * 4 + X) % 4, "x"),
        (Y // 4 * 4 + Y % 4, "y"),
        (Y // 4 // 2, "y // 8"),
        (Y % 8 // 4, "y // 4 % 2"),
        (Y % 8 % 4, "y % 4"),
        ((Y * 6 + 4) // 4, "y * 3 // 2 + 1"),
        ((Y * 6 + 5) % 4, "y * 3 % 2 * 2 + 1"),
        ((Y * 4 + X) // 12, "y // 3"),
        ((Y * 4 + X) % 12, "x + y % 3 * 4"),
        ((Y * 4 + X + 4) // 8 % 3, "(y + 1) // 2 % 3"),
        ((Y * 2 + X) // 12, "(x + y * 2) // 12"),
        (Y // 16, "0"),
        ((Z + 1) // 3, "0"),
        (minimum(X, 7), "x"),
        (minimum(minimum(Y, 5), minimum(5, 3 + X)), "min(min(x + 3, y), 5)"),
        (maximum(Y, Y + 2), "y + 2"),
        (minimum(4, 16 - 4 * X), "4"),
        (minimum(4, 14 - 4 * X), "min(14 - x * 4, 4)"),
        (X < 4, "True"),
        (Y < X, "y < x"),
        (equal(Y, 16), "False"),
        ((X >= 0) & (Y >= 3), "3 <= y"),
        (Select(Const(9) > X, Y, Z), "y"),
    ],
)
def test_canonical_texts(expr: Expr, text: str) -> None:
    simple = simplify(expr, RANGES)
    assert format_expr(simple) == text
    assert simplify(simple, RANGES) is simple


def test_building() -> None:
    assert X + 0 is X
    assert binary("+", 2, 3) == Const(5)
    assert Const(100, DType.INT8) + Const(100, DType.INT8) == Const(-56, DType.INT8)
    assert format_expr((X + 1) * 2 - (Y - 3)) == "(x + 1) * 2 - (y - 3)"
    assert dtype_of(X < 3) is DType.BOOL
    with pytest.raises(TypeError, match="truth value"):
        bool(X < 3)
    with pytest.raises(ValueError, match="300 is not a value of int8"):
        _ = Const(1, DType.INT8) + 300


def test_affine_queries() -> None:
    assert constant_difference(X + 2 * Y + 3, 2 * Y + X) == 3
    assert constant_difference(X, Y) is None
    assert coefficient_of(3 * X + Y // 2, "x") == 3
    assert coefficient_of(3 * X + Y // 2, "y") is None
    assert coefficient_of(X, "z") == 0
    assert provably_equal((X + 4) // 4, Const(1), RANGES)
    assert not provably_equal(X, Y, RANGES)
