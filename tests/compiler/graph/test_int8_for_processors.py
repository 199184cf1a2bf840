"""A quantized graph is prepared for processors: its tensors get channel blocks, and conversions at its inputs and
outputs become nodes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from vdla.compiler.graph.graph import GraphInput
from vdla.compiler.graph.int8_convolution import Int8Convolution
from vdla.compiler.graph.int8_operators import Dequantize, Quantize
from vdla.compiler.graph.operators import Permute
from vdla.compiler.ir.types import DType
from vdla.compiler.rewrites.fuse_pairs import fuse_pool
from vdla.compiler.rewrites.int8_for_processors import block_of, converted_inputs, for_processors
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.combination import Combination
from vdla.compiler.te.post import Post

from ..random_networks import builder


def small():
    """A graph of a convolution of an image in NHWC, an addition of a constant, and the constant itself as a second
    output. Inputs and outputs of the host have other shapes, types and names than the graph's tensors.
    """
    b = builder(0)
    x = b.input(1, 3, 6, 5)
    constant = b.constant(1, 20, 6, 5)
    total = b.add(b.convolution(x, 20, (1, 1)), constant)
    graph = b.graph(total, constant)
    # The host has other shapes, types and names than the graph: one of them is a tensor's name.
    entry = GraphInput(
        name=total, tensor=x, shape=(1, 6, 5, 3), dtype=DType.FLOAT32, permutation=(0, 3, 1, 2)
    )
    outputs = tuple(replace(output, shape=(1, 600), dtype=DType.FLOAT32) for output in graph.outputs)
    return replace(graph, inputs=(entry,), outputs=outputs)


def test_conversions_are_nodes_and_ends_are_the_models():
    graph = small()
    ready = for_processors(graph, partial(block_of, lanes=16))
    kinds = [type(node.operator) for node in ready.nodes]
    assert kinds[:2] == [Permute, Quantize] and kinds[-1] is Dequantize
    assert len(kinds) == len(graph.nodes) + 3, "an output that is a constant needs no node"
    (entry,) = ready.inputs
    assert (entry.name, entry.tensor, entry.permutation) == (graph.inputs[0].name, graph.inputs[0].name, None)
    assert converted_inputs(ready) == {entry.name}
    for output in ready.outputs:
        assert (output.shape, output.dtype, output.quantization) == ((1, 600), DType.FLOAT32, None)
        assert ready.tensors[output.tensor].shape == (1, 600)
    held = ready.constants[ready.outputs[1].tensor]
    step, zero = graph.outputs[1].quantization.scale, graph.outputs[1].quantization.stored_zero_point
    wanted = (graph.constants[graph.outputs[1].tensor].astype(np.float32) - zero) * step
    np.testing.assert_array_equal(held, wanted.reshape(1, 600))


def test_every_tensor_is_made_before_it_is_read_and_lies_in_blocks():
    ready = for_processors(small(), partial(block_of, lanes=8))
    known = {*ready.input_names, *ready.constants}
    for node in ready.nodes:
        assert known.issuperset(node.inputs), node.name
        known.update(node.outputs)
        if isinstance(node.operator, Int8Convolution):
            assert [ready.tensors[name].block for name in (*node.inputs, node.output)] == [4, 8]
    for name, array in ready.constants.items():
        assert array.shape == ready.tensors[name].storage
        assert array.dtype == ready.tensors[name].dtype.numpy


def test_a_pool_within_a_convolution_is_for_the_accelerator():
    b = builder(0)
    graph = fuse_pool(b.graph(b.max_pool(b.convolution(b.input(1, 3, 6, 6), 4, (1, 1)), (2, 2), (2, 2))))
    with pytest.raises(ValueError, match="already has a fused pool"):
        for_processors(graph, partial(block_of, lanes=16))


def test_a_kernel_that_is_not_the_weights_is_refused():
    with pytest.raises(ValueError, match=r"do not match the window, whose kernel is \(3, 1\)"):
        Int8Convolution(
            weight=np.zeros((4, 3, 1, 3), np.int8),
            bias=np.zeros(4, np.int32),
            scale=np.ones(4, np.float32),
            window=Window(kernel=(3, 1)),
            pad_value=0,
            post=Post(),
        )


@pytest.mark.parametrize("kind", ["add", "multiply"])
def test_the_operand_as_self_and_back_is_the_same(kind):
    combination = Combination(
        kind=kind, ratio_self=0.5, ratio_operand=0.25, zero_point_self=3, zero_point_operand=-4, low=-7
    )
    other = combination.of_operand()
    assert other.swap and other.zero_point_self == -4 and other.of_operand() == combination
    assert (other.ratio_self == 0.25) == (kind == "add")


def test_clamps_end_where_the_last_one_does():
    post = Post(low=-20, high=30)
    assert (post.clamped(-5, 90).low, post.clamped(-5, 90).high) == (-5, 30)
    inner = Post(combination=Combination(kind="rescale", ratio_self=1.0, low=-20, high=30)).clamped(40, 50)
    assert (inner.low, inner.high) == (-128, 127)
    assert inner.combination is not None and (inner.combination.low, inner.combination.high) == (40, 40)
