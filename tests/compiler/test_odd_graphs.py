"""Small float graphs of unusual shapes and constants on a CPU, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from float_networks import relative
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import vdla
from vdla.compiler.backends.divided import DividedExecutable


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


NODES = {
    "3-D convolution": (["Conv x w b -> y"], {"x": (1, 2, 3, 3, 3)}, {"w": floats(4, 2, 2, 2, 2), "b": floats(4)}),
    "weights of run time": (["Conv x w b -> y"], {"x": (1, 2, 5, 5), "w": (3, 2, 3, 3)}, {"b": floats(3)}),
    "1-D, weights of run time": (["Conv x w b -> y"], {"x": (1, 2, 5), "w": (3, 2, 3)}, {"b": floats(3)}),
    "transposed, 3-D": (
        ["ConvTranspose x w b -> y"],
        {"x": (1, 2, 3, 3, 3)},
        {"w": floats(2, 3, 2, 2, 2), "b": floats(3)},
    ),
    "transposed, weights of run time": (
        ["ConvTranspose x w b -> y"],
        {"x": (1, 2, 3, 3), "w": (2, 3, 2, 2)},
        {"b": floats(3)},
    ),
    "nothing transposed": (
        ["ConvTranspose x w b -> y"],
        {"x": (0, 2, 3, 3)},
        {"w": floats(2, 3, 2, 2), "b": floats(3)},
    ),
    "nothing convolved": (["Conv x w b -> y"], {"x": (0, 2, 3, 3, 3)}, {"w": floats(2, 2, 2, 2, 2), "b": floats(2)}),
    "a number and a tensor, cut": (
        ["Add s x -> a", "Slice a begin end axis -> y"],
        {"s": (), "x": (2, 8, 2, 12)},
        {"begin": integers(8), "end": integers(12), "axis": integers(3)},
    ),
    "a row and a tensor, cut": (
        ["Add s x -> a", "Slice a begin end axis -> y"],
        {"s": (1, 1, 16), "x": (1, 4, 16)},
        {"begin": integers(1), "end": integers(3), "axis": integers(1)},
    ),
    "a function, cut on a cache line": (
        ["Relu x -> r", "Mul r r -> a", "Slice a begin end axis -> y"],
        {"x": (4, 16)},
        {"begin": integers(1), "end": integers(3), "axis": integers(0)},
    ),
    "1-D, joined and added": (
        ["Relu x -> r", "Concat r c -> j", "Add j k -> y"],
        {"x": (5,)},
        {"c": floats(2), "k": floats(1)},
    ),
    "2-D, joined and added": (
        ["Relu x -> r", "Concat r c -> j", "Add j k -> y"],
        {"x": (5, 2)},
        {"c": floats(2, 2), "k": floats(2)},
    ),
}  # fmt: skip
"""Cases by name: nodes as texts "OPERATOR INPUTS -> OUTPUTS", shapes of the inputs, and constants."""


@pytest.mark.parametrize("name", NODES)
def test_outputs_equal_onnx_runtimes(name: str) -> None:
    texts, inputs, constants = NODES[name]
    nodes = []
    for text in texts:
        left, output = text.split(" -> ")
        operator, *names = left.split()
        nodes.append(
            helper.make_node(operator, names, [output], **({"axis": 0} if operator == "Concat" else {}))
        )
    proto = helper.make_model(
        helper.make_graph(
            nodes,
            "odd",
            [helper.make_tensor_value_info(key, TensorProto.FLOAT, shape) for key, shape in inputs.items()],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(array, key) for key, array in constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    model = onnx.shape_inference.infer_shapes(proto).SerializeToString()
    feeds = {key: floats(*shape) for key, shape in inputs.items()}
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, feeds)
    with vdla.compile(model, "llvm") as network:
        assert relative(network.run(feeds)["y"], np.asarray(expected)) < 1e-5


@pytest.mark.parametrize("target", ["llvm", "vdla,llvm", "cuda"])
def test_an_output_that_is_named_twice(target: str, tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["y"], ["z"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (2, 3)) for name in ("x", "y", "z", "y")]
    graph = helper.make_graph(nodes, "twice", ends[:1], ends[1:])
    path, x = tmp_path / "twice.onnx", floats(2, 3)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    with vdla.compile(path, target, device="emulated" if target == "cuda" else None) as network:
        outputs = network.run({"x": x})
    assert list(outputs) == ["y", "z"]
    np.testing.assert_array_equal(outputs["y"], np.maximum(x, 0))
    np.testing.assert_array_equal(outputs["z"], -np.maximum(x, 0))


@pytest.mark.parametrize("opset", [9, 11, 17])
def test_nodes_in_any_order(opset: int) -> None:
    """A model may list nodes before the nodes whose results they read, as ONNX Runtime's quantizer does, also results
    that only a subgraph reads. Softmax has another meaning in older opsets: these models are converted in the right
    order.
    """
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node(operator, ["b"], [name])],
            name,
            [],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, (2, 3, 4))],
        )
        for name, operator in (("then", "Neg"), ("else", "Abs"))
    }
    nodes = [
        helper.make_node(
            "If", ["choice"], ["c"], then_branch=branches["then_branch"], else_branch=branches["else_branch"]
        ),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Neg", ["x"], ["a"]),
        helper.make_node("Softmax", ["c"], ["y"], axis=1),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (2, 3, 4)) for name in ("x", "y")]
    choice = numpy_helper.from_array(np.array(True), "choice")
    graph = helper.make_graph(nodes, "any_order", ends[:1], ends[1:], [choice])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=4)
    model, x = proto.SerializeToString(), floats(2, 3, 4)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x})
    with vdla.compile(model, "llvm") as network:
        assert relative(network.run({"x": x})["y"], np.asarray(expected)) < 1e-5


def test_one_filter_at_one_position_reads_a_padded_image():
    """A convolution with one filter and one output position per image is right. Its vectors go along the batch and read
    a padded copy of the images. This copy cannot be packed, because it is not a parameter of the program.
    """
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((1, 4, 2, 2)).astype(np.float32)
    node = helper.make_node(
        "Conv", ["x", "w"], ["y"], dilations=[1, 2], kernel_shape=[2, 2], pads=[0, 1, 0, 0], strides=[2, 3]
    )
    graph = helper.make_graph(
        [node],
        "conv",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4, 3, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 1, 1, 1])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    x = rng.standard_normal((2, 4, 3, 3)).astype(np.float32)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(vdla.compile(model, "llvm").run({"x": x})["y"], expected, rtol=1e-5)


def with_branches(condition: bool | None) -> bytes:
    """A quantized model: a convolution, then an If with Relu or LeakyRelu by the constant `condition`, then a
    convolution. With None, the model has the Relu itself, without an If.
    """
    rng = np.random.default_rng(0)
    arrays = {"s": np.float32(0.05), "z": np.int8(0), "condition": np.array(bool(condition))}
    arrays["w"] = rng.integers(-127, 128, (8, 3, 3, 3)).astype(np.int8)
    arrays["v"] = rng.integers(-127, 128, (4, 8, 1, 1)).astype(np.int8)

    def rounded(name: str, result: str) -> list[onnx.NodeProto]:
        return [
            helper.make_node("QuantizeLinear", [name, "s", "z"], [f"{name}_q"]),
            helper.make_node("DequantizeLinear", [f"{name}_q", "s", "z"], [result]),
        ]

    def branch(name: str, operator: str) -> onnx.GraphProto:
        nodes = [helper.make_node(operator, ["a"], [f"{name}_r"]), *rounded(f"{name}_r", name)]
        return helper.make_graph(
            nodes, name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)]
        )

    branches = {"then_branch": branch("b", "Relu"), "else_branch": branch("c", "LeakyRelu")}
    chosen = (
        list(branches["then_branch"].node)
        if condition is None
        else [
            helper.make_node(
                "If",
                ["condition"],
                ["b"],
                then_branch=branches["then_branch"],
                else_branch=branches["else_branch"],
            )
        ]
    )
    nodes = [
        *rounded("x", "xd"),
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wd"]),
        helper.make_node("Conv", ["xd", "wd"], ["conv"]),
        *rounded("conv", "a"),
        *chosen,
        helper.make_node("DequantizeLinear", ["v", "s", "z"], ["vd"]),
        helper.make_node("Conv", ["b", "vd"], ["sum"]),
        *rounded("sum", "y"),
    ]
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 8, 8)),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
    ]
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "branches", ends[:1], ends[1:], constants)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()


@pytest.mark.parametrize("target", ["vdla", "vdla,llvm"])
def test_the_accelerator_runs_the_chosen_branch_of_an_if(target: str) -> None:
    """A branch of a quantized model that a constant selects is resolved at import: the same kernels as without an If,
    all of them on the accelerator. The other branch gives other results, equal to the results of a processor.
    """
    inputs = {"x": floats(1, 3, 8, 8)}
    plain = vdla.compile(with_branches(None), "vdla", "tiny")
    chosen = vdla.compile(with_branches(True), target, "tiny")
    np.testing.assert_array_equal(chosen.run(inputs)["y"], plain.run(inputs)["y"])
    if target == "vdla":
        assert vdla.simulate(chosen).cycles == vdla.simulate(plain).cycles
    else:
        assert isinstance(chosen, DividedExecutable)
        assert [region.accelerated for region in chosen.division.network.regions] == [True]
    machine = vdla.config("tiny", extensions=(*vdla.config("tiny").extensions, "table"))
    other = vdla.compile(with_branches(False), target, machine).run(inputs)["y"]
    with vdla.compile(with_branches(False), "llvm") as reference:
        np.testing.assert_array_equal(other, reference.run(inputs)["y"])
    assert (other != plain.run(inputs)["y"]).any()
