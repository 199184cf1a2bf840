"""Operators that one reader function imports for both integer and float graphs: the nodes that they become in an
integer graph.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from float_networks import FloatNetwork

from vdla.compiler.frontends.onnx.float_importer import import_float_model
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.host import load_outputs, store_inputs
from vdla.compiler.graph.int8_operators import Int8MaxPool
from vdla.compiler.graph.interpret import interpret

SHAPE = (1, 4, 6, 5)
WHOLE = np.array([1, 4, 6, 5], np.int64)


def between(operator: str, *others: np.ndarray, **attributes: Any) -> Graph:
    """The integer graph of one node whose input and output are quantized with the same scale and zero point; `others`:
    the node's constant inputs.
    """
    net = FloatNetwork(*SHAPE, opset=18)
    grid = [net.constant(np.float32(0.05)), net.constant(np.uint8(100))]
    for name in ("QuantizeLinear", "DequantizeLinear"):
        net.add(name, *grid)
    net.add(operator, *[net.constant(other) for other in others], **attributes)
    for name in ("QuantizeLinear", "DequantizeLinear"):
        net.add(name, *grid)
    model = onnx.load_from_string(net.model())
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return import_model(onnx.shape_inference.infer_shapes(model, data_prop=True).SerializeToString())


@pytest.mark.parametrize(
    ("operator", "others", "attributes"),
    [
        ("Slice", (np.array([0, -9]), WHOLE[1:3], np.array([1, 2])), {}),
        ("Split", (), {"axis": 2, "num_outputs": 1}),
        ("Concat", (), {"axis": 1}),
        ("Expand", (WHOLE,), {}),
        ("Pad", (np.zeros(8, np.int64),), {}),
        ("Gather", (np.arange(6),), {"axis": 2}),
        ("Transpose", (), {"perm": [0, 1, 2, 3]}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_moves_of_everything_to_its_place_add_no_node(
    operator: str, others: tuple[np.ndarray, ...], attributes: dict[str, Any]
) -> None:
    graph = between(operator, *others, **attributes)
    assert graph.nodes == () and graph.outputs[0].view is None and graph.outputs[0].shape == SHAPE


def test_the_greatest_of_an_image_is_a_pool() -> None:
    graph = between("GlobalMaxPool")
    (node,) = graph.nodes
    assert isinstance(node.operator, Int8MaxPool) and node.operator.window.kernel == SHAPE[2:]
    data = np.random.default_rng(0).standard_normal(SHAPE, dtype=np.float32)
    (found,) = load_outputs(graph, interpret(graph, store_inputs(graph, {"x": data}))).values()
    rounded = np.clip(np.rint(data / np.float32(0.05)) + 100, 0, 255) - 100
    np.testing.assert_array_equal(found, (rounded.max((2, 3), keepdims=True) * np.float32(0.05)))


@pytest.mark.parametrize("importer", [import_model, import_float_model])
def test_a_refusal_names_the_operator_of_the_file(importer: Any) -> None:
    """The message names the operator of the file, not the internal Conv that replaces it."""
    net = FloatNetwork(*SHAPE, opset=18)
    grid = [net.constant(np.float32(0.05)), net.constant(np.uint8(100))]
    weights = [
        net.constant(np.ones((4, 4, 3, 3), np.int8)),
        net.constant(np.float32(1)),
        net.constant(np.int8(0)),
    ]
    net.add("QuantizeLinear", *grid)
    net.add("QLinearConv", *grid, *weights, *grid, group=3)
    net.add("DequantizeLinear", *grid)
    model = onnx.load_from_string(net.model())
    model.graph.output[0].type.tensor_type.ClearField("shape")
    with pytest.raises(
        ModelError, match=r"\(QLinearConv\): its weights .* in 3 groups do not match its input"
    ):
        importer(model.SerializeToString())
