"""Loops may run at once where what they write is addressed by all digits of a number."""

from __future__ import annotations

import numpy as np
import pytest
from schedules import assert_refused
from vdla.compiler.ir.expr import Buffer, Expr, Var
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Alloc, Assign, Program, nest, seq
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import verify
from vdla.compiler.schedule import LegalityError, Schedule

I32 = DType.INT32
X = Buffer(name="X", shape=(60,), dtype=I32)
N = Var("n")


def store(shape: tuple[int, ...], *at: Expr, extent: int = 60) -> Program:
    y = Buffer(name="Y", shape=shape, dtype=I32)
    return Program(
        name="p",
        parameters=(X, y),
        body=nest([(N, extent)], Assign(name="s", buffer=y, indices=at, value=X[N])),
    )


@pytest.mark.parametrize(
    "program",
    [
        store((5, 3, 4), N // 12, N % 12 // 4, N % 4),
        store((4, 3, 5), N % 4, N // 4 % 3, N // 12),
        store((4, 15), N % 4, N // 4),
        store((5, 12), N % 5, N // 5 % 12),
    ],
)
def test_all_digits(program: Program) -> None:
    s = Schedule(program)
    s.parallel("n")
    verify(s.program)


@pytest.mark.parametrize(
    "program",
    [
        store((5, 3), N // 12, N % 12 // 4),
        store((3, 4), N // 4 % 3, N % 4),
        store((5, 6), N // 12, N % 6),
        store((5, 10), (N + 1) // 12, N % 10),
    ],
)
def test_a_digit_is_missing(program: Program) -> None:
    with pytest.raises(LegalityError, match="share elements of Y"):
        Schedule(program).parallel("n")


def test_tiles_whose_results_are_stored_by_digits() -> None:
    """The columns of a product are images, rows and columns of a convolution's output."""
    rows, columns = 8, 60
    source = Buffer(name="X", shape=(rows, columns), dtype=I32)
    held = Buffer(name="S", shape=(rows, columns), dtype=I32)
    y = Buffer(name="Y", shape=(5, rows, 3, 4), dtype=I32)
    i, j, a, b = (Var(name) for name in "ijab")
    make = Assign(name="make", buffer=held, indices=(i, j), value=source[i, j] + 1)
    put = Assign(name="put", buffer=y, indices=(b // 12, a, b % 12 // 4, b % 4), value=held[a, b])
    body = seq(nest([(i, rows), (j, columns)], make), nest([(a, rows), (b, columns)], put))
    program = Program(name="p", parameters=(source, y), body=Alloc(buffer=held, body=body))
    s = Schedule(program)
    i0, j0, _, _ = s.tile("i", "j", 4, 16)
    s.reverse_compute_at("put", j0)
    s.bind(i0, "block.y")
    s.bind(j0, "block.x")
    outer, inner = s.split("b", 8)
    s.reorder(outer, "a", inner)
    s.bind(outer, "thread.x")
    verify(s.program)
    arrays = {"X": np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)}
    expected = interpret(program, arrays, poison=True)["Y"]
    np.testing.assert_array_equal(interpret(s.program, arrays, poison=True)["Y"], expected)


def test_fused_loops_write_what_each_wrote() -> None:
    y = Buffer(name="Y", shape=(5, 12), dtype=I32)
    i, j = Var("i"), Var("j")
    program = Program(
        name="p",
        parameters=(X, y),
        body=nest([(i, 5), (j, 12)], Assign(name="s", buffer=y, indices=(i, j), value=X[i * 12 + j])),
    )
    s = Schedule(program)
    outer, inner = s.split(s.fuse("i", "j"), 16)
    s.bind(outer, "block.x")
    s.bind(inner, "thread.x")
    verify(s.program)


def test_a_refusal_leaves_the_schedule() -> None:
    assert_refused(
        lambda: store((5, 6), N // 12, N % 6),
        lambda s: s.bind("n", "block.x"),
        "its iterations share elements of Y",
    )
