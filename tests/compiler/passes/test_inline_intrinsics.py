"""The pass that replaces each call of an intrinsic by the loops of the intrinsic's declaration. Results stay equal. If
the schedule primitive `tensorize` made the call, the pass restores the loops that `tensorize` removed.
"""

from __future__ import annotations

import numpy as np

from vdla.compiler.ir.expr import FIRST, Buffer, Const, Var, equal
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import (
    Alloc,
    Assign,
    Copy,
    Intrinsic,
    IntrinsicDeclaration,
    Program,
    Reduce,
    nest,
    region,
    seq,
    whole,
)
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import verify
from vdla.compiler.ir.visit import walk
from vdla.compiler.passes.inline_intrinsics import inline_intrinsics

F32 = DType.FLOAT32


def declaration() -> IntrinsicDeclaration:
    """Declaration of an intrinsic C[2, 3] (+)= A[2, 4] B[4, 3] that reads B through a local copy."""
    c, a, b = (Buffer(name=n, shape=s, dtype=F32) for n, s in (("C", (2, 3)), ("A", (2, 4)), ("B", (4, 3))))
    local = Buffer(name="local", shape=(4, 3), dtype=F32)
    i, j, k = Var("i"), Var("j"), Var("k")
    first = equal(k, 0) & FIRST
    reduce = Reduce(name="sum", op="add", buffer=c, indices=(i, j), value=a[i, k] * local[k, j], first=first)
    copy = Copy(name="fetch", destination=whole(local), source=whole(b))
    body = Alloc(buffer=local, body=seq(copy, nest([(i, 2), (j, 3), (k, 4)], reduce)))
    return IntrinsicDeclaration(name="product", parameters=(c, a, b), body=body)


def program(pad: Const | None = None, rows: int = 8) -> Program:
    """A program of matrix products Y[n] = X[n] W. It calls an intrinsic twice, each time for half of the columns of Y;
    both calls have the same name. The calls read 8 rows of X. `rows`: the rows that X really has; the calls read rows
    beyond them as `pad`.
    """
    x = Buffer(name="X", shape=(3, rows, 8), dtype=F32)
    w = Buffer(name="W", shape=(8, 6), dtype=F32)
    y = Buffer(name="Y", shape=(3, 8, 6), dtype=F32)
    n, i, k = Var("n"), Var("i"), Var("k")

    def use(column: int) -> Intrinsic:
        return Intrinsic(
            name="use",
            declaration=declaration(),
            operands=(
                region(y, (n, 1), (i * 2, 2), (column, 3)),
                region(x, (n, 1), (i * 2, 2), (k * 4, 4)),
                region(w, (k * 4, 4), (column, 3)),
            ),
            first=equal(k, 0),
            pad=pad,
        )

    body = nest([(n, 3), (i, 4), (k, 2)], seq(use(0), use(3)))
    return Program(name="products", parameters=(x, w, y), body=body)


def check(given: Program) -> None:
    verify(given)
    done = inline_intrinsics(given)
    verify(done)
    assert not any(isinstance(node, Intrinsic) for node in walk(done))
    rng = np.random.default_rng(0)
    arrays = {p.name: rng.standard_normal(p.shape).astype(np.float32) for p in given.parameters[:2]}
    wanted = interpret(given, arrays, poison=True)["Y"]
    assert np.array_equal(interpret(done, arrays, poison=True)["Y"], wanted)
    assert np.abs(wanted).max() > 1


def test_uses_become_their_bodies():
    check(program())


def test_operands_that_leave_their_buffer_read_the_pad():
    check(program(pad=Const(0.5, F32), rows=7))


def test_a_body_whose_condition_first_never_holds_adds_to_old_values():
    c, a = (Buffer(name=n, shape=(4,), dtype=F32) for n in ("C", "A"))
    i = Var("i")
    body = nest([(i, 4)], Reduce(name="add", op="add", buffer=c, indices=(i,), value=a[i], first=FIRST))
    plus = IntrinsicDeclaration(name="plus", parameters=(c, a), body=body)
    x, y = (Buffer(name=n, shape=(4,), dtype=F32) for n in ("X", "Y"))
    start = nest([(Var("s"), 4)], Assign(name="start", buffer=y, indices=(Var("s"),), value=Const(1.0, F32)))
    use = Intrinsic(name="use", declaration=plus, operands=(whole(y), whole(x)))
    given = Program(name="adds", parameters=(x, y), body=seq(start, use))
    arrays = {"X": np.arange(4, dtype=np.float32)}
    assert np.array_equal(interpret(inline_intrinsics(given), arrays)["Y"], np.arange(1, 5))
