"""Schedule primitives: what they allow and what they refuse. Their golden texts are in test_golden.py."""

from __future__ import annotations

import numpy as np
import primitives
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from schedules import assert_refused

from vdla.compiler.ir.expr import Buffer, Const, Var, equal, maximum, minimum, select
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.printer import format_node
from vdla.compiler.ir.stmt import (
    Alloc,
    Assign,
    Copy,
    Program,
    Reduce,
    nest,
    region,
    seq,
    whole,
)
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import verify
from vdla.compiler.ir.visit import loops
from vdla.compiler.schedule import LegalityError, Schedule

I32, A, C, D, T, DOT = primitives.I32, primitives.A, primitives.C, primitives.D, primitives.T, primitives.DOT
ROW, J, P, Q = Var("i"), Var("j"), Var("a"), Var("b")
sums, stencil = primitives.sums, primitives.stencil


def same(before, after):
    verify(after)
    rng = np.random.default_rng(0)
    arrays = {"A": rng.integers(-100, 100, A.shape, dtype=np.int32)}
    expected, got = interpret(before, arrays, poison=True), interpret(after, arrays, poison=True)
    for name, array in expected.items():
        np.testing.assert_array_equal(got[name], array)


def skewed():
    """A program in which each iteration of i overwrites most elements of the previous iteration, shifted by one: the
    order of iterations matters.
    """
    body = nest([(ROW, 4), (J, 6)], Assign(name="put", buffer=C, indices=(ROW + J,), value=A[ROW, J]))
    return Program(name="skewed", parameters=(A, C), body=body)


def rows_in_one(pitch):
    """A program that writes rows of seven values to one array, each row `pitch` elements after the previous one."""
    line = Buffer(name="L", shape=(48,), dtype=I32)
    put = Assign(name="put", buffer=line, indices=(ROW * pitch + J,), value=A[ROW, J])
    return Program(name="rows_in_one", parameters=(A, line), body=nest([(ROW, 4), (J, 7)], put))


def by_pieces(s):
    """Splits the loop over columns into pieces of four, of which the last is shorter, and moves it outside of the loop
    over rows.
    """
    s.split("j", 4)
    s.reorder("j.0", "j.1", "i")


@pytest.mark.parametrize("pitch", [7, 8, 9])
def test_rows_that_only_a_full_last_piece_would_overlap(pitch):
    """The loop over rows may become the innermost, since no two rows overlap: a row has the columns 0 to 6, and rows
    are `pitch` elements apart. The loop over columns is split into two pieces of four, of which the last is shorter. A
    check that took both pieces for full would find a column 7, which belongs to the next row if the pitch is 7.
    """
    s = Schedule(rows_in_one(pitch))
    by_pieces(s)
    assert [loop.name for loop in loops(s.program)] == ["j.0", "j.1", "i"]
    arrays = {"A": np.arange(80, dtype=np.int32).reshape(10, 8) + 1, "L": np.zeros(48, np.int32)}
    expected = interpret(rows_in_one(pitch), arrays)["L"]
    np.testing.assert_array_equal(interpret(s.program, arrays)["L"], expected)


def test_compute_at_an_allocation_behind_other_statements():
    before = stencil()
    first = nest([(Var("p"), 10)], Assign(name="clear", buffer=C, indices=(Var("p"),), value=Const(7, I32)))
    program = Program(name="behind", parameters=(A, C, D), body=seq(first, before.body))
    s = Schedule(program)
    s.compute_at("double", "i")
    assert {loop.name for loop in loops(s.program)} >= {"p", "i", "j"}
    same(program, s.program)


def halves(pitch, shift=4):
    """A program that writes each row i by two loops of four iterations: one from column 0, one from column `shift`."""
    c = Buffer(name="C", shape=(40,), dtype=DType.INT32)
    i, a, b = Var("i"), Var("a"), Var("b")
    row = i * pitch + (20 if pitch < 0 else 0)
    first = Assign(name="first", buffer=c, indices=(row + a,), value=Const(1, DType.INT32))
    second = Assign(name="second", buffer=c, indices=(row + shift + b,), value=Const(2, DType.INT32))
    body = nest([(i, 3)], seq(nest([(a, 4)], first), nest([(b, 4)], second)))
    return Program(name="halves", parameters=(c,), body=body)


@pytest.mark.parametrize("pitch", [8, 9, -8])
def test_loops_of_several_statements_that_are_apart(pitch):
    s = Schedule(halves(pitch))
    s.parallel("i")
    assert "parallel" in format_node(s.program)


