"""The primitives reverse_compute_at and pipeline, binding of grid axes, and memory scopes: what they allow and what
they refuse.
"""

from __future__ import annotations

import numpy as np
import primitives
import pytest
from primitives import A, C, activated, stencil, sums
from schedules import assert_refused

from vdla.compiler.ir.expr import Buffer, Const, Var, equal, minimum
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.printer import format_node
from vdla.compiler.ir.stmt import Alloc, Assign, For, Program, Reduce, nest, seq
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import VerifyError, verify
from vdla.compiler.ir.visit import loops
from vdla.compiler.schedule import LegalityError, Schedule

I32 = DType.INT32
ROW, J, P, Q, K = (Var(name) for name in ("i", "j", "a", "b", "k"))
S = Buffer(name="S", shape=(10, 8), dtype=I32)
Y = Buffer(name="Y", shape=(10, 8), dtype=I32)


def same(program: Program, s: Schedule) -> None:
    verify(s.program)
    arrays = primitives.arrays(program)
    expected = interpret(program, arrays, poison=True)
    got = interpret(s.program, arrays, poison=True)
    for name in expected.keys() - arrays.keys():
        np.testing.assert_array_equal(got[name], expected[name])


def two(value, consumer, *between, made=nest, out=Y) -> Program:
    """A program of three parts: a producer that sets S[i, j] = `value`, the statements `between`, and the statement
    `consumer`, which reads S. `made` puts loops around the producer's statement; `out`: the output buffer.
    """
    producer = nest([(ROW, 10), (J, 8)], Assign(name="make", buffer=S, indices=(ROW, J), value=value))
    body = Alloc(buffer=S, body=seq(producer, *between, consumer))
    return Program(name="two", parameters=(A, out), body=body)


def take(index=(P, Q), value=None, extents=(10, 8)):
    load = S[P, Q] * 2 if value is None else value
    put = Assign(name="take", buffer=Y, indices=index, value=load)
    return nest(list(zip((P, Q), extents, strict=True)), put)


def rows():
    return two(A[ROW, J] + 1, take())


# reverse_compute_at


@pytest.mark.parametrize("factors", [(4, 3), (5, 8), (3, 1)])
def test_tiles_of_a_consumer(factors):
    s = Schedule(rows())
    _, x, _, _ = s.tile("i", "j", *factors)
    s.reverse_compute_at("take", x)
    assert f"alloc S: int32[{factors[0]}, {factors[1]}]" in format_node(s.program)
    same(rows(), s)


def test_tiles_of_split_tiles():
    s = Schedule(rows())
    outer, _ = s.split("i", 4)
    outer, _ = s.split(outer, 2)
    s.reverse_compute_at("take", outer)
    same(rows(), s)


def test_a_loop_that_keeps_a_whole_dimension_leaves_the_consumer_its_loop():
    s = Schedule(rows())
    s.reverse_compute_at("take", "i")
    assert [loop.name for loop in loops(s.program)] == ["i", "j", "a", "b"]
    same(rows(), s)


def test_a_buffer_that_others_read_stays_where_it_is():
    program = two(A[ROW, J] + 1, take())
    other = Buffer(name="Z", shape=(10,), dtype=I32)
    more = nest(
        [(Var("z"), 10)], Assign(name="more", buffer=other, indices=(Var("z"),), value=S[Var("z"), 0])
    )
    alloc = program.body
    assert isinstance(alloc, Alloc)
    program = Program(
        name="three",
        parameters=(*program.parameters, other),
        body=Alloc(buffer=S, body=seq(alloc.body, more)),
    )
    s = Schedule(program)
    s.reverse_compute_at("take", "i")
    assert format_node(s.program).splitlines()[1].strip() == "alloc S: int32[10, 8] @ dram"
    arrays = {"A": primitives.arrays(sums())["A"]}
    expected, got = interpret(program, arrays, poison=True), interpret(s.program, arrays, poison=True)
    np.testing.assert_array_equal(got["Y"], expected["Y"])
    np.testing.assert_array_equal(got["Z"], expected["Z"])


