"""Each schedule primitive makes its golden text, also if replayed from JSON, and keeps the interpreter's results."""

import numpy as np
import primitives
import pytest

from vdla.compiler.ir.hash import structural_hash
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.verify import verify
from vdla.compiler.schedule import replay, trace_from_json, trace_to_json
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.schedule.trace import PRIMITIVES


@pytest.mark.parametrize("name", primitives.CASES)
def test_golden(name: str):
    """The program after each schedule primitive equals its golden text.

    After an intended change, rewrite the golden texts with `python tests/helpers/primitives.py`.
    """
    assert primitives.text(name) == (primitives.GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", primitives.CASES)
def test_every_primitive_keeps_results_and_replays_from_json(name: str):
    before, s = primitives.scheduled(name)
    verify(s.program)
    arrays = primitives.arrays(before)
    expected = interpret(before, arrays, functions=primitives.FUNCTIONS, poison=True)
    packed = pack_arrays(s.trace, arrays)
    got = interpret(s.program, packed, functions=primitives.FUNCTIONS, poison=True)
    for output in expected.keys() - arrays.keys():
        assert len(np.unique(expected[output])) > 4
        np.testing.assert_array_equal(got[output], expected[output])
    again = replay(before, trace_from_json(trace_to_json(s.trace)), {"dot": primitives.DOT})
    assert again.trace == s.trace
    assert structural_hash(again.program) == structural_hash(s.program)


def test_every_golden_is_still_made_and_every_primitive_has_one():
    assert {path.stem for path in primitives.GOLDEN.glob("*.txt")} == set(primitives.CASES)
    used = {step.primitive for name in primitives.CASES for step in primitives.scheduled(name)[1].trace}
    assert used == set(PRIMITIVES)
