"""The proof that two accesses touch the same element only if some loop variables are equal agrees with a comparison of
all pairs of iterations.
"""

from __future__ import annotations

from itertools import product

import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.codegen.cuda.addresses import evaluate
from vdla.compiler.ir.expr import Buffer, Const, Expr, Var, minimum
from vdla.compiler.ir.kernels import Access
from vdla.compiler.ir.separation import meets_only_at
from vdla.compiler.ir.stmt import Assign, For
from vdla.compiler.ir.types import DType

BUFFER = Buffer(name="S", shape=(64, 64), dtype=DType.FLOAT32, scope="shared")


def loops(*extents: tuple[str, int | Expr]) -> tuple[For, ...]:
    return tuple(
        For(
            var=Var(name),
            extent=Const(e) if isinstance(e, int) else e,
            body=Assign(
                name="s", buffer=BUFFER, indices=(Const(0), Const(0)), value=Const(0.0, DType.FLOAT32)
            ),
        )
        for name, e in extents
    )


def access(starts: tuple[Expr, Expr], around: tuple[For, ...], extents: tuple[int, int] = (1, 1)) -> Access:
    return Access(
        buffer=BUFFER,
        starts=starts,
        extents=tuple([Const(e) for e in extents]),
        write=True,
        statement="s",
        loops=around,
    )


def iterations(around: tuple[For, ...]) -> list[dict[str, int]]:
    found: list[dict[str, int]] = [{}]
    for loop in around:
        found = [{**v, loop.name: i} for v in found for i in range(int(evaluate(loop.extent, v)))]
    return found


def elements(a: Access, values: dict[str, int]) -> set[tuple[int, ...]]:
    first = [int(evaluate(s, values)) for s in a.starts]
    sizes = [int(evaluate(e, values)) for e in a.extents]
    return set(product(*(range(f, f + n) for f, n in zip(first, sizes, strict=True))))


def meets_elsewhere(p: Access, q: Access, coordinates, common) -> bool:
    """Whether the accesses `p` and `q` touch the same element in two iterations that differ where they should be equal.
    This function compares all pairs of an iteration of `p` and one of `q`, and looks only at pairs that agree in the
    loop variables `common`.

    `coordinates`: pairs (loop variable of `p`, loop variable of `q`) that a proof found equal; None in a pair stands
    for 0. Without coordinates, any common element counts.
    """
    after = [(v, elements(q, v)) for v in iterations(q.loops)]
    for u in iterations(p.loops):
        own = elements(p, u)
        for v, other in after:
            if any(u[name] != v[name] for name in common) or not own & other:
                continue
            if not coordinates:
                return True
            if any((u[a] if a else 0) != (v[b] if b else 0) for a, b in coordinates):
                return True
    return False


T, U, V, K = Var("t"), Var("u"), Var("v"), Var("k")


@pytest.mark.parametrize(
    ("starts", "others", "proven"),
    [
        ((T * 4 + V, Const(0)), (T * 4 + V, Const(0)), True),
        ((T * 3 + V, Const(0)), (T * 3 + V, Const(0)), False),
        ((T * 4 + V, Const(0)), (T * 4 + V + 1, Const(0)), False),
        ((T // 4, T % 4 * 4 + V), (T // 4, T % 4 * 4 + V), True),
        ((T // 4, T % 4 * 4 + V), (T // 4, T % 4 * 2 + V), False),
        ((V * 8 + T, Const(1)), (V * 8 + T, Const(1)), True),
        # Slots that take turns.
        ((K % 2, T), ((K + 1) % 2, 7 - T), True),
        ((K % 2, T), ((K + 2) % 2, 7 - T), False),
        ((K % 3, T), ((K + 2) % 3, 7 - T), True),
        ((Const(3), T), (Const(4), V), True),
    ],
)
def test_a_proof_is_found_exactly_in_the_expected_examples(starts, others, proven):
    around = loops(("k", 3), ("t", 8), ("v", 4))
    p, q = access(starts, around), access(others, around)
    coordinates, common = [("t", "t")], ["k"]
    assert meets_only_at(p, q, coordinates, common) is proven
    if proven:
        assert not meets_elsewhere(p, q, coordinates, common)


def test_tails():
    """Two threads never access the same element, although the inner loop has fewer iterations in the last iteration of
    the outer loop.
    """
    around = loops(("t", 3), ("v", minimum(4, 10 - T * 4)))
    p = access((T * 4 + V, Const(0)), around)
    assert meets_only_at(p, p, [("t", "t")])
    assert not meets_elsewhere(p, p, [("t", "t")], [])


def test_digits_of_boxes():
    """Threads access pairs of elements in rows of four. If the pairs begin at adjacent elements they overlap, and
    `meets_only_at` must be False; if they begin at every second element they do not.
    """
    around = loops(("t", 8))
    p = access((T // 4, T % 4), around, (1, 2))
    assert not meets_only_at(p, p, [("t", "t")])
    assert meets_elsewhere(p, p, [("t", "t")], [])
    p = access((T // 4, T % 4 * 2), around, (1, 2))
    assert meets_only_at(p, p, [("t", "t")])


def test_other_buffers_never_meet():
    around = loops(("t", 3))
    p = access((T, Const(0)), around)
    q = Access(
        buffer=Buffer(name="Z", shape=(4, 4), dtype=DType.FLOAT32),
        starts=(T, Const(0)),
        extents=(Const(1), Const(1)),
        write=True,
        statement="z",
        loops=around,
    )
    assert meets_only_at(p, q, [])


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_what_is_proven_is_true(data):
    draw = data.draw
    names = ["k", "t", "u", "v"]
    small = st.integers(1, 5)
    around = loops(*((n, draw(small)) for n in names[:3]), ("v", minimum(draw(small), draw(small) + 1 - T)))
    variables = [Var(n) for n in names]

    def form() -> Expr:
        total: Expr = Const(draw(st.integers(0, 3)))
        for var in variables:
            total = total + var * draw(st.sampled_from([0, 0, 1, 2, 4, 5, -1, 8]))
        return total

    def pair() -> tuple[Expr, Expr]:
        kind = draw(st.sampled_from(["plain", "digits", "slots"]))
        if kind == "plain":
            return form(), form()
        inner, divisor = form(), draw(st.sampled_from([2, 3, 4]))
        if kind == "digits":
            return inner // divisor, inner % divisor * draw(st.sampled_from([1, 2])) + V * draw(
                st.sampled_from([0, 1])
            )
        return inner % divisor, form()

    first = pair()
    sizes = (draw(st.sampled_from([1, 1, 2])), draw(st.sampled_from([1, 1, 2])))
    p = access(first, around, sizes)
    q = access(first if draw(st.booleans()) else pair(), around, sizes)
    coordinates = [(n, n) for n in draw(st.sets(st.sampled_from(["t", "u"])))]
    common = draw(st.sampled_from([[], ["k"]]))
    if meets_only_at(p, q, coordinates, common):
        assert not meets_elsewhere(p, q, coordinates, common)
