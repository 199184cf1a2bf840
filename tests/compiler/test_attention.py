"""A quantized transformer encoder layer runs on accelerators: products of two activations, softmax, normalizations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from float_networks import runtime

from vdla.codesign.evaluate import compare_layers
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.abilities import ACCELERATOR
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.graph.host import load_outputs, store_inputs
from vdla.compiler.graph.int8_convolution import Int8Convolution
from vdla.compiler.graph.int8_operators import Products
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.pipeline import compile_program
from vdla.compiler.runtime.accelerator import run
from vdla.compiler.templates.vdla.legalize import legalize
from vdla.isa.check import check
from vdla.isa.config import Config, load_config

from .test_views import Viewed

TINY = load_config("tiny")
MACHINE = replace(
    TINY, extensions=(*TINY.extensions, "table", "broadcast", "zero_points", "rows"), row_entries=8
)


def encoder(length: int, width: int, heads: int, *, merged: bool) -> Viewed:
    """A transformer encoder layer; with `merged`, one product computes queries, keys and values, as in ViT."""
    net = Viewed(1, length, width)
    before, depth = net.rounded(0.02), width // heads

    def normalized() -> str:
        gain, offset = (net.constant(net.rng.normal(m, 0.3, width).astype(np.float32)) for m in (1, 0))
        net.add("LayerNormalization", inputs=[net.last, gain, offset], axis=-1)
        return net.rounded(0.03, 120)

    if merged:
        normalized()
        net.rows(width, 3 * width)
        net.reshaped(1, length, 3, heads, depth)
        together = net.moved(2, 0, 3, 1, 4)
        parts = [net.then("Gather", inputs=[together, at], axis=0) for at in indices(net)]
    else:
        source, parts = net.last, []
        for _ in range(3):
            net.product("MatMul", (width, width), source)
            net.reshaped(1, length, heads, depth)
            parts.append(net.moved(0, 2, 1, 3))
    query, key, value = parts
    turned = net.then("Transpose", inputs=[key], perm=[0, 1, 3, 2])
    net.then("MatMul", inputs=[query, turned])
    net.then("Div", np.float32(2.5))
    net.add("Softmax", axis=-1)
    shares = net.rounded(1 / 255, 0)
    net.then("MatMul", inputs=[shares, value])
    net.moved(0, 2, 1, 3)
    net.reshaped(1, length, width)
    net.rows(width, width, bias=False)
    middle = net.then("Add", inputs=[before, net.last])
    normalized()
    net.rows(width, 2 * width)
    net.add("Tanh")
    net.rounded(0.01, 128)
    net.rows(2 * width, width)
    net.then("Add", inputs=[middle, net.last])
    net.shape, net.opset = (1, length, width), 18
    return net


def indices(net: Viewed) -> list[str]:
    return [net.constant(np.array(at)) for at in range(3)]


@pytest.mark.parametrize("merged", [False, True])
def test_an_encoder_layer_is_right(merged: bool):
    net = encoder(8, 16, 2, merged=merged)
    model = net.model()
    x = net.rng.standard_normal(net.input_shape, dtype=np.float32)
    made = compile_program(model, MACHINE, verify=True)
    assert check(MACHINE, made.program.instructions, made.program.image) == []
    kinds = [node.kind for node in made.graph.nodes]
    # The scale of the scores is looked up in the store of their products; Tanh is not, behind a bias.
    assert (
        kinds.count("Products") == 2
        and kinds.count("Table") == 1
        and kinds.count("Rows") == (3 if merged else 2)
        # Biases are sums of their own to ONNX Runtime; the stores of the products take them.
        and kinds.count("Elementwise") == 1
    )
    (own,) = load_outputs(made.graph, interpret(made.graph, store_inputs(made.graph, {"x": x}))).values()
    (output,) = made.graph.outputs
    assert output.quantization is not None
    np.testing.assert_array_equal(run(made, {"x": x}).outputs[output.name], own)
    steps = np.abs(own - runtime(model, {"x": x})[net.last]) / float(output.quantization.scale)
    # Roundings of twenty layers add up.
    assert steps.max() <= 5.01 and steps.mean() < 1


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (replace(MACHINE, extensions=(*TINY.extensions, "table", "broadcast", "rows")), "'zero_points'"),
        (replace(MACHINE, batch=2, extensions=("post", "table", "broadcast", "zero_points")), "MatMul"),
    ],
)
def test_what_is_refused_is_said(config: Config, message: str):
    with pytest.raises(ModelError, match=message):
        compile_program(encoder(8, 16, 2, merged=False).model(), config)


def attention_in_windows(rows: int = 5, columns: int = 3) -> Viewed:
    """A network with attention as in Swin. The image of `rows` x `columns`, padded to 6x4, is cut into windows of 3x2.
    Attention works within each window with a bias and a mask for each pair of positions, and the result gets the
    image's layout again.
    """
    net = Viewed(1, 3, rows, columns)
    net.product("Conv", (8, 3, 1, 1), net.rounded(0.02))
    whole = net.moved(0, 2, 3, 1)
    if (rows, columns) != (6, 4):
        net.then("Pad", np.array([0, 0, 0, 0, 0, 6 - rows, 4 - columns, 0]))
    net.reshaped(1, 2, 3, 2, 2, 8)
    net.moved(0, 1, 3, 2, 4, 5)
    net.reshaped(4, 6, 8)
    net.rows(8, 24, bias=False)
    net.reshaped(4, 6, 3, 2, 4)
    together = net.moved(2, 0, 3, 1, 4)
    query, key, value = (net.then("Gather", inputs=[together, at], axis=0) for at in indices(net))
    query = net.then("Div", inputs=[query, net.constant(np.float32(1.4))])
    turned = net.then("Transpose", inputs=[key], perm=[0, 1, 3, 2])
    net.then("MatMul", inputs=[query, turned])
    for shape, lead in (((1, 2, 6, 6), ()), ((1, 4, 1, 6, 6), (1, 4))):
        if lead:
            net.reshaped(*lead, 2, 6, 6)
        grid = [net.constant(np.float32(0.02)), net.constant(np.uint8(200))]
        addend = net.constant(net.rng.integers(0, 256, shape).astype(np.uint8))
        net.then("Add", inputs=[net.last, net.add("DequantizeLinear", inputs=[addend, *grid])])
    net.reshaped(4, 2, 6, 6)
    net.add("Softmax", axis=-1)
    net.then("MatMul", inputs=[net.rounded(1 / 255, 0), value])
    net.moved(0, 2, 1, 3)
    net.reshaped(4, 6, 8)
    net.rows(8, 8)
    net.reshaped(1, 2, 2, 3, 2, 8)
    net.moved(0, 1, 3, 2, 4, 5)
    net.reshaped(1, 6, 4, 8)
    net.cut(1, 0, rows)
    net.then("Add", inputs=[whole, net.cut(2, 0, columns)])
    net.shape, net.opset = (1, rows, columns, 8), 18
    return net


def products(depth: int, *, function: bool) -> Viewed:
    """A network with a product of two activations, with a depth of `depth`; with `function`, a Sigmoid is applied to
    both factors.
    """
    net = Viewed(1, 6, 8)
    source = net.rounded(0.02)
    net.product("MatMul", (8, depth), source)
    if function:
        net.add("Sigmoid")
        net.rounded(0.01, 3)
    first = net.last
    net.product("MatMul", (8, depth), source)
    if function:
        net.add("Sigmoid")
        net.rounded(0.01, 5)
    turned = net.moved(0, 2, 1)
    net.then("MatMul", inputs=[first, turned])
    net.shape, net.opset = (1, 6, 6), 18
    return net


@pytest.mark.parametrize(
    "net",
    [
        encoder(6, 16, 2, merged=False),
        encoder(5, 24, 3, merged=True),
        attention_in_windows(),
        attention_in_windows(6, 4),
        products(6, function=False),
        products(6, function=True),
    ],
    ids=[
        "six tokens",
        "five tokens",
        "windows",
        "whole windows",
        "six channels",
        "six channels of a function",
    ],
)
def test_blocks_need_not_be_whole(net: Viewed):
    model = net.model()
    x = net.rng.standard_normal(net.input_shape, dtype=np.float32)
    made = compile_program(model, MACHINE, verify=True)
    assert check(MACHINE, made.program.instructions, made.program.image) == []
    (own,) = load_outputs(made.graph, interpret(made.graph, store_inputs(made.graph, {"x": x}))).values()
    (output,) = made.graph.outputs
    assert output.quantization is not None
    np.testing.assert_array_equal(run(made, {"x": x}).outputs[output.name], own)
    steps = np.abs(own - runtime(model, {"x": x})[net.last]) / float(output.quantization.scale)
    assert own.shape == net.shape and len(np.unique(own)) > 20
    assert steps.max() <= 5.01 and steps.mean() < 1
    assert compare_layers(model, [{"x": x}]).largest <= 1


def test_a_sum_over_a_part_of_a_block_needs_it_alone():
    # Its heads of six channels begin inside of blocks, so they are moved; a network for blocks of one has no such need.
    graph = import_model(products(6, function=True).model(), abilities=ACCELERATOR)
    legal = legalize(graph, MACHINE).graph
    assert sum(node.name.endswith(".alone") for node in legal.nodes) == 1
    legal = legalize(import_model(products(6, function=False).model(), abilities=ACCELERATOR), MACHINE).graph
    assert not any(node.name.endswith(".alone") for node in legal.nodes)


@pytest.mark.parametrize(("rows", "columns"), [(5, 3), (6, 4)])
def test_keys_and_values_leave_room_for_whole_blocks(rows: int, columns: int):
    graph = compile_program(attention_in_windows(rows, columns).model(), MACHINE).graph
    spaced = [
        node.operator.spaced
        for node in graph.nodes
        if isinstance(node.operator, Int8Convolution) and node.operator.spaced is not None
    ]
    # The windows are moved once, in front of the product that gives all three, and back behind all.
    assert [node.kind for node in graph.nodes].count("Positions") == 2
    assert spaced == [(6, 8)] * 2


def test_what_is_added_to_scores_is_added_in_their_store():
    graph = compile_program(attention_in_windows().model(), MACHINE).graph
    combined = [
        node.operator.post.combination is not None
        for node in graph.nodes
        if isinstance(node.operator, Products)
    ]
    # The bias of scores; their mask comes behind another rounding.
    assert combined == [True, False]
    assert [node.kind for node in graph.nodes].count("Elementwise") == 2
