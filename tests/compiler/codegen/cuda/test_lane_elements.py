"""Functions of single lanes on the sums of a warp's matrix product: the elements that each lane holds, results in the
emulation, and results as CUDA C++ on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from cuda_on_host.modules import run_modules
from gpu_kernels import allocate, emulated, interpreted, threads

from vdla.compiler.codegen.cuda.errors import LoweringError
from vdla.compiler.codegen.cuda.expressions import ExpressionEmitter
from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.mma import convert, load_a, load_b, mma, store, zero
from vdla.compiler.codegen.cuda.mma_fragments import Fragment
from vdla.compiler.codegen.cuda.module import lower
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.codegen.cuda.shuffles import shuffle_neighbours
from vdla.compiler.ir.affine import LinearForm
from vdla.compiler.ir.expr import Buffer, Const, Expr, Load, Var
from vdla.compiler.ir.lane_elements import SUMS, lane_register, own_column, own_row
from vdla.compiler.ir.stmt import (
    Assign,
    For,
    Intrinsic,
    IntrinsicDeclaration,
    Program,
    Reduce,
    Region,
    Stmt,
    index,
    nest,
    region,
    seq,
    whole,
)
from vdla.compiler.ir.types import HALVES, DType
from vdla.compiler.ir.verify import VerifyError, verify

TARGET = cuda_target("sm_80")
F32 = DType.FLOAT32
X = Var("x")


def test_lanes_hold_the_elements_that_fragments_name() -> None:
    sums = Fragment(scope=SUMS, dtype=F32, rows=16, columns=8)
    h, p = Var("h"), Var("p")
    found = lane_register((own_row(X, h), own_column(X, p)))
    assert found == ("x", LinearForm({h: 2, p: 1}, 0))
    for lane in range(32):
        for register in range(4):
            at = sums.position(lane // 4, lane % 4, register)
            half, part = divmod(register, 2)
            assert at == (lane // 4 + 8 * half, lane % 4 * 2 + part)
            assert lane_register((own_row(X, Const(half)), own_column(X, Const(part)))) == (
                "x",
                LinearForm({}, register),
            )


@pytest.mark.parametrize(
    "indices",
    [
        (X // 4, X % 4),
        (X // 8, X % 4 * 2),
        (X // 4 + Var("h") * 4, X % 4 * 2),
        (X // 4, Var("y") % 4 * 2),
        (X, Const(0)),
        (Const(3), Const(5)),
        (X // 4 + X // 16 * 8, X % 4 * 2),
    ],
)
def test_all_other_indices_belong_to_no_lane(indices: Sequence[Expr]) -> None:
    assert lane_register(indices) is None


def use(name: str, declaration: IntrinsicDeclaration, *operands: Region) -> Stmt:
    return Intrinsic(name=name, declaration=declaration, operands=operands)


def warp(name: str, *body: Stmt) -> Stmt:
    return For(var=Var(f"{name}.warp"), extent=index(1), body=seq(*body), kind="thread.y")


def below_the_greatest(half: DType) -> Program:
    """A program for one warp: Y = P V, where P is X W less the greatest element of its row, rounded to 16 bits."""
    x, w, v = (Buffer(name=n, shape=(16, 16), dtype=half) for n in "XWV")
    y = Buffer(name="Y", shape=(16, 8), dtype=F32)
    held = [Buffer(name=f"{b.name}s", shape=(16, 24), dtype=half, scope="shared") for b in (x, w, v)]
    fa, fp = (Buffer(name=n, shape=(16, 16), dtype=half, scope="fragment.a") for n in ("fa", "fp"))
    fb, fv = (Buffer(name=n, shape=(2, 16, 8), dtype=half, scope="fragment.b") for n in ("fb", "fv"))
    c = Buffer(name="c", shape=(2, 16, 8), dtype=F32, scope=SUMS)
    d = Buffer(name="d", shape=(16, 8), dtype=F32, scope=SUMS)
    most = Buffer(name="most", shape=(2, 32), dtype=F32, scope="register")

    def copied(to: Buffer, of: Buffer) -> Stmt:
        step = Var(f"{to.name}.step")

        def body(lane: Expr) -> Stmt:
            at = (step * 32 + lane) // 16, (step * 32 + lane) % 16
            return nest([(step, 8)], Assign(name=to.name, buffer=to, indices=at, value=of[at]))

        return threads(f"{to.name}.lane", 32, body)

    def tile(of: Buffer, t: int) -> Region:
        return region(of, (t, 1), *((0, n) for n in of.shape[1:]))

    def row(of: int) -> Region:
        return region(most, (of, 1), (0, 32))

    def elements(name: str, body: Callable[[Load, Load], tuple[Sequence[Stmt], Stmt]]) -> Stmt:
        h, t, p = (Var(f"{name}.{v}") for v in "htp")

        def lane(x: Expr) -> Stmt:
            element = c[t, own_row(x, h), own_column(x, p)]
            first, each = body(most[h, x], element)
            return nest([(h, 2)], seq(*first, nest([(t, 2), (p, 2)], each)))

        return threads(f"{name}.x", 32, lane)

    lowest = Const(float("-inf"), F32)
    greatest = elements(
        "most",
        lambda own, e: ([Assign.to("most.init", own, lowest)], Reduce.into("most", "max", own, e)),
    )
    less = elements("less", lambda own, e: ([], Assign.to("less", e, e - own)))
    body = seq(
        *(copied(to, of) for to, of in zip(held, (x, w, v), strict=True)),
        warp(
            "first",
            use("load.a", load_a(half), whole(fa), region(held[0], (0, 16), (0, 16))),
            use("load.b", load_b(half, "rows"), whole(fb), region(held[1], (0, 16), (0, 16))),
            *(use(f"zero{t}", zero(F32), tile(c, t)) for t in range(2)),
            *(use(f"mma{t}", mma(half, half), tile(c, t), whole(fa), tile(fb, t)) for t in range(2)),
        ),
        greatest,
        warp("joined", *(use(f"joined{h}", shuffle_neighbours("max"), row(h)) for h in range(2))),
        less,
        warp(
            "second",
            use("convert", convert(half), whole(fp), whole(c)),
            use("load.v", load_b(half, "rows"), whole(fv), region(held[2], (0, 16), (0, 16))),
            use("zero.d", zero(F32), whole(d)),
            use("mma.d", mma(half, half), whole(d), whole(fp), tile(fv, 0)),
            use("store", store(F32, "dram"), whole(y), whole(d)),
        ),
    )
    body = allocate(body, *held, fa, fb, fp, fv, c, d, most)
    block = For(var=Var("block"), extent=index(1), body=body, kind="block.x")
    return Program(name="below", parameters=(x, w, v, y), body=block)


@pytest.mark.parametrize("half", HALVES)
def test_lanes_and_warps_take_turns(half: DType) -> None:
    """Y = P V for one warp, where P is X W less the greatest element of each row: lanes and warps wait for each other
    where needed. Inputs are integers, so that sums are exact; emulated lanes run out of order between operations.
    """
    program = prepare(below_the_greatest(half), TARGET)
    rng = np.random.default_rng(3)
    arrays = {n: rng.integers(-3, 4, (16, 16)).astype(half.numpy) for n in "XWV"}
    product = arrays["X"].astype(np.float32) @ arrays["W"].astype(np.float32)
    left = (product - product.max(axis=1, keepdims=True)).astype(half.numpy)
    wanted = left.astype(np.float32) @ arrays["V"].astype(np.float32)[:, :8]
    given = {**arrays, "Y": np.zeros((16, 8), np.float32)}
    (on_host,) = run_modules([(lower(program, TARGET), arrays)], orders=3)
    for found in (emulated(program, given), interpreted(program, given), on_host):
        np.testing.assert_array_equal(found["Y"], wanted[:, :8])


def lanes(row: Expr, column: Expr, count: int = 32) -> Program:
    """A program in which each of `count` threads along x writes the element [`row`, `column`] of a warp's 16 x 8 sums;
    then the warp stores all sums to Y.
    """
    c = Buffer(name="c", shape=(16, 8), dtype=F32, scope=SUMS)
    y = Buffer(name="Y", shape=(16, 8), dtype=F32)
    one = Const(1.0, F32)
    write = threads("x", count, lambda _: Assign(name="own", buffer=c, indices=(row, column), value=one))
    body = allocate(seq(write, warp("last", use("store", store(F32, "dram"), whole(y), whole(c)))), c)
    return Program(
        name="lanes", parameters=(y,), body=For(var=Var("b"), extent=index(1), body=body, kind="block.x")
    )


def test_elements_of_other_lanes_are_refused() -> None:
    verify(lanes(own_row(X, Const(1)), own_column(X, Const(0))))
    for program in (lanes(X // 2, X % 2 * 4), lanes(X // 4, X % 4 * 2, count=64)):
        with pytest.raises(
            VerifyError, match="c is used by all iterations of x, but each thread has its own"
        ):
            verify(program)


def test_a_statement_of_a_whole_warp_has_no_element() -> None:
    c = Buffer(name="c", shape=(16, 8), dtype=F32, scope=SUMS)
    with pytest.raises(LoweringError, match=r"c\[3, 5\] is not in a register of the lane that accesses it"):
        ExpressionEmitter(TARGET.dialect).at(c, (Const(3), Const(5)))
