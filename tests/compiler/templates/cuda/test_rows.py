"""Reductions, softmax and normalizations whose rows are shared by threads of a GPU: any shape and any knobs, compared
with numpy in float64.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from campaign import examples
from cuda_networks import interpreted
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.codegen.cuda.intrinsics import intrinsics
from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.module import lower
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.codegen.opencl.machine import opencl_target
from vdla.compiler.ir.printer import format_node
from vdla.compiler.ir.stmt import Program
from vdla.compiler.schedule import replay, trace_from_lists, trace_to_lists
from vdla.compiler.te.ops.normalization import Normalized
from vdla.compiler.te.ops.thread_rows import thread_normalize, thread_reduction, thread_softmax
from vdla.compiler.te.threads import Sharing
from vdla.compiler.templates.gpu import bind_by_name
from vdla.compiler.templates.gpu.flat import flattened
from vdla.compiler.templates.gpu.row_operator import RowOperator
from vdla.compiler.templates.gpu.rows import choose_knobs, choose_reduction_knobs

TARGET = cuda_target()
GROUPS, LANES = st.sampled_from([1, 2, 3, 8]), st.sampled_from([1, 2, 8, 16, 64])


def run(program: Program, **arrays: np.ndarray) -> np.ndarray:
    s = bind_by_name.schedule(TARGET, program)
    trace = trace_from_lists(trace_to_lists(s.trace))
    assert replay(program, trace, intrinsics()).program == s.program
    shapes = {p.name: p.shape for p in program.parameters}
    given = {name: array.astype(np.float32).reshape(shapes[name]) for name, array in arrays.items()}
    return interpreted(s.program, given)["Y"].astype(np.float64)


def data(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32).astype(np.float64)


@settings(max_examples=examples(12), deadline=None)
@given(
    shape=st.tuples(st.integers(1, 5), st.integers(1, 70), st.sampled_from([1, 1, 2, 9])),
    group=GROUPS,
    lanes=LANES,
    kept=st.booleans(),
    logarithm=st.booleans(),
    shuffles=st.booleans(),
)
def test_softmax(shape, group, lanes, kept, logarithm, shuffles) -> None:
    x = data(*shape)
    sharing = Sharing(group=group, lanes=lanes, columns=shape[2] > 1, kept=kept)
    program = thread_softmax(shape, 1, sharing, logarithm=logarithm, shuffles=shuffles)
    expected = np.exp(x - x.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    found = run(program, X=x).reshape(shape)
    np.testing.assert_allclose(found, np.log(expected) if logarithm else expected, rtol=1e-5, atol=1e-6)


@settings(max_examples=examples(10), deadline=None)
@given(
    shape=st.tuples(st.integers(1, 4), st.sampled_from([1, 1, 2, 5]), st.integers(1, 70)),
    group=GROUPS,
    lanes=LANES,
    kept=st.booleans(),
    bias=st.booleans(),
    shuffles=st.booleans(),
)
def test_normalizations(shape, group, lanes, kept, bias, shuffles) -> None:
    outer, channels, size = shape
    by = "channel" if channels > 1 else "row"
    x, scale, shift = data(*shape), *(data(channels if channels > 1 else size) + n for n in (0, 1))
    sizes = Normalized(outer=outer, channels=channels, size=size, epsilon=1e-3, by=by, bias=bias)
    program = thread_normalize(sizes, Sharing(group=group, lanes=lanes, kept=kept), shuffles=shuffles)
    distance = x - x.mean(axis=2, keepdims=True)
    along = (channels, 1) if channels > 1 else (size,)
    expected = distance / np.sqrt((distance**2).mean(axis=2, keepdims=True) + 1e-3) * scale.reshape(along)
    arrays = {"X": x, "S": scale}
    if bias:
        expected, arrays["B"] = expected + shift.reshape(along), shift
    np.testing.assert_allclose(run(program, **arrays).reshape(shape), expected, rtol=1e-4, atol=1e-5)


REDUCTIONS = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
    "l1": lambda x, axis: np.abs(x).sum(axis),
    "l2": lambda x, axis: np.sqrt((x**2).sum(axis)),
    "sum_square": lambda x, axis: (x**2).sum(axis),
}


@settings(max_examples=examples(20), deadline=None)
@given(
    shape=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    axes=st.sets(st.integers(0, 3)),
    kind=st.sampled_from(sorted(REDUCTIONS)),
    group=GROUPS,
    lanes=LANES,
    columns=st.booleans(),
    chunks=st.sampled_from([1, 1, 2, 5]),
    shuffles=st.booleans(),
)
def test_reductions(shape, axes, kind, group, lanes, columns, chunks, shuffles) -> None:
    axes = tuple(sorted(a for a in axes if a < len(shape)))
    x = data(*shape)
    sharing = Sharing(group=group, lanes=lanes, columns=columns, chunks=chunks)
    program = thread_reduction(shape, axes, kind, sharing, shuffles=shuffles)
    expected = REDUCTIONS[kind](x, axis=axes)
    np.testing.assert_allclose(
        run(flattened(program), X=x).reshape(expected.shape), expected, rtol=1e-5, atol=1e-5
    )


def test_nan_and_infinities_pass_through() -> None:
    x = np.array([[1, np.nan, 3], [4, np.inf, 6], [-np.inf, -np.inf, 0]])
    sharing = Sharing(group=2, lanes=2)
    with np.errstate(invalid="ignore"):
        expected = np.exp(x - x.max(axis=1, keepdims=True))
        expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(run(thread_softmax((3, 3), 1, replace(sharing, kept=True)), X=x), expected)
    greatest = thread_reduction((3, 3), (1,), "max", sharing, shuffles=True)
    np.testing.assert_array_equal(run(flattened(greatest), X=x), [np.nan, np.inf, 0])


@pytest.mark.parametrize("rows", [1, 3, 100, 4096, 1 << 17, 1 << 24])
@pytest.mark.parametrize("size", [1, 2, 49, 197, 1000, 4096, 1 << 20])
@pytest.mark.parametrize("beside", [1, 3, 1000])
def test_defaults_keep_to_the_limits_of_blocks(rows, size, beside) -> None:
    for knobs in (
        choose_knobs(TARGET, rows, size, beside=beside),
        choose_reduction_knobs(TARGET, rows, size, beside=beside),
    ):
        assert knobs.lanes & (knobs.lanes - 1) == 0
        assert 1 <= knobs.lanes * knobs.group <= 1024
        # No more than a thread's registers and a block's 48 KiB of shared memory hold.
        assert not knobs.kept or -(-size // knobs.lanes) <= 16
        assert knobs.lanes <= 2 * size
        if knobs.chunks > 1:
            assert knobs.chunks * rows <= 8 * 4 * TARGET.multiprocessors


def test_a_block_of_several_short_rows_reads_them_once_and_in_order() -> None:
    knobs = choose_knobs(TARGET, 100_000, 5)
    text = format_node(
        bind_by_name.schedule(
            TARGET,
            thread_softmax((100_000, 5), 1, knobs),
        ).program
    )
    assert text.count("= X[") == 1
    assert "for max.x in thread.x(8)" in text and "for max.y in thread.y(32)" in text


@pytest.mark.parametrize("operator", ["softmax", "row_normalization", "sum"])
def test_threads_of_a_warp_need_no_barrier(operator) -> None:
    """In CUDA C++ a row of 17 elements, which one warp reduces by shuffles, needs no barrier, and a row of 5000 at most
    three; in OpenCL C, which has no shuffles, both need at least two.
    """
    kinds = {cuda_target(): (0, 3), opencl_target(): (2, 2)}
    for target, (short, long) in kinds.items():
        for size, most in ((17, short), (5000, long)):
            rows = RowOperator(
                operator=operator,
                shape=(3, 1, size) if operator == "row_normalization" else (3, size),
                axes=(2,) if operator == "row_normalization" else (1,),
            )
            program = rows.program(target, rows.choose_knobs(target))
            program = flattened(program) if rows.is_reduction else program
            source = lower(prepare(bind_by_name.schedule(target, program).program, target), target).source
            barriers = sum(line.strip() == target.dialect.barrier for line in source.splitlines())
            shuffled = "__shfl_xor_sync" in source
            assert shuffled == (target.dialect.name == "CUDA C++")
            assert barriers <= most if shuffled else barriers >= most
