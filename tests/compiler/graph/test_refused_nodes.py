"""Errors about nodes that cannot be compiled. One error names all of these nodes, each with advice that works. Other
tests check the messages about unusual files and about NaN.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from float_networks import FloatNetwork
from onnx import TensorProto, helper

import vdla
from vdla.codesign.network_run import advice_on_errors
from vdla.compiler.frontends.onnx.float_importer import import_float_model
from vdla.compiler.frontends.onnx.integer_importer import SUPPORTED, import_model
from vdla.compiler.graph.errors import MOST_LISTED, NodeError, NodesError
from vdla.compiler.pipeline import compile_program
from vdla.isa.config import load_config
from vdla.util.errors import UserError
from vdla.util.git_lfs import POINTER

TINY = load_config("tiny")


def pair(net: FloatNetwork, scale: float = 0.05) -> None:
    grid = [net.constant(np.float32(scale)), net.constant(np.uint8(128))]
    for name in ("QuantizeLinear", "DequantizeLinear"):
        net.add(name, *grid)


def convolution(net: FloatNetwork) -> None:
    data = net.last
    integers = net.constant(net.rng.integers(-127, 128, (4, 4, 1, 1)).astype(np.int8))
    net.add("DequantizeLinear", inputs=[integers, net.constant(np.float32(0.01)), net.constant(np.int8(0))])
    net.add("Conv", inputs=[data, net.last])


def network(*functions: tuple[str, dict[str, Any]], rounded: bool = True) -> FloatNetwork:
    """A network of quantized convolutions, each followed by one of `functions` (operator, attributes). `rounded`: the
    convolution's result is quantized before the function reads it.
    """
    net = FloatNetwork(1, 4, 5, 5)
    pair(net)
    for operator, attributes in functions:
        convolution(net)
        if rounded:
            pair(net)
        net.add(operator, **attributes)
        pair(net)
    return net


def test_all_refused_nodes_are_told_at_once() -> None:
    net = network(*[("LRN", {"size": 3})] * 12, ("Relu", {}), ("Bernoulli", {}))
    with pytest.raises(NodesError) as refused:
        import_model(net.model())
    names = [node.name for node in net.nodes if node.op_type in ("LRN", "Bernoulli")]
    assert [part.node for part in refused.value.parts] == names
    first, *lines = refused.value.lines
    assert first == "model: 13 nodes are not supported, of which the first 10 are:"
    assert len(lines) == MOST_LISTED and "only processors and GPUs compute this operator" in lines[0]
    assert f"supported are {SUPPORTED}" in str(refused.value.parts[-1])
    assert [line.split(": ")[0] for line in lines] == [f"  node '{name}' (LRN)" for name in names[:10]]


def test_float_networks_tell_all_as_well() -> None:
    net = FloatNetwork(2, 3, 3)
    for operator in ("Relu", "Det", "Relu", "Bernoulli"):
        net.add(operator)
    net.shape = (2,)
    with pytest.raises(NodesError) as refused:
        import_float_model(net.model())
    assert [part.op_type for part in refused.value.parts] == ["Det", "RandomUniformLike"]


def test_what_follows_from_a_refusal_is_not_told() -> None:
    net = network(("LRN", {"size": 3}), rounded=False)
    net.nodes = net.nodes[:-2]
    net.last = net.nodes[-1].output[0]
    net.add("Relu")
    pair(net)
    with pytest.raises(NodeError) as refused:
        import_model(net.model())
    assert not isinstance(refused.value, NodesError) and refused.value.op_type == "LRN"


@pytest.mark.parametrize(
    ("operator", "attributes"), [("LeakyRelu", {"alpha": 0.1}), ("Sigmoid", {}), ("HardSwish", {})]
)
def test_functions_run_behind_a_pair_as_their_refusal_says(operator: str, attributes: dict[str, Any]) -> None:
    config = vdla.config("vta")
    with pytest.raises(
        NodeError, match=r"no QuantizeLinear follows .*; put a QuantizeLinear/DequantizeLinear pair"
    ):
        compile_program(network((operator, attributes), rounded=False).model(), config)
    compile_program(network((operator, attributes)).model(), config)


def test_division_is_advised_where_processors_take_the_network(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    for operator, advised in (("LRN", True), ("Bernoulli", False)):
        net = network((operator, {"size": 3} if advised else {}))
        path.write_bytes(net.model())
        with pytest.raises(UserError) as refused, advice_on_errors(path):
            compile_program(path, TINY)
        assert ("--target vdla,llvm" in str(refused.value)) == advised
        assert len(refused.value.lines) == 1


def test_a_qonnx_file_is_quantized_already(tmp_path: Path) -> None:
    domain = "qonnx.custom_op.general"
    graph = helper.make_graph(
        [
            helper.make_node("BipolarQuant", ["x", "s"], ["q"], "the node", domain=domain),
            helper.make_node("Relu", ["q"], ["y"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor("s", TensorProto.FLOAT, [], [0.5])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    words = (
        r"'the node' \(BipolarQuant\): is an operator of QONNX, so the model is quantized already; convert it"
    )
    with pytest.raises(UserError, match=words) as refused, advice_on_errors(path):
        compile_program(path, TINY)
    assert "vdla quantize" not in str(refused.value) and "vdla,llvm" not in str(refused.value)
    with pytest.raises(NodeError, match=words):
        vdla.compile(path, target="llvm")
    with pytest.raises(NodeError, match=words):
        vdla.quantize(path, {"x": np.zeros((3, 4), np.float32)})


def test_a_pointer_of_git_lfs_is_told(tmp_path: Path) -> None:
    pointer = (
        POINTER + b"\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 99\n"
    )
    path, data = tmp_path / "net.onnx", tmp_path / "weights.bin"
    path.write_bytes(pointer)
    with pytest.raises(UserError, match=r"net.onnx: is a pointer of Git LFS, not the model itself; fetch"):
        vdla.compile(path, target="llvm")
    net = FloatNetwork(1, 40)
    net.add("MatMul", net.weights(40, 40))
    onnx.save(
        onnx.load_from_string(net.model()),
        path,
        save_as_external_data=True,
        location=data.name,
        size_threshold=0,
    )
    data.write_bytes(pointer)
    with pytest.raises(UserError, match=r"weights.bin is a pointer of Git LFS, not the file itself; fetch"):
        vdla.compile(path, target="llvm")


def test_nan_from_inside_is_not_the_inputs_fault() -> None:
    net = FloatNetwork(1, 4, 5, 5)
    pair(net)
    convolution(net)
    pair(net)
    net.add("Sqrt")
    root = net.nodes[-1].name
    # What the accelerator cannot take, so that the root is on the CPU.
    net.add("LRN", size=3)
    pair(net)
    convolution(net)
    pair(net)
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 4, 5, 5), dtype=np.float32)}
    with vdla.compile(net.model(), target="vdla,llvm", config="tiny") as divided:
        with pytest.raises(
            UserError, match=rf"contains NaN, .* although the inputs contain none: .* among {root}"
        ):
            divided.run(feeds)
        feeds["x"][0, 0, 0, 0] = np.nan
        with pytest.raises(UserError, match="clean the input data first"):
            divided.run(feeds)
