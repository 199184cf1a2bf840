"""Fusion of element-wise functions into tensor expressions, and the shapes of operands that broadcast against merged
dimensions.
"""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdla.compiler.ir.expr import cast, maximum
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import verify
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.functions import FUNCTIONS
from vdla.compiler.te.fusion import with_data, with_result
from vdla.compiler.te.merge import merge_axes, spread
from vdla.compiler.te.ops.float_pool import float_pool
from vdla.compiler.te.ops.product import Matrices, product
from vdla.compiler.te.ops.reduction import reduction
from vdla.compiler.te.ops.softmax import softmax
from vdla.compiler.te.scalars import ELEMENT, argument

RNG = np.random.default_rng(0)


def random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


def test_a_function_of_the_result_reads_operands_at_its_indices() -> None:
    body = maximum(ELEMENT * argument(2) + argument(3), 0.0)
    program = with_result(product(Matrices(rows=3, depth=4, columns=5)), body, {2: (3, 1), 3: (1, 5)})
    verify(program)
    assert [p.name for p in program.parameters] == ["X", "W", "A2", "A3", "Y"]
    arrays = {"X": random(3, 4), "W": random(4, 5), "A2": random(3, 1), "A3": random(1, 5)}
    expected = np.maximum(arrays["X"] @ arrays["W"] * arrays["A2"] + arrays["A3"], 0)
    np.testing.assert_allclose(interpret(program, arrays)["Y"], expected, rtol=1e-5, atol=1e-6)


def test_what_lies_outside_is_zero_whatever_the_function_makes_of_it() -> None:
    program = with_result(
        product(Matrices(rows=2, depth=3, columns=4)), ELEMENT + 1.0, {}, inside=lambda at: at[1] < 3
    )
    got = interpret(program, {"X": random(2, 3), "W": random(3, 4)})["Y"]
    assert (got[:, 3] == 0).all() and (got[:, :3] != 0).all()


def test_a_function_of_the_data_stands_wherever_they_are_read() -> None:
    plain = reduction((4, 6, 5), (1,), "sum", beside=[(1, 6, 5), (4, 1, 1)])
    program = with_data(plain, argument(0) * argument(1), {0: (1, 6, 5), 1: (4, 1, 1)})
    verify(program)
    arrays = {"A0": random(1, 6, 5), "A1": random(4, 1, 1)}
    expected = (arrays["A0"] * arrays["A1"]).sum(1)
    np.testing.assert_allclose(interpret(program, arrays)["Y"], expected, rtol=1e-5, atol=1e-6)


def test_softmax_stores_the_function_of_its_last_stage_only() -> None:
    plain = softmax((3, 7), 1, width=4)
    program = with_result(plain, ELEMENT * 2.0, {}, statements=("scale",))
    x = random(3, 7)
    got = interpret(program, {"X": x}, functions=FUNCTIONS)["Y"]
    expected = (
        2 * np.exp(x - x.max(1, keepdims=True)) / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)
    )
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    with pytest.raises(ValueError, match="cannot fuse after Y: sum reads it"):
        with_result(plain, ELEMENT * 2.0, {})
    # Only results are rounded to the type that is stored, not the values between the stages.
    half = with_result(plain, cast(ELEMENT * 2.0, DType.FLOAT16), {}, statements=("scale",))
    verify(half)
    stored = interpret(half, {"X": x}, functions=FUNCTIONS)["Y"]
    np.testing.assert_array_equal(stored, got.astype(np.float16), strict=True)


def test_data_that_are_copied_cannot_be_computed_on_the_way() -> None:
    window = Window(kernel=(3, 3), pads=(1, 1, 1, 1))
    pool = float_pool((1, 4, 4, 1), window, "max")
    with pytest.raises(ValueError, match="cannot fuse the computation of X into its readers: the copy pad"):
        with_data(pool, argument(0) + 1.0, {0: (1, 4, 4, 1)})


@given(data=st.data())
def test_operands_spread_over_merged_and_cut_dimensions(data) -> None:
    atoms = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))

    def grouped() -> tuple[int, ...]:
        sizes, start = [], 0
        while start < len(atoms):
            end = data.draw(st.integers(start + 1, len(atoms)))
            sizes.append(prod(atoms[start:end]))
            start = end
        return tuple(sizes)

    full, into = grouped(), grouped()
    operand = tuple(data.draw(st.sampled_from([1, size])) for size in full)
    array = np.arange(prod(operand), dtype=np.float32).reshape(operand)
    expected = np.broadcast_to(array, full).reshape(into)
    try:
        shape = spread(operand, full, into)
    except ValueError:
        # Then it is constant along no whole group of dimensions of `into` that `full` has too.
        assert operand != full and prod(operand) > 1
        return
    np.testing.assert_array_equal(np.broadcast_to(array.reshape(shape), into), expected)


def test_axes_stay_apart_where_an_operand_broadcasts_along_one() -> None:
    assert merge_axes((2, 3, 4), (2,)) == ((6, False), (4, True))
    assert merge_axes((2, 3, 4), (2,), [(3, 1)]) == ((2, False), (3, False), (4, True))
