"""Schedule primitives that CPU kernels need: names, equal results, and refusals."""

from __future__ import annotations

import numpy as np
import primitives
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from schedules import assert_refused

from vdla.compiler.ir.expr import Buffer, Const, Var, equal
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.printer import format_node
from vdla.compiler.ir.stmt import Alloc, Assign, Copy, Program, Reduce, nest, region, seq, whole
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import verify
from vdla.compiler.schedule import Schedule, replay, trace_from_json, trace_to_json
from vdla.compiler.schedule.pack import pack_array, pack_arrays
from vdla.compiler.te.functions import FUNCTIONS
from vdla.compiler.te.scalars import round_tf32

I32 = DType.INT32
A = Buffer(name="A", shape=(10, 6), dtype=I32)
W = Buffer(name="W", shape=(6, 9), dtype=I32)
C = Buffer(name="C", shape=(10, 9), dtype=I32)
ROW, J, K = Var("i"), Var("j"), Var("k")
SEVEN = Const(7, I32)


product, padded = primitives.product, primitives.padded


def same(before, s):
    verify(s.program)
    arrays = primitives.arrays(before)
    expected = interpret(before, arrays, poison=True)
    got = interpret(s.program, pack_arrays(s.trace, arrays), poison=True)
    for name in {"C", "Y"} & expected.keys():
        np.testing.assert_array_equal(got[name], expected[name])


def test_peeling_twice_gives_new_names():
    s = Schedule(product())
    s.split("i", 3)
    s.split("j", 2)
    assert s.peel("i.0") == ".last"
    assert s.peel("j.0") == ".last.1"
    assert s.peel("j.0.last") == ".last"
    same(product(), s)


def test_peeling_the_only_iteration_keeps_names():
    s = Schedule(product())
    s.split("i", 10)
    s.peel("i.0")
    assert "i.1" in format_node(s.program) and "i.0" not in format_node(s.program)
    same(product(), s)


def test_greatest_value_starts_from_the_least():
    s = Schedule(product("max"))
    s.decompose_reduction("sum", "k")
    assert "sum.init: C[i, j] = int32(-2147483648)" in format_node(s.program)
    same(product("max"), s)


def test_partial_sums_move_to_their_use():
    s = Schedule(product())
    s.split("k", 4)
    s.rfactor("sum", "k.0")
    s.compute_at("sum.rf", "k.0")
    assert "alloc C.rf: int32[1, 1, 1]" in format_node(s.program)
    same(product(), s)


def test_packed_allocations():
    s = Schedule(product())
    copy = s.cache_read("A", "i", "local")
    s.expand_copy(copy)
    s.pack(copy, ((1, 4),), (1, 0, 2))
    assert "alloc A.local: int32[2, 1, 4] @ local" in format_node(s.program)
    same(product(), s)


