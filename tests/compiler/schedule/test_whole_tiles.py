"""The primitives pad and guard, which make all tiles whole for any sizes; and programs that they refuse."""

from __future__ import annotations

import numpy as np
import primitives
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from primitives import product, staged, sums
from schedules import assert_refused

from vdla.compiler.ir.expr import Buffer, Var, equal
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.printer import format_node
from vdla.compiler.ir.stmt import Alloc, Assign, Copy, Program, Reduce, Stmt, nest, region, seq, whole
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import verify
from vdla.compiler.ir.visit import walk
from vdla.compiler.schedule import Schedule
from vdla.compiler.schedule.pack import pack_arrays


def same(program: Program, s: Schedule) -> None:
    verify(s.program)
    arrays = primitives.arrays(program)
    expected = interpret(program, arrays, poison=True)["C"]
    got = interpret(s.program, pack_arrays(s.trace, arrays), poison=True)["C"]
    np.testing.assert_array_equal(got, expected)


@settings(max_examples=examples(15), deadline=None)
@given(sizes=st.tuples(*[st.integers(1, 12)] * 3), tile=st.tuples(*[st.integers(1, 5)] * 2))
def test_padded_sums_in_tiles(sizes: tuple[int, int, int], tile: tuple[int, int]) -> None:
    """Sums and the statement "post" after them compute the same if the sums' loops are padded, and "post" is guarded
    and tiled.
    """
    s = Schedule(staged())
    for loop, multiple in zip(("i", "j", "k"), sizes, strict=True):
        s.pad(loop, multiple)
    s.guard("c.j", tile[0])
    s.split("c.j", tile[0])
    s.guard("c.i", tile[1])
    s.split("c.i", tile[1])
    for loop, factor in zip(("c.j.0", "c.i.0"), tile, strict=True):
        s.bind(loop, "block.x" if loop == "c.j.0" else "block.y") if factor > 1 else None
    same(staged(), s)


def test_one_operand_of_zeros_suffices_for_integers() -> None:
    s = Schedule(staged(pad=7))
    s.pad("k", 4)
    same(staged(pad=7), s)


def test_nothing_is_done_to_multiples() -> None:
    s = Schedule(staged())
    s.pad("i", 5)
    s.guard("c.j", 3)
    assert s.program == staged() and len(s.trace) == 2


def test_guards_move_inside() -> None:
    s = Schedule(product())
    inside = s.guard("i", 4)
    s.split("i", 4)
    s.reorder("i.0", "j", "i.1", inside)
    assert "for i.in in range(min(10 - (i.0 * 4 + i.1), 1)):" in format_node(s.program)
    same(product(), s)


def test_threads_take_a_loop_of_one_guarded_iteration() -> None:
    """A loop of one iteration is split over threads: all of them would store the same element, but the guard lets only
    one thread store.
    """

    def copied(size: int) -> Program:
        i, k = Var("i"), Var("k")
        a, c = (Buffer(name=n, shape=(4, size), dtype=primitives.I32) for n in "AC")
        store = Assign(name="store", buffer=c, indices=(k, i), value=a[k, i])
        return Program(name="copied", parameters=(a, c), body=nest([(i, size), (k, 4)], store))

    s = Schedule(copied(1))
    s.split("i", 1)
    inside = s.guard("i.0", 8)
    s.reorder("k", "i.0", inside)
    s.split("i.0", 4)
    s.bind("i.0.0", "block.x")
    s.bind("i.0.1", "thread.x")
    same(copied(1), s)
    # The work of more than one iteration is not idle.
    k, j = Var("k"), Var("j")
    a, c = (Buffer(name=n, shape=(4,), dtype=primitives.I32) for n in "AC")
    store = Assign(name="store", buffer=c, indices=(k,), value=a[k])
    shared = Program(name="shared", parameters=(a, c), body=nest([(k, 4), (j, 2)], store))
    assert_refused(
        lambda: shared, lambda s: (s.guard("j", 8), s.bind("j", "thread.x")), "share elements of C"
    )


