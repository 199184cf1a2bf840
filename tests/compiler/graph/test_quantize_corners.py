"""Quantization of models that are written in unusual ways: the quantized model runs in ONNX Runtime and computes the
same up to small errors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from float_networks import runtime
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.graph.errors import ModelError
from vdla.compiler.quantize.quantize import Recipe, quantize_model, read_model

PLANE = [1, 3, 6, 6]
Node = helper.make_node


def weights(*shape: int) -> np.ndarray:
    deviation = 1 / np.sqrt(max(1, np.prod(shape[1:])))
    return (np.random.default_rng(shape).standard_normal(shape) * deviation).astype(np.float32)


def model(
    nodes: list[onnx.NodeProto], outputs: list[str], opset: int = 17, inputs=(("x", PLANE),), **constants
) -> onnx.ModelProto:
    infos = [onnx.ValueInfoProto(name=name) for name in outputs]
    for info in infos:
        info.type.tensor_type.elem_type = TensorProto.FLOAT
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "net", given, infos, tensors)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made)


def two_inputs_and_outputs() -> onnx.ModelProto:
    nodes = [
        Node("Add", ["x", "z"], ["a"]),
        Node("Conv", ["a", "w"], ["c"]),
        Node("Mul", ["c", "c"], ["d"]),
        Node("Concat", ["d", "c", "d"], ["y"], axis=1),
    ]
    return model(nodes, ["y", "c"], inputs=(("x", PLANE), ("z", PLANE)), w=weights(4, 3, 3, 3))


def names_that_clash() -> onnx.ModelProto:
    nodes = [
        Node("Conv", ["x", "w"], ["x_scale"]),
        Node("Relu", ["x_scale"], ["x_QuantizeLinear_Output"]),
        Node("Conv", ["x_QuantizeLinear_Output", "w_scale"], ["y"]),
    ]
    return model(nodes, ["y"], w=weights(4, 3, 3, 3), w_scale=weights(2, 4, 1, 1))


def weights_that_are_operands_too() -> onnx.ModelProto:
    nodes = [
        Node("Conv", ["x", "w"], ["c"]),
        Node("Add", ["c", "w"], ["d"]),
        Node("Sigmoid", ["d"], ["e"]),
        Node("Mul", ["e", "w"], ["y"]),
    ]
    return model(nodes, ["y"], inputs=(("x", [3, 3, 1, 1]),), w=weights(3, 3, 1, 1))


def one_bound_and_computed_weights() -> onnx.ModelProto:
    nodes = [
        Node("Constant", [], ["w0"], value=numpy_helper.from_array(weights(3, 3, 1, 4), "v")),
        Node("Transpose", ["w0"], ["w"], perm=[3, 0, 1, 2]),
        Node("Conv", ["x", "w"], ["c"]),
        Node("Clip", ["c", "", "most"], ["k"]),
        Node("Shape", ["k"], ["s"]),
        Node("Gather", ["s", "first"], ["n"]),
        Node("Concat", ["n", "rest"], ["t"], axis=0),
        Node("Reshape", ["k", "t"], ["f"]),
        Node("MatMul", ["f", "w2"], ["y"]),
    ]
    constants = {"most": np.float32(0.5), "first": np.array([0]), "rest": np.array([-1])}
    return model(nodes, ["y"], w2=weights(96, 5), **constants)


def layer_normalization_between_products() -> onnx.ModelProto:
    nodes = [
        Node("MatMul", ["x", "w"], ["a"]),
        Node("Add", ["a", "b"], ["c"]),
        Node("LayerNormalization", ["c", "s", "b"], ["d"], axis=-1),
        Node("MatMul", ["d", "w2"], ["e"]),
        Node("Softmax", ["e"], ["y"]),
    ]
    constants = {"w": weights(8, 8), "b": weights(8), "s": weights(8), "w2": weights(8, 4)}
    return model(nodes, ["y"], inputs=(("x", [1, 6, 8]),), **constants)


def initializers_among_the_inputs() -> onnx.ModelProto:
    made = model([Node("Conv", ["x", "w", "b"], ["y"])], ["y"], opset=13, w=weights(4, 3, 3, 3), b=weights(4))
    for tensor in made.graph.initializer:
        made.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return made


def branches() -> onnx.ModelProto:
    graphs = {
        f"{name}_branch": helper.make_graph(
            [Node(operator, ["c"], [name])],
            name,
            [],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)],
        )
        for name, operator in (("then", "Relu"), ("else", "Neg"))
    }
    nodes = [
        Node("Conv", ["x", "w"], ["c"]),
        Node("ReduceMax", ["c"], ["m"], keepdims=0),
        Node("Greater", ["m", "limit"], ["p"]),
        Node("If", ["p"], ["d"], **graphs),
        Node("Conv", ["d", "w2"], ["y"]),
    ]
    return model(nodes, ["y"], w=weights(4, 3, 3, 3), w2=weights(2, 4, 1, 1), limit=np.float32(0))


@pytest.mark.parametrize("recipe", [Recipe(), Recipe(activations="int8", method="percentile")])
@pytest.mark.parametrize(
    "build",
    [
        two_inputs_and_outputs,
        names_that_clash,
        weights_that_are_operands_too,
        one_bound_and_computed_weights,
        layer_normalization_between_products,
        initializers_among_the_inputs,
        branches,
    ],
)
def test_the_quantized_model_computes_the_same_but_for_small_errors(
    build: Callable[[], onnx.ModelProto], recipe: Recipe
) -> None:
    data = build().SerializeToString()
    network = read_model(data)
    rng = np.random.default_rng(1)
    feeds = {
        info.name: rng.standard_normal(network.static_shapes[info.name]).astype(np.float32)
        for info in network.inputs
    }

    def prepare(proto: onnx.ModelProto) -> Callable:
        content = proto.SerializeToString()
        return lambda arrays: runtime(content, dict(arrays))

    result = quantize_model(network, [feeds], prepare, recipe)
    expected, got = (runtime(content, feeds) for content in (data, result.proto.SerializeToString()))
    assert expected.keys() == got.keys() == result.outputs.keys()
    for name, error in result.outputs.items():
        difference = np.abs(got[name] - expected[name]).max() / np.abs(expected[name]).max()
        assert 0 < difference < 0.05
        assert difference == pytest.approx(error.relative_maximum, rel=0.5, abs=0.005)
    stored = {tensor.name: tensor.data_type for tensor in result.proto.graph.initializer}
    assert TensorProto.INT8 in stored.values()
    assert {info.name for info in result.proto.graph.input} == feeds.keys()


def test_a_node_that_contradicts_itself_is_refused_by_name() -> None:
    nodes = [
        Node("Conv", ["x", "w"], ["c"]),
        Node("BatchNormalization", ["c", "s", "s", "s", "s"], ["y", "m", "v"], name="norm", training_mode=1),
    ]
    made = model(nodes, ["y"], w=weights(4, 3, 3, 3), s=np.ones(4, np.float32))
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 4, 4]))
    with pytest.raises(ModelError, match=r"'norm'.*is in training mode"):
        quantize_model(
            read_model(made.SerializeToString()),
            [{"x": np.ones(PLANE, np.float32)}],
            lambda proto: proto,
            Recipe(),
        )
