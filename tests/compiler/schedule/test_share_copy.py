"""Tests the schedule primitive share_copy, which distributes a copy over threads. Every element must be copied exactly
once, also if the copies form a pipeline; and the primitive must refuse programs that it cannot handle.
"""

import numpy as np
import primitives
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from primitives import C, padded, sums
from schedules import assert_refused

from vdla.compiler.ir.expr import Buffer, Const, Var
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Alloc, Assign, Copy, For, Program, nest, region, seq, whole
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import verify
from vdla.compiler.ir.visit import walk
from vdla.compiler.schedule import Schedule, replay, trace_from_json, trace_to_json

F32 = DType.FLOAT32


def moved(shape: tuple[int, ...], before: int) -> Program:
    """A program that copies a box of X to Y through the shared buffer T; the box begins `before` elements before X in
    every dimension.
    """
    x = Buffer(name="X", shape=shape, dtype=F32)
    t = Buffer(name="T", shape=shape, dtype=F32, scope="shared")
    y = Buffer(name="Y", shape=shape, dtype=F32)
    fetch = Copy(
        name="fetch",
        destination=whole(t),
        source=region(x, *((-before, size) for size in shape)),
        pad=Const(9.0, F32),
    )
    at = [Var(f"i{d}") for d in range(len(shape))]
    put = nest(
        list(zip(at, shape, strict=True)),
        Assign(name="put", buffer=y, indices=tuple(at), value=t[tuple(at)]),
    )
    return Program(name="moved", parameters=(x, y), body=Alloc(buffer=t, body=seq(fetch, put)))


@settings(max_examples=examples(30), deadline=None)
@given(
    shape=st.lists(st.integers(1, 7), min_size=1, max_size=3),
    lanes=st.integers(1, 3),
    axes=st.permutations(["thread.x", "thread.y", "thread.z"]),
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    before=st.integers(0, 2),
)
def test_every_element_once(
    shape: list[int], lanes: int, axes: list[str], counts: list[int], before: int
) -> None:
    sizes = (*shape[:-1], shape[-1] * lanes)
    program = moved(sizes, before)
    s = Schedule(program)
    width = lanes if sizes[-1] != 1 else 1
    s.share_copy("fetch", tuple(zip(axes, counts, strict=False)), width)
    verify(s.program)
    x = np.random.default_rng(1).standard_normal(sizes, dtype=np.float32)
    expected = interpret(program, {"X": x}, poison=True)["Y"]
    np.testing.assert_array_equal(interpret(s.program, {"X": x}, poison=True)["Y"], expected)
    pieces = [n for n in walk(s.program) if isinstance(n, Copy)]
    assert len(pieces) == 1
    widths = [e.value for e in pieces[0].destination.extents if isinstance(e, Const) and e.value != 1]
    assert widths == ([width] if width > 1 else [])
    threads = {n.kind: n.extent for n in walk(s.program) if isinstance(n, For) and n.kind != "serial"}
    threads.pop("unroll", None)
    asked = list(zip(axes, counts, strict=False))
    several = {a: Const(c) for a, c in asked if c > 1}
    assert threads == (several or {asked[-1][0]: Const(1)})


@pytest.mark.parametrize(("tile", "stages", "threads"), [(5, 2, 8), (5, 2, 3), (2, 3, 16), (3, 4, 5)])
def test_shared_copies_are_pipelined(tile: int, stages: int, threads: int) -> None:
    s = Schedule(sums())
    outer, _ = s.split("i", tile)
    if 10 % tile:
        s.peel(outer)
    s.cache_read("A", outer, "shared")
    s.share_copy("A.shared", (("thread.x", threads),), 2)
    s.pipeline(outer, stages)
    verify(s.program)
    arrays = primitives.arrays(sums())
    expected = interpret(sums(), arrays, poison=True)
    np.testing.assert_array_equal(interpret(s.program, arrays, poison=True)["C"], expected["C"])
    assert all(
        n.asynchronous for n in walk(s.program) if isinstance(n, Copy) and n.name.startswith("A.shared")
    )
    again = replay(sums(), trace_from_json(trace_to_json(s.trace)))
    assert again.program == s.program


def test_copies_into_several_buffers_are_pipelined_together() -> None:
    s = Schedule(primitives.product())
    inner, _ = s.split("k", 2)
    s.reorder("i", inner, "j", "k.1")
    s.cache_read("W", inner, "shared")
    s.share_copy("W.shared", (("thread.x", 4),), 3)
    s.cache_read("A", inner, "shared")
    s.pipeline(inner, 2)
    verify(s.program)
    arrays = primitives.arrays(primitives.product())
    expected = interpret(primitives.product(), arrays, poison=True)
    np.testing.assert_array_equal(interpret(s.program, arrays, poison=True)["C"], expected["C"])
    copies = [n for n in walk(s.program) if isinstance(n, Copy)]
    assert {c.name for c in copies} == {"W.shared", "A.shared", "W.shared.ahead", "A.shared.ahead"}
    assert all(c.asynchronous for c in copies)