def triangle():
    """A program that computes only the lower triangle of S and reads all of S."""
    make = Assign(name="make", buffer=S, indices=(ROW, J), value=A[ROW, J])
    producer = For(var=ROW, extent=Const(8), body=For(var=J, extent=ROW + 1, body=make))
    return Program(
        name="triangle", parameters=(A, Y), body=Alloc(buffer=S, body=seq(producer, take(extents=(8, 8))))
    )


def spoiled():
    """A program whose consumer overwrites A, from which the producer computes S."""
    put = Assign(name="take", buffer=A, indices=(P, Q), value=S[P, Q])
    return two(A[ROW, J], nest([(P, 10), (Q, 8)], put))


def summed():
    """A program whose consumer sums S over rows."""
    c = Buffer(name="Y", shape=(8,), dtype=I32)
    total = Reduce(name="take", op="add", buffer=c, indices=(Q,), value=S[P, Q], first=equal(P, 0))
    return two(A[ROW, J], nest([(P, 10), (Q, 8)], total), out=c)


def between():
    change = Assign(name="change", buffer=S, indices=(K, Const(0)), value=Const(1, I32))
    return two(A[ROW, J], take(), nest([(K, 10)], change))


REVERSE = [
    (
        activated,
        lambda s: s.reverse_compute_at("relu", "j"),
        "S is not complete before the last iteration of j",
    ),
    (
        activated,
        lambda s: s.reverse_compute_at("sum", "i"),
        "sum: it is not in a loop nest of its own after",
    ),
    (
        activated,
        lambda s: s.reverse_compute_at("sum", "a"),
        "sum: it is not in a loop nest of its own after",
    ),
    (
        stencil,
        lambda s: s.reverse_compute_at("add", "a"),
        "it must read single elements of T, all with the same indices",
    ),
    (
        triangle,
        lambda s: s.reverse_compute_at("take", "i"),
        "make must write a whole rectangle of S in each iteration of i",
    ),
    (spoiled, lambda s: s.reverse_compute_at("take", "i"), "make must use A before take writes it"),
    (
        summed,
        lambda s: s.reverse_compute_at("take", "i"),
        "different iterations of a touch the same elements of Y",
    ),
    (between, lambda s: s.reverse_compute_at("take", "i"), "change must write S before take reads it"),
    (
        lambda: two(A[ROW, J], take(index=(P * 0, Q))),
        lambda s: s.reverse_compute_at("take", "i"),
        "different iterations of a touch the same elements of Y",
    ),
    (
        lambda: two(A[ROW, J], take(value=S[minimum(P, Q), Q])),
        lambda s: s.reverse_compute_at("take", "i"),
        "must be one loop variable (plus constants) that no other index has",
    ),
    (
        lambda: two(A[ROW, J], take(value=S[Q, Q], extents=(10, 8))),
        lambda s: s.reverse_compute_at("take", "i"),
        "must be one loop variable (plus constants) that no other index has",
    ),
]


# pipeline


def loaded(s: Schedule, factor: int = 2) -> str:
    tile, _ = s.split("i", factor)
    s.cache_read("A", tile, "shared")
    return tile


@pytest.mark.parametrize(("factor", "stages"), [(2, 2), (3, 2), (4, 3), (4, 5), (10, 2)])
def test_pipelined_copies_arrive_in_time(factor, stages):
    """Copies in a pipeline leave the results unchanged, also with more stages than iterations; the interpreter reports
    missing waits and overwritten sources.
    """
    s = Schedule(sums())
    s.pipeline(loaded(s, factor), stages)
    same(sums(), s)


@pytest.mark.parametrize(("factor", "stages", "ahead"), [(2, 4, 2), (2, 3, 1), (4, 6, 3), (10, 4, 2)])
def test_slots_behind_are_left_alone(factor, stages, ahead):
    s = Schedule(sums())
    s.pipeline(loaded(s, factor), stages, ahead)
    assert f"wait {ahead - 1}\n" in format_node(s.program)
    same(sums(), s)


