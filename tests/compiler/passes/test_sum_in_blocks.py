"""Tests the pass that divides long sums into sums of blocks. They check which sums it rewrites, that it leaves other
sums unchanged, and that results stay equal.
"""

import numpy as np
import pytest

from vdla.compiler.ir.expr import Buffer, Const, Var, equal
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.printer import format_node
from vdla.compiler.ir.stmt import Alloc, Assign, For, Program, Reduce, nest, seq
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import verify
from vdla.compiler.ir.visit import loops
from vdla.compiler.passes.sum_in_blocks import BLOCK_TERMS, LONGEST, sum_in_blocks

LANE = Var("lane")


def parameters(*extents, dtype=DType.FLOAT32):
    return Buffer(name="X", shape=(*extents, 4), dtype=dtype), Buffer(name="Y", shape=(4,), dtype=dtype)


def sums(*extents, dtype=DType.FLOAT32, op="add", first=None, kind="serial"):
    """A program of Y[lane] += X[k0, k1, ..., lane] (or another `op`), with loops of the given extents and `kind` around
    a loop over four lanes; `first`: condition under which the sum begins anew.
    """
    x, y = parameters(*extents, dtype=dtype)
    around = [Var(f"k{d}") for d in range(len(extents))]
    add = Reduce(name="add", op=op, buffer=y, indices=(LANE,), value=x[(*around, LANE)], first=first)
    body = nest([(LANE, 4)], add, kind="vectorize")
    return Program(
        name="sums",
        parameters=(x, y),
        body=nest(list(zip(around, extents, strict=True)), body, kind=kind),
    )


def cut(program):
    """The program after the pass; asserts that its results are unchanged, on integers small enough that no order of
    summation rounds.
    """
    blocked = sum_in_blocks(program)
    verify(blocked)
    assert blocked is not program
    x = np.random.default_rng(0).integers(-8, 8, program.parameters[0].shape).astype(np.float32)
    arrays = {"X": x, "Y": np.ones(4, np.float32)}
    want = interpret(program, arrays, poison=True)["Y"]
    np.testing.assert_array_equal(interpret(blocked, arrays, poison=True)["Y"], want)
    assert sum_in_blocks(blocked) is blocked
    return blocked


def test_a_long_sum_becomes_one_of_blocks():
    text = """
    def sums(X: float32[600, 4] @ dram, Y: float32[4] @ dram):
        for k0.block in range(3):
            alloc Y.block: float32[4] @ register
            for lane.zero in vectorize(4):
                add.zero: Y.block[lane.zero] = float32(0.0)
            for k0 in range(min(256, 600 - k0.block * 256)):
                for lane in vectorize(4):
                    add: Y.block[lane] += X[k0.block * 256 + k0, lane]
            for lane.join in vectorize(4):
                add.join: Y[lane.join] += Y.block[lane.join]
    """
    assert format_node(cut(sums(600))).split() == text.split()


def test_blocks_of_blocks():
    blocked = sum_in_blocks(sums(300 * LONGEST))
    verify(blocked)
    serial = [loop for loop in loops(blocked) if not loop.name.startswith("lane")]
    assert [loop.name for loop in serial] == ["k0.block.block", "k0.block", "k0"]
    assert serial[0].extent == Const(3)


def test_nested_loops_count_together():
    blocked = cut(sums(70, 40))
    assert [loop.name for loop in loops(blocked) if not loop.name.startswith("lane")] == [
        "k0.block",
        "k0",
        "k1",
    ]
    # An iteration that adds up a whole block is one.
    assert [loop.name for loop in loops(cut(sums(7, 400))) if not loop.name.startswith("lane")] == [
        "k0",
        "k1",
    ]


def test_sums_side_by_side_count_together():
    x, y = parameters(700)
    k, rest = Var("k"), Var("rest")
    whole = Reduce(name="whole", op="add", buffer=y, indices=(LANE,), value=x[k, LANE])
    more = Reduce(name="more", op="add", buffer=y, indices=(rest,), value=x[k, rest] * x[k, rest])
    body = seq(nest([(LANE, 4)], whole), nest([(rest, 3)], more))
    blocked = cut(Program(name="two", parameters=(x, y), body=nest([(k, 700)], body)))
    size = next(loop for loop in loops(blocked) if loop.name == "k").extent
    assert str(BLOCK_TERMS // 2) in format_node(nest([(Var("v"), size)], body))


def test_sums_of_parts_that_a_schedule_made_are_cut_too():
    x, y = parameters(LONGEST + 1, 3)
    part = Buffer(name="part", shape=(4,), dtype=DType.FLOAT32, scope="register")
    p, k, start, end = (Var(n) for n in ("p", "k", "start", "end"))
    body = seq(
        nest(
            [(start, 4)], Assign(name="start", buffer=part, indices=(start,), value=Const(0.0, DType.FLOAT32))
        ),
        nest(
            [(k, 3), (LANE, 4)],
            Reduce(name="add", op="add", buffer=part, indices=(LANE,), value=x[p, k, LANE]),
        ),
        nest([(end, 4)], Reduce(name="end", op="add", buffer=y, indices=(end,), value=part[end])),
    )
    program = Program(
        name="parts", parameters=(x, y), body=nest([(p, LONGEST + 1)], Alloc(buffer=part, body=body))
    )
    assert any(loop.name == "p.block" for loop in loops(cut(program)))


def carrying(statement):
    """A program of a sum over 600 terms with another statement in the same loop; `statement(x, y, k)` makes it."""
    x, y = parameters(600)
    k = Var("k")
    add = Reduce(name="add", op="add", buffer=y, indices=(LANE,), value=x[k, LANE])
    return Program(
        name="carrying",
        parameters=(x, y),
        body=nest([(k, 600)], seq(nest([(LANE, 4)], add), statement(x, y, k))),
    )


LEFT_ALONE = {
    "short": sums(LONGEST),
    "short together": sums(LONGEST // 8, 8),
    "integers": sums(600, dtype=DType.INT32),
    "greatest": sums(600, op="max"),
    "with a start": sums(600, first=equal(Var("k0"), 0)),
    "parallel": sums(600, kind="parallel"),
    "running sums": carrying(
        lambda x, y, k: Assign(name="now", buffer=x, indices=(k, Const(0)), value=y[Const(0)])
    ),
    "started anew": carrying(
        lambda x, y, k: Assign(name="anew", buffer=y, indices=(Const(0),), value=x[k, Const(0)])
    ),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_other_sums_are_unchanged(name):
    assert sum_in_blocks(LEFT_ALONE[name]) is LEFT_ALONE[name]


def test_only_within_loops_that_are_asked_for():
    program = sums(600, 600)
    assert sum_in_blocks(program, within=lambda loop: False) is program

    def outer(loop: For) -> bool:
        return loop.name == "k0"

    blocked = sum_in_blocks(program, within=outer)
    assert [loop.name for loop in loops(blocked) if not loop.name.startswith("lane")] == [
        "k0",
        "k1.block",
        "k1",
    ]
