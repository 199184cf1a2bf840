"""Integers computed from shapes become constants once the shapes are known."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.frontends.onnx.model.fold_sizes import with_sizes_folded

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model(nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray]) -> onnx.ModelProto:
    """A model with the float32 inputs ``x`` [2, 5] and ``table`` [8, 3] and the float32 output ``y``; shapes are
    inferred.
    """
    graph = helper.make_graph(
        nodes,
        "net",
        [
            helper.make_tensor_value_info("x", FLOAT, [2, 5]),
            helper.make_tensor_value_info("table", FLOAT, [8, 3]),
        ],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made, data_prop=True)


def positions() -> onnx.ModelProto:
    """A model that gathers as many rows of the table as ``x`` has columns. The row numbers are a Slice of a constant,
    whose length ONNX's shape inference does not determine.
    """
    one = np.array([1], np.int64)
    return model(
        [
            helper.make_node("Shape", ["x"], ["shape"], "shape"),
            helper.make_node("Slice", ["shape", "one", "two", "zero"], ["count"], "count"),
            helper.make_node("Slice", ["places", "zero", "count", "one"], ["first"], "first"),
            helper.make_node("Gather", ["table", "first"], ["y"], "rows"),
        ],
        {
            "one": one,
            "two": one + 1,
            "zero": one - 1,
            "places": np.arange(8, dtype=np.int64)[None],
        },
    )


def test_chains_of_sizes_are_constants_and_shapes_behind_them_known() -> None:
    folded = with_sizes_folded(positions())
    assert [node.op_type for node in folded.graph.node] == ["Gather"]
    held = {item.name: numpy_helper.to_array(item) for item in folded.graph.initializer}
    np.testing.assert_array_equal(held["first"], [[0, 1, 2, 3, 4]])
    shape = folded.graph.output[0].type.tensor_type.shape.dim
    assert [size.dim_value for size in shape] == [1, 5, 3]


def test_floats_and_what_depends_on_inputs_stay() -> None:
    kept = model(
        [
            helper.make_node("Shape", ["x"], ["shape"], "shape"),
            helper.make_node("Cast", ["shape"], ["real"], "cast", to=FLOAT),
            helper.make_node("ReduceSum", ["real"], ["sum"], "sum"),
            helper.make_node("Mul", ["x", "sum"], ["y"], "scaled"),
        ],
        {},
    )
    assert [node.op_type for node in with_sizes_folded(kept).graph.node] == ["Cast", "ReduceSum", "Mul"]


def test_models_without_shapes_are_left_alone() -> None:
    plain = model([helper.make_node("Relu", ["x"], ["y"], "relu")], {"unused": np.arange(3)})
    assert with_sizes_folded(plain) is plain
