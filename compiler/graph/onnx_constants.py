"""Nodes whose inputs are all known, computed at import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx

from .budgets import item_bytes, too_large_constant
from .errors import NodeErrors
from .model_rewrites import means_standard, standard_node
from .onnx_context import OnnxNode

LOOPED = frozenset(
    (
        "AveragePool", "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "GRU", "GridSample", "LRN",
        "LSTM", "LpPool", "MaxPool", "MaxRoiPool", "MaxUnpool", "NonMaxSuppression", "QLinearConv", "RNN",
        "Resize", "RoiAlign", "Upsample",
    )
)  # fmt: skip
"""Operators that the reference implementation computes in loops of Python."""
SHAPE_ELEMENTS = 1024
"""An array of no more may decide the shape of a result."""
_OUTSIDE = "fold it when exporting the model"


def evaluate_node(
    context: NodeErrors, node: OnnxNode, feeds: Mapping[str, np.ndarray | None], opset: int
) -> dict[str, np.ndarray]:
    """The outputs of a node by name, by ONNX's reference implementation; ModelError where it cannot tell."""
    if node.op_type == "GatherElements":
        # The reference implementation has only some of the shapes that ONNX allows.
        return {node.outputs[0]: _gather_elements(context, node, feeds)}
    if any(entry.HasField("g") or entry.graphs for entry in node.proto.attribute):
        # What a loop's body takes, in time and memory, nobody knows before it runs.
        context.fail(node, "depends on constants only, but holds a graph of its own", _OUTSIDE)
    if node.domain and means_standard(node.domain, node.op_type):
        node = replace(node, domain="", proto=standard_node(node.proto))
    _check_size(context, node, feeds, opset)
    # All of ONNX's operators, which few models need: 50 ms of imports.
    from onnx.reference import ReferenceEvaluator

    info = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UNDEFINED, None)
        for name in dict.fromkeys(name for name in node.inputs if name)
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.outputs if name]
    graph = onnx.helper.make_graph([node.proto], "constant", info, outputs)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    try:
        results = ReferenceEvaluator(model).run(None, dict(feeds))
    except Exception as error:
        # The evaluator runs any operator of the standard and raises whatever its numpy code does.
        context.fail(node, f"its constant result cannot be computed: {error}", _OUTSIDE)
    values = results if isinstance(results, list) else [results]
    return {output.name: np.asarray(value) for output, value in zip(outputs, values, strict=True)}


def _check_size(
    context: NodeErrors, node: OnnxNode, feeds: Mapping[str, np.ndarray | None], opset: int
) -> None:
    """Fails for a result that is too large to be computed here, as far as ONNX can tell its shape."""
    inputs: list[onnx.ValueInfoProto] = []
    values: list[onnx.TensorProto] = []
    for name, array in feeds.items():
        if array is None:
            return
        inputs.append(
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
        )
        if array.size <= SHAPE_ELEMENTS:
            values.append(onnx.numpy_helper.from_array(array, name))
    graph = onnx.helper.make_graph(
        [node.proto],
        "constant",
        inputs,
        [onnx.ValueInfoProto(name=name) for name in node.outputs if name],
        values,
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except Exception:
        # Whatever is wrong with the node, computing it says so.
        return
    for info in inferred.graph.output:
        tensor = info.type.tensor_type
        shape = [d.dim_value for d in tensor.shape.dim if d.HasField("dim_value")]
        looped = node.op_type in LOOPED
        if problem := too_large_constant(shape, item_bytes(tensor.elem_type), looped=looped):
            context.fail(node, f"its output '{info.name}' {problem}", _OUTSIDE)
    if node.op_type in LOOPED:
        for name, array in feeds.items():
            if array is not None and (problem := too_large_constant(array.shape, 1, looped=True)):
                context.fail(node, f"its input '{name}' {problem}", _OUTSIDE)


def _gather_elements(
    context: NodeErrors, node: OnnxNode, feeds: Mapping[str, np.ndarray | None]
) -> np.ndarray:
    """Of data, along `axis`, the element at each index; elsewhere an element's position is the index's own.

    Indices may be shorter than data in every dimension, negative ones count from the end.
    """
    data, indices = (feeds.get(name) for name in node.inputs[:2])
    if data is None or indices is None:
        context.refuse(node, "has no data and indices", "export the model again")
    axis = node.integer("axis", 0)
    shapes = f"{data.shape} and {indices.shape}"
    if data.ndim != indices.ndim or not -data.ndim <= axis < data.ndim:
        context.refuse(node, f"gathers along axis {axis} of shapes {shapes}", "export the model again")
    axis %= data.ndim
    if any(i > d for k, (i, d) in enumerate(zip(indices.shape, data.shape, strict=True)) if k != axis):
        context.refuse(node, f"has indices longer than its data ({shapes})", "export the model again")
    size = data.shape[axis]
    if indices.size and not (indices.min() >= -size and indices.max() < size):
        context.refuse(node, f"has indices outside of an axis of {size}", "export the model again")
    within = tuple(slice(None) if k == axis else slice(length) for k, length in enumerate(indices.shape))
    return np.take_along_axis(data[within], indices.astype(np.int64) % max(size, 1), axis)
