"""Unrolls RNN, GRU and LSTM nodes of a float model: replaces each by the nodes of all its steps, which can be
quantized.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import numpy_helper

from ..frontends.onnx.attributes import OnnxNode, read_node
from ..frontends.onnx.float_operators.recurrent_steps import GATES, recurrent_steps
from ..frontends.onnx.model.inference import inferred_shapes
from ..frontends.onnx.model.load import input_shape, static_shapes
from ..frontends.onnx.steps import Steps
from ..graph.errors import NodeErrors
from ..graph.graph import Tensor, unused


@dataclass(slots=True, kw_only=True)
class _Context(NodeErrors):
    """Gives `recurrent_steps` the shapes of nodes' inputs, and stores new initializers, while a node is unrolled. Names
    of new initializers differ from the names in `taken`.
    """

    shapes: Mapping[str, tuple[int, ...]]
    taken: set[str]
    initializers: list[onnx.TensorProto] = field(default_factory=list)

    def tensor(self, node: OnnxNode, index: int) -> Tensor:
        """Input `index` of `node` as a Tensor, which has a shape and no data. Raises NodeError if the
        shape is unknown.
        """
        name = node.inputs[index]
        if name not in self.shapes:
            self.fail(
                node, f"the shape of its input '{name}' is not known", "export the model with fixed shapes"
            )
        return Tensor(name=name, shape=self.shapes[name])

    def store(self, name: str, array: np.ndarray) -> str:
        """Adds `array` as an initializer called `name` with a number; returns this name."""
        # Steps have thousands of constants: the search for an unused name starts at their number.
        unique = unused(f"{name}_{len(self.initializers)}", self.taken)
        self.taken.add(unique)
        self.initializers.append(numpy_helper.from_array(array, unique))
        return unique


def unrolled(label: str, model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` with the nodes of all steps in place of each RNN, GRU and LSTM; `label` names the file in errors.

    Raises NodeError for more than `recurrent_steps.MOST_STEPS` steps, and for unsupported variants.
    """
    graph = model.graph
    if not any(node.op_type in GATES for node in graph.node):
        return model
    shapes = static_shapes(model)
    shapes |= {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for info in graph.input:
        shapes.setdefault(info.name, input_shape(info))
    taken = {*shapes, *(name for node in graph.node for name in node.output)}
    context = _Context(source=label, shapes=shapes, taken=taken)
    nodes: list[onnx.NodeProto] = []
    for index, proto in enumerate(graph.node):
        if proto.op_type in GATES and proto.domain in ("", "ai.onnx"):
            steps = Steps(context=context, node=read_node(proto, index))
            recurrent_steps(steps)
            nodes += steps.nodes
        else:
            nodes.append(proto)
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.graph.node[:]
    result.graph.node.extend(nodes)
    result.graph.initializer.extend(context.initializers)
    return inferred_shapes(result, data_prop=True)
