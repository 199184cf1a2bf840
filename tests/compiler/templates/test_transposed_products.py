"""Convolutions whose result has channels and positions exchanged: computed as a product with the roles of weights and
activations exchanged.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vdla.compiler.graph.cost import count_macs
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.int8_operators import Int8Elementwise, Rows, Swap, Table
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.traffic import compulsory_bytes
from vdla.compiler.pipeline import compile_program
from vdla.compiler.te.combination import Combination
from vdla.compiler.te.post import Post
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
    """A graph of a 1x1 convolution with `filters` filters, and an exchange of channels and positions; also the name of
    the convolution's output. `looked_up`: a look-up table is between the two; `other_reader`: the convolution's result
    is an output as well.
    """
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
def test_convolution_and_swap_become_one_product(images: int):
    graph, made = turned(images)
    (convolution,) = [node for node in graph.nodes if node.output == made]
    result = compile_program(graph, MACHINE, virtual_threads=2, verify=True)
    (node,) = result.graph.nodes
    assert node.kind == "TransposedProduct"
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
    result = compile_program(b.graph(swapped), config, virtual_threads=2, verify=True)
    assert ("TransposedProduct" in [node.kind for node in result.graph.nodes]) == constant
    assert assert_right(result) > 50


def test_more_filters_than_the_parameter_table_holds():
    graph, _ = turned(filters=MACHINE.par_depth + 13)
    result = compile_program(graph, MACHINE, virtual_threads=2, verify=True)
    assert [node.kind for node in result.graph.nodes] == ["TransposedProduct"]
    assert assert_right(result) > 50


@pytest.mark.parametrize(
    "options",
    [{"other_reader": True}, {"positions": 6}, {"looked_up": True}],
    ids=["read as it is, too", "positions inside of blocks", "looked up"],
)
def test_other_results_are_swapped_by_a_node_of_their_own(options: dict[str, int]):
    graph, _ = turned(**options)
    result = compile_program(graph, MACHINE, virtual_threads=2, verify=True)
    assert "Swap" in [node.kind for node in result.graph.nodes]
    assert assert_right(result) > 50


ROWS = replace(MACHINE, extensions=(*MACHINE.extensions, "rows"), row_entries=8)


@pytest.mark.parametrize("images", [1, 2])
@pytest.mark.parametrize("maker", ["convolution", "normalization"])
def test_the_maker_leaves_room_behind_positions_inside_of_blocks(maker: str, images: int):
    b = builder(5)
    source = b.input(images, 10, 3, 2)
    if maker == "convolution":
        made = b.convolution(source, 11, (1, 1))
    else:
        bias = b.random.integers(-9, 9, 10).astype(np.int32)
        scale = (b.random.choice([-1, 1], 10) * 2.0**-9).astype(np.float32)
        rows = Rows(entries=None, bias=bias, scale=scale, post=Post(), centre=True, epsilon=(1, 0))
        made = b._append("rows", rows, (source,), (images, 10, 3, 2), 0)
    filled = b.convolution(made, 12, (1, 1))
    swapped = b._append("swap", Swap(positions=6), (filled,), (images, 6, 12, 1), 0)
    other = b.convolution(made, 9, (1, 1))
    graph = b.graph(swapped, other)
    result = compile_program(graph, ROWS, virtual_threads=2, verify=True)
    turned, plain = result.graph.nodes[1:]
    assert (turned.kind, plain.kind) == ("TransposedProduct", "Convolution")
    assert result.graph.tensors[made].nchw == (images, result.graph.tensors[made].nchw[1], 8, 1)
    first = {item.output: item for item in graph.nodes}
    for node, before in ((turned, first[filled]), (plain, first[other])):
        assert count_macs(result.graph, node) == count_macs(graph, before)
        assert compulsory_bytes(result.graph, node) == compulsory_bytes(graph, before)
    inputs = {
        item.tensor: b.random.integers(-128, 128, graph.tensors[item.tensor].shape).astype(np.int8)
        for item in graph.inputs
    }
    wanted, found = (interpret(item, inputs) for item in (graph, result.graph))
    for item in graph.outputs:
        np.testing.assert_array_equal(found[item.tensor], wanted[item.tensor])
    assert assert_right(result) > 50


def test_no_room_is_left_where_others_read_all():
    """A convolution is not computed as a transposed product if its input would need padding to whole blocks of
    positions, but another reader, here an addition, needs the input without padding.
    """
    b = builder(7)
    source = b.input(1, 8, 6, 1)
    made = b.convolution(source, 12, (1, 1))
    swapped = b._append("swap", Swap(positions=6), (b.convolution(made, 12, (1, 1)),), (1, 6, 12, 1), 0)
    add = Int8Elementwise(combination=Combination(kind="add", ratio_self=0.75, ratio_operand=0.5))
    both = b._append("add", add, (b.convolution(made, 12, (1, 1)), made), (1, 12, 6, 1), 0)
    result = compile_program(b.graph(swapped, both), MACHINE, virtual_threads=2, verify=True)
    assert "TransposedProduct" not in [node.kind for node in result.graph.nodes]
    assert assert_right(result) > 50


@pytest.mark.parametrize("channels", [40, 44])
def test_no_room_is_left_where_its_products_take_long(channels: int):
    b = builder(8)
    made = b.convolution(b.input(1, 8, 5, 1), channels, (1, 1))
    swapped = b._append("swap", Swap(positions=5), (b.convolution(made, 8, (1, 1)),), (1, 5, 8, 1), 0)
    result = compile_program(b.graph(swapped), MACHINE, virtual_threads=2, verify=True)
    assert ("TransposedProduct" in [node.kind for node in result.graph.nodes]) == (channels == 40)
    assert assert_right(result) > 50


@pytest.mark.parametrize("positions", [8, 6])
def test_each_swapped_part_of_a_result_is_a_product_of_its_own(positions: int):
    b = builder(4)
    source = b.convolution(b.input(1, 8, positions, 1), 8, (1, 1))
    both = b.convolution(source, 16, (1, 1))
    shape = (1, positions, 8, 1)
    swapped = b._append("swap", Swap(positions=positions, channels=(8, 8)), (both,), shape, 0)
    kept = b._append("swap.first", Swap(positions=positions, channels=(0, 8)), (both,), shape, 0)
    result = compile_program(b.graph(swapped, kept), MACHINE, virtual_threads=2, verify=True)
    assert [node.kind for node in result.graph.nodes] == [
        "Convolution",
        "TransposedProduct",
        "TransposedProduct",
    ]
    assert assert_right(result) > 50
