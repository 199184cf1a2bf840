"""Random schedules: after legal steps the program passes the verifier, and if a CPU can run it, it computes the same as
before.
"""

from __future__ import annotations

import numpy as np
import pytest
from campaign import in_campaigns, representatives
from random_schedules import convolution, draw_schedule, pads, product

import vdla
from vdla.compiler.codegen.cpu.errors import LoweringError
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.verify import verify
from vdla.compiler.te.functions import FUNCTIONS

COUNT, BUILT = in_campaigns((1000, 1), (30, 10))
"""Number of random schedules in each part of the test; one of BUILT schedules is also compiled and run."""


@pytest.mark.parametrize("part", representatives(range(10), 5))
def test_legal_steps(part: int) -> None:
    for seed in range(part * COUNT, (part + 1) * COUNT):
        make, schedule, steps = draw_schedule(seed)
        try:
            verify(schedule.program)
            # Arrays in another order are another program's.
            if seed % BUILT == 0 and not any(name == "pack" for name, _ in steps):
                compare(make(), schedule)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {steps}") from error


def compare(program: vdla.Program, schedule: vdla.Schedule) -> None:
    try:
        kernel = vdla.build(schedule, "llvm")
    except LoweringError:
        # Lanes that hold memory or loops of their own, which processors lack.
        return
    rng = np.random.default_rng(0)
    with kernel:
        arrays = {port.name: rng.integers(-8, 9, port.shape).astype(np.float32) for port in kernel.inputs}
        found = kernel.run(arrays)
    expected = interpret(program, arrays, functions=FUNCTIONS)
    for name, array in found.items():
        np.testing.assert_array_equal(array, expected[name])


def guarded(schedule: vdla.Schedule) -> None:
    schedule.guard("C.i", 5)
    schedule.peel("C.i", "last")


def cached_under_a_hint(schedule: vdla.Schedule) -> None:
    schedule.prefetch("C.i", "B", 64)
    schedule.cache_read("B", None, "local")


@pytest.mark.parametrize(
    "steps",
    [
        guarded,
        lambda s: s.prefetch("C.i", "B", 1),
        lambda s: (s.guard("C.j", 7), s.peel("C.j"), s.peel("C.j", "first")),
        lambda s: (s.prefetch("C.i", "A", 64), s.prefetch("C.k", "B", 64)),
    ],
)
def test_steps_that_once_failed_in_the_build(steps) -> None:
    schedule = vdla.Schedule(product())
    steps(schedule)
    compare(product(), schedule)


@pytest.mark.parametrize(
    ("make", "steps", "message"),
    [
        (product, cached_under_a_hint, "cannot cache B in local: prefetch_float32_40 requires it in dram"),
        (pads, lambda s: s.prefetch("R.i", "Q", 64), "may exceed its shape"),
        (pads, lambda s: (s.guard("S.i", 5), s.split("S.i.in", 4)), "could not be verified"),
        (pads, lambda s: (s.guard("S.i", 7), s.guard("S.i.in", 7)), "could not be verified"),
    ],
)
def test_steps_that_are_refused_now(make, steps, message: str) -> None:
    with pytest.raises(vdla.LegalityError) as caught:
        steps(vdla.Schedule(make()))
    assert message in str(caught.value)


def test_a_split_copy_keeps_its_loops_name() -> None:
    schedule = vdla.Schedule(convolution())
    copy = schedule.cache_read("P", None, "local")
    schedule.split_copy(copy, 0, 1)
    compare(convolution(), schedule)
