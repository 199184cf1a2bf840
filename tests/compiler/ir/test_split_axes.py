"""Indices that are quotients and remainders ("digits") of one number: the proof that they differ agrees with all
iterations.
"""

from itertools import product

import numpy as np
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.ir.bounds import loop_range
from vdla.compiler.ir.expr import Buffer, Const, Expr, Var, binary
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.simplify import simplify
from vdla.compiler.ir.split_axes import determined_loops
from vdla.compiler.ir.stmt import Alloc, Assign, Program, nest, seq
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import verify
from vdla.compiler.schedule import LegalityError, Schedule

ROW, J, K = Var("i"), Var("j"), Var("k")


def evaluate(e: Expr, at: dict[str, int]) -> int:
    match e:
        case Const(value=value):
            return int(value)
        case Var(name=name):
            return at[name]
    operation = {
        "+": int.__add__,
        "-": int.__sub__,
        "*": int.__mul__,
        "//": int.__floordiv__,
        "%": int.__mod__,
    }
    return operation[e.op](evaluate(e.a, at), evaluate(e.b, at))  # type: ignore[union-attr]


@settings(max_examples=examples(150), deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 6)] * 3),
    width=st.integers(1, 9),
    height=st.integers(1, 6),
    gap=st.integers(0, 1),
    simplified=st.booleans(),
    dropped=st.sampled_from([None, 0, 1, 2]),
)
def test_what_is_said_to_differ_differs(
    sizes: tuple[int, int, int], width: int, height: int, gap: int, simplified: bool, dropped: int | None
) -> None:
    """`determined_loops` names loop variables that are equal in any two iterations that access the same element. The
    test checks this by enumeration. The accessed index is the position (plane, row, column) of the number n = (i * J +
    j) * K + k in planes of height x width. `dropped`: the part of the position that is left out.
    """
    _, j_size, k_size = sizes
    n = (ROW * (j_size + gap) + J) * k_size + K
    indices: list[Expr] = [n // (width * height), n % (width * height) // width, n % width]
    if dropped is not None:
        del indices[dropped]
    loops = dict(zip("ijk", sizes, strict=True))
    ranges = {name: loop_range(Const(size)) for name, size in loops.items()}
    if simplified:
        indices = [simplify(e, ranges) for e in indices]
    found = determined_loops(indices, ranges, set(loops))
    seen: dict[tuple[int, ...], dict[str, int]] = {}
    for point in product(*(range(size) for size in sizes)):
        at = dict(zip("ijk", point, strict=True))
        other = seen.setdefault(tuple(evaluate(e, at) for e in indices), at)
        assert all(at[name] == other[name] for name in found)
    if dropped is None and not simplified:
        assert found >= {name for name, size in loops.items() if size > 1}


@pytest.mark.parametrize("width", [1, 3, 4, 7, 10, 14, 16, 28, 55, 56, 64, 112, 128])
@pytest.mark.parametrize(("threads", "each"), [(8, 4), (16, 8), (8, 5)])
def test_tiles_of_flattened_images_are_apart(width: int, threads: int, each: int) -> None:
    n = (ROW * threads + J) * each + K
    plane = width * width
    sizes = {"i": 3 * plane // (threads * each) + 1, "j": threads, "k": each}
    ranges = {name: loop_range(Const(size)) for name, size in sizes.items()}
    indices = [simplify(e, ranges) for e in (n // plane, n % plane // width, n % width)]
    assert determined_loops(indices, ranges, {"i", "j", "k"}) >= {k for k, size in sizes.items() if size > 1}


@pytest.mark.parametrize("width", [5, 7, 8])
def test_a_flattened_image_can_be_bound(width: int) -> None:
    y = Buffer(name="Y", shape=(2, 6, width), dtype=DType.FLOAT32)
    n = ROW * 4 + J
    plane = 6 * width
    at = (n // plane, n % plane // width, n % width)
    put = Assign(name="put", buffer=y, indices=at, value=Const(1.0, DType.FLOAT32))
    program = Program(name="p", parameters=(y,), body=nest([(ROW, 2 * plane // 4), (J, 4)], put))
    s = Schedule(program)
    s.bind("i", "block.x")
    s.bind("j", "thread.x")
    assert interpret(s.program, {})["Y"].all()


def test_overlapping_positions_cannot() -> None:
    y = Buffer(name="Y", shape=(6, 7), dtype=DType.FLOAT32)
    n = ROW * 3 + J
    put = Assign(name="put", buffer=y, indices=(n // 7, n % 7), value=Const(1.0, DType.FLOAT32))
    s = Schedule(Program(name="p", parameters=(y,), body=nest([(ROW, 10), (J, 4)], put)))
    with pytest.raises(LegalityError, match="its iterations share elements of Y"):
        s.bind("i", "block.x")


def test_quotients_and_remainders_of_different_numbers_determine_no_loops() -> None:
    ranges = {name: loop_range(Const(6)) for name in "ij"}
    loops = {"i", "j"}
    n = ROW * 6 + J
    assert determined_loops([n // 5, n % 4], ranges, loops) == set()
    assert determined_loops([binary("//", n, 4), binary("%", ROW, 4)], ranges, loops) == set()
    assert determined_loops([ROW // 4, ROW % 4], ranges, loops) == {"i"}


X = Buffer(name="X", shape=(60,), dtype=DType.INT32)
N = Var("n")


def store(shape: tuple[int, ...], *at: Expr, extent: int = 60) -> Program:
    y = Buffer(name="Y", shape=shape, dtype=DType.INT32)
    return Program(
        name="p",
        parameters=(X, y),
        body=nest([(N, extent)], Assign(name="s", buffer=y, indices=at, value=X[N])),
    )


@pytest.mark.parametrize(
    "program",
    [
        store((5, 3, 4), N // 12, N % 12 // 4, N % 4),
        store((4, 3, 5), N % 4, N // 4 % 3, N // 12),
        store((4, 15), N % 4, N // 4),
        store((5, 12), N % 5, N // 5 % 12),
    ],
)
def test_a_loop_whose_digits_are_all_indices_may_be_parallel(program: Program) -> None:
    s = Schedule(program)
    s.parallel("n")
    verify(s.program)


@pytest.mark.parametrize(
    "program",
    [
        store((5, 3), N // 12, N % 12 // 4),
        store((3, 4), N // 4 % 3, N % 4),
        store((5, 6), N // 12, N % 6),
        store((5, 10), (N + 1) // 12, N % 10),
    ],
)
def test_a_loop_is_not_made_parallel_if_a_digit_is_missing(program: Program) -> None:
    with pytest.raises(LegalityError, match="share elements of Y"):
        Schedule(program).parallel("n")


def test_tiles_whose_results_are_stored_by_digits() -> None:
    """A tile of a matrix product is stored to the images, rows and columns of a convolution's output, whose indices are
    quotients and remainders of one column number; the verifier accepts the threads.
    """
    rows, columns = 8, 60
    source = Buffer(name="X", shape=(rows, columns), dtype=DType.INT32)
    held = Buffer(name="S", shape=(rows, columns), dtype=DType.INT32)
    y = Buffer(name="Y", shape=(5, rows, 3, 4), dtype=DType.INT32)
    i, j, a, b = (Var(name) for name in "ijab")
    make = Assign(name="make", buffer=held, indices=(i, j), value=source[i, j] + 1)
    put = Assign(name="put", buffer=y, indices=(b // 12, a, b % 12 // 4, b % 4), value=held[a, b])
    body = seq(nest([(i, rows), (j, columns)], make), nest([(a, rows), (b, columns)], put))
    program = Program(name="p", parameters=(source, y), body=Alloc(buffer=held, body=body))
    s = Schedule(program)
    i0, j0, _, _ = s.tile("i", "j", 4, 16)
    s.reverse_compute_at("put", j0)
    s.bind(i0, "block.y")
    s.bind(j0, "block.x")
    outer, inner = s.split("b", 8)
    s.reorder(outer, "a", inner)
    s.bind(outer, "thread.x")
    verify(s.program)
    arrays = {"X": np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)}
    expected = interpret(program, arrays, poison=True)["Y"]
    np.testing.assert_array_equal(interpret(s.program, arrays, poison=True)["Y"], expected)


def test_fused_loops_write_what_each_wrote() -> None:
    y = Buffer(name="Y", shape=(5, 12), dtype=DType.INT32)
    i, j = Var("i"), Var("j")
    program = Program(
        name="p",
        parameters=(X, y),
        body=nest([(i, 5), (j, 12)], Assign(name="s", buffer=y, indices=(i, j), value=X[i * 12 + j])),
    )
    s = Schedule(program)
    outer, inner = s.split(s.fuse("i", "j"), 16)
    s.bind(outer, "block.x")
    s.bind(inner, "thread.x")
    verify(s.program)
