"""Choose scales and zero points from calibrated ranges, and round weights and biases to integers.

The rules are those of ONNX Runtime's static quantizer: activations per tensor (uint8 with a zero point, or
symmetric int8), weights symmetric int8 per output channel, biases int32 with the product of both scales. A
ReLU disappears in the uint8 forms, where the zero point clips, and stays between two quantizations in int8.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .calibrate import KEPT_BITS, Calibrated, Range
from .layers import INPUT, Convolution, Dense, MaxPool


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorScale:
    """How a tensor is quantized: real = (integer - zero_point) * scale; `unsigned` tells uint8 from int8."""

    scale: np.float32
    zero_point: int
    unsigned: bool

    @property
    def dtype(self) -> type[np.integer]:
        """The integer type that holds the tensor."""
        return np.uint8 if self.unsigned else np.int8


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Integer weights of one layer: int8 `weight`, int32 `bias`, and the float32 scale a channel of each."""

    weight: NDArray[np.int8]
    scale: NDArray[np.float32]
    bias: NDArray[np.int32]
    bias_scale: NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantized:
    """Scales of every tensor, of every ReLU's input (int8 only), and the integer weights, by layer name."""

    tensors: dict[str, TensorScale]
    before_relu: dict[str, TensorScale]
    weights: dict[str, Weights]


def quantize(calibrated: Calibrated, unsigned: bool) -> Quantized:
    """Quantize a calibrated network with uint8 activations if `unsigned`, else symmetric int8."""
    tensors = {INPUT: _tensor_scale(calibrated.ranges[INPUT], unsigned)}
    before_relu: dict[str, TensorScale] = {}
    weights: dict[str, Weights] = {}
    for layer in calibrated.network.layers:
        if isinstance(layer, MaxPool):
            tensors[layer.name] = tensors[layer.data]
        else:
            tensors[layer.name] = _tensor_scale(calibrated.ranges[layer.name], unsigned)
        if not unsigned and layer.name in calibrated.before_relu:
            before_relu[layer.name] = _tensor_scale(calibrated.before_relu[layer.name], unsigned)
        if isinstance(layer, Convolution | Dense):
            weights[layer.name] = _quantize_weights(layer, tensors[layer.data].scale)
    return Quantized(tensors=tensors, before_relu=before_relu, weights=weights)


def _round_up(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Round up to `KEPT_BITS` significant bits: exact in float32, as is the product of two such scales."""
    fraction, exponent = np.frexp(values)
    kept = np.ldexp(np.ceil(np.ldexp(fraction, KEPT_BITS)), exponent - KEPT_BITS)
    return kept.astype(np.float32)


def _tensor_scale(observed: Range, unsigned: bool) -> TensorScale:
    low, high = min(observed.low, 0.0), max(observed.high, 0.0)
    if unsigned:
        scale = _round_up(np.array((high - low) / 255.0))
        return TensorScale(
            scale=np.float32(scale), zero_point=int(np.rint(-low / float(scale))), unsigned=True
        )
    scale = _round_up(np.array(max(-low, high) / 127.0))
    return TensorScale(scale=np.float32(scale), zero_point=0, unsigned=False)


def _quantize_weights(layer: Convolution | Dense, input_scale: np.float32) -> Weights:
    flat = layer.weight.reshape(layer.weight.shape[0], -1)
    scale = _round_up(np.abs(flat).max(axis=1) / 127.0)
    integers = np.rint(flat / scale.astype(np.float64)[:, None])
    bias_scale = input_scale * scale
    bias = np.rint(layer.bias / bias_scale.astype(np.float64))
    assert np.abs(bias).max() < 2**31, f"the bias of {layer.name} does not fit 32 bits"
    return Weights(
        weight=integers.astype(np.int8).reshape(layer.weight.shape),
        scale=scale,
        bias=bias.astype(np.int32),
        bias_scale=bias_scale,
    )
