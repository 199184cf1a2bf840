"""A model that is read once and then specialized to many sizes: each result equals reading the model anew for that
size.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.frontends.onnx.model.load import load_model
from vdla.compiler.frontends.onnx.model.read import model_label, read_model
from vdla.compiler.frontends.onnx.model.sizes import sized_models, with_dimensions
from vdla.compiler.frontends.onnx.model.tensor_arrays import LEAST_BYTES
from vdla.compiler.graph.errors import ModelError

WEIGHT = np.random.default_rng(3).standard_normal((LEAST_BYTES // 64, 32)).astype(np.float32)


@pytest.fixture
def model() -> onnx.ModelProto:
    """A model of a matrix product with a symbolic number of rows, whose weights are large enough to be stored
    separately.
    """
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        "sized",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", WEIGHT.shape[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 32])],
        [numpy_helper.from_array(WEIGHT, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_each_size_is_as_if_read_for_it_alone(model: onnx.ModelProto) -> None:
    data = model.SerializeToString()
    sized = sized_models(data)
    found = {size: sized({"n": size}) for size in (3, 500, 1)}
    for size, one in found.items():
        assert len(one.bare) < LEAST_BYTES
        for _ in range(2):  # It is not used up.
            read = load_model(one)
            assert read.label == "model"
            loaded = read.whole()
            assert loaded == load_model(with_dimensions(data, {"n": size})).whole()
            assert numpy_helper.to_array(loaded.graph.initializer[0]).tobytes() == WEIGHT.tobytes()


def test_external_data_are_read_once(model: onnx.ModelProto, tmp_path: Path) -> None:
    path = tmp_path / "sized.onnx"
    onnx.save_model(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    sized = sized_models(path)
    (tmp_path / "weights.bin").unlink()
    one = sized({"n": 4})
    assert model_label(one) == str(path)
    whole = read_model(one).whole()
    assert numpy_helper.to_array(whole.graph.initializer[0]).tobytes() == WEIGHT.tobytes()


@pytest.mark.parametrize(
    ("sizes", "words"), [({"m": 3}, "has no symbolic dimension 'm'"), ({"n": 0}, "cannot be 0")]
)
def test_mistakes_leave_the_model_as_it_was(model: onnx.ModelProto, sizes: dict, words: str) -> None:
    sized = sized_models(model.SerializeToString())
    with pytest.raises(ModelError, match=words):
        sized(sizes)
    assert load_model(sized({"n": 2})).bare.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2
