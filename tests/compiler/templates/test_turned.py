"""Convolutions whose results have channels and positions exchanged: weights and activations change places."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from vdla.compiler.driver import compile_graph
from vdla.compiler.graph.cost import compulsory_bytes, count_macs
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.int8_operators import Int8Elementwise, Swap, Table
from vdla.compiler.te.post import Combination
from vdla.isa.config import load_config

from ..random_networks import builder
from ..right_programs import assert_right

TINY = load_config("tiny")
MACHINE = replace(TINY, extensions=(*TINY.extensions, "table"))


def turned(
    images: int = 1,
    positions: int = 8,
    *,
    looked_up: bool = False,
    other_reader: bool = False,
    filters: int = 12,
) -> tuple[Graph, str]:
    """A convolution of single positions, its channels and positions exchanged."""
    b = builder(3)
    source = b.input(images, 10, positions, 1)
    made = b.convolution(source, filters, (1, 1))
    read = made
    if looked_up:
        table = b.random.integers(-128, 128, 256).astype(np.int8)
        read = b._append("table", Table(table=table), (made,), b.tensors[made].shape, 0)
    swapped = b._append("swap", Swap(positions=positions), (read,), (images, positions, filters, 1), 0)
    return b.graph(*([swapped, made] if other_reader else [swapped])), made


@pytest.mark.parametrize("images", [1, 2])
def test_it_is_one_product(images: int):
    graph, made = turned(images)
    (convolution,) = [node for node in graph.nodes if node.output == made]
    result = compile_graph(graph, MACHINE, virtual_threads=2, verify=True)
    (node,) = result.graph.nodes
    assert node.kind == "Turned"
    assert count_macs(result.graph, node) == count_macs(graph, convolution)
    assert compulsory_bytes(result.graph, node) == compulsory_bytes(graph, convolution)
    assert assert_right(result) > 50


@pytest.mark.parametrize("constant", [True, False])
def test_a_constant_for_each_filter_is_its_operand(constant: bool):
    b = builder(6)
    source = b.input(2, 8, 8, 1)
    made = b.convolution(source, 12, (1, 1))
    bias = b.constant(1, 12, 1, 1) if constant else b.convolution(source, 12, (8, 1))
    add = Combination(kind="add", ratio_self=0.75, ratio_operand=0.5)
    both = b._append("add", Int8Elementwise(combination=add), (made, bias), b.tensors[made].shape, 0)
    swapped = b._append("swap", Swap(positions=8), (both,), (2, 8, 12, 1), 0)
    config = replace(MACHINE, extensions=(*MACHINE.extensions, "broadcast"))
    result = compile_graph(b.graph(swapped), config, virtual_threads=2, verify=True)
    assert ("Turned" in [node.kind for node in result.graph.nodes]) == constant
    assert assert_right(result) > 50


def test_more_filters_than_the_parameter_table_holds():
    graph, _ = turned(filters=MACHINE.par_depth + 13)
    result = compile_graph(graph, MACHINE, virtual_threads=2, verify=True)
    assert [node.kind for node in result.graph.nodes] == ["Turned"]
    assert assert_right(result) > 50


@pytest.mark.parametrize(
    "options",
    [{"other_reader": True}, {"positions": 6}, {"looked_up": True}],
    ids=["read as it is, too", "positions inside of blocks", "looked up"],
)
def test_others_are_moved(options: dict[str, int]):
    graph, _ = turned(**options)
    result = compile_graph(graph, MACHINE, virtual_threads=2, verify=True)
    assert "Swap" in [node.kind for node in result.graph.nodes]
    assert assert_right(result) > 50


def test_a_part_of_a_product_is_turned_alone():
    b = builder(4)
    source = b.input(1, 8, 8, 1)
    both = b.convolution(source, 16, (1, 1))
    swapped = b._append("swap", Swap(positions=8, channels=(8, 8)), (both,), (1, 8, 8, 1), 0)
    kept = b._append("swap.first", Swap(positions=8, channels=(0, 8)), (both,), (1, 8, 8, 1), 0)
    result = compile_graph(b.graph(swapped, kept), MACHINE, virtual_threads=2, verify=True)
    assert [node.kind for node in result.graph.nodes] == ["Turned", "Turned"]
    assert assert_right(result) > 50
