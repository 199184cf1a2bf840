"""Chooses scales and zero points from calibrated ranges, and rounds weights and biases to integers.

The rules are those of ONNX Runtime's static quantizer. An activation tensor has one scale and is uint8 with a zero
point, or symmetric int8. Weights are symmetric int8, with one scale for each output channel. Biases are int32, and
their scale is the product of the scales of activations and weights.

In models with uint8 activations there are no ReLU nodes, because clipping at the zero point has the same effect. In
models with int8 activations, a ReLU is computed in float, between a DequantizeLinear and a QuantizeLinear.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph.int8_convolution import Quantization
from vdla.compiler.quantize.scales import (
    activation_quantization,
    bias_scales,
    quantize_bias,
    quantize_weights,
    weight_scales,
)

from .calibrate import KEPT_BITS, Calibrated, Range
from .layers import INPUT, Convolution, Dense, MaxPool


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Integer weights of one layer: int8 `weight` and int32 `bias`; `scale` and `bias_scale` are float32, one for each
    channel.
    """

    weight: NDArray[np.int8]
    scale: NDArray[np.float32]
    bias: NDArray[np.int32]
    bias_scale: NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantized:
    """The quantization of a network.

    `tensors`: scale and zero point of each tensor, by name. `before_relu`: scale and zero point of each ReLU's input,
    which is quantized only in int8 models. `weights`: the integer weights of each layer, by the layer's name.
    """

    tensors: dict[str, Quantization]
    before_relu: dict[str, Quantization]
    weights: dict[str, Weights]


def quantize(calibrated: Calibrated, unsigned: bool) -> Quantized:
    """Quantize a calibrated network with uint8 activations if `unsigned`, else symmetric int8."""
    tensors = {INPUT: _activation(calibrated.ranges[INPUT], unsigned)}
    before_relu: dict[str, Quantization] = {}
    weights: dict[str, Weights] = {}
    for layer in calibrated.network.layers:
        if isinstance(layer, MaxPool):
            tensors[layer.name] = tensors[layer.data]
        else:
            tensors[layer.name] = _activation(calibrated.ranges[layer.name], unsigned)
        if not unsigned and layer.name in calibrated.before_relu:
            before_relu[layer.name] = _activation(calibrated.before_relu[layer.name], unsigned)
        if isinstance(layer, Convolution | Dense):
            weights[layer.name] = _weights(layer, tensors[layer.data].scale)
    return Quantized(tensors=tensors, before_relu=before_relu, weights=weights)


def _round_up(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Round up to `KEPT_BITS` significant bits. Float32 then represents each scale and the product of any two scales
    exactly.
    """
    fraction, exponent = np.frexp(values)
    kept = np.ldexp(np.ceil(np.ldexp(fraction, KEPT_BITS)), exponent - KEPT_BITS)
    return kept.astype(np.float32)


def _activation(observed: Range, unsigned: bool) -> Quantization:
    dtype = "uint8" if unsigned else "int8"
    return activation_quantization(observed.low, observed.high, dtype, round_scale=_round_up)


def _weights(layer: Convolution | Dense, input_scale: np.float32) -> Weights:
    scale = weight_scales(layer.weight, 0, round_scale=_round_up)
    bias_scale = bias_scales(input_scale, scale)
    return Weights(
        weight=quantize_weights(layer.weight, scale, 0),
        scale=scale,
        bias=quantize_bias(layer.bias, bias_scale),
        bias_scale=bias_scale,
    )
