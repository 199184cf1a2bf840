"""The loop-IR interpreter: arithmetic, copies with padding, intrinsics, asynchronous copies, and poison (undefined
memory).
"""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.ir.expr import FIRST, Buffer, Call, Cast, Const, Var, equal, minimum, select
from vdla.compiler.ir.interp import InterpretError, interpret
from vdla.compiler.ir.stmt import (
    Alloc,
    Assign,
    Commit,
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

I32, I8 = DType.INT32, DType.INT8
Y, X, KH, KW, CI, CO, I = (Var(n) for n in ("y", "x", "kh", "kw", "ci", "co", "i"))  # noqa: E741
RNG = np.random.default_rng(5)

INPUT = Buffer(name="input", shape=(5, 6, 4), dtype=I8)
WEIGHT = Buffer(name="weight", shape=(3, 3, 4, 4), dtype=I8)
OUTPUT = Buffer(name="output", shape=(5, 6, 4), dtype=I32)


def arrays() -> dict[str, np.ndarray]:
    return {b.name: RNG.integers(-128, 128, b.shape).astype(np.int8) for b in (INPUT, WEIGHT)}


def expected(given: dict[str, np.ndarray]) -> np.ndarray:
    padded = np.pad(given["input"].astype(np.int64), ((1, 1), (1, 1), (0, 0)), constant_values=7)
    out = np.zeros(OUTPUT.shape, np.int64)
    for h in range(3):
        for w in range(3):
            out += padded[h : h + 5, w : w + 6] @ given["weight"][h, w].astype(np.int64).T
    return out.astype(np.int32)


def first_of(*loops: Var):
    condition = equal(loops[0], 0)
    for v in loops[1:]:
        condition = condition & equal(v, 0)
    return condition


def convolution_by_copy() -> Program:
    tile = Buffer(name="tile", shape=(3, 3, 4), dtype=I8, scope="inp")
    load = Copy(
        name="load",
        destination=whole(tile),
        source=region(INPUT, (Y - 1, 3), (X - 1, 3), (0, 4)),
        pad=Const(7, I8),
    )
    value = Cast(tile[KH, KW, CI], I32) * Cast(WEIGHT[KH, KW, CO, CI], I32)
    mac = Reduce(
        name="mac", op="add", buffer=OUTPUT, indices=(Y, X, CO), value=value, first=first_of(KH, KW, CI)
    )
    inner = nest([(CO, 4), (KH, 3), (KW, 3), (CI, 4)], mac)
    body = nest([(Y, 5), (X, 6)], Alloc(buffer=tile, body=seq(load, inner)))
    return Program(name="conv", parameters=(INPUT, WEIGHT, OUTPUT), body=body)


def test_convolution_with_padded_copy() -> None:
    program, given = convolution_by_copy(), arrays()
    verify(program)
    before = {k: v.copy() for k, v in given.items()}
    out = interpret(program, given, poison=True)
    np.testing.assert_array_equal(out["output"], expected(given))
    assert all((given[k] == before[k]).all() for k in given)


def test_convolution_with_guarded_loads_and_tail_loops() -> None:
    row, column = Y + KH - 1, Var("x.0") * 4 + Var("x.1") + KW - 1
    inside = (row >= 0) & (row < 5) & (column >= 0) & (column < 6)
    value = select(inside, Cast(INPUT[row, column, CI], I32), 7) * Cast(WEIGHT[KH, KW, CO, CI], I32)
    x = Var("x.0") * 4 + Var("x.1")
    mac = Reduce(
        name="mac", op="add", buffer=OUTPUT, indices=(Y, x, CO), value=value, first=first_of(KH, KW, CI)
    )
    tail = minimum(4, 6 - Var("x.0") * 4)
    loops = [(Y, 5), (Var("x.0"), 2), (Var("x.1"), tail), (CO, 4), (KH, 3), (KW, 3), (CI, 4)]
    program = Program(name="conv", parameters=(INPUT, WEIGHT, OUTPUT), body=nest(loops, mac))
    verify(program)
    given = arrays()
    np.testing.assert_array_equal(interpret(program, given, poison=True)["output"], expected(given))


def gemm() -> IntrinsicDeclaration:
    a = Buffer(name="a", shape=(1, 4), dtype=I8, scope="inp")
    w = Buffer(name="w", shape=(4, 4), dtype=I8, scope="wgt")
    c = Buffer(name="c", shape=(1, 4), dtype=I32, scope="acc")
    j, k = Var("j"), Var("k")
    body = Reduce(
        name="mac",
        op="add",
        buffer=c,
        indices=(Const(0), j),
        value=Cast(a[0, k], I32) * Cast(w[j, k], I32),
        first=FIRST & equal(k, 0),
    )
    return IntrinsicDeclaration(name="gemm", parameters=(a, w, c), body=nest([(j, 4), (k, 4)], body))


def convolution_by_gemm(asynchronous: bool = False, wait: bool = True, clobber: bool = False) -> Program:
    tile = Buffer(name="tile", shape=(7, 8, 4), dtype=I8, scope="inp")
    weights = Buffer(name="weights", shape=(3, 3, 4, 4), dtype=I8, scope="wgt")
    sums = Buffer(name="sums", shape=(5, 6, 4), dtype=I32, scope="acc")
    loads: list[Stmt] = [
        Copy(
            name="load.input",
            destination=whole(tile),
            source=region(INPUT, (-1, 7), (-1, 8), (0, 4)),
            pad=Const(7, I8),
            asynchronous=asynchronous,
        ),
        Copy(name="load.weight", destination=whole(weights), source=whole(WEIGHT), asynchronous=asynchronous),
    ]
    if asynchronous:
        loads = [loads[0], Commit(), loads[1], Commit()]
        if clobber:
            loads.append(
                Assign(
                    name="clobber", buffer=INPUT, indices=(Const(0),) * 3, value=Const(1, I8) + INPUT[0, 0, 0]
                )
            )
        loads.append(Wait(pending=0 if wait else 1))
    call = Intrinsic(
        name="gemm",
        declaration=gemm(),
        operands=(
            region(tile, (Y + KH, 1), (X + KW, 1), (0, 4)),
            region(weights, (KH, 1), (KW, 1), (0, 4), (0, 4)),
            region(sums, (Y, 1), (X, 1), (0, 4)),
        ),
        first=first_of(KH, KW),
        attributes=(("unit", "gemm"),),
    )
    compute = nest([(Y, 5), (X, 6), (KH, 3), (KW, 3)], call)
    store = Copy(name="store", destination=whole(OUTPUT), source=whole(sums))
    body = seq(*loads, compute, store)
    if asynchronous and not wait:
        body = seq(body, Wait(pending=0))
    for buffer in (sums, weights, tile):
        body = Alloc(buffer=buffer, body=body)
    return Program(name="conv", parameters=(INPUT, WEIGHT, OUTPUT), body=body)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_intrinsic_means_its_body(asynchronous: bool) -> None:
    program, given = convolution_by_gemm(asynchronous), arrays()
    verify(program)
    np.testing.assert_array_equal(interpret(program, given, poison=True)["output"], expected(given))


def test_asynchronous_data_is_invisible_before_its_wait() -> None:
    program, given = convolution_by_gemm(asynchronous=True, wait=False), arrays()
    # wait 1 covers the input, not the weights, which therefore still read as zeros …
    assert not interpret(program, given)["output"].any()
    # … or as an error.
    with pytest.raises(InterpretError, match=r"at `gemm: .*touches w\[0, 0\] before the wait for its copy"):
        interpret(program, given, poison=True)


def test_source_overwritten_in_flight() -> None:
    with pytest.raises(InterpretError, match=r"source of copy load\.input was overwritten"):
        interpret(convolution_by_gemm(asynchronous=True, clobber=True), arrays(), poison=True)


def small(body: Stmt, *parameters: Buffer) -> Program:
    return Program(name="small", parameters=parameters, body=body)


A = Buffer(name="A", shape=(4,), dtype=I32)
B = Buffer(name="B", shape=(4,), dtype=I32)


def test_integers_wrap() -> None:
    square = Assign(name="s", buffer=B, indices=(I,), value=A[I] * A[I] + A[I])
    values = np.array([2**31 - 1, -(2**31), 65537, -3], np.int32)
    with np.errstate(over="ignore"):
        wanted = values * values + values
    np.testing.assert_array_equal(interpret(small(nest([(I, 4)], square), A, B), {"A": values})["B"], wanted)
    narrow = Buffer(name="N", shape=(4,), dtype=I8)
    cut = Assign(name="c", buffer=narrow, indices=(I,), value=Cast(A[I], I8))
    got = interpret(small(nest([(I, 4)], cut), A, narrow), {"A": values})["N"]
    np.testing.assert_array_equal(got, values.astype(np.int8))


def test_float_call_and_max() -> None:
    source = Buffer(name="F", shape=(4,), dtype=DType.FLOAT32)
    value = Cast(Call("rint", (source[I] * Const(0.1, DType.FLOAT32),), DType.FLOAT32), I32)
    top = Reduce(name="m", op="max", buffer=A, indices=(Const(0),), value=value, first=equal(I, 0))
    program = small(nest([(I, 4)], top), source, A)
    data = np.array([-26, -25, -15, -5.5], np.float32)
    got = interpret(program, {"F": data}, functions={"rint": np.rint})["A"]
    assert got[0] == np.rint(data * np.float32(0.1)).max()
    with pytest.raises(InterpretError, match="no implementation of the function rint"):
        interpret(program, {"F": data})


def test_errors() -> None:
    ones = np.ones(4, np.int32)
    shift = nest([(I, 4)], Assign(name="s", buffer=B, indices=(I,), value=A[I - 1]))
    with pytest.raises(
        InterpretError, match=r"at `s: B\[i\] = A\[i - 1\]`: A\[-1\] is outside A: int32\[4\]"
    ):
        interpret(small(shift, A, B), {"A": ones})
    with pytest.raises(InterpretError, match="no parameter named Q"):
        interpret(small(shift, A, B), {"Q": ones})
    with pytest.raises(InterpretError, match=r"A: int32\[4\] @ dram was passed .* shape, int64\[4\]"):
        interpret(small(shift, A, B), {"A": np.ones(4, np.int64)})
    unpadded = Copy(name="c", destination=whole(B), source=region(A, (1, 4)))
    with pytest.raises(InterpretError, match="but no pad value is given"):
        interpret(small(unpadded, A, B), {"A": ones})
    divide = nest([(I, 4)], Assign(name="d", buffer=B, indices=(I,), value=A[I] // (A[I] - 1)))
    with pytest.raises(InterpretError, match=r"at `d: .*division by zero \(i=0\)"):
        interpret(small(divide, A, B), {"A": ones})
    early = Alloc(buffer=B, body=nest([(I, 4)], Assign(name="r", buffer=A, indices=(I,), value=B[I])))
    assert not interpret(small(early, A), {"A": ones})["A"].any()
    with pytest.raises(InterpretError, match=r"reads B\[0\] before anything was written"):
        interpret(small(early, A), {"A": ones}, poison=True)
    lost = seq(Copy(name="lost", destination=whole(B), source=whole(A), asynchronous=True), Commit())
    with pytest.raises(InterpretError, match="ends without waiting for the asynchronous copies lost"):
        interpret(small(lost, A, B), {"A": ones})


def test_copies_with_run_time_extents_match_by_wide_dimensions() -> None:
    wide = Buffer(name="W", shape=(3, 1, 4), dtype=I32)
    flat = Buffer(name="V", shape=(10,), dtype=I32)
    rest = minimum(4, 10 - Y * 4)
    move = Copy(
        name="move", destination=region(wide, (Y, 1), (0, 1), (0, rest)), source=region(flat, (Y * 4, rest))
    )
    program = small(For(var=Y, extent=Const(3), body=move), flat, wide)
    verify(program)
    got = interpret(program, {"V": np.arange(10, dtype=np.int32)})["W"]
    np.testing.assert_array_equal(got.reshape(-1), [*range(10), 0, 0])


def test_widening_copy() -> None:
    narrow = Buffer(name="N", shape=(4,), dtype=I8)
    program = small(Copy(name="c", destination=whole(A), source=whole(narrow)), narrow, A)
    verify(program)
    given = np.array([-128, -1, 0, 127], np.int8)
    np.testing.assert_array_equal(interpret(program, {"N": given})["A"], given.astype(np.int32))


def test_intrinsic_operand_with_padding() -> None:
    """Read-only operands of an intrinsic may extend beyond their buffer and read the pad value there; written operands
    may not.
    """
    source = Buffer(name="s", shape=(4,), dtype=I32)
    target = Buffer(name="d", shape=(1,), dtype=I32)
    total = Reduce(
        name="r", op="add", buffer=target, indices=(Const(0),), value=source[I], first=FIRST & equal(I, 0)
    )
    sum4 = IntrinsicDeclaration(name="sum4", parameters=(source, target), body=nest([(I, 4)], total))

    def window(shift: int, pad: Const | None) -> Program:
        call = Intrinsic(
            name="w",
            declaration=sum4,
            operands=(region(A, (Y - 2, 4)), region(B, (Y + shift, 1))),
            first=equal(Const(0), 0),
            pad=pad,
        )
        return small(nest([(Y, 4)], call), A, B)

    program = window(0, Const(10, I32))
    verify(program)
    given = np.array([1, 2, 3, 4], np.int32)
    padded = np.pad(given, 2, constant_values=10)
    wanted = [padded[i : i + 4].sum() for i in range(4)]
    np.testing.assert_array_equal(interpret(program, {"A": given}, poison=True)["B"], wanted)
    with pytest.raises(InterpretError, match="leaves A"):
        interpret(window(0, None), {"A": given})
    with pytest.raises(InterpretError, match="leaves B"):
        interpret(window(1, Const(10, I32)), {"A": given})
    for wrong in (window(0, None), window(1, Const(10, I32))):
        with pytest.raises(VerifyError, match="outside"):
            verify(wrong)
