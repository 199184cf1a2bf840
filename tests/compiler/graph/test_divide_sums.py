"""An addition of a constant to a concatenation along positions is divided: each part of the concatenation gets an
addition of its own, which is fused into the store of the node that computes the part.
"""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.int8_convolution import Int8Convolution
from vdla.compiler.graph.int8_operators import Int8Elementwise, Positions
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.pipeline import compile_program
from vdla.compiler.rewrites.fuse import fuse
from vdla.compiler.te.combination import Combination
from vdla.isa.config import load_config

from ..random_networks import builder
from ..right_programs import assert_right

ADD = Combination(kind="add", ratio_self=0.75, ratio_operand=0.5, zero_point_operand=3)


def network(
    *,
    order: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6),
    constant: bool = True,
    first: bool = True,
    kept: bool = False,
    combination: Combination = ADD,
) -> Graph:
    """A graph that concatenates one input position and six positions of a convolution, in the given `order`, and adds a
    constant (or an input, if not `constant`). `first`: the concatenation is the first operand; `kept`: it is an output
    as well.
    """
    b = builder(2)
    token, data = b.input(1, 8, 1, 1), b.input(1, 8, 3, 2)
    made = b.convolution(data, 8, (1, 1))
    index = np.array(order, np.int64).reshape(1, len(order), 1)
    joined = b._append("join", Positions(index=index), (token, made), (1, 8, len(order), 1), 0)
    other = b.constant(1, 8, len(order), 1) if constant else b.input(1, 8, len(order), 1)
    inputs = (joined, other) if first else (other, joined)
    added = b._append("add", Int8Elementwise(combination=combination), inputs, (1, 8, len(order), 1), 0)
    return b.graph(added, *([joined] if kept else []))


def same(graph: Graph, fused: Graph) -> None:
    """Asserts that both graphs compute the same outputs for random inputs."""
    random = np.random.default_rng(3)
    inputs = {
        item.tensor: random.integers(-128, 128, graph.tensors[item.tensor].shape).astype(np.int8)
        for item in graph.inputs
    }
    wanted, found = interpret(graph, inputs), interpret(fused, inputs)
    for before, after in zip(graph.outputs, fused.outputs, strict=True):
        np.testing.assert_array_equal(found[after.tensor], wanted[before.tensor])


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4, 5, 6), (1, 2, 3, 0, 4, 5, 6)])
def test_a_convolution_adds_its_part_of_the_constant(order: tuple[int, ...], first: bool):
    graph = network(order=order, first=first)
    fused = fuse(graph)
    (convolution,) = [node for node in fused.nodes if isinstance(node.operator, Int8Convolution)]
    assert len(convolution.inputs) == 2 and fused.nodes[-1].kind == "Positions"
    assert [node.kind for node in fused.nodes].count("Elementwise") == 1
    same(graph, fused)
    assert assert_right(compile_program(fused, load_config("tiny"), verify=True)) > 50


@pytest.mark.parametrize(
    "options",
    [
        {"order": (0, 2, 1, 3, 4, 5, 6)},
        {"order": (0, 1, 2, 3, 4, 5)},
        {"order": (0, 0, 1, 2, 3, 4, 5, 6)},
        {"constant": False},
        {"kept": True},
        {"combination": Combination(kind="multiply", ratio_self=0.01)},
    ],
    ids=["another order", "not all", "one of them twice", "no constant", "read as it is, too", "a product"],
)
def test_other_additions_stay_after_the_concatenation(options: dict[str, object]):
    graph = network(**options)  # type: ignore[arg-type]
    fused = fuse(graph)
    assert fused.nodes[-1].kind == "Elementwise"
    same(graph, fused)