def test_a_box_of_adjacent_elements() -> None:
    """After a split of a dimension, the box that `box_copy` makes covers only the inner loop; the outer loop moves from
    box to box. The results stay the same.
    """
    s = Schedule(sums())
    _elements(s, (0, 1))
    s.split("A.inp.1", 4)
    s.box_copy("A.inp")
    verify(s.program)
    (copy,) = [n for n in walk(s.program) if isinstance(n, Copy)]
    assert copy.source.extents == copy.destination.extents == (Const(1), Const(4))
    arrays = primitives.arrays(sums())
    expected = interpret(sums(), arrays, poison=True)["C"]
    np.testing.assert_array_equal(interpret(s.program, arrays, poison=True)["C"], expected)


def _cached(s: Schedule) -> None:
    s.split("i", 5)
    s.cache_read("A", "i.0", "shared")


def _elements(s: Schedule, order: tuple[int, int]) -> None:
    s.cache_read("A", None, "inp")
    s.expand_copy("A.inp")
    s.pack("A.inp", (), order)


X4 = (("thread.x", 4),)
REFUSED = [
    (sums, lambda s: s.split_copy("sum", 0, 2), "cannot split sum: it is not a plain copy"),
    (padded, lambda s: s.split_copy("load", 1, 3), "no constant extent of more than 1 that 3 divides"),
    (padded, lambda s: s.split_copy("load", 0, 1), "dimension 0 has no constant extent of more than 1"),
    (padded, lambda s: s.split_copy("load", 2, 1), "dimension 2 has no constant extent"),
    (
        sums,
        lambda s: s.box_copy("sum"),
        "cannot copy a box at sum: it does not copy one element of another buffer",
    ),
    (
        padded,
        lambda s: (s.expand_copy("load"), s.box_copy("load")),
        "it does not copy one element of another buffer",
    ),
    (
        sums,
        lambda s: (_elements(s, (1, 0)), s.box_copy("A.inp")),
        "must index different dimensions, in one order",
    ),
    (
        sums,
        lambda s: (_elements(s, (0, 1)), s.reorder(*s.split("A.inp.1", 4)[::-1]), s.box_copy("A.inp")),
        "no serial loop directly around it",
    ),
    (sums, lambda s: s.share_copy("sum", X4, 1), "cannot share sum: it is not a plain copy"),
    (padded, lambda s: s.share_copy("load", X4, 3), "pieces of 3 do not divide its innermost extent, 8"),
    (
        padded,
        lambda s: s.share_copy("load", (("block.x", 4),), 1),
        "its axes (block.x) must be different ones of thread.x",
    ),
    (padded, lambda s: s.share_copy("load", (*X4, *X4), 1), "must be different ones of thread.x"),
    (
        padded,
        lambda s: s.share_copy("load", (("thread.x", 0),), 1),
        "thread.x has 0 threads, but needs at least one",
    ),
    (
        sums,
        lambda s: (s.split("i", 4), s.cache_read("A", "i.0", "shared"), s.share_copy("A.shared", X4, 1)),
        "not all of its extents are constants",
    ),
    (
        sums,
        lambda s: (_cached(s), s.bind("i.0", "thread.x"), s.share_copy("A.shared", X4, 1)),
        "A.shared.x is thread.x inside i.0, which is thread.x too",
    ),
    (
        sums,
        lambda s: (_cached(s), s.pipeline("i.0", 2), s.share_copy("A.shared", X4, 1)),
        "cannot share A.shared: it is not a plain copy",
    ),
]


@pytest.mark.parametrize(("make", "build", "message"), REFUSED)
def test_refuses(make, build, message) -> None:
    assert_refused(make, build, message)


def test_a_taken_name_is_told() -> None:
    program = moved((4, 4), 0)
    s = Schedule(program)
    s.split("i0", 2)
    t = next(n.buffer for n in walk(program) if isinstance(n, Alloc))
    named = nest([(Var("fetch.x"), 4)], Assign(name="again", buffer=C, indices=(Var("fetch.x"),), value=C[0]))
    body = Alloc(buffer=t, body=seq(program.body.body, named))  # type: ignore[union-attr]
    other = Program(name="p", parameters=(*program.parameters, C), body=body)
    assert_refused(lambda: other, lambda s: s.share_copy("fetch", X4, 1), "the name fetch.x is taken")