def test_copied_tiles_are_packed() -> None:
    """The parameter A is packed into tiles of 4 x 4. Elements of the tiles beyond the end of A are zeros. The padding
    of the loops also reads zeros there, so that the results stay the same.
    """
    s = Schedule(staged())
    s.pad("i", 4)
    s.pad("k", 4)
    tile, depth = s.split("i", 4)[0], s.split("k", 4)[0]
    s.reorder(tile, depth, "i.1", "j", "k.1")
    s.decompose_reduction("gemm", depth)
    s.compute_at("load", depth)
    s.pack("A", ((0, 4), (1, 4)), (0, 1, 2, 3))
    assert Buffer(name="A", shape=(3, 2, 4, 4), dtype=primitives.I32) in s.program.parameters
    same(staged(), s)


def windows() -> Program:
    """A program of C[i] = sum over k of a[3 * i + 2 * k] * w[k], where `a` and `w` are copies of the inputs."""
    i, k = Var("i"), Var("k")
    x, f, c = (Buffer(name=n, shape=(s,), dtype=primitives.I32) for n, s in (("A", 30), ("F", 4), ("C", 7)))
    a, w, total = (
        Buffer(name=n, shape=(s,), dtype=primitives.I32) for n, s in (("a", 25), ("w", 4), ("sum", 7))
    )
    add = Reduce(
        name="add", op="add", buffer=total, indices=(i,), value=a[i * 3 + k * 2] * w[k], first=equal(k, 0)
    )
    j = Var("j")
    body: Stmt = seq(
        Copy(name="a", destination=whole(a), source=region(x, (0, 25))),
        Copy(name="w", destination=whole(w), source=whole(f)),
        nest([(i, 7), (k, 4)], add),
        nest([(j, 7)], Assign(name="store", buffer=c, indices=(j,), value=total[j])),
    )
    for buffer in (total, w, a):
        body = Alloc(buffer=buffer, body=body)
    return Program(name="windows", parameters=(x, f, c), body=body)


def test_padded_windows() -> None:
    """Padding the loop over outputs enlarges the copied input by the stride times the number of new outputs; the loop
    over taps cannot be padded.
    """
    s = Schedule(windows())
    s.pad("i", 4)
    shapes = {n.buffer.name: n.buffer.shape for n in walk(s.program) if isinstance(n, Alloc)}
    assert shapes == {"a": (28,), "w": (4,), "sum": (8,)}
    same(windows(), s)
    assert_refused(windows, lambda s: s.pad("k", 3), "add uses k other than as an index")


REFUSED = [
    (staged, lambda s: s.pad("i", 0), "cannot pad i: the multiple is 0"),
    (staged, lambda s: s.pad("a", 4), "cannot pad a: it is not a nest of loops around one sum"),
    (product, lambda s: s.pad("i", 4), "cannot pad i: C is a parameter, or its dimension 0 is not "),
    (staged, lambda s: (s.split("k", 4), s.pad("k.0", 3)), "gemm uses k.0 other than as an index"),
    (staged, lambda s: (s.split("k", 4), s.pad("k.1", 3)), "cannot pad k.1: its extent is not constant"),
    (
        lambda: product("max"),
        lambda s: s.pad("k", 4),
        "cannot pad k: it is not a nest of loops around one sum",
    ),
    (
        lambda: staged(plus=1),
        lambda s: s.pad("k", 4),
        "does not sum a product of operands that are all indexed by k",
    ),
    (
        lambda: staged(columns=10),
        lambda s: s.pad("j", 4),
        "element must fill dimension 1 of w from 0 to its end",
    ),
    (
        lambda: staged(pad=7, dtype=DType.FLOAT32),
        lambda s: s.pad("k", 4),
        "does not provably put zeros beyond the end of w",
    ),
    (
        staged,
        lambda s: (s.expand_copy("load"), s.pad("i", 4)),
        "cannot pad i: a is not filled by one plain copy",
    ),
    (sums, lambda s: s.guard("i", 0), "cannot guard i: the multiple is 0"),
    (sums, lambda s: (s.parallel("i"), s.guard("i", 4)), "cannot guard i: the loop is parallel"),
    (sums, lambda s: (s.guard("i", 4), s.guard("i", 5)), "cannot guard i: the name i.in is taken"),
]


@pytest.mark.parametrize(("make", "build", "message"), REFUSED)
def test_refuses(make, build, message) -> None:
    assert_refused(make, build, message)
