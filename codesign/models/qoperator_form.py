"""Write a quantized network in QOperator form: integer operators on integer tensors.

The operators are those that ONNX Runtime's quantizer writes: ONNX's QLinearConv, and QLinearAdd, QLinearAveragePool,
QLinearGlobalAveragePool and QGemm of the domain com.microsoft. MaxPool and Flatten read integers.
"""

import numpy as np
import onnx

from vdla.compiler.frontends.onnx.model.builder import OnnxGraph

from .layers import INPUT, Add, AveragePool, Convolution, Dense, GlobalAveragePool, MaxPool, Network
from .onnx_graph import MICROSOFT, OUTPUT, finish_network, window_attributes
from .quantize import Quantized


def write_qoperator(network: Network, quantized: Quantized, batch: int) -> onnx.ModelProto:
    """Return the ONNX model of `network` in QOperator form, for batches of `batch` images. `quantized` has the types,
    scales and integer weights. Its activations must be uint8, so that clipping at the zero point replaces each ReLU.
    """
    graph = OnnxGraph()
    rank = {INPUT: len(network.input_shape) + 1}
    ready = {INPUT: f"{INPUT}_quantized"}
    inputs = [INPUT, *_scale(graph, quantized, INPUT)]
    graph.node("QuantizeLinear", f"{INPUT}_QuantizeLinear", inputs, ready[INPUT])
    for layer in network.layers:
        name = layer.name
        rank[name] = 2 if isinstance(layer, Dense) else 4
        ready[name] = output = f"{name}_quantized"
        out = _scale(graph, quantized, name)
        match layer:
            case Convolution():
                weight, bias = _weights(graph, quantized, name)
                inputs = [ready[layer.data], *_scale(graph, quantized, layer.data), *weight, *out, bias]
                graph.node("QLinearConv", name, inputs, output, **window_attributes(layer))
            case Dense():
                data = ready[layer.data]
                if rank[layer.data] == 4:
                    data = graph.node("Flatten", f"{name}.flatten", [data], f"{name}.flattened", axis=1)
                weight, bias = _weights(graph, quantized, name)
                inputs = [data, *_scale(graph, quantized, layer.data), *weight, bias, *out]
                graph.node("QGemm", name, inputs, output, MICROSOFT, transB=1)
            case MaxPool():
                graph.node("MaxPool", name, [ready[layer.data]], output, **window_attributes(layer))
            case AveragePool():
                inputs = [ready[layer.data], *_scale(graph, quantized, layer.data), *out]
                graph.node("QLinearAveragePool", name, inputs, output, MICROSOFT, **window_attributes(layer))
            case GlobalAveragePool():
                inputs = [ready[layer.data], *_scale(graph, quantized, layer.data), *out]
                graph.node("QLinearGlobalAveragePool", name, inputs, output, MICROSOFT, channels_last=0)
            case Add():
                first = [ready[layer.first], *_scale(graph, quantized, layer.first)]
                second = [ready[layer.second], *_scale(graph, quantized, layer.second)]
                graph.node("QLinearAdd", name, [*first, *second, *out], output, MICROSOFT)
    last = network.layers[-1].name
    inputs = [ready[last], *_scale(graph, quantized, last)]
    graph.node("DequantizeLinear", f"{OUTPUT}_DequantizeLinear", inputs, OUTPUT)
    return finish_network(graph, network, batch, "qop")


def _scale(graph: OnnxGraph, quantized: Quantized, tensor: str) -> list[str]:
    quantization = quantized.tensors[tensor]
    return [
        graph.constant(f"{tensor}_scale", quantization.scale, np.float32),
        graph.constant(f"{tensor}_zero_point", quantization.zero_point, quantization.dtype),
    ]


def _weights(graph: OnnxGraph, quantized: Quantized, name: str) -> tuple[list[str], str]:
    """Write a layer's initializers; return the names of weight, weight scale and weight zero point, and the name of the
    bias.
    """
    weights = quantized.weights[name]
    weight = [
        graph.constant(f"{name}.weight_quantized", weights.weight, np.int8),
        graph.constant(f"{name}.weight_scale", weights.scale, np.float32),
        graph.constant(f"{name}.weight_zero_point", np.zeros(weights.scale.shape), np.int8),
    ]
    return weight, graph.constant(f"{name}.bias_quantized", weights.bias, np.int32)
