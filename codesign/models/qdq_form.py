"""Write a quantized network in QDQ form: float operators between QuantizeLinear and DequantizeLinear pairs.

The form is that of ONNX Runtime's static quantizer: weights and biases are integer initializers, each followed by a
DequantizeLinear; each activation is followed by one QuantizeLinear and one DequantizeLinear that all its readers share.
"""

import onnx

from vdla.compiler.frontends.onnx.model.builder import OnnxGraph

from .layers import INPUT, Add, AveragePool, Convolution, Dense, GlobalAveragePool, MaxPool, Network
from .onnx_graph import OUTPUT, finish_network, window_attributes
from .quantize import Quantized


def write_qdq(network: Network, quantized: Quantized, batch: int, form: str) -> onnx.ModelProto:
    """Return the ONNX model of `network` in QDQ form, for batches of `batch` images. `quantized` has the types, scales
    and integer weights. `form` ("u8" or "s8") only becomes a part of the graph's name.
    """
    graph = OnnxGraph()
    last = network.layers[-1].name
    rank = {INPUT: len(network.input_shape) + 1}
    ready = {INPUT: graph.quantize_dequantize(INPUT, quantized.tensors[INPUT])}
    for layer in network.layers:
        name = layer.name
        rank[name] = 2 if isinstance(layer, Dense) else 4
        linear = f"{name}.linear" if name in quantized.before_relu else f"{name}.result"
        match layer:
            case Convolution():
                inputs = [ready[layer.data], *_dequantized_weights(graph, name, quantized)]
                graph.node("Conv", name, inputs, linear, **window_attributes(layer))
            case Dense():
                data = ready[layer.data]
                if rank[layer.data] == 4:
                    flat = f"{name}.flattened"
                    graph.node("Flatten", f"{name}.flatten", [data], flat, axis=1)
                    data = graph.quantize_dequantize(flat, quantized.tensors[layer.data])
                inputs = [data, *_dequantized_weights(graph, name, quantized)]
                graph.node("Gemm", name, inputs, linear, transB=1)
            case MaxPool():
                graph.node("MaxPool", name, [ready[layer.data]], linear, **window_attributes(layer))
            case AveragePool():
                graph.node("AveragePool", name, [ready[layer.data]], linear, **window_attributes(layer))
            case GlobalAveragePool():
                graph.node("GlobalAveragePool", name, [ready[layer.data]], linear)
            case Add():
                graph.node("Add", name, [ready[layer.first], ready[layer.second]], linear)
        if name in quantized.before_relu:
            data = graph.quantize_dequantize(linear, quantized.before_relu[name])
            linear = graph.node("Relu", f"{name}.relu", [data], f"{name}.result")
        final = OUTPUT if name == last else None
        ready[name] = graph.quantize_dequantize(linear, quantized.tensors[name], output=final)
    return finish_network(graph, network, batch, form)


def _dequantized_weights(graph: OnnxGraph, name: str, quantized: Quantized) -> list[str]:
    """Write weight and bias of a layer, each followed by a DequantizeLinear over axis 0; return the names of the
    dequantized tensors.
    """
    weights = quantized.weights[name]
    return [
        graph.dequantized(f"{name}.weight", weights.weight, weights.scale, axis=0),
        graph.dequantized(f"{name}.bias", weights.bias, weights.bias_scale, axis=0),
    ]
