"""Steps of an LSTM on a GPU, one kernel for each step, compared with the tensor expression."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_networks import interpreted

from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.ir.interp import interpret
from vdla.compiler.schedule import replay, trace_from_lists, trace_to_lists
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.te.functions import FUNCTIONS
from vdla.compiler.te.ops.recurrent import recurrent_steps
from vdla.compiler.templates.gpu import lstm
from vdla.compiler.templates.gpu.flat import nests

TARGET = cuda_target()


@pytest.mark.parametrize(
    ("steps", "batch", "hidden", "directions", "knobs"),
    [
        (1, 1, 5, ("forward",), None),
        (2, 1, 1, ("forward",), None),
        (2, 1, 16, ("reverse",), None),
        (4, 2, 6, ("reverse",), lstm.Knobs(rows=1, cells=2, slices=3)),
        (3, 3, 7, ("forward", "reverse"), lstm.Knobs(rows=2, cells=4, slices=2)),
        (5, 6, 9, ("forward", "reverse"), None),
    ],
)
def test_steps(steps, batch, hidden, directions, knobs) -> None:
    sizes = {"steps": steps, "batch": batch, "hidden": hidden, "directions": directions}
    knobs = knobs or lstm.choose_knobs(TARGET, batch=batch, hidden=hidden, directions=len(directions))
    program = lstm.steps(knobs, **sizes)
    s = lstm.schedule(TARGET, program, knobs)
    assert replay(program, trace_from_lists(trace_to_lists(s.trace))).program == s.program
    rng = np.random.default_rng(0)
    arrays = {
        p.name: rng.standard_normal(p.shape).astype(np.float32)
        for p in program.parameters
        if p.name not in ("Y", "YH", "YC")
    }
    expected = interpret(recurrent_steps(cell="LSTM", **sizes), arrays, functions=FUNCTIONS)
    found = interpreted(s.program, pack_arrays(s.trace, arrays))
    for output in ("Y", "YH", "YC"):
        np.testing.assert_allclose(found[output], expected[output], rtol=1e-5, atol=1e-6)


def test_a_step_is_one_kernel() -> None:
    knobs = lstm.choose_knobs(TARGET, batch=1, hidden=512, directions=1)
    program = lstm.steps(knobs, steps=7, batch=1, hidden=512, directions=("forward",))
    start, pairs, last, end = nests(lstm.schedule(TARGET, program, knobs).program)
    assert [loop.kind for loop in (start, last, end)] == ["block.x", "block.z", "block.x"]
    assert pairs.kind == "serial" and pairs.extent.value == 3
    assert [loop.kind for loop in nests(pairs.body)] == ["block.z", "block.z"]


@pytest.mark.parametrize("batch", [1, 3, 64])
@pytest.mark.parametrize("hidden", [1, 2, 31, 128, 650, 2048])
@pytest.mark.parametrize("directions", [1, 2])
def test_defaults_keep_to_the_limits_of_blocks(batch, hidden, directions) -> None:
    knobs = lstm.choose_knobs(TARGET, batch=batch, hidden=hidden, directions=directions)
    assert 4 * knobs.cells * max(knobs.slices, knobs.rows) <= 1024 and knobs.slices <= 64
    assert knobs.cells & (knobs.cells - 1) == 0
