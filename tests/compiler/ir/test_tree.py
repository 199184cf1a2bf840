"""The tree of the loop IR: printed programs equal golden texts, rewriting keeps unchanged nodes identical, nodes are
found by name, and equal programs have equal hashes.
"""

from __future__ import annotations

import pytest

from vdla.compiler.ir.expr import FIRST, Buffer, Call, Cast, Const, Var, equal, minimum, select
from vdla.compiler.ir.hash import structural_hash
from vdla.compiler.ir.named_nodes import enclosing_loops, find_loop, find_statement, rewrite_at
from vdla.compiler.ir.printer import format_node, summarize, underline
from vdla.compiler.ir.replace_buffers import replace_buffers
from vdla.compiler.ir.simplify import simplify_node
from vdla.compiler.ir.stmt import (
    Alloc,
    Assign,
    Barrier,
    Commit,
    Copy,
    For,
    Intrinsic,
    IntrinsicDeclaration,
    Program,
    Reduce,
    Seq,
    Stmt,
    Wait,
    nest,
    region,
    seq,
    whole,
)
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.visit import children, free_vars, map_expr, map_stmt, path_to, substitute, walk

I8, I32 = DType.INT8, DType.INT32


def example(loop: str = "y", suffix: str = "", scale: int = 2) -> Program:
    a = Buffer(name=f"A{suffix}", shape=(8, 16), dtype=I8)
    c = Buffer(name=f"C{suffix}", shape=(6, 16), dtype=I32)
    t = Buffer(name=f"T{suffix}", shape=(3, 16), dtype=I8, scope="inp")
    y, k, j = Var(loop), Var("k"), Var("j")
    formal = Buffer(name="x", shape=(16,), dtype=I8, scope="inp")
    total = Buffer(name="z", shape=(16,), dtype=I32)
    body = Reduce(
        name="add", op="add", buffer=total, indices=(j,), value=Cast(formal[j], I32) * scale, first=FIRST
    )
    declaration = IntrinsicDeclaration(
        name="vector_add", parameters=(formal, total), body=nest([(j, 16)], body)
    )
    load = Copy(
        name="load",
        destination=whole(t),
        source=region(a, (y - 1, 3), (0, 16)),
        pad=Const(0, I8),
        asynchronous=True,
    )
    call = Intrinsic(
        name="add",
        declaration=declaration,
        operands=(region(t, (k, 1), (0, 16)), region(c, (y, 1), (0, 16))),
        first=equal(k, 0),
        attributes=(("unit", "alu"),),
    )
    value = select(c[y, j] < 0, 0, Cast(Call("rint", (Cast(c[y, j], DType.FLOAT32),), DType.FLOAT32), I32))
    relu = Assign(name="relu", buffer=c, indices=(y, j), value=value)
    top = Reduce(name="top", op="max", buffer=c, indices=(y, Const(0)), value=c[y, j])
    tail = For(var=j, extent=minimum(16, 20 - y * 3), body=seq(relu, top), kind="vectorize")
    inner = seq(load, Commit(), Wait(pending=0), For(var=k, extent=Const(3), body=call, kind="unroll"), tail)
    return Program(name="example", parameters=(a, c), body=nest([(y, 6)], Alloc(buffer=t, body=inner)))


GOLDEN = """\
def example(A: int8[8, 16] @ dram, C: int32[6, 16] @ dram):
    for y in range(6):
        alloc T: int8[3, 16] @ inp
        load: copy T[0:3, 0:16] = A[y - 1:y + 2, 0:16] pad 0 async
        commit
        wait 0
        for k in unroll(3):
            add: vector_add(T[k, 0:16], C[y, 0:16]) first k == 0 unit=alu
        for j in vectorize(min(16, 20 - y * 3)):
            relu: C[y, j] = select(C[y, j] < int32(0), int32(0), int32(rint(float32(C[y, j])) as float32))
            top: C[y, 0] max= C[y, j]
"""


def test_printed_nodes_equal_the_golden_text() -> None:
    assert format_node(example()) == GOLDEN
    declaration = find_statement(example(), "add").declaration  # type: ignore[union-attr]
    assert format_node(declaration) == (
        "intrinsic vector_add(x: int8[16] @ inp, z: int32[16] @ dram):\n"
        "    for j in range(16):\n"
        "        add: z[j] += int32(x[j]) * int32(2) first first\n"
    )
    assert summarize(find_loop(example(), "k")) == "for k in unroll(3)"
    assert format_node(Seq(statements=())) == "pass\n"
    assert format_node(seq(Barrier(), Wait(pending=1))) == "barrier\nwait 1\n"


