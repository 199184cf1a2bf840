"""The float graph: import of ONNX models, graph passes, layouts and placement of tensors in memory."""

from __future__ import annotations

import itertools
from itertools import pairwise

import numpy as np
import onnx
import pytest
from campaign import representatives
from float_networks import FloatNetwork, reference, relative, runtime
from onnx import TensorProto, helper

from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.frontends.onnx.float_importer import import_float_model
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.operators import Computed, Convolution, Elementwise
from vdla.compiler.graph.printer import format_graph
from vdla.compiler.graph.storage_plan import plan_storage
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.rewrites.floating.pipeline import graph_passes, run_graph_passes

LANES = 16


def operators(graph: Graph) -> list[str]:
    return [type(node.operator).__name__ for node in graph.nodes]


def optimized(net: FloatNetwork, *, fusion: bool = True) -> Graph:
    return run_graph_passes(import_float_model(net.model()), graph_passes(LANES, fusion=fusion))


def check(model: bytes, x: np.ndarray) -> None:
    network = compile_kernels(model, cpu_now())
    for peer in (runtime, reference):
        for name, array in peer(model, {"x": x}).items():
            assert relative(network.run({"x": x})[name], array) <= 1e-5


def test_batch_normalization_goes_into_the_convolution_before_it() -> None:
    net = FloatNetwork(1, 3, 6, 6)
    net.convolution(8, (3, 3))
    net.shape = (1, 8, 4, 4)
    net.batch_normalization(8)
    graph = optimized(net)
    assert operators(graph) == ["Convolution", "Relayout"]
    assert graph.nodes[0].members == ("n0", "n1")
    check(net.model(), np.ones((1, 3, 6, 6), np.float32))


def test_batch_normalization_stays_where_its_input_has_another_reader() -> None:
    net = FloatNetwork(1, 3, 6, 6)
    sums = net.convolution(8, (3, 3))
    normal = net.batch_normalization(8)
    model = net.model(**{sums: (1, 8, 4, 4), normal: (1, 8, 4, 4)})
    graph = run_graph_passes(import_float_model(model), graph_passes(LANES))
    assert "Elementwise" in operators(graph)
    check(model, np.random.default_rng(0).standard_normal((1, 3, 6, 6), dtype=np.float32))


def test_a_chain_of_injective_operators_is_one_node() -> None:
    net = FloatNetwork(2, 5, 7)
    net.add("Relu")
    net.add("Mul", net.weights(7))
    net.add("Sigmoid")
    net.add("Add", "x")
    (node,) = optimized(net).nodes
    assert isinstance(node.operator, Elementwise) and node.members == ("n0", "n1", "n2", "n3")
    assert len(optimized(net, fusion=False).nodes) == 4
    check(net.model(), np.random.default_rng(0).standard_normal((2, 5, 7), dtype=np.float32))


def test_an_activation_joins_the_sum_and_a_second_reader_prevents_it() -> None:
    net = FloatNetwork(1, 16, 5, 5)
    before = net.convolution(16, (1, 1))
    net.add("LeakyRelu", alpha=0.3)
    (node,) = (node for node in optimized(net).nodes if node.name == "n0")
    assert isinstance(node.operator, Convolution) and node.result is not None
    both = net.model(**{before: (1, 16, 5, 5), net.last: (1, 16, 5, 5)})
    apart = run_graph_passes(import_float_model(both), graph_passes(LANES))
    assert operators(apart).count("Elementwise") == 1
    check(both, np.random.default_rng(0).standard_normal((1, 16, 5, 5), dtype=np.float32))


def test_layouts_change_only_at_the_ends() -> None:
    net = FloatNetwork(1, 32, 8, 8)
    net.convolution(32, (3, 3), pads=[1] * 4)
    net.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    net.convolution(48, (1, 1))
    net.shape = (1, 48, 4, 4)
    graph = optimized(net)
    assert operators(graph) == ["Relayout", "Convolution", "MaxPool", "Convolution", "Relayout"]
    assert {graph.tensors[node.output].block for node in graph.nodes[:-1]} == {LANES}
    assert "in blocks of 16" in format_graph(graph)


def test_few_channels_are_read_as_they_are_and_single_pixels_are_views() -> None:
    net = FloatNetwork(1, 3, 8, 8)
    net.convolution(32, (3, 3))
    net.add("GlobalAveragePool")
    net.add("Flatten")
    net.shape = (1, 32)
    graph = optimized(net)
    assert operators(graph)[:2] == ["Convolution", "AveragePool"]
    assert set(operators(graph)[2:]) == {"Reshape"}


def test_dead_nodes_and_constants_go() -> None:
    net = FloatNetwork(1, 4)
    kept = net.add("Relu")
    net.add("Add", net.weights(4))
    net.last = kept
    graph = optimized(net)
    assert len(graph.nodes) == 1 and not graph.constants


def test_tensors_that_live_together_share_no_bytes() -> None:
    net = FloatNetwork(1, 8, 9, 9)
    first = net.add("MaxPool", kernel_shape=[2, 2])
    for _ in range(5):
        net.add("MaxPool", kernel_shape=[3, 3], pads=[1] * 4)
    net.add("Sub", first)
    net.shape = (1, 8, 8, 8)
    graph = optimized(net)
    plan = plan_storage(graph)
    assert plan.bytes < plan.bytes_without_reuse
    for step, node in enumerate(graph.nodes):
        later = {name for other in graph.nodes[step + 1 :] for name in other.inputs}
        made = {*graph.input_names, *(other.output for other in graph.nodes[:step])}
        live = {*node.inputs, node.output, *(made & later)}
        spans = sorted((plan.offsets[n], plan.offsets[n] + graph.tensors[n].bytes) for n in live)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    check(net.model(), np.random.default_rng(0).standard_normal((1, 8, 9, 9), dtype=np.float32))


