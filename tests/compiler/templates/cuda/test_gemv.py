"""Products of few rows and a matrix on a GPU: any sizes and knobs, compared with numpy."""

from __future__ import annotations

import numpy as np
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduled_gpu import run_scheduled

from vdla.compiler.codegen.cuda.architectures import ARCHITECTURES
from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.ir.stmt import Copy, For
from vdla.compiler.ir.visit import walk
from vdla.compiler.te.ops.product import Matrices, product
from vdla.compiler.te.ops.sums import Epilogue
from vdla.compiler.templates.gpu.gemm_cost import Problem
from vdla.compiler.templates.gpu.gemv import THREADS, Knobs, choose_knobs, schedule_rows

COUNTS = st.sampled_from([2, 4])


@settings(max_examples=examples(12), deadline=None)
@given(
    knobs=st.builds(Knobs, groups=COUNTS, members=COUNTS, vectors=st.sampled_from([1, 2, 4]), unroll=COUNTS),
    batches=st.sampled_from([((), ()), ((), ()), ((2, 1), (1, 2)), ((3,), (3,))]),
    rows=st.integers(1, 3),
    depth=st.sampled_from([1, 5, 16, 40, 70]),
    columns=st.sampled_from([1, 4, 13, 20]),
    transposed=st.booleans(),
    constants=st.sampled_from([(), ("W",)]),
)
def test_few_rows(knobs, batches, rows, depth, columns, transposed, constants) -> None:
    program = product(
        Matrices(
            rows=rows,
            depth=depth,
            columns=columns,
            batch_x=batches[0],
            batch_w=batches[1],
            transposed_x=transposed,
        ),
        staged="by depth",
        epilogue=Epilogue(bias=True, activation="relu"),
    )
    rng = np.random.default_rng(depth)
    arrays = {p.name: rng.integers(-8, 9, p.shape).astype(np.float32) for p in program.parameters}
    shape = arrays.pop("Y").shape
    x = arrays["X"].swapaxes(-1, -2) if transposed else arrays["X"]
    expected = np.maximum((x @ arrays["W"]).reshape(shape) + arrays["B"], 0)
    result = run_scheduled(program, schedule_rows(program, knobs, constants), arrays)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("arch", [row.name for row in ARCHITECTURES if not row.exact])
@pytest.mark.parametrize(
    ("rows", "columns", "depth"), [(1, 1000, 512), (1, 4096, 25088), (8, 18, 512), (1, 1, 1), (2, 16384, 100)]
)
def test_defaults(arch, rows, columns, depth) -> None:
    target = cuda_target(arch)
    knobs = choose_knobs(target, Problem(rows=rows, columns=columns, depth=depth))
    threads = knobs.groups * knobs.members * knobs.vectors
    assert 8 <= threads <= THREADS
    if columns * depth > 1 << 19:
        assert threads == THREADS
        assert -(-columns // knobs.columns) >= target.multiprocessors or knobs.vectors == 2


def test_a_packed_matrix_is_read_in_vectors_side_by_side() -> None:
    """In every step along the depth, adjacent threads (along x, then y, then z) read adjacent vectors of W."""
    program = product(Matrices(rows=1, depth=64, columns=32), staged="by depth")
    knobs = Knobs(groups=2, members=4, vectors=2, unroll=4)
    s = schedule_rows(program, knobs, ("W",))
    assert next(p for p in s.program.parameters if p.name == "W").shape == (4, 2, 4, 8, 2, 4)
    (copy,) = (n for n in walk(s.program) if isinstance(n, Copy) and n.source.buffer.name == "W")
    kinds = {n.name: n.kind for n in walk(s.program) if isinstance(n, For)}
    at = [str(kinds.get(getattr(start, "name", ""), "")) for start in copy.source.starts]
    assert at[:2] == ["block.x", "serial"] and at[4] == "thread.x"
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 64)), rng.standard_normal((64, 32))
    result = run_scheduled(program, s, {"X": x, "W": w}, native=True)
    np.testing.assert_allclose(result, x @ w, rtol=1e-5, atol=1e-5)
