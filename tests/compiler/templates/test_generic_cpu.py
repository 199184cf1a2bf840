"""The generic CPU schedule, which any tensor expression without a template gets."""

from __future__ import annotations

from functools import partial

import every_operator
import numpy as np
import pytest
from kernels import run, targets

from vdla.compiler.ir.stmt import Intrinsic
from vdla.compiler.ir.visit import loops, walk
from vdla.compiler.te.ops.folds import fold, running_product
from vdla.compiler.templates.cpu.lowered import scheduled
from vdla.compiler.templates.cpu.sketch.nests import schedule_nests

NAMES = [
    name
    for name, program in every_operator.programs().items()
    # Their states are outputs that they read.
    if name not in ("lstm", "rnn", "gru", "gru_reset_after")
    and not any(isinstance(node, Intrinsic) for node in walk(program))
]


def called(schedule, target, program, *, parallel=False):
    return schedule(program=program, target=target, parallel=parallel)


@pytest.mark.parametrize("schedule", [scheduled, schedule_nests])
@pytest.mark.parametrize("name", NAMES)
def test_every_expression(name, schedule) -> None:
    program, arrays = (
        every_operator.programs()[name],
        every_operator.arrays_of(every_operator.programs()[name]),
    )
    found = run(program, arrays, partial(called, schedule), targets()[0])
    for result, array in zip(found, every_operator.expected(name).values(), strict=True):
        np.testing.assert_allclose(result, array, rtol=1e-6)


def test_a_loop_around_a_sequential_one_becomes_vectors() -> None:
    program = running_product((3, 200, 33), 1, product=False)
    s = scheduled(targets()[0], program, parallel=True)
    kinds = {loop.name: loop.kind for loop in loops(s.program)}
    assert kinds["k"] == "serial" and kinds["i.next.1"] == "vectorize"
    assert any(name.startswith("n.next") and kind == "parallel" for name, kind in kinds.items())


def test_a_product_along_the_last_axis_is_no_move() -> None:
    program, x = fold((3, 30), (1,), "product"), np.linspace(0.5, 1.5, 90, dtype=np.float32).reshape(3, 30)
    (found,) = run(program, {"X": x}, scheduled, targets()[0])
    np.testing.assert_allclose(found, x.prod(axis=1), rtol=1e-5)
