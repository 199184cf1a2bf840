"""Programs compiled for timing only: equal to full programs except that the image does not contain the constants."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.int8_convolution import Int8Convolution
from vdla.compiler.pipeline import compile_program
from vdla.compiler.rewrites.fuse import fuse
from vdla.compiler.runtime.accelerator import run
from vdla.isa.config import Config, load_config

from ..random_networks import builder, machine, network

CASES: dict[str, tuple[Graph, Config]] = {
    "tiny": (network(3101), load_config("tiny")),
    "edge8": (network(3102), load_config("edge8")),
    "random": (network(3103), machine(4001)),
}


@pytest.mark.parametrize("case", CASES)
def test_only_the_constants_in_the_image_differ(case: str) -> None:
    graph, config = fuse(CASES[case][0]), CASES[case][1]
    whole, timed = compile_program(graph, config), compile_program(graph, config, data=False)
    a, b = whole.program, timed.program
    np.testing.assert_array_equal(a.instructions, b.instructions)
    assert a.segments == b.segments and a.groups == b.groups
    np.testing.assert_array_equal(a.group_of, b.group_of)
    assert dict(whole.addresses) == dict(timed.addresses)
    kinds = {segment.kind for segment in a.segments}
    assert {"constant", "uop"} <= kinds
    for segment in a.segments:
        here = slice(segment.address, segment.address + segment.size)
        if segment.kind == "constant":
            assert not b.image[here].any()
        else:
            np.testing.assert_array_equal(a.image[here], b.image[here])
    cycles = [run(item, {}, data=False).simulation.cycles for item in (whole, timed)]
    assert cycles[0] == cycles[1]


def test_data_are_refused() -> None:
    graph, config = fuse(CASES["tiny"][0]), CASES["tiny"][1]
    timed = compile_program(graph, config, data=False)
    with pytest.raises(ValueError, match="for timing only"):
        run(timed, {})


@pytest.mark.parametrize(("changed", "expected"), [(0, 3), (1, 4)])
def test_equal_constants_are_in_the_image_once(changed: int, expected: int) -> None:
    net = builder(6)
    data = net.input(1, 16, 6, 6)
    first = net.convolution(data, 16, (3, 3), pads=(1, 1, 1, 1))
    graph = net.graph(net.convolution(first, 16, (3, 3), pads=(1, 1, 1, 1)))
    one, other = graph.nodes
    assert isinstance(one.operator, Int8Convolution) and isinstance(other.operator, Int8Convolution)
    weight = one.operator.weight.copy()
    weight[-1, -1, -1, -1] ^= changed
    graph = replace(graph, nodes=(one, replace(other, operator=replace(other.operator, weight=weight))))
    for data in (True, False):
        program = compile_program(fuse(graph), load_config("tiny"), data=data).program
        assert sum(segment.kind == "constant" for segment in program.segments) == expected
