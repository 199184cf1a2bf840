"""Normalizations on CPUs. The tensor expressions are compared with numpy, and the compiled kernels with numpy and with
the interpreted expressions.
"""

from __future__ import annotations

import numpy as np
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import evaluate, run, targets

from vdla.compiler.codegen.cpu.pool import Pool
from vdla.compiler.te.ops.normalization import Normalized, normalize
from vdla.compiler.templates.cpu.loops import row_partials
from vdla.compiler.templates.cpu.lowered import scheduled


def exact(x, scale, bias, epsilon, by):
    x = x.astype(np.float64)
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    shape = (1, 1, -1) if by == "row" else (1, -1, 1)
    return (x - mean) / np.sqrt(variance + epsilon) * scale.reshape(shape) + bias.reshape(shape)


def operands(outer, channels, size, by):
    rng = np.random.default_rng(0)
    # A mean far from 0, in which a variance as the difference of two means would drown.
    x = rng.normal(100, 1, (outer, channels, size)).astype(np.float32)
    scale, bias = rng.normal(0, 1, (2, size if by == "row" else channels)).astype(np.float32)
    return {"X": x, "S": scale, "B": bias}


@settings(max_examples=examples(25), deadline=None)
@given(
    outer=st.integers(1, 3),
    channels=st.integers(1, 4),
    size=st.sampled_from([1, 2, 7, 16, 50, 64, 133]),
    by=st.sampled_from(["row", "channel"]),
    bias=st.booleans(),
    level=st.sampled_from(range(len(targets()))),
)
def test_rows(outer, channels, size, by, bias, level):
    target = targets()[level]
    arrays = operands(outer, channels, size, by)
    if not bias:
        del arrays["B"]
    sizes = Normalized(outer=outer, channels=channels, size=size, epsilon=1e-3, by=by, bias=bias)
    program = normalize(sizes, width=row_partials(target))
    shift = arrays.get("B", np.zeros_like(arrays["S"]))
    expected = exact(arrays["X"], arrays["S"], shift, 1e-3, by)
    (result,) = run(program, arrays, scheduled, target)
    # The mean of numbers near 100 is known to 4e-6.
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    if result.size < 500:
        np.testing.assert_allclose(evaluate(program, arrays), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("by", ["row", "channel"])
def test_parallel(by):
    target = targets()[0]
    arrays = operands(6, 40, 130, by)
    sizes = Normalized(outer=6, channels=40, size=130, epsilon=1e-5, by=by)
    program = normalize(sizes, width=row_partials(target))
    s = scheduled(target, program, parallel=True)
    assert "parallel" in {a for step in s.trace for a in step.arguments}
    with Pool(2) as pool:
        (result,) = run(program, arrays, scheduled, target, pool)
    expected = exact(arrays["X"], arrays["S"], arrays["B"], 1e-5, by)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
