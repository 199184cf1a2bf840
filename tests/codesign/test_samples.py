"""Seeded sample inputs: ids are valid rows of their embedding tables, masks are 0 and 1, also on the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.codesign.samples import index_limits, sample_port
from vdla.compiler.runtime.executable import Port


@pytest.fixture
def looked_up(tmp_path: Path) -> Path:
    """Path of a model with ids of words (50 rows), ids of types (2 rows, int32, through views), a mask, and an
    embedding table stored as scaled integers.
    """
    rng = np.random.default_rng(0)
    constants = {
        "words": rng.integers(-127, 128, (50, 4)).astype(np.int8),
        "scale": np.float32(0.1),
        "types": rng.normal(0, 1, (4, 2)).astype(np.float32),
        "first": np.array([-1]),
    }
    nodes = [
        helper.make_node("Cast", ["words"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "scale"], ["w"]),
        helper.make_node("Gather", ["w", "ids"], ["a"]),
        helper.make_node("Cast", ["kinds"], ["k"], to=TensorProto.INT64),
        helper.make_node("Reshape", ["k", "first"], ["flat"]),
        helper.make_node("Gather", ["types", "flat"], ["t"], axis=1),
        helper.make_node("Transpose", ["t"], ["b"], perm=[1, 0]),
        helper.make_node("Cast", ["mask"], ["m"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["m", "first"], ["c"]),
        helper.make_node("Add", ["a", "b"], ["ab"]),
        helper.make_node("Mul", ["ab", "c"], ["y"]),
    ]
    kinds = {"ids": TensorProto.INT64, "kinds": TensorProto.INT32, "mask": TensorProto.INT64}
    graph = helper.make_graph(
        nodes,
        "looked_up",
        [helper.make_tensor_value_info(name, kind, (30,)) for name, kind in kinds.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (30, 4))],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    path = tmp_path / "looked_up.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return path


def test_limits_are_the_sizes_of_the_axes_looked_up(looked_up: Path):
    assert index_limits(looked_up) == {"ids": 50, "kinds": 2}


def test_values_are_below_the_limits():
    generator = np.random.default_rng(1)
    port = Port(name="ids", dtype=np.dtype(np.int64), shape=(1000,))
    assert set(sample_port(generator, port, {"ids": 5})) == set(range(5))
    assert set(sample_port(generator, port, {"others": 5})) == {0, 1}


@pytest.mark.parametrize("target", ["llvm", "vdla,llvm"])
def test_a_model_with_ids_runs_without_inputs_given(vdla, looked_up: Path, target: str):
    done = vdla("run", looked_up, "--target", target)
    assert done.code == 0, done.err
