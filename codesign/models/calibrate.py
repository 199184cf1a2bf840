"""Normalize a seeded network on sample inputs, and measure the range of every tensor.

Random weights alone give dead or saturated layers. Each convolution and dense layer is therefore normalized per output
channel, as by a trained batch normalization: a gain and a shift are folded into its weights and bias. Gains and shifts
vary at random from channel to channel. In the last layer they do not vary, so that no class wins on every input.

Everything is computed in float64, and stored results are rounded to `KEPT_BITS` significant bits, eleven orders of
magnitude above the rounding errors of sums, so a model file does not depend on the machine or its matrix library.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from .layers import (
    INPUT,
    Add,
    AveragePool,
    Convolution,
    Dense,
    Float64Array,
    GlobalAveragePool,
    Layer,
    MaxPool,
    Network,
)

KEPT_BITS = 12

# Fraction of values outside of a range at each end: so small that saturating them affects far less than one percent on
# new inputs, but large enough that a few outliers do not widen the range.
OUTSIDE = 2.0**-11

# The last layer has only one value of each class for each input, so the spread of a class is known badly. It is
# estimated as if this many more inputs had the mean spread of all classes. For the same reason the output's range gets
# a margin: this number divided by the number of inputs.
MEAN_SPREAD_INPUTS = 32
LOGIT_MARGIN = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The range that contains a tensor's values, except for a fraction `OUTSIDE` at each end."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """A network whose convolutions and dense layers are normalized: weights and biases are scaled and shifted for each
    output channel, as by batch normalization. `ranges`: the range of the network's input (INPUT) and of each layer's
    result, by name; `before_relu`: the range of each ReLU's input, by the name of its layer.
    """

    network: Network
    ranges: dict[str, Range]
    before_relu: dict[str, Range]


def round_significand(values: Float64Array, bits: int = KEPT_BITS) -> Float64Array:
    """Round to `bits` significant binary digits; ties go to even."""
    fraction, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.rint(np.ldexp(fraction, bits)), exponent - bits))


def calibrate(network: Network, families: tuple[Float64Array, ...], seed: int) -> Calibrated:
    """Run `network` on sample inputs, layer by layer, and normalize convolutions and dense layers on the way. Returns
    the network with the measured range of every tensor.

    `families` are kinds of inputs, each float64 [count, *input_shape]; the measured ranges cover all families. The last
    layer's weights are made orthogonal to the differences between the means of the families, so that no class wins for
    all inputs of a family. `seed` decides the random gains and shifts, by which channels differ, except in the last
    layer.
    """
    rng = np.random.default_rng([seed, 1])
    inputs = np.concatenate(families)
    sizes = [len(family) for family in families]
    last_reader = {name: index for index, layer in enumerate(network.layers) for name in _reads(layer)}
    values = {INPUT: inputs}
    ranges = {INPUT: _range(inputs)}
    before_relu: dict[str, Range] = {}
    layers: list[Layer] = []
    for index, layer in enumerate(network.layers):
        operands = [values[name] for name in _reads(layer)]
        if isinstance(layer, Dense) and index == len(network.layers) - 1:
            layer = replace(layer, weight=_without_family_means(layer.weight, operands[0], sizes))
        result = evaluate_linear(layer, operands)
        if isinstance(layer, Convolution | Dense):
            gain, shift = _normalization(result, rng, network.shift, is_last=index == len(network.layers) - 1)
            result *= _per_channel(gain, result.ndim)
            result += _per_channel(shift, result.ndim)
            weight = layer.weight * gain.reshape(-1, *[1] * (layer.weight.ndim - 1))
            layer = replace(layer, weight=weight, bias=layer.bias * gain + shift)
        observed = _range(result)
        if isinstance(layer, Convolution | Dense | Add) and layer.relu:
            before_relu[layer.name] = observed
            observed = Range(low=max(observed.low, 0.0), high=max(observed.high, 0.0))
            result = np.maximum(result, 0.0)
        if isinstance(layer, MaxPool):
            # A pool's output has its input's quantization, and consists of its input's larger values: the range must
            # fit both.
            _widen(ranges, layer.data, observed.high)
            _widen(before_relu, layer.data, observed.high)
        if index == len(network.layers) - 1:
            margin = 1.0 + LOGIT_MARGIN / len(inputs)
            observed = Range(low=observed.low * margin, high=observed.high * margin)
        layers.append(layer)
        values[layer.name] = result
        ranges[layer.name] = observed
        for name in _reads(layer):
            if last_reader[name] == index:
                values.pop(name, None)
    return Calibrated(network=replace(network, layers=tuple(layers)), ranges=ranges, before_relu=before_relu)


def _reads(layer: Layer) -> tuple[str, ...]:
    return (layer.first, layer.second) if isinstance(layer, Add) else (layer.data,)


def _range(values: Float64Array) -> Range:
    flat = values.ravel()
    outside = int(flat.size * OUTSIDE)
    ordered = np.partition(flat, (outside, flat.size - 1 - outside))
    return Range(low=float(ordered[outside]), high=float(ordered[flat.size - 1 - outside]))


def _widen(ranges: dict[str, Range], name: str, high: float) -> None:
    if name in ranges:
        ranges[name] = replace(ranges[name], high=max(ranges[name].high, high))


def _per_channel(values: Float64Array, rank: int) -> Float64Array:
    return values.reshape(-1, *[1] * (rank - 2))


def _without_family_means(weight: Float64Array, data: Float64Array, sizes: list[int]) -> Float64Array:
    """Project out of `weight` [out, in] the directions in which the mean inputs of the families differ; return the
    result. `data`: the layer's inputs for all families, one family after the other; `sizes`: the number of inputs in
    each family.

    Without this projection, all inputs of a family would have the same large logit, so that one class would win on all
    of them.
    """
    features = data.reshape(len(data), -1)
    bounds = np.cumsum([0, *sizes])
    means = [features[start:stop].mean(axis=0) for start, stop in pairwise(bounds)]
    directions = np.stack([mean - means[0] for mean in means[1:]])
    overlap = np.linalg.solve(directions @ directions.T, directions @ weight.T)
    return round_significand(weight - overlap.T @ directions)


def _normalization(
    values: Float64Array, rng: np.random.Generator, centre: float, is_last: bool
) -> tuple[Float64Array, Float64Array]:
    """Returns a factor and an addend for each channel, float64 [channels] each: `values` [count, channels, ...] times
    factor plus addend has about the mean `centre` and the deviation 1, varied at random by channel. In the last layer
    (`is_last`) every mean is 0, and nothing is random.
    """
    axes = tuple(axis for axis in range(values.ndim) if axis != 1)
    mean = values.mean(axis=axes)
    deviation = values.std(axis=axes)
    if is_last:
        own, shared = len(values) * deviation**2, MEAN_SPREAD_INPUTS * np.mean(deviation**2)
        gain = round_significand(np.sqrt((len(values) + MEAN_SPREAD_INPUTS) / (own + shared)))
        shift = -gain * mean
    else:
        gain = round_significand(rng.uniform(0.7, 1.4, mean.size) / deviation)
        shift = centre + rng.uniform(-0.6, 0.6, mean.size) - gain * mean
    # Rounded to a fixed-point grid, not to significant bits: a shift near zero has as many binary places as a large
    # one.
    grid = 2.0**-KEPT_BITS
    return gain, np.rint(shift / grid) * grid


def evaluate_linear(layer: Layer, operands: list[Float64Array]) -> Float64Array:
    """Compute a layer without its ReLU; feature maps are float64 [batch, channels, height, width]."""
    data = operands[0]
    match layer:
        case Convolution():
            return _convolve(data, layer)
        case Dense():
            return data.reshape(data.shape[0], -1) @ layer.weight.T + layer.bias
        case MaxPool():
            edge = (layer.padding, layer.padding)
            padded = np.pad(data, ((0, 0), (0, 0), edge, edge), constant_values=-np.inf)
            return _pool(padded, layer.kernel, layer.stride, np.maximum)
        case AveragePool():
            return _pool(data, layer.kernel, layer.stride, np.add) / layer.kernel**2
        case GlobalAveragePool():
            return data.mean(axis=(2, 3), keepdims=True)
        case Add():
            return data + operands[1]


def _pool(data: Float64Array, kernel: int, stride: int, combine: np.ufunc) -> Float64Array:
    rows = (data.shape[2] - kernel) // stride + 1
    columns = (data.shape[3] - kernel) // stride + 1
    total: Float64Array | None = None
    for y in range(kernel):
        for x in range(kernel):
            piece = data[:, :, y : y + stride * rows : stride, x : x + stride * columns : stride]
            total = piece.copy() if total is None else combine(total, piece)
    assert total is not None
    return total


def _convolve(data: Float64Array, layer: Convolution) -> Float64Array:
    """Convolution as one matrix product for each image and group, over gathered windows; the bias is added."""
    outputs, _, height, width = layer.weight.shape
    inputs, groups = data.shape[1], layer.groups
    stride, edge = layer.stride, (layer.padding, layer.padding)
    padded = np.pad(data, ((0, 0), (0, 0), edge, edge))
    rows = (padded.shape[2] - height) // stride + 1
    columns = (padded.shape[3] - width) // stride + 1
    matrix = layer.weight.reshape(groups, outputs // groups, -1)
    result = np.empty((data.shape[0], outputs, rows, columns))
    windows = np.empty((inputs, height, width, rows, columns))
    for image, out in zip(padded, result, strict=True):
        for y in range(height):
            for x in range(width):
                windows[:, y, x] = image[:, y : y + stride * rows : stride, x : x + stride * columns : stride]
        sums = out.reshape(groups, outputs // groups, -1)
        np.matmul(matrix, windows.reshape(groups, -1, rows * columns), out=sums)
    result += layer.bias[:, None, None]
    return result