def test_pipelines_nest():
    s = Schedule(primitives.product())
    outer, _ = s.split("i", 5)
    inner, _ = s.split("k", 2)
    s.reorder(outer, inner, "i.1", "j", "k.1")
    s.cache_read("W", inner, "local")
    s.cache_read("A", outer, "shared")
    s.pipeline(inner, 2)
    s.pipeline(outer, 2)
    same(primitives.product(), s)


def rewritten():
    """A program in which each iteration overwrites the row of A that the next iteration loads."""
    t = Buffer(name="T", shape=(1, 8), dtype=I32)
    from vdla.compiler.ir.stmt import Copy, region, whole

    load = Copy(name="load", destination=whole(t), source=region(A, (ROW, 1), (0, 8)))
    put = nest([(J, 8)], Assign(name="put", buffer=A, indices=(ROW + 1, J), value=t[0, J]))
    return Program(name="chain", parameters=(A,), body=nest([(ROW, 9)], Alloc(buffer=t, body=seq(load, put))))


PIPELINE = [
    (sums, lambda s: s.pipeline("i", 2), "does not begin with copies into buffers that it allocates"),
    (sums, lambda s: s.pipeline(loaded(s), 1), "1 stages cannot overlap"),
    (sums, lambda s: s.pipeline(loaded(s), 3, 3), "copies 3 iterations ahead do not fit 3 stages; 1 to 2 do"),
    (sums, lambda s: s.pipeline(loaded(s), 3, 0), "copies 0 iterations ahead do not fit 3 stages; 1 to 2 do"),
    (
        sums,
        lambda s: (t := loaded(s), s.parallel(t), s.pipeline(t, 2)),
        "it is parallel, and its iterations must run",
    ),
    (rewritten, lambda s: s.pipeline("i", 2), "A, which load reads, changes in i"),
    (sums, lambda s: (t := loaded(s), s.pipeline(t, 2), s.pipeline(t, 2)), "does not begin with copies"),
    (
        sums,
        lambda s: (t := loaded(s), s.pipeline(t, 2), s.reorder("j", "i.1"), s.parallel(t)),
        "asynchronous copies",
    ),
]


# The axes of a grid, and scopes


def bound(s: Schedule, block: str = "block.x") -> tuple[str, str]:
    outer, inner = s.split("i", 4)
    s.bind(outer, block)  # type: ignore[arg-type]
    return outer, inner


GRID = [
    (sums, lambda s: s.bind("i", "warp"), "cannot bind i to 'warp'; the axes of a grid are block.x"),
    (sums, lambda s: s.bind("j", "thread.x"), "cannot make j thread.x: its iterations share elements of C"),
    (sums, lambda s: (bound(s), s.bind("i.1", "block.x")), "i.1 is block.x inside i.0, which is block.x too"),
    (
        sums,
        lambda s: (bound(s, "thread.y"), s.bind("i.1", "block.x")),
        "i.1 is block.x inside i.0, which is thread.y",
    ),
    (
        sums,
        lambda s: (s.split("i", 4), s.parallel("i.0"), s.bind("i.1", "thread.x")),
        "inside i.0, which is parallel",
    ),
    (
        sums,
        lambda s: (s.bind("i", "block.x"), s.split("i", 4)),
        "cannot split i: it is block.x; split the loop first",
    ),
    (
        stencil,
        lambda s: (s.set_scope("T", "shared"), s.bind("i", "block.x")),
        "cannot make i block.x: T is used by all iterations of i, but each block has its own shared memory",
    ),
    (
        stencil,
        lambda s: (s.bind("a", "thread.x"), s.bind("i", "thread.x"), s.set_scope("T", "local")),
        "T is used by all iterations of a, but each thread has its own local memory",
    ),
    (
        sums,
        lambda s: (bound(s), s.cache_read("A", None, "shared")),
        "A.shared is used by all iterations of i.0, but each block has its own shared memory",
    ),
]


@pytest.mark.parametrize(("make", "build", "message"), [*REVERSE, *PIPELINE, *GRID])
def test_illegal_moves_and_pipelines_are_refused(make, build, message):
    assert_refused(make, build, message)


def test_operands_of_a_hardware_operation_stay_where_it_takes_them():
    s = Schedule(sums())
    s.cache_write("C", "i", "dram")
    s.tensorize("j", primitives.DOT)
    with pytest.raises(LegalityError, match=r"cannot place C.dram in acc: dot requires it in dram"):
        s.set_scope("C.dram", "acc")