@pytest.mark.parametrize(("pitch", "shift"), [(7, 4), (8, 5), (4, 4)])
def test_loops_of_several_statements_that_overlap(pitch, shift):
    with pytest.raises(LegalityError, match="its iterations share elements of C"):
        Schedule(halves(pitch, shift)).parallel("i")


def test_an_index_that_changes_is_not_apart():
    c, at = (Buffer(name=n, shape=(40,), dtype=DType.INT64) for n in ("C", "I"))
    i = Var("i")
    row = minimum(maximum(at[0], 0), 7)
    put = Assign(name="put", buffer=c, indices=(i * 8 + row,), value=Const(1))
    move = Assign(name="move", buffer=at, indices=(Const(0),), value=i * -8)
    program = Program(name="moving", parameters=(c, at), body=nest([(i, 4)], seq(put, move)))
    with pytest.raises(LegalityError, match="share elements of C"):
        Schedule(program).parallel("i")


def running():
    """A program of running sums: each element of C needs the previous one."""
    previous = select(Const(0) < ROW, C[ROW - 1], A[ROW, 0])
    body = nest([(ROW, 10), (J, 1)], Assign(name="run", buffer=C, indices=(ROW,), value=previous + A[ROW, J]))
    return Program(name="running", parameters=(A, C), body=body)


def recomputed():
    """A program that computes the same sum again in each iteration of an outer loop."""
    total = Reduce(name="sum", op="add", buffer=C, indices=(ROW,), value=A[ROW, J], first=equal(J, 0))
    return Program(name="recomputed", parameters=(A, C), body=nest([(P, 2), (J, 8), (ROW, 10)], total))


def overwritten():
    """A program that copies A to T, then overwrites A, then reads T."""
    whole_t = region(T, (0, 10), (0, 8))
    load = Copy(name="load", destination=whole_t, source=whole(A))
    spoil = nest([(P, 10), (Q, 8)], Assign(name="spoil", buffer=A, indices=(P, Q), value=Const(0, I32)))
    use = nest([(ROW, 8), (J, 8)], Assign(name="use", buffer=D, indices=(ROW, J), value=T[ROW, J]))
    return Program(name="overwritten", parameters=(A, D), body=Alloc(buffer=T, body=seq(load, spoil, use)))


def accumulated():
    """A program in which T is initialized by a copy of A, and A is then added to it."""
    start = Copy(name="start", destination=whole(T), source=whole(A))
    more = Reduce(name="more", op="add", buffer=T, indices=(P, Q), value=A[P, Q])
    use = nest([(ROW, 8), (J, 8)], Assign(name="use", buffer=D, indices=(ROW, J), value=T[ROW, J]))
    body = Alloc(buffer=T, body=seq(start, nest([(P, 10), (Q, 8)], more), use))
    return Program(name="accumulated", parameters=(A, D), body=body)


def narrow(s):
    """Splits a loop into fours and tensorizes it by a dot product with fewer than four elements."""
    s.split("j", 4)
    s.tensorize("j.1", DOT)


def cached(shape=(10, 8), scope="acc", before=False, after=False, mirrored=False, read_again=False):
    """A program of L = A in `scope`, T = 2 L and D = T. `before`: another statement reads T first; `after`: D adds L;
    `mirrored`: T reads L at other elements; `read_again`: T = 2 L + 3 T.
    """
    held = Buffer(name="L", shape=shape, dtype=I32, scope=scope)
    made = Buffer(name="T", shape=(10, 8), dtype=I32, scope="acc")
    load = Copy(name="load", destination=whole(held), source=region(A, *((0, n) for n in shape)))
    value = held[9 - P, Q] * 2 if mirrored else held[P, Q] * 2
    double = Assign(
        name="double", buffer=made, indices=(P, Q), value=value + made[P, Q] * 3 if read_again else value
    )
    add = made[ROW, J] + (held[ROW, J] if after else 0)
    use = nest([(ROW, 8), (J, 8)], Assign(name="use", buffer=D, indices=(ROW, J), value=add))
    early = nest([(P, 8), (Q, 8)], Assign(name="early", buffer=D, indices=(P, Q), value=made[P, Q]))
    parts = ([early] if before else []) + [load, nest([(P, 10), (Q, 8)], double), use]
    body = Alloc(buffer=made, body=Alloc(buffer=held, body=seq(*parts)))
    return Program(name="cached", parameters=(A, D), body=body)


