"""A transformer's encoder layer, quantized, on accelerators: products of two activations, softmax, normalizations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from float_networks import runtime
from vdla.compiler.driver import compile_model
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.graph.host import load_outputs, store_inputs
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.runtime.executor import run
from vdla.isa.check import check
from vdla.isa.config import Config, load_config
from vdla.util.errors import UserError

from .test_views import Viewed

TINY = load_config("tiny")
MACHINE = replace(
    TINY, extensions=(*TINY.extensions, "table", "broadcast", "zero_points", "rows"), row_entries=8
)


def encoder(length: int, width: int, heads: int, *, merged: bool) -> Viewed:
    """An encoder layer; with `merged` one product gives query, key and value, as ViT has it."""
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
    made = compile_model(model, MACHINE, verify=True)
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
        compile_model(encoder(8, 16, 2, merged=False).model(), config)


def test_blocks_that_are_not_whole():
    with pytest.raises(UserError, match="do not fill blocks of 4"):
        compile_model(encoder(6, 16, 2, merged=False).model(), MACHINE)