def test_a_grid_that_a_program_is_built_with_is_checked_too():
    put = Assign(name="put", buffer=C, indices=(ROW,), value=A[ROW, 0])
    body = nest([(J, 2)], nest([(ROW, 10)], put, "block.x"), "thread.x")
    with pytest.raises(VerifyError, match=r"i is block.x inside j, which is thread.x"):
        verify(Program(name="grid", parameters=(A, C), body=body))


# What other primitives must not do any more


def diagonal():
    """A program of C[i + j] += A[i, j], whose terms may be added in any order; for one j, all i write different
    elements.
    """
    line = Buffer(name="Y", shape=(18,), dtype=I32)
    total = Reduce(name="sum", op="add", buffer=line, indices=(ROW + J,), value=A[ROW, J])
    return Program(name="diagonal", parameters=(A, line), body=nest([(J, 8), (ROW, 10)], total))


def backwards():
    """A program whose sum is initialized in the middle of its loops, so that the order of iterations matters."""
    first = equal(J, 1) & equal(K, 0)
    total = Reduce(name="sum", op="add", buffer=C, indices=(ROW,), value=A[ROW, J + K], first=first)
    return Program(name="backwards", parameters=(A, C), body=nest([(ROW, 10), (J, 4), (K, 4)], total))


def half():
    """A program that writes row i of Y up to column i."""
    put = Assign(name="put", buffer=Y, indices=(ROW, J), value=A[ROW, J])
    body = For(var=ROW, extent=Const(8), body=For(var=J, extent=ROW + 1, body=put))
    return Program(name="half", parameters=(A, Y), body=body)


def partly_started():
    """A program whose sum initializes only the first element of C."""
    total = Reduce(name="sum", op="add", buffer=C, indices=(ROW,), value=A[ROW, J], first=equal(ROW + J, 0))
    return Program(name="partly", parameters=(A, C), body=nest([(ROW, 10), (J, 8)], total))


OTHERS = [
    (sums, lambda s: (s.parallel("i"), s.fuse("i", "j")), "cannot fuse: i is parallel and j is serial"),
    (sums, lambda s: (s.split("i", 4), s.fuse("i.0", "i.1")), "the extent of i.1 is not constant"),
    (
        stencil,
        lambda s: s.tile("a", "i", 2, 2),
        "cannot tile a and i: cannot reorder: i.0 is not in one perfect nest",
    ),
    (sums, lambda s: (s.split("i", 4), s.tile("i.0", "i.1", 2, 2)), "the extent of i.1.0 depends on i.0.1"),
    (diagonal, lambda s: (s.vectorize("i"), s.reorder("i", "j")), "i is of kind vectorize, which is illegal"),
    (
        backwards,
        lambda s: s.reorder("k", "j"),
        "sum touches the same elements of C in different iterations of",
    ),
    (half, lambda s: s.cache_write("Y", None, "local"), "put must write a whole rectangle of it in"),
    (
        partly_started,
        lambda s: s.cache_write("C", None, "acc"),
        "the sum of sum starts outside program partly",
    ),
    (sums, lambda s: s.rfactor("sum", "i"), "i is not one of its reduction loops"),
    (sums, lambda s: s.reorder(), "reorder needs the name of at least one loop"),
]


@pytest.mark.parametrize(("make", "build", "message"), OTHERS)
def test_illegal_uses_of_other_primitives_are_refused(make, build, message):
    assert_refused(make, build, message)


def test_sums_by_another_operator_are_not_regrouped():
    total = Reduce(name="sum", op="mul", buffer=C, indices=(ROW,), value=A[ROW, J], first=equal(J, 0))  # type: ignore[arg-type]
    s = Schedule(Program(name="times", parameters=(A, C), body=nest([(ROW, 10), (J, 8)], total)))
    for primitive in (s.rfactor, s.decompose_reduction):
        with pytest.raises(LegalityError, match="combines by mul; it must combine by add or max"):
            primitive("sum", "j")
