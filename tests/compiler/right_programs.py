"""The check that every compiled network of the accelerator must pass: no findings of the static checker, and bit-exact
outputs.
"""

from __future__ import annotations

import numpy as np

from vdla.compiler.graph.host import store_inputs
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.runtime.accelerator import run
from vdla.compiler.runtime.artifact import Compiled
from vdla.isa.check import check


def assert_right(result: Compiled) -> int:
    """Asserts that the static checker finds nothing, and that the simulated outputs equal the integer graph's bit for
    bit; returns the cycles.
    """
    program = result.program
    findings = check(program.config, program.instructions, program.image)
    assert findings == [], findings[0].message
    random = np.random.default_rng(5)
    inputs = {
        item.name: random.integers(0, 256, item.shape).astype(np.uint8).view(item.dtype)
        for item in result.graph.inputs
    }
    expected = interpret(result.graph, store_inputs(result.graph, inputs))
    found = run(result, inputs)
    for item in result.graph.outputs:
        np.testing.assert_array_equal(
            found.integer_outputs[item.name], expected[item.tensor], err_msg=item.tensor
        )
    return found.simulation.cycles
