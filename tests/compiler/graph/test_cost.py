"""Compulsory traffic in bytes, the number of distinct elements that windows read, equals a count of every read."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdla.compiler.graph.cost import count_macs
from vdla.compiler.graph.geometry import output_plane
from vdla.compiler.graph.graph import Graph, Node, quantized_tensor
from vdla.compiler.graph.int8_convolution import Int8Convolution, Quantization
from vdla.compiler.graph.int8_operators import Int8MaxPool, Int8Operator
from vdla.compiler.graph.traffic import (
    compulsory_bytes,
    compulsory_traffic,
    input_bytes,
    input_read,
    most_bytes_per_cycle,
    roofline_cycles,
)
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.post import Post
from vdla.isa.config import Config, Memory

PLAIN = Quantization(scale=np.float32(1), zero_point=0, dtype="int8")


def graph_of(node: Node, data: tuple[int, int, int, int], output: tuple[int, int, int, int]) -> Graph:
    tensors = {name: quantized_tensor(name, shape, PLAIN) for name, shape in (("x", data), ("y", output))}
    return Graph(name="one", inputs=(), outputs=(), nodes=(node,), tensors=tensors)


def convolution(
    channels: int,
    kernel: tuple[int, int],
    strides: tuple[int, int],
    pads: tuple[int, int, int, int],
    dilations: tuple[int, int] = (1, 1),
    groups: int = 1,
    filters: int = 4,
    pool: Window | None = None,
) -> Node:
    operator = Int8Convolution(
        weight=np.zeros((filters, channels // groups, *kernel), np.int8),
        bias=np.zeros(filters, np.int32),
        scale=np.ones(filters, np.float32),
        window=Window(kernel=kernel, strides=strides, pads=pads, dilations=dilations),
        groups=groups,
        pad_value=0,
        post=Post(),
        pool=pool,
    )
    return node_of(operator)


def node_of(operator: Int8Operator) -> Node:
    return Node(name="node", members=("node",), operator=operator, inputs=("x",), output="y")


def windows(
    plane: tuple[int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int],
    pads: tuple[int, int, int, int],
    wanted: set[tuple[int, int]] | None = None,
) -> set[tuple[int, int]]:
    """The set of positions that the windows read, by enumeration; `wanted`: output positions whose windows count (None:
    all).
    """
    rows, columns = output_plane(plane, kernel, strides, dilations, pads)
    read = set()
    for out in itertools.product(range(rows), range(columns)):
        if wanted is not None and out not in wanted:
            continue
        for tap in itertools.product(range(kernel[0]), range(kernel[1])):
            y, x = (out[a] * strides[a] + tap[a] * dilations[a] - pads[a] for a in range(2))
            if 0 <= y < plane[0] and 0 <= x < plane[1]:
                read.add((y, x))
    return read


@pytest.mark.parametrize(
    ("plane", "kernel", "strides", "pads", "dilations", "read"),
    [
        ((8, 8), (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 64),
        # A strided 1x1 reads a quarter.
        ((8, 8), (1, 1), (2, 2), (0, 0, 0, 0), (1, 1), 16),
        ((7, 9), (1, 1), (2, 2), (0, 0, 0, 0), (1, 1), 4 * 5),
        # 3x3 in steps of 5: three rows and columns of every five.
        ((10, 10), (3, 3), (5, 5), (0, 0, 0, 0), (1, 1), 36),
        ((8, 8), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 64),
        # A dilated kernel in steps of its dilation reads every second row and column.
        ((9, 9), (3, 3), (2, 2), (0, 0, 0, 0), (2, 2), 25),
        ((9, 9), (3, 3), (1, 1), (0, 0, 0, 0), (4, 4), 9),
        # Pads on one side only shift the windows.
        ((8, 8), (1, 1), (2, 2), (1, 0, 0, 0), (1, 1), 16),
        ((5, 5), (2, 2), (4, 4), (3, 0, 0, 2), (1, 1), 2 * 3),
    ],
)
def test_elements_that_windows_read(plane, kernel, strides, pads, dilations, read) -> None:
    assert len(windows(plane, kernel, strides, dilations, pads)) == read
    rows, columns = output_plane(plane, kernel, strides, dilations, pads)
    node = convolution(6, kernel, strides, pads, dilations)
    graph = graph_of(node, (2, 6, *plane), (2, 4, rows, columns))
    assert input_bytes(graph, node) == 2 * 6 * read
    assert (
        compulsory_bytes(graph, node)
        == 2 * 6 * read + node.operator.weight.size + 2 * 4 * rows * columns + 4 * 4
    )
    # A depthwise convolution reads all of its channels.
    each = convolution(6, kernel, strides, pads, dilations, groups=6, filters=6)
    assert input_bytes(graph, each) == 2 * 6 * read


small = st.integers(1, 4)
pair = st.tuples(small, small)
pads = st.tuples(*[st.integers(0, 3)] * 4)


@given(
    plane=st.tuples(*[st.integers(1, 12)] * 2),
    kernel=pair,
    strides=pair,
    dilations=pair,
    pads=pads,
    pool=pair,
)
def test_any_window_against_counting_every_read(plane, kernel, strides, dilations, pads, pool) -> None:
    sums = output_plane(plane, kernel, strides, dilations, pads)
    if min(sums) < 1:
        return
    node = convolution(1, kernel, strides, pads, dilations)
    graph = graph_of(node, (1, 1, *plane), (1, 4, *sums))
    expected = windows(plane, kernel, strides, dilations, pads)
    rows, columns = input_read(graph, node)
    assert {(int(y), int(x)) for y, x in np.argwhere(rows[:, None] & columns)} == expected
    # A fused pool that passes over sums passes over what only they read; the convolution alone does not.
    if min(output_plane(sums, pool, strides, (1, 1), (0, 0, 0, 0))) < 1:
        return
    fused = convolution(1, kernel, strides, pads, dilations, pool=Window(kernel=pool, strides=strides))
    wanted = windows(sums, pool, strides, (1, 1), (0, 0, 0, 0))
    assert input_bytes(graph, fused) == len(windows(plane, kernel, strides, dilations, pads, wanted))
    assert input_bytes(graph, fused, fused=False) == len(expected)
    assert compulsory_bytes(graph, fused) == compulsory_bytes(graph, node)


def test_separate_data_channels_overlap_the_bytes_of_both_directions() -> None:
    node = convolution(6, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1))
    graph = graph_of(node, (1, 6, 8, 8), (1, 4, 8, 8))
    read, written = compulsory_traffic(graph, node)
    assert (read, written) == (6 * 64 + 4 * 6 + 4 * 4, 4 * 64)
    for channels, moved, most in (("shared", read + written, 8), ("separate", read, 16)):
        config = Config(memory=Memory(data_channels=channels))
        assert roofline_cycles(graph, node, config) == moved / 8
        assert most_bytes_per_cycle(config) == most


def test_pools_read_what_their_windows_cover_and_have_no_work() -> None:
    pool = node_of(Int8MaxPool(window=Window(kernel=(2, 2), strides=(3, 3))))
    graph = graph_of(pool, (1, 5, 9, 9), (1, 5, 3, 3))
    assert input_bytes(graph, pool) == 5 * 36
    assert count_macs(graph, pool) == compulsory_bytes(graph, pool) == 0


def test_channels_read_and_write_in_the_same_cycles() -> None:
    node = convolution(6, (1, 1), (1, 1), (0, 0, 0, 0))
    graph = graph_of(node, (1, 6, 9, 9), (1, 4, 9, 9))
    # Inputs, weights and biases; outputs.
    read, written = 6 * 81 + 6 * 4 + 4 * 4, 4 * 81
    one, two = (
        Config(memory=Memory(kind="dram", part="MT41K256M8", channels=channels)) for channels in (1, 2)
    )
    assert roofline_cycles(graph, node, one) == (read + written) / 8 == compulsory_bytes(graph, node) / 8
    assert roofline_cycles(graph, node, two) == read / 8