def test_shapes_computed_in_the_model_are_constants() -> None:
    net = FloatNetwork(2, 3, 4)
    shape = net.add("Shape")
    net.add("Gather", inputs=[shape, net.constant(np.array([0], np.int64))], axis=0)
    rest = net.constant(np.array([-1], np.int64))
    target = net.add("Concat", inputs=[net.last, rest], axis=0)
    net.add("Reshape", inputs=["x", target])
    net.shape = (2, 12)
    assert operators(optimized(net)) == ["Reshape"]
    check(net.model(), np.random.default_rng(0).standard_normal((2, 3, 4), dtype=np.float32))


@pytest.mark.parametrize("opset", [11, 12, 13])
def test_old_forms_of_softmax_and_squeeze(opset) -> None:
    net = FloatNetwork(2, 3, 1, 5, opset=opset)
    net.add("Softmax", axis=1)
    if opset < 13:
        net.add("Squeeze", axes=[2])
    else:
        net.add("Squeeze", net.constant(np.array([2], np.int64)))
    net.shape = (2, 3, 5)
    x = np.random.default_rng(0).standard_normal((2, 3, 1, 5), dtype=np.float32)
    got = compile_kernels(net.model(), cpu_now()).run({"x": x})[net.last]
    assert relative(got, runtime(net.model(), {"x": x})[net.last]) <= 1e-5


REDUCTIONS = ("ReduceMean", "ReduceMax", "ReduceSum", "ReduceL2")
AXES = ([2, 3], [1], [0, 2], [-1])


@pytest.mark.parametrize(
    ("kind", "axes", "keepdims"),
    representatives(
        itertools.product(REDUCTIONS, AXES, (0, 1)),
        0,
        # Each kind and all axes, by turns, with and without the dimensions.
        always=[
            (kind, AXES[(i + keepdims) % len(AXES)], keepdims)
            for i, kind in enumerate(REDUCTIONS)
            for keepdims in (0, 1)
        ],
    ),
)
def test_reductions(kind, axes, keepdims) -> None:
    net = FloatNetwork(2, 19, 4, 5, opset=18)
    net.convolution(19, (1, 1))
    net.add(kind, net.constant(np.array(axes, np.int64)), keepdims=keepdims)
    net.shape = np.sum(np.zeros((2, 19, 4, 5)), axis=tuple(axes), keepdims=bool(keepdims)).shape
    check(net.model(), np.random.default_rng(0).standard_normal((2, 19, 4, 5), dtype=np.float32))


def test_a_dynamic_batch_becomes_what_was_asked_for() -> None:
    net = FloatNetwork(1, 3, 6, 6)
    net.convolution(4, (3, 3))
    net.shape = (1, 4, 4, 4)
    model = onnx.load_model_from_string(net.model())
    for info in (model.graph.input[0], model.graph.output[0]):
        info.type.tensor_type.shape.dim[0].dim_param = "N"
    for batch in (1, 3):
        network = compile_kernels(model.SerializeToString(), cpu_now(), batch=batch)
        x = np.random.default_rng(0).standard_normal((batch, 3, 6, 6), dtype=np.float32)
        expected = runtime(model.SerializeToString(), {"x": x})[net.last]
        assert relative(network.run({"x": x})[net.last], expected) <= 1e-5


@pytest.mark.parametrize("axis", [0, 1])
def test_what_holds_nothing_is_known(axis: int) -> None:
    net = FloatNetwork(1, 3)
    net.add("Relu")
    model = onnx.load_model_from_string(net.model())
    for end in (model.graph.input[0], model.graph.output[0]):
        end.type.tensor_type.shape.dim[axis].dim_value = 0
    graph = import_float_model(model.SerializeToString())
    assert not graph.nodes and graph.constants[graph.outputs[0].tensor].size == 0


def refused(net: FloatNetwork, *words: str) -> None:
    with pytest.raises(ModelError) as error:
        import_float_model(net.model())
    message = str(error.value)
    assert "\n" not in message and all(word in message for word in words), message


def test_an_unsupported_operator_is_named_with_its_node() -> None:
    net = FloatNetwork(1, 2, 2)
    net.add("Det", inputs=["x"])
    net.nodes[0] = helper.make_node("Det", ["x"], [net.last], "choose")
    net.shape = (1,)
    refused(net, "'choose'", "Det", "supported are")


def test_operators_of_other_domains_are_refused() -> None:
    net = FloatNetwork(1, 4)
    net.add("FusedThing", domain="com.example")
    model = onnx.load_model_from_string(net.model())
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    with pytest.raises(ModelError, match=r"'n0' \(FusedThing\).*domain"):
        import_float_model(model.SerializeToString())


def test_weights_that_are_computed_have_no_template() -> None:
    net = FloatNetwork(3, 3, 3, 3)
    weight = net.add("Relu")
    net.add("Conv", inputs=["x", weight])
    net.shape = (3, 3, 1, 1)
    assert isinstance(import_float_model(net.model()).nodes[-1].operator, Computed)


def test_other_types_are_refused() -> None:
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.STRING, [1])],
        [helper.make_tensor_value_info("y", TensorProto.STRING, [1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(ModelError, match="'x' has type string"):
        import_float_model(model.SerializeToString())


def test_old_operator_sets_are_converted() -> None:
    net = FloatNetwork(1, 4, opset=9)
    net.add("Relu")
    assert isinstance(import_float_model(net.model()).nodes[-1].operator, Elementwise)
