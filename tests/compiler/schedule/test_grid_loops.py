"""Several loops are fused into one loop for a GPU's grid. The tests check the simplified indices, and that the compiler
can still prove that iterations may run at once: for example, because their indices have different remainders.
"""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.ir.expr import Buffer, Var, minimum
from vdla.compiler.ir.expression_printer import format_expr
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.printer import format_node
from vdla.compiler.ir.simplify import simplify
from vdla.compiler.ir.stmt import Assign, Program, Stmt, nest, seq
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import verify
from vdla.compiler.schedule import LegalityError, Schedule

I32 = DType.INT32
ROW, J, K, X, G = (Var(name) for name in "ijkxg")


def flat_program() -> Program:
    """A program of Y[i, j, k] = A[i, j, k] + B[j] whose arrays Y and A have one dimension."""
    a, y = (Buffer(name=n, shape=(5 * 6 * 7,), dtype=I32) for n in "AY")
    b = Buffer(name="B", shape=(6,), dtype=I32)
    at = ROW * 42 + J * 7 + K
    body = Assign(name="add", buffer=y, indices=(at,), value=a[at] + b[J])
    return Program(name="flat", parameters=(a, b, y), body=nest([(ROW, 5), (J, 6), (K, 7)], body))


def test_fused_indices_become_one_variable() -> None:
    s = Schedule(flat_program())
    loop = s.fuse(s.fuse("i", "j"), "k")
    assert "Y[i_j_k] = A[i_j_k] + B[i_j_k // 7 % 6]" in format_node(s.program)
    block, thread = s.split(loop, 32)
    s.bind(block, "block.x")
    s.bind(thread, "thread.x")
    verify(s.program)
    rng = np.random.default_rng(0)
    arrays = {
        n: rng.integers(-99, 99, shape).astype(np.int32) for n, shape in (("A", (5, 6, 7)), ("B", (6, 1)))
    }
    given = {n: array.reshape(-1) for n, array in arrays.items()}
    found = interpret(s.program, given)["Y"]
    np.testing.assert_array_equal(found.reshape(5, 6, 7), arrays["A"] + arrays["B"])


@pytest.mark.parametrize(
    ("expr", "becomes"),
    [
        (ROW // 7 * 7 + ROW % 7, "i"),
        (ROW // 42 * 42 + ROW // 7 % 6 * 7 + ROW % 7, "i"),
        (ROW // 42 * 84 + ROW // 7 % 6 * 14 + ROW % 7 * 2 + J, "i * 2 + j"),
        (ROW // 42 * 42 + ROW // 7 % 6 * 8 + ROW % 7, "i % 7 + i // 42 * 42 + i // 7 % 6 * 8"),
        ((ROW * 16 + J) // 24 * 24 + (ROW * 16 + J) % 24, "i * 16 + j"),
    ],
)
def test_digits_recombine(expr, becomes) -> None:
    assert format_expr(simplify(expr)) == becomes


def test_loops_that_are_parallel_may_be_bound_whatever_their_indices_have_become() -> None:
    one, y = Buffer(name="one", shape=(1,), dtype=I32), Buffer(name="Y", shape=(4, 3, 5), dtype=I32)
    body = Assign(name="set", buffer=y, indices=(K, ROW, J), value=one[0])
    program = Program(name="moved", parameters=(one, y), body=nest([(ROW, 3), (J, 5), (K, 4)], body))
    s = Schedule(program)
    for loop in "ijk":
        s.parallel(loop)
    s.bind(s.fuse(s.fuse("i", "j"), "k"), "block.x")
    verify(s.program)
    assert "block.x(60)" in format_node(s.program)


def strided(shift: int, width: int) -> Program:
    """A program with a loop over x from 0 to `width` - 1. Iteration x writes the elements x, 8 + x, 16 + x and 24 + x
    of Y. If x is less than 5, it also writes element x + `shift`.
    """
    a, y = Buffer(name="A", shape=(64,), dtype=I32), Buffer(name="Y", shape=(64,), dtype=I32)
    whole = Assign(name="set", buffer=y, indices=(K * 8 + X,), value=a[0])
    rest = Assign(name="rest", buffer=y, indices=(X + G + shift,), value=a[0])
    body: Stmt = seq(nest([(K, 4)], whole), nest([(G, minimum(1, 5 - X))], rest))
    return Program(name="strided", parameters=(a, y), body=nest([(X, width)], body))


def test_remainders_tell_threads_apart() -> None:
    s = Schedule(strided(32, 8))
    s.bind("x", "thread.x")
    assert "thread.x(8)" in format_node(s.program)


@pytest.mark.parametrize(("shift", "width"), [(33, 8), (32, 9)])
def test_threads_whose_remainders_meet_are_refused(shift, width) -> None:
    with pytest.raises(LegalityError, match="its iterations share elements of Y"):
        Schedule(strided(shift, width)).bind("x", "thread.x")