def test_underline_marks_the_named_node() -> None:
    lines = underline(example(), "k").splitlines()
    assert lines[6:8] == ["        for k in unroll(3):", "            ^"]
    assert len(lines) == len(GOLDEN.splitlines()) + 1
    lines = underline(example(), "load").splitlines()
    assert lines[4].strip() == "^^^^" and lines[4].index("^") == lines[3].index("load")


def test_rewrites_keep_identity() -> None:
    program = example()
    assert map_stmt(program, lambda s: s) is program
    assert substitute(program, {"absent": Const(1)}) is program
    assert replace_buffers(program, {}) is program
    assert simplify_node(program).parameters is program.parameters
    fixed = substitute(find_loop(program, "y").body, {"y": Const(2)})
    assert "load: copy T[0:3, 0:16] = A[1:4, 0:16]" in format_node(fixed)
    assert "for j in vectorize(14)" in format_node(fixed)
    # A loop that binds the name hides it.
    assert substitute(program, {"y": Const(2)}) is program
    assert map_expr(Var("x") + 1, lambda e: e) == Var("x") + 1


def test_rewrite_at_shares_the_rest() -> None:
    program = example()

    def serial(statement: Stmt) -> Stmt:
        assert isinstance(statement, For)
        return For(var=statement.var, extent=statement.extent, body=statement.body)

    after = rewrite_at(program, "k", serial)
    assert find_loop(after, "k").kind == "serial"
    assert find_loop(after, "j") is find_loop(program, "j")
    assert find_loop(program, "k").kind == "unroll"
    twice = rewrite_at(program, "relu", lambda s: seq(s, s))
    assert format_node(twice).count("relu:") == 2
    assert [type(n).__name__ for n in path_to(program, "relu")] == [
        "Program",
        "For",
        "Alloc",
        "Seq",
        "For",
        "Seq",
        "Assign",
    ]


def test_loops_and_statements_are_found_by_name() -> None:
    program = example()
    assert [loop.name for loop in enclosing_loops(program, "relu")] == ["y", "j"]
    assert enclosing_loops(program, "y") == ()
    with pytest.raises(LookupError, match="no loop named 'q'; there are: y, k, j"):
        find_loop(program, "q")
    with pytest.raises(LookupError, match="no statement named 'q'; there are: load, add, relu, top"):
        find_statement(program, "q")
    with pytest.raises(LookupError, match="no loop or statement named 'q'"):
        rewrite_at(program, "q", lambda s: s)
    assert free_vars(program) == set()
    assert free_vars(find_loop(program, "k")) == {"y"}
    assert len(list(walk(program))) == 13
    assert children(program) == (program.body,)


def test_replace_buffers() -> None:
    program = example()
    old = program.parameters[1]
    moved = Buffer(name="D", shape=old.shape, dtype=old.dtype, scope="acc")
    after = replace_buffers(program, {"C": moved})
    assert format_node(after) == GOLDEN.replace("C: int32[6, 16] @ dram", "D: int32[6, 16] @ acc").replace(
        "C[", "D["
    )


def test_structural_hash() -> None:
    one = example()
    assert structural_hash(one) == structural_hash(example())
    assert structural_hash(seq(Barrier(), Commit())) != structural_hash(seq(Commit(), Commit()))
    # Pinned: tuning records outlive a process and a machine.
    assert structural_hash(one, alpha=True) == "6123354b4ce6991e"
    renamed = example(loop="row", suffix="9")
    assert structural_hash(renamed) != structural_hash(one)
    assert structural_hash(one, alpha=True) == structural_hash(renamed, alpha=True)
    # The meaning of an intrinsic is part of the structure, its name alone is not enough.
    assert structural_hash(one, alpha=True) != structural_hash(example(scale=3), alpha=True)
    x, y = Var("x"), Var("y")
    a = Buffer(name="A", shape=(4, 4), dtype=I32)

    def put(*at: Var) -> Stmt:
        return nest([(x, 4), (y, 4)], Assign(name="p", buffer=a, indices=at, value=Const(1, I32)))

    assert structural_hash(put(x, y), alpha=True) != structural_hash(put(y, x), alpha=True)
