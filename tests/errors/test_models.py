"""Models that cannot run: one line with file, node and advice; no files are written."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.codesign.models import build


def refused(vdla, folder: Path, model: bytes, *options: str) -> str:
    path, out, trace, dumps = (folder / name for name in ("net.onnx", "out.npz", "trace", "passes"))
    path.write_bytes(model)
    before = set(folder.rglob("*"))
    outcome = vdla(
        "run", path, "--outputs", out, "--timeline", trace, "--dump-passes", dumps, "--json", *options
    )
    message = outcome.message()
    assert set(folder.rglob("*")) == before
    assert str(path) in message
    return message


def quantized(nodes: list[onnx.NodeProto], shape: list[int | str], out_shape: list[int]) -> bytes:
    """The bytes of a model in which `nodes` compute `y` from `x`; input and output are quantized and dequantized."""
    scale = numpy_helper.from_array(np.float32(0.1), "scale")
    zero = numpy_helper.from_array(np.uint8(128), "zero")
    parameters = ["scale", "zero"]
    body = [
        helper.make_node("QuantizeLinear", ["input", *parameters], ["xq"], "quantize_in"),
        helper.make_node("DequantizeLinear", ["xq", *parameters], ["x"], "dequantize_in"),
        *nodes,
        helper.make_node("QuantizeLinear", ["y", *parameters], ["yq"], "quantize_out"),
        helper.make_node("DequantizeLinear", ["yq", *parameters], ["output"], "dequantize_out"),
    ]
    graph = helper.make_graph(
        body,
        "net",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, out_shape)],
        [scale, zero],
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


SHAPE = [1, 3, 8, 8]


def test_unsupported_operator_names_the_node(vdla, tmp_path: Path) -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], "attention")
    message = refused(vdla, tmp_path, quantized([node], [*SHAPE], SHAPE))
    assert "'attention'" in message and "Softmax" in message


def test_dynamic_shape_names_input_and_dimension(vdla, tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"], "relu")
    message = refused(vdla, tmp_path, quantized([node], ["batch", 3, 8, 8], SHAPE))
    assert "'input'" in message and "batch" in message


def test_float_model_is_told_to_be_quantized(vdla, tmp_path: Path) -> None:
    message = refused(vdla, tmp_path, build("mlp", "float").SerializeToString())
    assert "quantize" in message


def test_what_no_target_takes_is_not_told_to_take_another_form(vdla, tmp_path: Path) -> None:
    model = build("mlp", "float")
    del model.graph.output[:]
    message = refused(vdla, tmp_path, model.SerializeToString())
    assert message.strip().endswith("export the model with its outputs")
    for node in model.graph.node:
        node.name = "same"
    model.graph.output.append(
        helper.make_tensor_value_info(model.graph.node[-1].output[0], TensorProto.FLOAT, None)
    )
    message = refused(vdla, tmp_path, model.SerializeToString())
    assert message.strip().endswith("give each node a unique name, or no name")


def test_nothing_to_compute(vdla, tmp_path: Path) -> None:
    model = onnx.load_from_string(quantized([helper.make_node("Identity", ["x"], ["y"])], SHAPE, SHAPE))
    message = refused(vdla, tmp_path, model.SerializeToString())
    assert "contains nothing for the accelerator; run it with `vdla run --device cpu`" in message
    assert vdla("run", tmp_path / "net.onnx", "--device", "cpu").code == 0


@pytest.mark.parametrize("content", [b"", b"not a model at all", b"\x08\x01\xff\xff\xff"])
def test_bytes_that_are_no_model(vdla, tmp_path: Path, content: bytes) -> None:
    refused(vdla, tmp_path, content)


def test_truncated_model(vdla, tmp_path: Path) -> None:
    content = build("mlp").SerializeToString()
    refused(vdla, tmp_path, content[: len(content) // 2])


def test_missing_model(vdla, tmp_path: Path) -> None:
    message = vdla("run", tmp_path / "nothing.onnx", "--json").message()
    assert "nothing.onnx" in message


def test_model_that_no_buffer_can_hold_names_the_node(vdla, tmp_path: Path) -> None:
    config = tmp_path / "small.toml"
    config.write_text("acc_buffer_bytes = 128\nacc_banks = 1\nname = 'small'\n", encoding="utf-8")
    message = refused(vdla, tmp_path, build("small_cnn").SerializeToString(), "--config", str(config))
    assert "node" in message and "small" in message


def test_configuration_without_post_is_told_what_to_add(vdla, tmp_path: Path) -> None:
    config = tmp_path / "bare.toml"
    config.write_text("extensions = []\nname = 'bare'\n", encoding="utf-8")
    message = refused(vdla, tmp_path, build("mlp").SerializeToString(), "--config", str(config))
    assert "'post'" in message and "extensions" in message


def test_unknown_target(vdla, tmp_path: Path) -> None:
    outcome = vdla("run", tmp_path / "net.onnx", "--target", "tpu")
    assert outcome.code == 2 and outcome.out == "" and "tpu" in outcome.err


def test_unknown_shipped_model(vdla, tmp_path: Path) -> None:
    message = vdla("models", "resnet19", "-o", tmp_path / "net.onnx").message()
    assert "resnet19" in message and "resnet18" in message
    assert list(tmp_path.iterdir()) == []
