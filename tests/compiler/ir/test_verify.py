"""The IR verifier: for every rule, a program that violates it."""

from __future__ import annotations

import re

import pytest

from vdla.compiler.ir.expr import FIRST, Binary, Buffer, Cast, Const, Var, equal, minimum, select
from vdla.compiler.ir.stmt import (
    Alloc,
    Assign,
    Copy,
    For,
    Intrinsic,
    IntrinsicDeclaration,
    Program,
    Reduce,
    Stmt,
    Wait,
    nest,
    region,
    seq,
    whole,
)
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import VerifyError, verify

I8, I32 = DType.INT8, DType.INT32
A = Buffer(name="A", shape=(8,), dtype=I32)
B = Buffer(name="B", shape=(8,), dtype=I32)
N = Buffer(name="N", shape=(8,), dtype=I8)
S = Buffer(name="S", shape=(8,), dtype=I32, scope="acc")
I, J, K = Var("i"), Var("j"), Var("k")  # noqa: E741
ONE = Const(1, I32)


def put(buffer: Buffer = A, at=I, value=ONE) -> Stmt:
    return Assign(name="put", buffer=buffer, indices=(at,), value=value)


def add(formal: Buffer) -> IntrinsicDeclaration:
    body = Reduce(name="r", op="add", buffer=formal, indices=(J,), value=ONE, first=FIRST)
    return IntrinsicDeclaration(name="add", parameters=(formal,), body=nest([(J, formal.shape[0])], body))


def call(operand, first=None) -> Intrinsic:
    formal = Buffer(name="f", shape=(8,), dtype=I32, scope="acc")
    return Intrinsic(name="call", declaration=add(formal), operands=operand, first=first)


TAIL = minimum(3, 8 - I * 3)
SPAN = minimum(8, I)  # up to 8 elements as vectors of 8 and the rest

