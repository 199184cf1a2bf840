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
