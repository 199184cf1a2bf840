"""The compiler splits a convolution whose result has several parts, such as queries, keys and values. It does so if the
parts are read through different look-up tables, or if they are operands of products of two activations.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vdla.compiler.graph.cost import count_macs
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.int8_convolution import Int8Convolution
from vdla.compiler.graph.int8_operators import Group, Products, Table
from vdla.compiler.graph.traffic import compulsory_bytes
from vdla.compiler.pipeline import compile_program
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.post import Post
from vdla.compiler.templates.vdla.conv2d import CONV2D
from vdla.compiler.templates.vdla.workload import windowed
from vdla.isa.config import load_config

from ..random_networks import builder
from ..right_programs import assert_right

TINY = load_config("tiny")
MACHINE = replace(TINY, extensions=(*TINY.extensions, "table", "zero_points"))


def scaled_attention(*, another_reader: bool = False) -> tuple[Graph, str]:
    """Returns (a graph, the name of the output of its convolution). The convolution computes the queries and keys of
    two heads. The queries are scaled by a look-up table and multiplied by the keys. `another_reader`: whether another
    node reads the whole output of the convolution.
    """
    b = builder(5)
    source = b.input(1, 8, 6, 1)
    both = b.convolution(source, 20, (1, 1))
    table = b.random.integers(-128, 128, 256).astype(np.int8)
    scaled = b._append("scaled", Table(table=table), (both,), b.tensors[both].shape, 0)
    groups = tuple(
        [Group(image=0, a=(4 * head, 0), b=(8 + 4 * head, 0), output=(0, 6 * head)) for head in range(2)]
    )
    operator = Products(
        groups=groups,
        rows=6,
        columns=6,
        depth=4,
        zero_points=(3, -2),
        scale=np.float32(0.004),
        post=Post(zero_point=1),
    )
    scores = b._append("scores", operator, (scaled, both), (1, 6, 12, 1), 1)
    outputs = [scores] if not another_reader else [scores, b.convolution(both, 4, (1, 1))]
    return b.graph(*outputs), both


def test_only_the_part_with_a_look_up_table_is_stored_through_it():
    graph, both = scaled_attention()
    (whole,) = [node for node in graph.nodes if node.output == both]
    result = compile_program(graph, MACHINE, virtual_threads=2, verify=True)
    parts = [node for node in result.graph.nodes if isinstance(node.operator, Int8Convolution)]
    # Channels from 16 on are read by nothing.
    assert sorted(len(node.operator.weight) for node in parts) == [8, 8]
    assert sorted(node.operator.table is not None for node in parts) == [False, True]
    assert not any(isinstance(node.operator, Table) for node in result.graph.nodes)
    # Together they are as much work, of which the input counts once.
    left_out = 4 * (8 + 6 + 4) + round(8 * 6 * 4 / 20)
    assert sum(count_macs(result.graph, node) for node in parts) == count_macs(graph, whole) * 16 // 20
    assert (
        sum(compulsory_bytes(result.graph, node) for node in parts)
        == compulsory_bytes(graph, whole) - left_out
    )
    assert assert_right(result) > 50


def test_what_another_node_reads_whole_is_not_cut():
    graph, _ = scaled_attention(another_reader=True)
    result = compile_program(graph, MACHINE, virtual_threads=2, verify=True)
    assert any(isinstance(node.operator, Table) for node in result.graph.nodes)
    assert assert_right(result) > 50


def test_knobs_of_products_are_those_of_a_series():
    """In a series of products, each loads its own weights while the previous one ends. Therefore inputs are loaded in
    few large tiles: many small ones would delay the weights.
    """
    config = replace(load_config("vta"), extensions=(*load_config("vta").extensions, "rows"))
    alone = windowed("conv2d", (1, 128, 1, 128), 64, Window(kernel=(1, 1)))
    series = replace(alone, batch=12, own_weights=True)
    columns = [CONV2D.default_for(config, workload, 2)["columns"] for workload in (alone, series)]
    assert columns[0] < columns[1] == 128