@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_packed_arrays_hold_every_element(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    tiled = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True))
    tiles = tuple((d, data.draw(st.integers(1, 5))) for d in tiled)
    order = tuple(data.draw(st.permutations(range(len(shape) + len(tiles)))))
    array = np.arange(1, np.prod(shape) + 1, dtype=np.int32).reshape(shape)
    packed = pack_array(array, tiles, order)
    sizes = dict(tiles)
    for index in np.ndindex(shape):
        parts = [i // sizes[d] if d in sizes else i for d, i in enumerate(index)]
        parts += [index[d] % size for d, size in tiles]
        assert packed[tuple(parts[o] for o in order)] == array[index]
    assert packed.sum() == array.sum()


def started_elsewhere():
    total = Reduce(
        name="sum", op="add", buffer=C, indices=(ROW, J), value=A[ROW, K] * W[K, J], first=equal(K, 1)
    )
    return Program(name="elsewhere", parameters=(A, W, C), body=nest([(ROW, 10), (J, 9), (K, 6)], total))


def restarted():
    """A program in which each iteration of the loop r computes the same sum again."""
    program = product()
    return Program(name="again", parameters=program.parameters, body=nest([(Var("r"), 2)], program.body))


def two_statements():
    body = seq(product().body.body.body, Assign(name="more", buffer=C, indices=(ROW, J), value=Const(1, I32)))
    return Program(name="two", parameters=(A, W, C), body=nest([(ROW, 10), (J, 9)], body))


ERRORS = [
    (product, lambda s: s.peel("i", "middle"), "cannot peel the middle iteration of i"),
    (product, lambda s: (s.split("i", 4), s.peel("i.1")), "its extent is not a constant above 0"),
    (product, lambda s: s.decompose_reduction("sum", "j.0"), "cannot decompose sum: it is not inside j.0"),
    (product, lambda s: (s.split("k", 3), s.decompose_reduction("sum", "k.1")), "also runs over k.0"),
    (
        started_elsewhere,
        lambda s: s.decompose_reduction("sum", "i"),
        "is not the condition that all of its reduction loops are in iteration 0",
    ),
    (restarted, lambda s: s.decompose_reduction("sum", "r"), "sum starts a new sum in each iteration of r"),
    (two_statements, lambda s: s.decompose_reduction("sum", "i"), "j contains statements other than sum"),
    (two_statements, lambda s: s.rfactor("sum", "k"), "j contains statements other than sum"),
    (product, lambda s: s.rfactor("sum", "j"), "j is not one of its reduction loops"),
    (padded, lambda s: s.rfactor("add", "i"), "add is not a sum"),
    (product, lambda s: s.pack("W", ((2, 4),), (0, 1, 2)), "each of a different one of its 2 dimensions"),
    (
        product,
        lambda s: s.pack("W", ((1, 4),), (0, 1, 1)),
        "is not a permutation of its dimensions and tiles",
    ),
    (product, lambda s: s.pack("Q", ((1, 4),), (0, 1, 2)), "no buffer named 'Q'"),
    (
        padded,
        lambda s: s.pack("X", ((1, 4),), (0, 1, 2)),
        "load reads pads, but partial tiles may not hold the pad value",
    ),
    (
        lambda: padded(Const(0, DType.INT32)),
        lambda s: s.pack("X", ((1, 4),), (0, 1, 2)),
        "load copies a box that is neither one element nor one tile of dimension 1",
    ),
    (product, lambda s: s.expand_copy("sum"), "cannot expand sum: it is not a plain copy"),
]


@pytest.mark.parametrize(("make", "build", "message"), ERRORS)
def test_refuses(make, build, message):
    assert_refused(make, build, message)


def rounded_product(other: bool = False, pad: float = 0.0) -> Program:
    """C = A W, with the elements of W rounded to tf32 where they are multiplied. W is copied to a padded buffer first.
    `other`: C also has an element of W that is not rounded. `pad`: value of the pads of the copy.
    """
    f32 = DType.FLOAT32
    a, w, c = (Buffer(name=n, shape=s, dtype=f32) for n, s in (("A", (5, 6)), ("W", (6, 4)), ("C", (5, 4))))
    held = Buffer(name="held", shape=(8, 4), dtype=f32)
    load = Copy(name="load", destination=whole(held), source=region(w, (0, 8), (0, 4)), pad=Const(pad, f32))
    value = a[ROW, K] * round_tf32(held[K, J]) + (w[K, J] if other else 0.0)
    total = Reduce(name="sum", op="add", buffer=c, indices=(ROW, J), value=value, first=equal(K, 0))
    body = Alloc(buffer=held, body=seq(load, nest([(ROW, 5), (J, 4), (K, 6)], total)))
    return Program(name="product", parameters=(a, w, c), body=body)


def test_a_function_of_a_parameter_is_computed_when_its_array_is_packed():
    before = rounded_product()
    rng = np.random.default_rng(0)
    arrays = {p.name: rng.standard_normal(p.shape).astype(np.float32) for p in before.parameters}
    s = Schedule(before)
    s.compute_early("W", "round_tf32")
    s.pack("W", ((1, 4),), (1, 0, 2))
    assert "round_tf32" not in format_node(s.program)
    assert replay(before, trace_from_json(trace_to_json(s.trace))).program == s.program
    wanted = interpret(before, arrays, functions=FUNCTIONS)["C"]
    np.testing.assert_array_equal(interpret(s.program, pack_arrays(s.trace, arrays))["C"], wanted)
    assert not np.array_equal(interpret(s.program, pack_arrays(s.trace[1:], arrays))["C"], wanted)


def test_a_function_of_a_parameter_stays_where_others_read_the_parameter():
    for make, reason in (
        (lambda: rounded_product(other=True), "a read of W is not its argument"),
        (lambda: rounded_product(pad=0.1), "load pads with 0.1"),
    ):
        assert_refused(make, lambda s: s.compute_early("W", "round_tf32"), reason)
    assert_refused(rounded_product, lambda s: s.compute_early("C", "round_tf32"), "sum accesses C other than")
