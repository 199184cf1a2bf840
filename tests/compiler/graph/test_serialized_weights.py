"""Weights cut out of a serialized model: with the weights put back, the model equals the one that protobuf reads from
the whole file.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.frontends.onnx.model import serialized_weights
from vdla.compiler.frontends.onnx.model.load import load_model
from vdla.compiler.frontends.onnx.model.serialized_weights import cut_weights
from vdla.compiler.frontends.onnx.model.tensor_arrays import LEAST_BYTES

LARGE, SMALL = LEAST_BYTES + 40, 30


def model(sizes: list[int], location: int | None = None) -> onnx.ModelProto:
    """A model that adds X to each of several int8 initializers of `sizes` bytes; initializer number `location` has the
    field `data_location`.
    """
    random = np.random.default_rng(0)
    tensors = [
        numpy_helper.from_array(random.integers(-128, 128, size, dtype=np.int8), f"w{number}")
        for number, size in enumerate(sizes)
    ]
    if location is not None:
        tensors[location].data_location = TensorProto.DEFAULT
    x = helper.make_tensor_value_info("x", TensorProto.INT8, [1])
    nodes = [helper.make_node("Add", ["x", tensor.name], [f"y{tensor.name}"]) for tensor in tensors]
    outputs = [helper.make_tensor_value_info(node.output[0], TensorProto.INT8, None) for node in nodes]
    return helper.make_model(helper.make_graph(nodes, "g", [x], outputs, tensors), producer_name="test")


def joined(content: bytes) -> onnx.ModelProto:
    """The model after its weights were cut out of `content` and put back."""
    small, weights = cut_weights(content)
    found = onnx.load_model_from_string(small)
    for number, data in weights.items():
        found.graph.initializer[number].raw_data = bytes(data)
    return found


@pytest.mark.parametrize("sizes", [[LARGE], [SMALL, LARGE, SMALL, LARGE], [SMALL], []])
def test_only_large_weights_are_cut(sizes: list[int]) -> None:
    content = model(sizes).SerializeToString()
    small, weights = cut_weights(content)
    assert list(weights) == [number for number, size in enumerate(sizes) if size == LARGE]
    assert len(small) == len(content) if not weights else len(small) < len(content) - LARGE * len(weights)
    assert joined(content) == onnx.load_model_from_string(content)


def test_what_says_where_its_bytes_lie_stays() -> None:
    _, weights = cut_weights(model([LARGE, LARGE], location=0).SerializeToString())
    assert list(weights) == [1]


def test_a_graph_in_two_parts_stays() -> None:
    """A model whose graph is serialized in two parts, which protobuf merges, is not changed: the numbers of
    initializers would differ from those in each part.
    """
    part = model([LARGE]).SerializeToString()
    assert cut_weights(part + part) == (part + part, {})
    assert len(onnx.load_model_from_string(part + part).graph.initializer) == 2


def test_elements_that_do_not_lie_at_their_alignment_are_copied() -> None:
    values = np.arange(LARGE, dtype=np.float32)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [LARGE])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [LARGE])
    for letters in range(1, 5):
        tensor = numpy_helper.from_array(values, "w" * letters)
        node = helper.make_node("Add", ["x", tensor.name], ["y"])
        made = helper.make_model(helper.make_graph([node], "g", [x], [y], [tensor]))
        array = load_model(made.SerializeToString()).arrays()[tensor.name]
        assert array.flags.aligned and not array.flags.writeable
        np.testing.assert_array_equal(array, values)


CONTENT = model([SMALL, LARGE]).SerializeToString()
# The bytes outside of the values of the large initializer, where a change says something to who reads lengths.
PLACES = [*range(100), *range(len(CONTENT) - 100, len(CONTENT))]


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.sampled_from(PLACES), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(0, 60),
)
def test_damaged_files_are_what_protobuf_says_they_are(changes: list[tuple[int, int]], missing: int) -> None:
    damaged = bytearray(CONTENT)
    for place, byte in changes:
        damaged[place] = byte
    content = bytes(damaged[: len(damaged) - missing])
    try:
        expected = onnx.load_model_from_string(content)
    except (DecodeError, ValueError):
        with pytest.raises((DecodeError, ValueError)):
            joined(content)
        return
    assert joined(content) == expected


def test_lengths_of_all_sizes_are_written_as_protobuf_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serialized_weights, "LEAST_BYTES", 0)
    for size in (1, 126, 127, 128, 129, 16383, 16384, 2**21 + 1):
        content = model([size, SMALL]).SerializeToString()
        assert list(cut_weights(content)[1]) == [0, 1]
        assert joined(content) == onnx.load_model_from_string(content)
