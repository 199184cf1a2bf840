"""The generic GPU template, which accepts every tensor expression: its kernels and their results."""

from __future__ import annotations

import every_operator
import numpy as np
import pytest
from cuda_networks import interpreted

from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.ir.stmt import For, Intrinsic
from vdla.compiler.ir.visit import loops, walk
from vdla.compiler.schedule import replay, trace_from_lists, trace_to_lists
from vdla.compiler.templates.gpu import generic
from vdla.compiler.templates.gpu.flat import flattened, nests

NAMES = [
    name
    for name, program in every_operator.programs().items()
    if not any(isinstance(node, Intrinsic) for node in walk(program))
]


@pytest.mark.parametrize("name", NAMES)
def test_every_expression_becomes_kernels(name) -> None:
    program = every_operator.programs()[name]
    flat = flattened(program)
    s = generic.schedule(cuda_target(), flat)
    assert replay(flat, trace_from_lists(trace_to_lists(s.trace))).program == s.program
    for outermost in nests(s.program):
        launched = outermost if outermost.kind == "block.x" else next(kernels_in(outermost))
        assert [loop.kind for loop in loops(launched)][:2] == ["block.x", "thread.x"]
    shapes = {p.name: p.shape for p in flat.parameters}
    arrays = {p: array.reshape(shapes[p]) for p, array in every_operator.arrays_of(program).items()}
    found = interpreted(prepare(s.program, cuda_target()), arrays)
    for output, array in every_operator.expected(name).items():
        np.testing.assert_array_equal(found[output].reshape(array.shape), array)


def kernels_in(host: For):
    """Yields the kernels (block loops) that a loop on the host launches."""
    found = [loop for loop in loops(host) if loop.kind == "block.x"]
    assert found and host.kind == "serial"
    yield from found
