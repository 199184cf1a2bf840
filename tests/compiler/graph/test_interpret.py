"""Special cases of the integer graph's interpreter: operand order of stage B of the store pipeline, wrapping sums, and
which tensors it returns.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.host import store_inputs
from vdla.compiler.graph.int8_convolution import Int8Convolution
from vdla.compiler.graph.interpret import apply_combination, convolution_sums, interpret
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.combination import Combination
from vdla.compiler.te.post import Post
from vdla.isa.arithmetic import AddConstants, combine_add, combine_multiply

ALL = np.arange(-128, 128).astype(np.int8)
FIRST, SECOND = (array.ravel() for array in np.meshgrid(ALL, ALL))


def test_swapped_sum_keeps_the_order_of_its_roundings():
    rng = np.random.default_rng(0)
    order_matters = 0
    for _ in range(60):
        ratios = rng.uniform(0.1, 1.5, 2).astype(np.float32)
        offset = np.float32(rng.normal(0, 50))
        constants = AddConstants(ratio_a=ratios[0], ratio_b=ratios[1], offset=offset, unsigned=True)
        expected = combine_add(FIRST, SECOND, constants)
        plain = Combination(
            kind="add",
            ratio_self=float(ratios[0]),
            ratio_operand=float(ratios[1]),
            offset=float(offset),
            unsigned=True,
        )
        swapped = replace(plain, ratio_self=float(ratios[1]), ratio_operand=float(ratios[0]), swap=True)
        np.testing.assert_array_equal(apply_combination(plain, FIRST, SECOND), expected)
        np.testing.assert_array_equal(apply_combination(swapped, SECOND, FIRST), expected)
        order_matters += not np.array_equal(
            apply_combination(replace(swapped, swap=False), SECOND, FIRST), expected
        )
    assert order_matters, "no case here tells one order from the other"


def test_product_knows_whose_zero_point_is_whose():
    combine = Combination(
        kind="multiply",
        ratio_self=float(np.float32(0.01)),
        zero_point_self=7,
        zero_point_operand=-40,
        zero_point=5,
        low=-90,
    )
    expected = combine_multiply(FIRST, SECOND, (7, -40), np.float32(0.01), 5, False, -90, 127)
    np.testing.assert_array_equal(apply_combination(combine, FIRST, SECOND), expected)
    swapped = replace(combine, zero_point_self=-40, zero_point_operand=7, swap=True)
    np.testing.assert_array_equal(apply_combination(swapped, SECOND, FIRST), expected)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_sums_equal_the_definition_and_wrap(groups):
    rng = np.random.default_rng(groups)
    data = rng.integers(-128, 128, (2, 4, 6, 7)).astype(np.int8)
    operator = Int8Convolution(
        weight=rng.integers(-128, 128, (8, 4 // groups, 3, 2)).astype(np.int8),
        bias=rng.integers(2**31 - 9000, 2**31 - 1, 8).astype(np.int32),
        scale=np.ones(8, np.float32),
        window=Window(kernel=(3, 2), strides=(2, 1), pads=(1, 0, 0, 2), dilations=(1, 2)),
        groups=groups,
        pad_value=-5,
        post=Post(),
    )
    padded = np.pad(data.astype(int), ((0, 0), (0, 0), (1, 0), (0, 2)), constant_values=-5)
    got = convolution_sums(operator, data)
    assert got.shape == (2, 8, 3, 7)
    wrapped = 0
    for n, o, y, x in np.ndindex(got.shape):
        start = o // (8 // groups) * (4 // groups)
        window = padded[n, start : start + 4 // groups, 2 * y : 2 * y + 3, x : x + 3 : 2]
        total = int((window * operator.weight[o].astype(int)).sum()) + int(operator.bias[o])
        wrapped += total >= 2**31
        assert got[n, o, y, x] == (total + 2**31) % 2**32 - 2**31
    assert wrapped


def test_keep_all_holds_every_tensor_and_default_only_outputs(builder, quantized, feed_of):
    b = builder(1, 3, 8, 8)
    b.conv("x", "c1", 4, 3, 3, 3)
    b.conv("c1", "y", 4, 4, 3, 3)
    data = quantized(b.model("y"), "qdq-u8-channel")
    graph = import_model(data)
    feed = store_inputs(graph, feed_of(data))
    kept = interpret(graph, feed, keep_all=True)
    assert kept.keys() == graph.tensors.keys()
    assert all(
        kept[name].shape == tensor.shape and kept[name].dtype == np.int8
        for name, tensor in graph.tensors.items()
    )
    assert interpret(graph, feed).keys() == {graph.outputs[0].tensor}