def looped():
    """A program that loads row 0 of A to L once. A loop over rows then allocates T, computes T = 2 L, and copies T to a
    row of D. Only T is allocated inside the loop.
    """
    held = Buffer(name="L", shape=(8,), dtype=I32)
    made = Buffer(name="T", shape=(8,), dtype=I32)
    load = nest([(J, 8)], Assign(name="load", buffer=held, indices=(J,), value=A[0, J]))
    double = nest([(Q, 8)], Assign(name="double", buffer=made, indices=(Q,), value=held[Q] * 2))
    use = nest([(P, 8)], Assign(name="use", buffer=D, indices=(ROW, P), value=made[P]))
    again = nest([(ROW, 8)], Alloc(buffer=made, body=seq(double, use)))
    return Program(name="looped", parameters=(A, D), body=Alloc(buffer=held, body=seq(load, again)))


def repeated():
    """A program of T = 2 L, computed twice."""
    held, made = (Buffer(name=name, shape=(8,), dtype=I32) for name in "LT")
    load = nest([(J, 8)], Assign(name="load", buffer=held, indices=(J,), value=A[0, J]))
    double = nest([(ROW, 2), (Q, 8)], Assign(name="double", buffer=made, indices=(Q,), value=held[Q] * 2))
    use = nest([(P, 8)], Assign(name="use", buffer=D, indices=(Const(0), P), value=made[P]))
    return Program(
        name="repeated",
        parameters=(A, D),
        body=Alloc(buffer=held, body=Alloc(buffer=made, body=seq(load, double, use))),
    )


def in_place(s):
    """Schedules the program of `cached` so that its statement "double" writes into L."""
    s.update_in_place("double", "L")


ERRORS = [
    (
        sums,
        lambda s: s.update_in_place("sum", "A"),
        "cannot update A in place by sum: sum is not an assignment",
    ),
    (stencil, lambda s: s.update_in_place("double", "A"), "A is not allocated in the program"),
    (lambda: cached(scope="local"), in_place, "the memory of T is acc, but that of L is local"),
    (lambda: cached(shape=(10, 9)), in_place, "the shape of T is (10, 8), but that of L is (10, 9)"),
    (lambda: cached(before=True), in_place, "early uses T before it"),
    (lambda: cached(after=True), in_place, "use uses L after it"),
    (lambda: cached(mirrored=True), in_place, "it reads an element of L that is not the one that it writes"),
    (lambda: cached(read_again=True), in_place, "it also reads T, the buffer that it writes"),
    (looped, in_place, "a loop contains only one of the allocations of T and L"),
    (repeated, in_place, "its indices are not the variables of its loops, each once"),
    (sums, lambda s: s.split("i", 0), "cannot split i into pieces of 0"),
    (sums, lambda s: s.split("sum", 2), "'sum' is a statement, not a loop"),
    (sums, lambda s: s.split("q", 2), "no loop or statement named 'q'; there are: i, j, sum"),
    (sums, lambda s: s.fuse("j", "i"), "cannot fuse: the body of j is not the loop i alone"),
    (sums, lambda s: s.reorder("j", "i", "j"), "reorder got the same loop twice"),
    (stencil, lambda s: s.reorder("i", "a"), "a is not in one perfect nest with i"),
    (
        skewed,
        lambda s: s.reorder("j", "i"),
        "put touches the same elements of C in different iterations of i",
    ),
    (
        lambda: rows_in_one(6),
        by_pieces,
        "put touches the same elements of L in different iterations of i",
    ),
    (running, lambda s: (s.split("i", 5), s.reorder("i.1", "i.0")), "run touches the same elements of C"),
    (
        recomputed,
        lambda s: s.reorder("j", "a", "i"),
        "sum touches the same elements of C in different iterations of a",
    ),
    (recomputed, lambda s: s.reorder("i", "j", "a"), "in different iterations of a"),
    (sums, lambda s: (s.split("i", 4), s.reorder("i.1", "i.0")), "the extent of i.1 depends on i.0"),
    (
        sums,
        lambda s: s.annotate("j", "parallel"),
        "cannot make j parallel: its iterations share elements of C",
    ),
    (sums, lambda s: s.annotate("j", "quickly"), "unknown kind of loop 'quickly'"),
    (stencil, lambda s: s.compute_at("add", "a"), "cannot move add: D is a parameter"),
    (stencil, lambda s: s.compute_at("double", "a"), "cannot move double: add uses T outside a"),
    (
        stencil,
        lambda s: (s.compute_at("double", "i"), s.compute_at("double", "i")),
        "cannot move double: loop i is outside the allocation of T",
    ),
    (overwritten, lambda s: s.compute_at("load", "i"), "A, which it reads, is overwritten on the way to i"),
    (accumulated, lambda s: s.compute_at("more", "i"), "cannot move more: repeated, it would add"),
    (overwritten, lambda s: s.compute_inline("load"), "it is not an assignment"),
    (sums, lambda s: s.compute_inline("add"), "no loop or statement named 'add'"),
    (
        stencil,
        lambda s: s.compute_early("double"),
        "the reads of T are not all arguments of the same function",
    ),
    (stencil, lambda s: s.compute_early("add"), "D is a parameter of the program"),
    (sums, lambda s: s.compute_early("sum"), "cannot compute sum early: it is not an assignment"),
    (sums, lambda s: s.set_scope("A", "inp"), "cannot place A: it is not allocated"),
    (sums, lambda s: s.widen("A", 0, 16), "cannot widen A: it is not allocated"),
    (stencil, lambda s: s.widen("T", 2, 16), "cannot widen T: it has no dimension 2"),
    (stencil, lambda s: s.widen("T", 0, 2), "it has no dimension 0 of at most 2"),
    (
        sums,
        lambda s: s.cache_read("C", "i", "acc"),
        "cannot cache C: loop i also writes it; choose a loop that only reads it",
    ),
    (sums, lambda s: s.cache_read("D", "i", "acc"), "no buffer named 'D'"),
    (sums, lambda s: s.cache_write("A", "i", "acc"), "no statement in loop i writes it"),
    (sums, lambda s: s.cache_write("C", "j", "acc"), "the sum of sum starts outside loop j"),
    (sums, narrow, "loop j.1 has `4` iterations, but the intrinsic's loop k has `8`"),
    (
        stencil,
        lambda s: s.tensorize("j", DOT),
        "cannot tensorize j with dot: program and intrinsic differ: `add:",
    ),
    (sums, lambda s: s.tensorize("i", DOT), "loop i has `10` iterations, but the intrinsic's loop k has `8`"),
]


