"""Nodes whose inputs are all known, computed at import."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from .onnx_context import NodeContext, OnnxNode


def evaluate_node(
    context: NodeContext, node: OnnxNode, feeds: Mapping[str, np.ndarray | None], opset: int
) -> dict[str, np.ndarray]:
    """The outputs of a node by name, by ONNX's reference implementation; ModelError where it cannot tell."""
    if node.op_type == "GatherElements":
        # The reference implementation has only some of the shapes that ONNX allows.
        return {node.outputs[0]: _gather_elements(context, node, feeds)}
    names = [name for name in node.inputs if name]
    info = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UNDEFINED, None)
        for name in dict.fromkeys(names)
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.outputs if name]
    graph = onnx.helper.make_graph([node.proto], "constant", info, outputs)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    try:
        results = ReferenceEvaluator(model).run(None, dict(feeds))
    except Exception as error:
        # The evaluator runs any operator of the standard and raises whatever its numpy code does.
        context.fail(
            node, f"its constant result cannot be computed: {error}", "fold it when exporting the model"
        )
    values = results if isinstance(results, list) else [results]
    return {output.name: np.asarray(value) for output, value in zip(outputs, values, strict=True)}


def _gather_elements(
    context: NodeContext, node: OnnxNode, feeds: Mapping[str, np.ndarray | None]
) -> np.ndarray:
    """Of data, along `axis`, the element at each index; elsewhere an element's position is the index's own.

    Indices may be shorter than data in every dimension, negative ones count from the end.
    """
    data, indices = (feeds.get(name) for name in node.inputs[:2])
    if data is None or indices is None:
        context.fail(node, "has no data and indices", "export the model again")
    axis = node.integer("axis", 0)
    shapes = f"{data.shape} and {indices.shape}"
    if data.ndim != indices.ndim or not -data.ndim <= axis < data.ndim:
        context.fail(node, f"gathers along axis {axis} of shapes {shapes}", "export the model again")
    axis %= data.ndim
    if any(i > d for k, (i, d) in enumerate(zip(indices.shape, data.shape, strict=True)) if k != axis):
        context.fail(node, f"has indices longer than its data ({shapes})", "export the model again")
    size = data.shape[axis]
    if indices.size and not (indices.min() >= -size and indices.max() < size):
        context.fail(node, f"has indices outside of an axis of {size}", "export the model again")
    within = tuple(slice(None) if k == axis else slice(length) for k, length in enumerate(indices.shape))
    return np.take_along_axis(data[within], indices.astype(np.int64) % max(size, 1), axis)
