"""Reordering of loops across a loop whose iterations depend on each other."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.ir.expr import Buffer, Expr, Var
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Assign, Program, nest
from vdla.compiler.ir.types import DType
from vdla.compiler.schedule import LegalityError, Schedule
from vdla.compiler.te.ops.folds import running_product


def test_others_may_pass_a_sequential_loop() -> None:
    program = running_product((3, 5, 4), 1, product=False)
    s = Schedule(program)
    s.reorder("k", "n.next", "i.next")
    arrays = {"X": np.arange(60, dtype=np.float32).reshape(3, 5, 4)}
    expected = np.cumsum(arrays["X"], axis=1)
    np.testing.assert_array_equal(interpret(s.program, arrays)["Y"], expected)


@pytest.mark.parametrize("step", [1, -1])
def test_dependences_along_both_loops_are_kept(step: int) -> None:
    """Y[k + 1, i] depends on Y[k, i + step]: for one k all i may run at once, but the loops may not be exchanged."""
    y = Buffer(name="Y", shape=(6, 6), dtype=DType.FLOAT32)
    k, i = Var("k"), Var("i")
    at: tuple[Expr, Expr] = (k + 1, i + 1)
    body = Assign(name="next", buffer=y, indices=at, value=y[k, i + 1 + step] + 1.0)
    program = Program(name="skewed", parameters=(y,), body=nest([(k, 5), (i, 4)], body))
    with pytest.raises(LegalityError, match="different iterations"):
        Schedule(program).reorder("i", "k")
