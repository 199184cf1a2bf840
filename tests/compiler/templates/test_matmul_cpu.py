"""Batches of matrix products on CPUs. The tensor expressions are compared with numpy, and the compiled kernels with
numpy and with the interpreted expressions.
"""

from __future__ import annotations

import numpy as np
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import evaluate, run, targets

from vdla.compiler.codegen.cpu.pool import Pool
from vdla.compiler.te.ops.product import Matrices, product
from vdla.compiler.te.ops.sums import Epilogue
from vdla.compiler.templates.cpu.lowered import scheduled
from vdla.compiler.templates.cpu.sketch.default import default_values
from vdla.compiler.templates.cpu.sketch.schedule import sketch_schedule
from vdla.compiler.templates.cpu.sketch.sketch import find_sketches

SCHEDULE = scheduled


def operands(batch_x, batch_w, rows, depth, columns, transposed):
    rng = np.random.default_rng(0)
    matrix = (columns, depth) if transposed else (depth, columns)
    x, w = (rng.integers(-8, 9, s).astype(np.float32) for s in ((*batch_x, rows, depth), (*batch_w, *matrix)))
    return x, w, x @ (np.swapaxes(w, -1, -2) if transposed else w)


def program_of(batch_x, batch_w, rows, depth, columns, transposed, epilogue=None):
    return product(
        Matrices(
            rows=rows, depth=depth, columns=columns, batch_x=batch_x, batch_w=batch_w, transposed_w=transposed
        ),
        epilogue=epilogue,
    )


BATCHES = [
    ((), ()),
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((2, 1), (1, 2)),
    ((1, 2), ()),
    ((), (2, 2)),
    ((2, 1, 2), (3, 2)),
]


@settings(max_examples=examples(30), deadline=None)
@given(
    batches=st.sampled_from(BATCHES),
    rows=st.sampled_from([1, 2, 7, 13, 33]),
    depth=st.sampled_from([1, 3, 16, 21]),
    columns=st.sampled_from([1, 5, 16, 40, 70]),
    transposed=st.booleans(),
    level=st.sampled_from(range(len(targets()))),
)
def test_products(batches, rows, depth, columns, transposed, level):
    sizes = (*batches, rows, depth, columns, transposed)
    x, w, expected = operands(*sizes)
    program = program_of(*sizes)
    arrays = {"X": x, "W": w}
    (result,) = run(program, arrays, SCHEDULE, targets()[level])
    np.testing.assert_array_equal(result.reshape(expected.shape), expected)
    if expected.size * depth < 3000:
        np.testing.assert_array_equal(evaluate(program, arrays), result)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("copy", [False, True])
def test_an_epilogue_with_and_without_copied_panels(transposed, copy):
    sizes = ((2,), (2,), 11, 19, 37, transposed)
    x, w, expected = operands(*sizes)
    bias, operand = np.arange(37, dtype=np.float32), -expected / 2
    program = program_of(*sizes, Epilogue(bias=True, operand=True, activation="relu"))

    def schedule(target, program, parallel):
        found = find_sketches(program, target, parallel=parallel)
        values = default_values(found)
        assert values["copy.1"] == transposed
        return sketch_schedule(found, values | {"copy.1": int(copy or transposed)})

    (result,) = run(program, {"X": x, "W": w, "B": bias, "R": operand}, schedule, targets()[0])
    np.testing.assert_array_equal(result, np.maximum(expected + bias + operand, 0))


@pytest.mark.parametrize("batch", [(), (2, 4)])
@pytest.mark.parametrize("transposed", [False, True])
def test_parallel(batch, transposed):
    sizes = (batch, batch, 40, 30, 200, transposed)
    x, w, expected = operands(*sizes)
    program = program_of(*sizes)
    s = SCHEDULE(targets()[0], program, parallel=True)
    assert "parallel" in {a for step in s.trace for a in step.arguments}
    with Pool(2) as pool:
        (result,) = run(program, {"X": x, "W": w}, SCHEDULE, targets()[0], pool)
    np.testing.assert_array_equal(result.reshape(expected.shape), expected)
