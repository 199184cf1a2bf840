"""Copies that are transposed in vector registers: equal to the interpreter bit for bit, and not used where they would
be wrong.
"""

from __future__ import annotations

import numpy as np
import pytest
from campaign import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kernels import targets

from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.codegen.cpu.module import lower
from vdla.compiler.ir.expr import Buffer, Const, Expr, Var, select
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Assign, For, Program, nest
from vdla.compiler.ir.types import DType

T, R, C = Var("t"), Var("r"), Var("c")


def transposition(rows: int, columns: int, dtype: DType, value=lambda load: load, gap: int = 0) -> Program:
    """A program that transposes three tiles: from X [3, columns, rows + gap] to Y [3, rows, columns + gap]; `value`:
    function of the loaded element.
    """
    x = Buffer(name="X", shape=(3, columns, rows + gap), dtype=dtype)
    y = Buffer(name="Y", shape=(3, rows, columns + gap), dtype=dtype)
    move = Assign(name="move", buffer=y, indices=(T, R, C), value=value(x[T, C, R]))
    inner = For(var=C, extent=Const(columns), body=move, kind="vectorize")
    return Program(
        name="turn",
        parameters=(x, y),
        body=nest([(T, 3)], For(var=R, extent=Const(rows), body=inner, kind="unroll")),
    )


def agrees(program: Program) -> None:
    x, y = program.parameters
    rng = np.random.default_rng(0)
    arrays = {
        p.name: rng.integers(0, 2 if p.dtype is DType.BOOL else 100, p.shape).astype(p.dtype.numpy)
        for p in (x, y)
    }
    expected = interpret(program, arrays)["Y"]
    for target in targets():
        held = {"X": arrays["X"].copy(), "Y": arrays["Y"].copy()}
        build(program, target)(**held)
        np.testing.assert_array_equal(held["Y"], expected)


@settings(max_examples=examples(10), deadline=None)
@given(
    st.integers(2, 18),
    st.integers(2, 18),
    st.sampled_from([DType.FLOAT32, DType.INT8, DType.BOOL]),
    st.integers(0, 3),
)
@example(16, 16, DType.FLOAT32, 0)
@example(3, 16, DType.FLOAT32, 2)
@example(16, 5, DType.FLOAT32, 1)
def test_tiles_of_any_size(rows: int, columns: int, dtype: DType, gap: int) -> None:
    agrees(transposition(rows, columns, dtype, gap=gap))


def filled(load: Expr) -> Expr:
    return select(C < 5, load, 7.0)


def other_way(load: Expr) -> Expr:
    return select(R < C, load, 7.0)


def doubled(load: Expr) -> Expr:
    return load + load


@pytest.mark.parametrize("value", [filled, other_way, doubled])
def test_what_else_is_in_the_move_keeps_its_meaning(value) -> None:
    agrees(transposition(8, 8, DType.FLOAT32, value))


def test_a_buffer_moved_within_itself_is_read_as_it_is_written() -> None:
    y = Buffer(name="Y", shape=(8, 8), dtype=DType.FLOAT32)
    inner = For(
        var=C,
        extent=Const(8),
        body=Assign(name="move", buffer=y, indices=(R, C), value=y[C, R]),
        kind="vectorize",
    )
    program = Program(
        name="turn", parameters=(y,), body=For(var=R, extent=Const(8), body=inner, kind="unroll")
    )
    held = {"Y": np.arange(64, dtype=np.float32).reshape(8, 8)}
    expected = interpret(program, held)["Y"]
    build(program)(**held)
    np.testing.assert_array_equal(held["Y"], expected)


def test_nothing_is_gathered() -> None:
    for target in targets():
        assert "gather" not in lower(transposition(8, 8, DType.FLOAT32), target).text
        assert "gather" not in lower(transposition(8, 8, DType.FLOAT32, filled), target).text
