"""Reductions and softmax on CPUs. The tensor expressions are compared with numpy, and the compiled kernels with numpy
and with the interpreted expressions.
"""

from __future__ import annotations

import numpy as np
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import evaluate, run, targets

from vdla.compiler.codegen.cpu.pool import Pool
from vdla.compiler.te.merge import merge_axes
from vdla.compiler.te.ops.reduction import reduction
from vdla.compiler.te.ops.softmax import softmax
from vdla.compiler.templates.cpu.loops import row_partials
from vdla.compiler.templates.cpu.lowered import scheduled

REDUCTION = scheduled

REDUCTIONS = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
    "sum_square": lambda x, axis: np.sum(x**2, axis=axis),
    "l1": lambda x, axis: np.sum(np.abs(x), axis=axis),
    "l2": lambda x, axis: np.sqrt(np.sum(x**2, axis=axis)),
}


@st.composite
def shapes_and_axes(draw):
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 5, 8, 17, 70, 131]), min_size=1, max_size=4)))
    while np.prod(shape) > 20000:
        shape = shape[1:]
    axes = draw(st.sets(st.integers(-len(shape), len(shape) - 1)))
    return shape, tuple({a % len(shape) for a in axes})


@settings(max_examples=examples(50), deadline=None)
@given(
    case=shapes_and_axes(),
    kind=st.sampled_from(sorted(REDUCTIONS)),
    level=st.sampled_from(range(len(targets()))),
)
def test_reductions(case, kind, level):
    shape, axes = case
    target = targets()[level]
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    program = reduction(shape, axes, kind, width=row_partials(target))
    expected = REDUCTIONS[kind](x.astype(np.float64), axis=axes).astype(np.float32).reshape(-1)
    (result,) = run(program, {"X": x}, REDUCTION, target)
    # Sums of small whole numbers are exact.
    np.testing.assert_allclose(result.reshape(-1), expected, rtol=2e-7)
    if x.size < 3000:
        np.testing.assert_array_equal(evaluate(program, {"X": x}), result)


def test_not_a_number_in_extremes():
    x = np.array([[1, np.nan, 3], [np.inf, -np.inf, 0]], np.float32).repeat(7, axis=1)
    for kind, expected in (("max", [np.nan, np.inf]), ("min", [np.nan, -np.inf]), ("sum", [np.nan, np.nan])):
        for target in targets():
            program = reduction(x.shape, (1,), kind, width=row_partials(target))
            (result,) = run(program, {"X": x}, REDUCTION, target)
            np.testing.assert_array_equal(result, np.array(expected, np.float32))


def exact_softmax(x, axis, logarithm):
    with np.errstate(invalid="ignore"):
        distance = x.astype(np.float64) - x.max(axis=axis, keepdims=True)
        total = np.exp(distance).sum(axis=axis, keepdims=True)
        return distance - np.log(total) if logarithm else np.exp(distance) / total


@settings(max_examples=examples(40), deadline=None)
@given(case=shapes_and_axes(), logarithm=st.booleans(), level=st.sampled_from(range(len(targets()))))
def test_softmax(case, logarithm, level):
    shape, axes = case
    axis = axes[0] if axes else -1
    target = targets()[level]
    x = np.random.default_rng(0).normal(0, 20, shape).astype(np.float32)
    program = softmax(shape, axis, width=row_partials(target), logarithm=logarithm)
    expected = exact_softmax(x, axis, logarithm).reshape(program.parameters[1].shape)
    (result,) = run(program, {"X": x}, scheduled, target)
    np.testing.assert_allclose(result, expected, rtol=2e-6, atol=2e-6 if logarithm else 1e-12)
    if x.size < 1500:
        np.testing.assert_allclose(
            evaluate(program, {"X": x}), expected, rtol=2e-6, atol=2e-6 if logarithm else 1e-12
        )


@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_of_special_values(axis):
    x = np.zeros((4, 4), np.float32)
    x[0, 0], x[1, 1], x[2] = np.nan, -np.inf, -np.inf
    expected = exact_softmax(x, axis, False)
    for target in targets():
        program = softmax(x.shape, axis, width=row_partials(target))
        (result,) = run(program, {"X": x}, scheduled, target)
        np.testing.assert_allclose(result.reshape(4, 4), expected, rtol=1e-6)


@pytest.mark.parametrize("axes", [(1, 2), (0,), (0, 2), (2,)])
def test_parallel_reductions(axes):
    target = targets()[0]
    x = np.random.default_rng(0).integers(-9, 9, (20, 30, 101)).astype(np.float32)
    program = reduction(x.shape, axes, "mean", width=row_partials(target))
    s = REDUCTION(target, program, parallel=True)
    assert "parallel" in {a for step in s.trace for a in step.arguments}
    with Pool(2) as pool:
        (result,) = run(program, {"X": x}, REDUCTION, target, pool)
    np.testing.assert_allclose(result.reshape(-1), x.mean(axes).reshape(-1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_parallel_softmax(axis):
    target = targets()[0]
    x = np.random.default_rng(0).normal(0, 5, (20, 30, 101)).astype(np.float32)
    program = softmax(x.shape, axis, width=row_partials(target))
    s = scheduled(target, program, parallel=True)
    assert "parallel" in {a for step in s.trace for a in step.arguments}
    with Pool(2) as pool:
        (result,) = run(program, {"X": x}, scheduled, target, pool)
    np.testing.assert_allclose(result.reshape(x.shape), exact_softmax(x, axis, False), rtol=2e-6)


def test_wrong_axes():
    with pytest.raises(ValueError, match="has no axis 2"):
        softmax((3, 4), 2)
    with pytest.raises(ValueError, match="has no axis -3"):
        merge_axes((3, 4), (0, -3))


@pytest.mark.parametrize("target", targets(), ids=lambda t: str(t.vector_bits))
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_makes_no_subnormal_powers(target, axis):
    """Exponentials of masked scores (-100) must be 0: subnormal results made later products thirty times slower."""
    x = np.zeros((49, 49), np.float32)
    x[::2, 1::2] = x[1::2, ::2] = -100
    x[0, 1], x[3, 4], x[5, 5] = -np.inf, -83, np.nan
    program = softmax(x.shape, axis, width=row_partials(target))
    (y,) = run(program, {"X": x}, scheduled, target)
    y = y.reshape(x.shape)
    lost = np.isnan(x).any(axis=axis, keepdims=True) & np.ones_like(x, bool)
    assert np.isnan(y[lost]).all()
    kept, given = y[~lost], x[~lost]
    assert (kept[given < -87] == 0).all()
    assert (kept[given > -87] >= np.finfo(np.float32).tiny).all()
    power = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(
        kept, (power / power.sum(axis=axis, keepdims=True))[~lost], rtol=1e-6, atol=1e-37
    )
