"""Strings in a model file that are not UTF-8: one line that names file and field, for every field."""

from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import TensorProto, helper

from vdla.codesign.models import build
from vdla.compiler.frontends.onnx.model.read import read_model
from vdla.compiler.graph.errors import ModelError

GOOD, BAD = b"Text", b"T\xff\x1bt"


def filled(message: Message, depth: int) -> Message:
    """The protobuf message `message` with every string field set, also in nested messages down to `depth`."""
    for field in message.DESCRIPTOR.fields:
        repeated = not field.has_presence
        if field.containing_oneof and message.WhichOneof(field.containing_oneof.name):
            continue
        if field.type == FieldDescriptor.TYPE_STRING:
            if repeated:
                getattr(message, field.name).append(GOOD.decode())
            else:
                setattr(message, field.name, GOOD.decode())
        elif field.type == FieldDescriptor.TYPE_MESSAGE and depth:
            value = getattr(message, field.name)
            filled(value.add() if repeated else value, depth - 1)
    return message


def damaged() -> Iterator[tuple[int, bytes]]:
    """Yields (position, bytes of a model file) with one string damaged: each string field of model, graph, node,
    attribute, tensor and type once.
    """
    data = filled(onnx.ModelProto(), 6).SerializeToString()
    at = data.find(GOOD)
    while at >= 0:
        yield at, data[:at] + BAD + data[at + len(GOOD) :]
        at = data.find(GOOD, at + 1)


def test_every_text_of_a_file_is_looked_at() -> None:
    seen = set()
    for _, data in damaged():
        with pytest.raises(ModelError, match="is not UTF-8 text") as caught:
            read_model(data)
        seen.add(str(caught.value).split(" is b'")[0].split(".")[-1])
    expected = {
        "op_type",
        "domain",
        "name",
        "doc_string",
        "dim_param",
        "denotation",
        "key",
        "value",
        "input[0]",
    }
    assert expected | {"model: producer_name", "tensor_name", "ref_attr_name"} <= seen


def convolution() -> bytes:
    """The bytes of a model of one convolution with string fields of all kinds."""
    node = helper.make_node("Conv", ["x", "w"], ["y"], "node_text", auto_pad="SAME_UPPER")
    weight = helper.make_tensor("w", TensorProto.FLOAT, (1, 1, 3, 3), [0.5] * 9)
    graph = helper.make_graph(
        [node],
        "graph_text",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 1, "height", 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 1, "rows", "columns"))],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (b"Conv", "graph.node[0].op_type"),
        (b"height", "graph.input[0].type.tensor_type.shape.dim[2].dim_param"),
    ],
)
@pytest.mark.parametrize(
    "command",
    [
        ("run",),
        ("run", "--device", "cpu"),
        ("run", "--device", "cuda:emulated"),
        ("run", "--target", "vdla,llvm"),
        ("run", "--device", "cpu", "--dim", "height=4"),
        ("compile", "--target", "llvm", "-o", "OUT"),
        ("compile", "--target", "cuda -arch=sm_90", "-o", "OUT"),
        ("quantize", "--calibration", "IN", "-o", "OUT"),
        ("tune", "--trials", "1", "--strategy", "random", "-o", "OUT"),
    ],
    ids=" ".join,
)
def test_a_line_names_file_and_field(vdla, tmp_path: Path, command, text: bytes, field: str) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(convolution().replace(text, b"\xff" + text[1:]))
    name, *options = (tmp_path / item if item in ("IN", "OUT") else item for item in command)
    message = vdla(name, path, *options).message()
    assert f"{path}: {field} is b'\\xff" in message


def test_an_attribute_is_told_as_it_is(vdla, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    data = convolution().replace(b"SAME_UPPER", b"SAME_UPPE\xff").replace(b"height", b"hei\nht")
    path.write_bytes(data)
    message = vdla("run", path, "--device", "cpu", "--dim", "hei\nht=4").message()
    assert f"{path}: node 'node_text' (Conv): its auto_pad 'SAME_UPPE\\xff' is unknown" in message


def test_names_of_external_data_are_texts(vdla, tmp_path: Path) -> None:
    model = build("mlp")
    tensor = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data))
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights")
    path = tmp_path / "net.onnx"
    for text in (b"location", b"weights"):
        path.write_bytes(model.SerializeToString().replace(text, b"\xff" + text[1:]))
        assert ".external_data[0]." in vdla("run", path, "--device", "cpu").message()
