"""Masked softmaxes, and normalizations in single operators, on accelerators with the extension `rows` (statistics of
rows).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from float_networks import runtime
from onnx import TensorProto

from vdla.codesign.evaluate import compare_layers
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.abilities import Abilities
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.graph.host import load_outputs, store_inputs
from vdla.compiler.graph.int8_operators import Rows
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.pipeline import compile_program
from vdla.compiler.runtime.accelerator import run
from vdla.isa.check import check
from vdla.isa.config import load_config

from .test_views import Viewed

TINY = load_config("tiny")
MACHINE = replace(
    TINY, extensions=(*TINY.extensions, "table", "broadcast", "zero_points", "rows"), row_entries=8
)
LEAST = float(np.finfo(np.float32).min)


def right(net: Viewed, kinds: dict[str, int]) -> np.ndarray:
    """The interpreter's output for the network. Asserts that the accelerator gives the same output, that ONNX Runtime's
    is within one step of it, and that the graph has `kinds` of nodes in these numbers.
    """
    model = net.model()
    x = net.rng.standard_normal(net.input_shape, dtype=np.float32)
    made = compile_program(model, MACHINE, verify=True)
    assert check(MACHINE, made.program.instructions, made.program.image) == []
    found = [node.kind for node in made.graph.nodes]
    assert {kind: found.count(kind) for kind in kinds} == kinds
    (own,) = load_outputs(made.graph, interpret(made.graph, store_inputs(made.graph, {"x": x}))).values()
    (output,) = made.graph.outputs
    assert output.quantization is not None
    np.testing.assert_array_equal(run(made, {"x": x}).outputs[output.name], own)
    wanted = runtime(model, {"x": x})[net.last]
    assert np.abs(own - wanted).max() <= 1.01 * float(output.quantization.scale)
    return own


def scores(scale: float) -> Viewed:
    net = Viewed(1, 8, 8)
    net.rounded(scale)
    net.shape = (1, 8, 8)
    return net


def shares(net: Viewed) -> Viewed:
    net.add("Softmax", axis=-1)
    net.rounded(1 / 255, 0)
    return net


def added(net: Viewed, mask: np.ndarray) -> Viewed:
    net.add("Add", net.constant(mask.astype(np.float32)))
    return shares(net)


@pytest.mark.parametrize("scale", [0.002, 0.03])
def test_a_causal_mask(scale: float):
    """A softmax with a causal mask is right and 0 for masked keys, for scores close together (by `scale`), and for
    scores so far apart that the softmax's table needs zeros.
    """
    own = right(added(scores(scale), np.triu(np.full((8, 8), LEAST), 1)), {"Rows": 1, "Elementwise": 1})
    assert (own[0][np.triu_indices(8, 1)] == 0).all()


def test_scores_that_lie_far_apart_have_a_wider_step():
    net = scores(0.1)
    net.add("Add", net.constant(np.triu(np.full((8, 8), LEAST), 1).astype(np.float32)))
    shares(net)
    model, x = net.model(), net.rng.standard_normal((1, 8, 8), dtype=np.float32) * 4
    made = compile_program(model, MACHINE)
    (own,) = run(made, {"x": x}).outputs.values()
    assert (own[0][np.triu_indices(8, 1)] == 0).all()
    assert np.abs(own - runtime(model, {"x": x})[net.last]).max() < 0.04


def test_a_mask_of_more_than_two_levels():
    net = added(scores(0.01), -np.abs(np.subtract.outer(np.arange(8), np.arange(8))) * 0.5)
    model, x = net.model(), net.rng.standard_normal((1, 8, 8), dtype=np.float32)
    (own,) = run(compile_program(model, MACHINE), {"x": x}).outputs.values()
    assert np.abs(own - runtime(model, {"x": x})[net.last]).max() < 0.02


@pytest.mark.parametrize("shown", [True, False])
def test_where_hides_what_is_scaled_before(shown: bool):
    net = scores(0.02)
    scaled = net.add("Div", net.constant(np.float32(2.5)))
    triangle, least = net.constant(np.tri(8, dtype=np.bool_) == shown), net.constant(np.float32(LEAST))
    net.add("Where", inputs=[triangle, *((scaled, least) if shown else (least, scaled))])
    right(shares(net), {"Rows": 1, "Elementwise": 1, "Table": 0})


def test_scaled_scores_need_no_table():
    net = scores(0.02)
    net.add("Mul", net.constant(np.float32(0.25)))
    right(shares(net), {"Rows": 1, "Elementwise": 0, "Table": 0})


def test_masked_scores_are_for_a_softmax_alone():
    net = scores(0.02)
    net.add("Add", net.constant(np.full((8, 8), LEAST, np.float32)))
    net.rounded(0.1)
    with pytest.raises(ModelError, match="scores to which a float mask was added"):
        compile_program(net.model(), MACHINE)


def root_mean_square(net: Viewed, *, divided: bool, epsilon: float = 1e-5) -> None:
    source = net.add("Cast", to=TensorProto.FLOAT)
    net.add("Pow", net.constant(np.float32(2)))
    net.add("ReduceMean", axes=[-1])
    net.add("Add", net.constant(np.float32(epsilon)))
    net.add("Sqrt")
    if divided:
        net.add("Div", inputs=[source, net.last])
    else:
        net.add("Reciprocal")
        net.add("Mul", inputs=[source, net.last])


def layer_norm(net: Viewed, square: Callable[[Viewed], object]) -> None:
    source = net.last
    mean = net.add("ReduceMean", axes=[-1])
    less = net.add("Sub", inputs=[source, mean])
    square(net)
    net.add("ReduceMean", axes=[-1])
    net.add("Add", net.constant(np.float32(1e-5)))
    net.add("Sqrt")
    net.add("Div", inputs=[less, net.last])


def gain_and_offset(net: Viewed, width: int) -> None:
    gain, offset = (net.constant(net.rng.normal(m, 0.3, width).astype(np.float32)) for m in (1, 0))
    net.add("Mul", inputs=[gain, net.last])
    net.add("Add", offset)


@pytest.mark.parametrize("divided", [False, True])
def test_root_mean_square_normalization(divided: bool):
    net = Viewed(1, 6, 12)
    net.rounded(0.02, 100)
    root_mean_square(net, divided=divided)
    net.add("Mul", net.constant(net.rng.normal(1, 0.3, 12).astype(np.float32)))
    net.rounded(0.03)
    net.shape = (1, 6, 12)
    right(net, {"Rows": 1, "Elementwise": 0, "Table": 0})


@pytest.mark.parametrize(
    "square",
    [
        lambda net: net.add("Pow", net.constant(np.float32(2))),
        lambda net: net.add("Mul", inputs=[net.last, net.last]),
    ],
    ids=["Pow", "Mul"],
)
def test_layer_normalization(square: Callable[[Viewed], object]):
    net = Viewed(1, 6, 12)
    net.rounded(0.02, 100)
    layer_norm(net, square)
    gain_and_offset(net, 12)
    net.rounded(0.03)
    net.shape = (1, 6, 12)
    right(net, {"Rows": 1, "Elementwise": 0, "Table": 0})


def test_a_quantized_statistic_is_not_rounded():
    """A normalization in single operators whose statistics are quantized and dequantized, as quantizers write it,
    becomes one kernel that does not round them.
    """
    net = Viewed(1, 6, 12)
    source = net.rounded(0.02, 100)
    net.add("Pow", net.constant(np.float32(2)))
    net.add("ReduceMean", axes=[-1])
    net.rounded(0.2, 0)
    net.add("Add", net.constant(np.float32(1e-5)))
    net.rounded(0.2, 0)
    net.add("Sqrt")
    net.add("Reciprocal")
    net.rounded(0.1, 0)
    net.add("Mul", inputs=[source, net.last])
    net.rounded(0.03)
    net.shape = (1, 6, 12)
    graph = import_model(net.model(), abilities=Abilities.of(MACHINE))
    (node,) = graph.nodes
    assert isinstance(node.operator, Rows) and not node.operator.centre
    x = net.rng.standard_normal((1, 6, 12), dtype=np.float32)
    (own,) = load_outputs(graph, interpret(graph, store_inputs(graph, {"x": x}))).values()
    stored = np.clip(np.rint(x / np.float32(0.02)), -100, 155) * 0.02
    wanted = stored / np.sqrt((stored**2).mean(-1, keepdims=True) + 1e-5)
    assert np.abs(own - wanted).max() <= 0.51 * 0.03
    # The roundings change results by several steps. The comparison of layers leaves them out of ONNX Runtime's model.
    assert np.abs(own - runtime(net.model(), {"x": x})[net.last]).max() > 2 * 0.03
    found = compare_layers(net.model(), [{"x": x}], abilities=Abilities.of(MACHINE))
    assert found.largest <= 1 and found.compared.layers == 1


def test_a_statistic_is_for_normalizations_alone():
    net = Viewed(1, 6, 12)
    net.rounded(0.02, 100)
    net.add("Pow", net.constant(np.float32(2)))
    net.add("ReduceMean", axes=[-1])
    net.add("Tanh")
    net.rounded(0.02)
    net.shape = (1, 6, 1)
    with pytest.raises(ModelError, match="Tanh"):
        compile_program(net.model(), MACHINE)


def test_a_mean_and_a_tensor_of_another_row_are_no_normalization():
    net = Viewed(1, 6, 12)
    first = net.rounded(0.02, 100)
    other = net.then("Neg")
    mean = net.add("ReduceMean", inputs=[first], axes=[-1])
    net.add("Sub", inputs=[other, mean])
    net.rounded(0.02)
    net.shape = (1, 6, 12)
    with pytest.raises(ModelError, match="which only a normalization can read"):
        compile_program(net.model(), MACHINE)


def heads() -> Viewed:
    """A network whose rows are reshaped to heads, (1, 4, 6, 8), which are stored as channels of one tensor."""
    net = Viewed(1, 6, 32)
    net.rounded(0.02)
    net.reshaped(1, 6, 4, 8)
    net.moved(0, 2, 1, 3)
    return net


def test_halves_of_heads_change_places():
    """Rotary position embedding runs on the accelerator: the second half of each head is negated, and put before the
    first half along the last axis. The result is right, and no kernel only moves data.
    """
    net = heads()
    whole = net.last
    high = net.cut(3, 4, 8)
    net.add("Neg", inputs=[high])
    negative = net.rounded(0.025, 126)
    net.last = whole
    low = net.cut(3, 0, 4)
    net.then("Concat", inputs=[negative, low], axis=3)
    factors = net.constant(net.rng.integers(0, 256, (1, 1, 6, 8)).astype(np.uint8))
    grid = [net.constant(np.float32(0.01)), net.constant(np.uint8(128))]
    turned = net.last
    net.then("Mul", inputs=[turned, net.add("DequantizeLinear", inputs=[factors, *grid])])
    net.shape = (1, 4, 6, 8)
    right(net, {"Positions": 0, "Swap": 0})


def test_few_heads_are_repeated_for_many():
    """Grouped-query attention gives the right result, and its Unsqueeze, Expand and Reshape move no data. These
    operators repeat each head of keys for two heads of queries. Instead of copying the keys, the matrix products read
    each head of keys twice.
    """
    net = heads()
    many, few = net.last, net.cut(1, 0, 2)
    net.then("Unsqueeze", inputs=[few, net.constant(np.array([2]))])
    net.add("Expand", net.constant(np.array([1, 2, 2, 6, 8])))
    net.rounded(0.03, 120)
    net.reshaped(1, 4, 6, 8)
    net.moved(0, 1, 3, 2)
    net.then("MatMul", inputs=[many, net.last])
    net.shape = (1, 4, 6, 6)
    graph = import_model(net.model(), abilities=replace(Abilities.of(MACHINE), block=1))
    assert [node.kind for node in graph.nodes].count("Positions") == 0
    x = net.rng.standard_normal(net.input_shape, dtype=np.float32)
    (own,) = load_outputs(graph, interpret(graph, store_inputs(graph, {"x": x}))).values()
    assert np.abs(own - runtime(net.model(), {"x": x})[net.last]).max() <= 1.01 * 0.03


def test_gelu_by_tanh_is_one_table():
    net = Viewed(1, 6, 12)
    x = net.rounded(0.02)

    def then(operator: str, *values: float, inputs: list[str] | None = None) -> str:
        return net.then(operator, *[np.float32(value) for value in values], inputs=inputs)

    half = then("Mul", 0.5)
    net.last = x
    then("Pow", 3.0)
    cube = then("Mul", 0.044715)
    then("Add", inputs=[x, cube])
    then("Mul", 0.8)
    then("Tanh")
    share = then("Add", 1.0)
    then("Mul", inputs=[half, share])
    net.shape = (1, 6, 12)
    right(net, {"Table": 1, "Elementwise": 0})


def test_a_guard_behind_a_masked_softmax_is_no_work():
    """Exported attention replaces NaN, which the softmax of a completely masked row would give, by 0. The replacement
    needs no kernel: the graph is the same as without it.
    """
    plain = added(scores(0.03), np.triu(np.full((8, 8), LEAST), 1))
    guarded = scores(0.03)
    guarded.add("Add", guarded.constant(np.triu(np.full((8, 8), LEAST), 1).astype(np.float32)))
    shared = guarded.add("Softmax", axis=-1)
    nothing = guarded.constant(np.float32(0))
    nan = guarded.add("IsNaN", inputs=[shared])
    guarded.add("Where", inputs=[nan, nothing, shared])
    guarded.rounded(1 / 255, 0)
    np.testing.assert_array_equal(
        right(guarded, {"Rows": 1, "Elementwise": 1}), right(plain, {"Rows": 1, "Elementwise": 1})
    )


def test_a_where_that_makes_its_operand_larger_is_no_guard():
    net = scores(0.03)
    shared = net.last
    condition = net.constant(np.zeros((3, 8, 8), np.bool_))
    net.shape = (3, 8, 8)
    net.add("Where", inputs=[condition, net.constant(np.float32(0)), shared])
    net.rounded(0.03)
    with pytest.raises(ModelError, match="Where"):
        compile_program(net.model(), MACHINE)
