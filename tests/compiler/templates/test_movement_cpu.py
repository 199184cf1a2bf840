"""Data movement on CPUs: tensor expressions compared with numpy, kernels compared with both."""

from __future__ import annotations

import numpy as np
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import evaluate, run, targets

from vdla.compiler.codegen.cpu.pool import Pool
from vdla.compiler.te.ops.movement import (
    Run,
    concat,
    gather,
    pad_runs,
    permute,
    remap,
    runs_of,
    slice_runs,
)
from vdla.compiler.templates.cpu.lowered import scheduled

LEVELS = st.sampled_from(range(len(targets())))
SHAPES = st.lists(st.sampled_from([1, 2, 3, 7, 16, 18, 35]), min_size=1, max_size=4).map(tuple)


def numbers(shape, start=0):
    return np.arange(start, start + np.prod(shape), dtype=np.float32).reshape(shape)


def check(program, arrays, expected, level, schedule=scheduled, pool=None):
    (result,) = run(program, arrays, schedule, targets()[level], pool)
    np.testing.assert_array_equal(result.reshape(expected.shape), expected)
    if expected.size < 3000:
        np.testing.assert_array_equal(evaluate(program, arrays), result)


@settings(max_examples=examples(30), deadline=None)
@given(shape=SHAPES, data=st.data(), level=LEVELS)
def test_permutations(shape, data, level):
    axes = data.draw(st.permutations(range(len(shape))))
    x = numbers(shape)
    program = permute(shape, axes)
    check(program, {"X": x}, x.transpose(axes), level, scheduled)


def test_permutations_merge_neighbours():
    assert [p.shape for p in permute((2, 3, 4, 5), (0, 2, 3, 1)).parameters] == [(2, 3, 20), (2, 20, 3)]
    assert [p.shape for p in permute((2, 1, 4, 5), (0, 2, 1, 3)).parameters] == [(40,), (40,)]


@pytest.mark.parametrize("axes", [(0, 2, 1), (2, 1, 0), (1, 0, 2), (0, 1, 2)])
def test_parallel_permutations(axes):
    x = numbers((9, 70, 130))
    program = permute(x.shape, axes)
    s = scheduled(targets()[0], program, parallel=True)
    assert "parallel" in {a for step in s.trace for a in step.arguments}
    with Pool(2) as pool:
        check(program, {"X": x}, x.transpose(axes), 0, scheduled, pool)


@st.composite
def slices(draw, size):
    step = draw(st.sampled_from([1, 1, 2, 3, 5, -1, -2]))
    start = draw(st.integers(0, size - 1))
    room = (size - 1 - start) // step if step > 0 else start // -step
    return start, draw(st.integers(1, room + 1)), step


@settings(max_examples=examples(30), deadline=None)
@given(shape=SHAPES, data=st.data(), level=LEVELS)
def test_slices(shape, data, level):
    chosen = [data.draw(slices(size)) for size in shape]
    x = numbers(shape)
    expected = x[np.ix_(*([start + step * k for k in range(n)] for start, n, step in chosen))]
    check(remap(shape, [slice_runs(*c) for c in chosen]), {"X": x}, expected, level)


@settings(max_examples=examples(40), deadline=None)
@given(
    shape=SHAPES,
    mode=st.sampled_from(["constant", "edge", "reflect", "wrap"]),
    data=st.data(),
    level=LEVELS,
)
def test_pads(shape, mode, data, level):
    pads = [(data.draw(st.integers(0, 3)), data.draw(st.integers(0, 5))) for _ in shape]
    x = numbers(shape)
    expected = np.pad(x, pads, mode, **({"constant_values": 7} if mode == "constant" else {}))
    runs = [pad_runs(size, *pad, mode) for size, pad in zip(shape, pads, strict=True)]
    check(remap(shape, runs, fill=7.0), {"X": x}, expected, level)


def test_negative_pads_and_tiles():
    x = numbers((5, 6))
    runs = [pad_runs(5, -1, 2), pad_runs(6, 1, -3)]
    expected = np.pad(x, ((0, 2), (1, 0)))[1:, :4]
    check(remap((5, 6), runs), {"X": x}, expected, 0)
    check(remap((5, 6), [slice_runs(0, 5, 1) * 3, slice_runs(0, 6, 1) * 2]), {"X": x}, np.tile(x, (3, 2)), 0)


def test_runs():
    assert runs_of([-1, -1, 0, 1, 2, 2, 2]) == (
        Run(count=2, first=None),
        Run(count=3, first=0),
        Run(count=2, first=2, step=0),
    )
    with pytest.raises(ValueError, match="an axis of 4 elements needs at least one run"):
        remap((4,), [(Run(count=3, first=2),)])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_parallel_pads(axis):
    x = numbers((6, 50, 120))
    pads = [(2, 3) if d == axis else (0, 0) for d in range(3)]
    runs = [pad_runs(size, *pad) for size, pad in zip(x.shape, pads, strict=True)]
    program = remap(x.shape, runs)
    with Pool(2) as pool:
        check(program, {"X": x}, np.pad(x, pads), 0, pool=pool)


@settings(max_examples=examples(20), deadline=None)
@given(shape=SHAPES, data=st.data(), level=LEVELS)
def test_concatenations(shape, data, level):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    sizes = data.draw(st.lists(st.sampled_from([1, 2, 9, 17]), min_size=1, max_size=4))
    shapes = [tuple(n if d == axis % len(shape) else s for d, s in enumerate(shape)) for n in sizes]
    arrays = {f"X{i}": numbers(s, 1000 * i) for i, s in enumerate(shapes)}
    expected = np.concatenate(list(arrays.values()), axis)
    check(concat(shapes, axis), arrays, expected, level)


@settings(max_examples=examples(20), deadline=None)
@given(shape=SHAPES, data=st.data(), level=LEVELS)
def test_gathers(shape, data, level):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    size = shape[axis]
    indices = np.array(data.draw(st.lists(st.integers(-size, size - 1), min_size=1, max_size=40)), np.int64)
    x = numbers(shape)
    program = gather(shape, axis, len(indices))
    check(program, {"X": x, "I": indices}, np.take(x, indices, axis), level)


def test_gathers_stay_inside():
    x, indices = numbers((3, 4)), np.array([-100, 100, 2**62, -(2**62)], np.int64)
    for axis in (0, 1):
        expected = np.take(x, np.clip(indices, 0, x.shape[axis] - 1), axis)
        check(gather(x.shape, axis, 4), {"X": x, "I": indices}, expected, 0)


def test_refusals():
    with pytest.raises(ValueError, match="not a permutation"):
        permute((2, 3), (0, 0))
    with pytest.raises(ValueError, match="differ along an axis other than axis 0"):
        concat([(2, 3), (2, 4)], 0)
    with pytest.raises(ValueError, match="has no axis 2"):
        gather((2, 3), 2, 1)