GOOD = [
    nest([(I, 8)], put()),
    nest([(I, 3)], For(var=J, extent=TAIL, body=put(at=I * 3 + J))),
    nest([(I, 3)], Copy(name="c", destination=region(A, (I * 3, TAIL)), source=region(B, (I * 3, TAIL)))),
    nest([(I, 20)], For(var=J, extent=minimum(1, 16 - I), body=put(at=I // 2))),
    nest([(I, 20)], For(var=J, extent=minimum(1, I - 4), body=put(at=7 - (I - 5) // 2))),
    nest([(I, 20)], For(var=J, extent=SPAN - SPAN // 8 * 8, body=put(at=J + SPAN // 8 * 8))),
    nest([(I, 20)], For(var=J, extent=(8 - SPAN) // 8, body=nest([(K, 8)], put(at=SPAN + J * 8 + K)))),
    nest([(I, 12)], put(at=I % 8, value=select((I >= 2) & (I < 10), B[I - 2], 0))),
    nest([(I, 12)], put(at=I % 8, value=select((I >= 2) & (I < 10) & (B[I % 8] < 3), B[I - 2], 0))),
    Copy(name="c", destination=whole(A), source=region(B, (-4, 8)), pad=Const(0, I32)),
    Alloc(buffer=S, body=seq(call((whole(S),)), Copy(name="c", destination=whole(A), source=whole(S)))),
]


@pytest.mark.parametrize("body", GOOD)
def test_valid_programs_are_accepted(body: Stmt) -> None:
    verify(Program(name="p", parameters=(A, B, N), body=body))


BAD = [
    (nest([(I, 9)], put()), "p: at `put: A[i] = int32(1)`: index i may reach 0 .. 8, outside 0 .. 7 of A"),
    (nest([(I, 8)], put(at=I - 1)), "index i - 1 may reach -1 .. 6"),
    (
        nest([(I, 20)], For(var=J, extent=(9 - SPAN) // 8, body=nest([(K, 8)], put(at=SPAN + J * 8 + K)))),
        "may reach 0 .. 8, outside 0 .. 7",
    ),
    (
        nest([(I, 20)], For(var=J, extent=SPAN - SPAN // 8 * 8, body=put(at=J + SPAN // 8 * 8 + 1))),
        "may reach 1 .. 8, outside 0 .. 7",
    ),
    (nest([(I, 20)], For(var=J, extent=minimum(1, 17 - I), body=put(at=I // 2))), "i // 2 may reach 0 .. 8"),
    (put(), "variable i is not bound by a loop around it"),
    (put(buffer=S, at=Const(0)), "buffer S: int32[8] @ acc is not in scope"),
    (
        seq(Alloc(buffer=S, body=put(at=Const(0))), put(value=S[0], at=Const(0))),
        "S: int32[8] @ acc is not in scope",
    ),
    (Alloc(buffer=A, body=put(at=Const(0))), "buffer A is declared twice"),
    (seq(nest([(I, 8)], put()), nest([(I, 8)], put())), "two loops are called i"),
    (nest([(I, 8)], put(value=N[I])), "value N[i] is int8, must be int32"),
    (nest([(I, 8)], put(value=Binary("+", A[I], N[I]))), "A[i] + N[i] mixes int32 and int8"),
    (nest([(I, 8)], put(value=Binary("and", A[I], A[I]))), "value A[i] and A[i] is bool, must be int32"),
    (nest([(I, 8)], put(value=Cast(Binary("+", I < 2, I < 3), I32))), "operator + does not apply to bool"),
    (nest([(I, 8)], put(at=A[I])), "index A[i] is int32, must be int64"),
    (nest([(I, 8)], put(at=Cast(A[I], DType.INT64))), "may reach -2147483648 .. 2147483647"),
    (nest([(I, 12)], put(at=I % 8, value=select(I < 10, B[I - 2], 0))), "index i - 2 may reach -2 .. 7"),
    (
        nest([(I, 8)], Assign(name="put", buffer=A, indices=(I, I), value=ONE)),
        "2 indices do not match the dimensions of A: int32[8]",
    ),
    (nest([(I, 8)], put(), kind="spiral"), "unknown loop kind 'spiral'"),  # type: ignore[arg-type]
    (
        nest([(I, 8)], Reduce(name="r", op="add", buffer=A, indices=(I,), value=ONE, first=I)),
        "first i is int64, must be bool",
    ),
    (
        Copy(name="c", destination=whole(A), source=region(B, (1, 8))),
        "B[1:9] may reach 1 .. 8, outside 0 .. 7 of B",
    ),
    (
        Copy(name="c", destination=region(A, (1, 8)), source=whole(B), pad=Const(0, I32)),
        "A[1:9] may reach 1 .. 8, outside 0 .. 7 of A",
    ),
    (Copy(name="c", destination=whole(N), source=whole(A)), "a copy cannot convert int32 to int8"),
    (
        Copy(name="c", destination=whole(A), source=whole(B), pad=Const(0, I8)),
        "a pad of int32 elements cannot have the type int8",
    ),
    (
        Copy(name="c", destination=region(A, (0, 4)), source=region(B, (0, 5))),
        "at `c: copy A[0:4] = B[0:5]`: A[0:4] and B[0:5] do not have the same extents",
    ),
    (Wait(pending=-1), "cannot be negative"),
    (call((whole(A),)), "operand A is int32 @ dram, but parameter f requires int32 @ acc"),
    (
        Alloc(buffer=S, body=call((region(S, (0, 4)),))),
        "operand S[0:4] does not have the shape of f: int32[8] @ acc",
    ),
    (Alloc(buffer=S, body=call((whole(S), whole(S)))), "has 2 operands, but add has 1 parameters"),
    (Alloc(buffer=S, body=call((whole(S),), first=FIRST)), "variable first is not bound"),
    (nest([(I, 8)], put(value=select(equal(J, 1), ONE, ONE))), "variable j is not bound"),
]


@pytest.mark.parametrize(("body", "message"), BAD)
def test_programs_that_violate_a_rule_are_refused(body: Stmt, message: str) -> None:
    with pytest.raises(VerifyError, match=re.escape(message)):
        verify(Program(name="p", parameters=(A, B, N), body=body))


def test_checks_the_bodies_of_intrinsics() -> None:
    formal = Buffer(name="f", shape=(8,), dtype=I32, scope="acc")
    wrong = Reduce(name="r", op="add", buffer=formal, indices=(J + 1,), value=ONE, first=FIRST)
    declaration = IntrinsicDeclaration(name="add", parameters=(formal,), body=nest([(J, 8)], wrong))
    body = Alloc(buffer=S, body=Intrinsic(name="call", declaration=declaration, operands=(whole(S),)))
    with pytest.raises(VerifyError, match=r"intrinsic add: at `r: .*may reach 1 \.\. 8"):
        verify(Program(name="p", parameters=(), body=body))
