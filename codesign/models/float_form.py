"""Write a calibrated network as a plain float32 ONNX model."""

import numpy as np
import onnx

from vdla.compiler.frontends.onnx.model.builder import OnnxGraph

from .calibrate import Calibrated
from .layers import INPUT, Add, AveragePool, Convolution, Dense, GlobalAveragePool, MaxPool
from .onnx_graph import OUTPUT, finish_network, window_attributes


def write_float(calibrated: Calibrated, batch: int) -> onnx.ModelProto:
    """Return the ONNX model of a calibrated network, in float32. The result of each layer has the layer's name; but the
    result of the last layer is called ``output``.
    """
    network = calibrated.network
    graph = OnnxGraph()
    last = network.layers[-1].name
    rank = {INPUT: len(network.input_shape) + 1}
    for layer in network.layers:
        name = layer.name
        rank[name] = 2 if isinstance(layer, Dense) else 4
        final = OUTPUT if name == last else name
        relu = isinstance(layer, Convolution | Dense | Add) and layer.relu
        output = f"{name}.linear" if relu else final
        match layer:
            case Convolution() | Dense():
                weight = graph.constant(f"{name}.weight", layer.weight, np.float32)
                bias = graph.constant(f"{name}.bias", layer.bias, np.float32)
                if isinstance(layer, Convolution):
                    inputs = [layer.data, weight, bias]
                    graph.node("Conv", name, inputs, output, **window_attributes(layer))
                else:
                    data = layer.data
                    if rank[data] == 4:
                        data = graph.node("Flatten", f"{name}.flatten", [data], f"{name}.flattened", axis=1)
                    graph.node("Gemm", name, [data, weight, bias], output, transB=1)
            case MaxPool():
                graph.node("MaxPool", name, [layer.data], output, **window_attributes(layer))
            case AveragePool():
                graph.node("AveragePool", name, [layer.data], output, **window_attributes(layer))
            case GlobalAveragePool():
                graph.node("GlobalAveragePool", name, [layer.data], output)
            case Add():
                graph.node("Add", name, [layer.first, layer.second], output)
        if relu:
            graph.node("Relu", f"{name}.relu", [output], final)
    return finish_network(graph, network, batch, "float")
