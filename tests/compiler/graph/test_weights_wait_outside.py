"""Shape inference on a model without its large weights: the same shapes, unchanged weights, and the same errors."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.frontends.onnx.model import load
from vdla.compiler.frontends.onnx.model.load import load_model, static_shapes
from vdla.compiler.frontends.onnx.model.tensor_arrays import LEAST_BYTES
from vdla.compiler.graph.errors import ModelError

W = np.random.default_rng(0).standard_normal((64, 300), dtype=np.float32)
SHAPE = np.array([5, 60], np.int64)


def model(inner: int = 64) -> onnx.ModelProto:
    """A model of Y = reshape(X @ W, SHAPE). W is large enough to be taken out of the model; SHAPE is not."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Reshape", ["product", "shape"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "weights",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, inner])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", "columns"])],
        [numpy_helper.from_array(W, "w"), numpy_helper.from_array(SHAPE, "shape")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_shapes_and_weights_are_there() -> None:
    assert W.nbytes > LEAST_BYTES
    loaded = load_model(model().SerializeToString()).whole()
    assert static_shapes(loaded) == {"product": (1, 300), "y": (5, 60)}
    for tensor, array in zip(loaded.graph.initializer, (W, SHAPE), strict=True):
        np.testing.assert_array_equal(numpy_helper.to_array(tensor), array)


def test_where_inference_misses_values_it_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "LEAST_BYTES", 0)
    loaded = load_model(model().SerializeToString()).whole()
    assert static_shapes(loaded) == {"product": (1, 300), "y": (5, 60)}
    np.testing.assert_array_equal(numpy_helper.to_array(loaded.graph.initializer[1]), SHAPE)


def test_contradictions_are_told() -> None:
    with pytest.raises(ModelError, match=r"its shapes or types contradict each other: .*MatMul"):
        load_model(model(inner=63).SerializeToString())
