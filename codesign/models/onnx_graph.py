"""Writes a shipped network into an ONNX model; shared by the writers of every form."""

from collections.abc import Sequence
from typing import Any

import onnx
from onnx import TensorProto, helper

from vdla.compiler.frontends.onnx.model.builder import OnnxGraph

from .layers import INPUT, AveragePool, Convolution, MaxPool, Network

OPSET = 17
IR_VERSION = 8
MICROSOFT = "com.microsoft"
OUTPUT = "output"


def window_attributes(layer: Convolution | MaxPool | AveragePool) -> dict[str, Any]:
    """Return the ONNX attributes of a layer's window: kernel_shape and strides; also pads and group if the layer has
    them.
    """
    if isinstance(layer, Convolution):
        kernel = list(layer.weight.shape[2:])
    else:
        kernel = [layer.kernel, layer.kernel]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": [layer.stride] * 2}
    if not isinstance(layer, AveragePool):
        attributes["pads"] = [layer.padding] * 4
    if isinstance(layer, Convolution) and layer.groups > 1:
        attributes["group"] = layer.groups
    return attributes


def finish_network(graph: OnnxGraph, network: Network, batch: int, form: str) -> onnx.ModelProto:
    """Makes an ONNX model from the nodes of `network` and checks it. The model has the float32 input ``input`` and the
    float32 output ``output``. `form` becomes a part of the model's name.
    """
    return finish(
        graph,
        f"{network.name}_{form}",
        input_shape=(batch, *network.input_shape),
        output_shape=(batch, network.classes),
    )


def finish(
    graph: OnnxGraph, name: str, *, input_shape: Sequence[int], output_shape: Sequence[int]
) -> onnx.ModelProto:
    """Makes a checked ONNX model of the graph's nodes, with float32 input ``input`` and output ``output`` of the given
    shapes.
    """
    proto = helper.make_graph(
        graph.nodes,
        name,
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, input_shape)],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, output_shape)],
        list(graph.initializers.values()),
    )
    opsets = [helper.make_opsetid("", OPSET)]
    if any(node.domain == MICROSOFT for node in graph.nodes):
        opsets.append(helper.make_opsetid(MICROSOFT, 1))
    model = helper.make_model(proto, opset_imports=opsets, ir_version=IR_VERSION, producer_name="vdla")
    onnx.checker.check_model(model)
    return model
