"""Write a quantized network in QDQ form: float operators between QuantizeLinear and DequantizeLinear pairs.

As ONNX Runtime's static quantizer writes it: weights and biases are integer initializers behind a
DequantizeLinear each, every activation passes one QuantizeLinear and one DequantizeLinear that all readers share.
"""

import numpy as np
import onnx

from .layers import INPUT, Add, AveragePool, Convolution, Dense, GlobalAveragePool, MaxPool, Network
from .onnx_graph import OUTPUT, OnnxGraph, finish_network, window_attributes
from .quantize import Quantized, TensorScale


def write_qdq(network: Network, quantized: Quantized, batch: int, form: str) -> onnx.ModelProto:
    """Return the model; `form` ("u8" or "s8") only names the graph, `quantized` decides what is written."""
    graph = OnnxGraph()
    last = network.layers[-1].name
    rank = {INPUT: len(network.input_shape) + 1}
    ready = {INPUT: _quantize_dequantize(graph, INPUT, quantized.tensors[INPUT])}
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
                    data = _quantize_dequantize(graph, flat, quantized.tensors[layer.data])
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
            data = _quantize_dequantize(graph, linear, quantized.before_relu[name])
            linear = graph.node("Relu", f"{name}.relu", [data], f"{name}.result")
        final = OUTPUT if name == last else None
        ready[name] = _quantize_dequantize(graph, linear, quantized.tensors[name], final)
    return finish_network(graph, network, batch, form)


def _quantize_dequantize(
    graph: OnnxGraph, tensor: str, quantization: TensorScale, output: str | None = None
) -> str:
    scale = graph.constant(f"{tensor}_scale", quantization.scale, np.float32)
    zero_point = graph.constant(f"{tensor}_zero_point", quantization.zero_point, quantization.dtype)
    integers = f"{tensor}_QuantizeLinear_Output"
    graph.node("QuantizeLinear", f"{tensor}_QuantizeLinear", [tensor, scale, zero_point], integers)
    output = output or f"{tensor}_DequantizeLinear_Output"
    return graph.node("DequantizeLinear", f"{tensor}_DequantizeLinear", [integers, scale, zero_point], output)


def _dequantized_weights(graph: OnnxGraph, name: str, quantized: Quantized) -> list[str]:
    """Write weight and bias of a layer, each behind its DequantizeLinear over axis 0; return their names."""
    weights = quantized.weights[name]
    names = []
    for part, values, scale, dtype in (
        ("weight", weights.weight, weights.scale, np.int8),
        ("bias", weights.bias, weights.bias_scale, np.int32),
    ):
        tensor = f"{name}.{part}"
        inputs = [
            graph.constant(f"{tensor}_quantized", values, dtype),
            graph.constant(f"{tensor}_scale", scale, np.float32),
            graph.constant(f"{tensor}_zero_point", np.zeros(scale.shape), dtype),
        ]
        output = f"{tensor}_DequantizeLinear_Output"
        graph.node("DequantizeLinear", f"{tensor}_DequantizeLinear", inputs, output, axis=0)
        names.append(output)
    return names