@pytest.mark.parametrize(("make", "build", "message"), ERRORS)
def test_refuses(make, build, message):
    assert_refused(make, build, message)


def test_the_loop_is_underlined():
    with pytest.raises(LegalityError) as caught:
        Schedule(sums()).annotate("j", "parallel")
    assert str(caught.value).endswith(
        "        for j in range(8):\n            ^\n            sum: C[i] += A[i, j] first j == 0\n"
    )


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_tiles_of_a_padded_window_compute_the_same(data):
    """The results of random one-dimensional convolutions stay the same if the outputs are tiled, and if the statements
    that make the padded input and the sums are both moved into the loops over the tiles.
    """
    size = data.draw(st.integers(1, 9), "size")
    kernel, stride, dilation = (data.draw(st.integers(1, 3), n) for n in ("kernel", "stride", "dilation"))
    before, after = data.draw(st.integers(0, 3), "before"), data.draw(st.integers(0, 3), "after")
    span = (kernel - 1) * dilation + 1
    padded = size + before + after
    if padded < span:
        return
    out = (padded - span) // stride + 1
    x = Buffer(name="X", shape=(2, size), dtype=I32)
    pad = Buffer(name="pad", shape=(2, padded), dtype=I32)
    acc = Buffer(name="acc", shape=(out,), dtype=I32)
    y = Buffer(name="Y", shape=(out,), dtype=I32)
    c, k, o, e = Var("c"), Var("k"), Var("o"), Var("e")
    total = Reduce(
        name="sum",
        op="add",
        buffer=acc,
        indices=(o,),
        value=pad[c, o * stride + k * dilation],
        first=equal(c, 0) & equal(k, 0),
    )
    program = Program(
        name="window",
        parameters=(x, y),
        body=Alloc(
            buffer=pad,
            body=Alloc(
                buffer=acc,
                body=seq(
                    Copy(
                        name="load",
                        destination=whole(pad),
                        source=region(x, (0, 2), (-before, padded)),
                        pad=Const(7, I32),
                    ),
                    nest([(o, out), (c, 2), (k, kernel)], total),
                    nest([(e, out)], Assign(name="out", buffer=y, indices=(e,), value=acc[e,] * 3)),
                ),
            ),
        ),
    )
    s = Schedule(program)
    tile, _ = s.split("e", data.draw(st.integers(1, 5), "tile"))
    s.compute_at("sum", tile)
    s.split("o", data.draw(st.integers(1, 4), "inner tile"))
    s.reorder("c", "k", "o.0", "o.1")
    s.compute_at("load", data.draw(st.sampled_from([tile, "c", "k", "o.0"]), "at"))
    verify(s.program)
    arrays = {"X": np.arange(2 * size, dtype=np.int32).reshape(2, size) ** 2}
    expected = interpret(program, arrays, poison=True)["Y"]
    np.testing.assert_array_equal(interpret(s.program, arrays, poison=True)["Y"], expected)
