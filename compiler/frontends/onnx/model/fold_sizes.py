"""Constant folding of integers derived from shapes: Shape, Slice, Concat and the nodes between them.

ONNX's shape inference folds only some of these operators. Models for inputs of any length use other operators as well.
For example, a constant has the indices of all tokens, and a Slice cuts it to the length that Shape returns.
"""

from __future__ import annotations

from math import prod

import numpy as np
import onnx
from onnx import numpy_helper

from ....graph.errors import NodeError, NodeErrors
from ..attributes import opset_of, read_node
from ..constants import evaluate_node
from .inference import inferred_shapes
from .load import input_shape, static_shapes

MOST_ELEMENTS = 2**20
"""Largest number of elements of a folded result: as many as a mask of 1,024 x 1,024 tokens has."""
_KINDS = "iub"


def with_sizes_folded(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replaces nodes by initializers if they have integer or bool results that depend on shapes alone. Returns the
    model with shapes inferred again. `model` is changed, and must have inferred shapes.

    Nodes that cannot be folded stay. Nodes whose results are no longer read stay, too.
    """
    while any(node.op_type == "Shape" for node in model.graph.node):
        found = _folded(model)
        if not found:
            break
        nodes = [node for node in model.graph.node if not found.keys() & set(node.output)]
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in found.items())
        # Drop the declared shapes of folded results and the symbols of unknown sizes: inference would trust both.
        declared = [info for info in model.graph.value_info if info.name not in found]
        del model.graph.value_info[:]
        model.graph.value_info.extend(declared)
        for info in (*model.graph.value_info, *model.graph.output):
            for size in info.type.tensor_type.shape.dim:
                if not size.HasField("dim_value"):
                    size.Clear()
        model = inferred_shapes(model, check_type=True, data_prop=True)
    return model


def _folded(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Values of the outputs of nodes that can be folded, by output name; outputs of the model are left out."""
    graph = model.graph
    shapes = static_shapes(model)
    known = {
        item.name: numpy_helper.to_array(item)
        for item in graph.initializer
        if prod(item.dims) <= MOST_ELEMENTS and _dtype_kind(item) in _KINDS
    }
    shapes |= {info.name: input_shape(info) for info in graph.input}
    outputs = {info.name for info in graph.output}
    found: dict[str, np.ndarray] = {}
    context, opset = NodeErrors(source=""), opset_of(model)
    for number, node in enumerate(graph.node):
        if len(node.output) != 1 or node.output[0] in outputs:
            continue
        name = node.output[0]
        if node.op_type == "Shape" and node.input[0] in shapes:
            feeds = {node.input[0]: np.broadcast_to(np.int8(0), shapes[node.input[0]])}
        elif node.input and all(item in known for item in node.input if item):
            feeds = {item: known[item] for item in node.input if item}
        else:
            continue
        if prod(shapes.get(name, ())) > MOST_ELEMENTS:
            continue
        try:
            array = evaluate_node(context, read_node(node, number), feeds, opset)[name]
        except NodeError:
            continue  # The importer reports the error of this node.
        if array.dtype.kind in _KINDS and array.size <= MOST_ELEMENTS:
            found[name] = known[name] = array
    return found


def _dtype_kind(item: onnx.TensorProto) -> str:
    return onnx.helper.tensor_dtype_to_np_dtype(item.data_type).kind
