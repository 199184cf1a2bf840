"""The pass that narrows each allocation to the statements that use the buffer."""

import numpy as np

from vdla.compiler.ir.expr import Buffer, Var
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.printer import format_node
from vdla.compiler.ir.stmt import Alloc, Assign, Commit, Copy, Program, Wait, nest, region, seq, whole
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import verify
from vdla.compiler.passes.narrow_allocations import narrow_allocations

A, B, S, T, U = (Buffer(name=n, shape=(4,), dtype=DType.INT32) for n in "ABSTU")


def double(name, to, of):
    i = Var(f"{name}.i")
    return nest([(i, 4)], Assign(name=name, buffer=to, indices=(i,), value=of[i] * 2))


def test_buffers_that_follow_one_another_lie_side_by_side():
    body = seq(double("first", S, A), double("second", B, S), double("third", T, A), double("last", B, T))
    program = Program(name="two", parameters=(A, B), body=Alloc(buffer=S, body=Alloc(buffer=T, body=body)))
    narrow = narrow_allocations(program)
    verify(narrow)
    assert [
        line.strip() for line in format_node(narrow).splitlines() if not line.strip().startswith("for")
    ] == [
        "def two(A: int32[4] @ dram, B: int32[4] @ dram):",
        "alloc S: int32[4] @ dram",
        "first: S[first.i] = A[first.i] * int32(2)",
        "second: B[second.i] = S[second.i] * int32(2)",
        "alloc T: int32[4] @ dram",
        "third: T[third.i] = A[third.i] * int32(2)",
        "last: B[last.i] = T[last.i] * int32(2)",
    ]
    a = np.arange(4, dtype=np.int32)
    np.testing.assert_array_equal(interpret(narrow, {"A": a}, poison=True)["B"], 4 * a)
    assert narrow_allocations(narrow) == narrow


def test_registers_live_longer_so_that_memory_may_live_shorter():
    held, out = (
        Buffer(name="R", shape=(4,), dtype=DType.INT32, scope="register"),
        Buffer(name="O", shape=(4,), dtype=DType.INT32, scope="shared"),
    )
    sums = Alloc(buffer=held, body=seq(double("first", held, A), double("second", out, held)))
    body = Alloc(buffer=out, body=seq(sums, double("third", B, out)))
    narrow = narrow_allocations(Program(name="sums", parameters=(A, B), body=body)).body
    assert isinstance(narrow, Alloc) and narrow.buffer == held
    first, rest = narrow.body.statements
    assert first.name == "first.i" and isinstance(rest, Alloc) and rest.buffer == out


def test_loops_keep_what_they_carry_and_waits_what_they_end():
    carried = nest([(Var("n"), 3)], seq(double("more", U, S), double("again", S, U)))
    program = Program(
        name="carried",
        parameters=(A, B),
        body=Alloc(
            buffer=U, body=Alloc(buffer=S, body=seq(double("fill", S, A), carried, double("out", B, S)))
        ),
    )
    narrow = narrow_allocations(program)
    # U lives around the loop that it is used in, S around all.
    assert isinstance(narrow.body, Alloc) and narrow.body.buffer == S
    a = np.arange(4, dtype=np.int32)
    np.testing.assert_array_equal(interpret(narrow, {"A": a})["B"], interpret(program, {"A": a})["B"])

    copy = Copy(name="load", destination=whole(S), source=region(A, (0, 4)), asynchronous=True)
    waiting = Program(
        name="waiting",
        parameters=(A, B),
        body=Alloc(buffer=S, body=seq(double("other", B, A), copy, Commit(), Wait(pending=0))),
    )
    assert narrow_allocations(waiting) == waiting
