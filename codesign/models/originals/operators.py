"""Operators as PyTorch's exporter writes them at opset 17: each function adds the nodes of one call or module.

The mean square (`Value.power`) of an activation function's output is estimated as a constant, the mean square for a
standard normal input, times the mean square of the input. For sigmoids and softmax, it is the constant alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .graph import BIAS_DEVIATION, Graph
from .values import Value

FOREVER = np.iinfo(np.int64).max
"""The end index of a slice that extends to the end of the axis."""


def _pair(value: int | tuple[int, int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else value


def windows(size: int, kernel: int, stride: int, padding: int, dilation: int = 1, *, up: bool = False) -> int:
    """Number of windows along an axis of `size` elements with `padding` at both ends. With `up` (PyTorch's ceil_mode) a
    last window that extends past the padded axis counts too, if it begins before the padding at the end.
    """
    free = size + 2 * padding - dilation * (kernel - 1) - 1
    if not up:
        return free // stride + 1
    count = -(-free // stride) + 1
    return count - 1 if (count - 1) * stride >= size + padding else count


@dataclass(frozen=True, slots=True)
class Window:
    """The window of a convolution, in elements; a pair is (rows, columns), and `padding` applies to both sides of an
    axis.
    """

    kernel: int | tuple[int, int]
    stride: int = 1
    padding: int | tuple[int, int] = 0
    dilation: int = 1


# Products.


def conv(
    g: Graph,
    x: Value,
    name: str,
    out: int,
    window: int | Window,
    *,
    groups: int = 1,
    bias: bool = True,
    norm: bool = False,
) -> Value:
    """Adds Conv2d with `out` filters to the graph; a number as `window` means a square window with stride 1 and without
    padding.

    With `norm`, the weights and bias include a batch normalization, which the exporter folds into the convolution in
    evaluation mode.
    """
    window = Window(window) if isinstance(window, int) else window
    (height, width), (top, left) = _pair(window.kernel), _pair(window.padding)
    depth = x.channels // groups
    with g.scope(name):
        deviation = 1 / math.sqrt(depth * height * width * x.power)
        inputs = [x, g.weight("weight", (out, depth, height, width), deviation)]
        if bias or norm:
            inputs.append(g.weight("bias", (out,), BIAS_DEVIATION))
        if norm:
            g.parameters += out
        rows, columns = (
            windows(size, taps, window.stride, pad, window.dilation)
            for size, taps, pad in zip(x.size, (height, width), (top, left), strict=True)
        )
        g.macs += x.shape[0] * out * rows * columns * depth * height * width
        return g.node(
            "Conv",
            inputs,
            (x.shape[0], out, rows, columns),
            dilations=[window.dilation] * 2,
            group=groups,
            kernel_shape=[height, width],
            pads=[top, left] * 2,
            strides=[window.stride] * 2,
        )


def conv_transpose(g: Graph, x: Value, name: str, out: int, kernel: int, stride: int) -> Value:
    """Adds ConvTranspose2d without padding, with `out` output channels, to the graph."""
    batch, depth, rows, columns = x.shape
    with g.scope(name):
        # (kernel / stride)^2 taps of every channel contribute to each output.
        deviation = stride / math.sqrt(depth * kernel * kernel * x.power)
        weight = g.weight("weight", (depth, out, kernel, kernel), deviation)
        g.macs += math.prod(x.shape) * out * kernel * kernel
        return g.node(
            "ConvTranspose",
            [x, weight, g.weight("bias", (out,), BIAS_DEVIATION)],
            (batch, out, (rows - 1) * stride + kernel, (columns - 1) * stride + kernel),
            dilations=[1, 1],
            group=1,
            kernel_shape=[kernel] * 2,
            pads=[0] * 4,
            strides=[stride] * 2,
        )


def linear(g: Graph, x: Value, name: str, out: int, *, bias: bool = True) -> Value:
    """Adds Linear with `out` outputs to the graph. If `x` is a matrix, this is a Gemm. If `x` has more dimensions, this
    is a MatMul, whose weight the exporter has transposed, and an Add for the bias.
    """
    depth = x.shape[-1]
    deviation = 1 / math.sqrt(depth * x.power)
    g.macs += math.prod(x.shape) * out
    with g.scope(name):
        if len(x.shape) == 2:
            inputs = [x, g.weight("weight", (out, depth), deviation)]
            if bias:
                inputs.append(g.weight("bias", (out,), BIAS_DEVIATION))
            return g.node("Gemm", inputs, (x.shape[0], out), alpha=1.0, beta=1.0, transB=1)
        y = g.node("MatMul", [x, g.weight("weight", (depth, out), deviation)], (*x.shape[:-1], out))
        if bias:
            y = g.node("Add", [g.weight("bias", (out,), BIAS_DEVIATION), y], y.shape)
        return y


def matmul(g: Graph, a: Value, b: Value, power: float = 1.0) -> Value:
    """Adds MatMul, the product of two activations, to the graph. `power`: estimated mean square of the product's
    elements, from which the random weights of later layers are scaled.
    """
    *lead, rows, depth = a.shape
    assert b.shape[:-1] == (*lead, depth)
    g.macs += math.prod(a.shape) * b.shape[-1]
    return g.node("MatMul", [a, b], (*lead, rows, b.shape[-1]), power=power)


# Normalizations.


def batch_norm(g: Graph, x: Value, name: str) -> Value:
    """Adds a BatchNorm2d node to the graph, with stored statistics close to those of its input `x`. A normalization
    after a convolution has no node of its own: it is folded into the convolution.
    """
    with g.scope(name):
        count = (x.channels,)
        parts = [
            g.weight("weight", count, BIAS_DEVIATION, mean=1.0),
            g.weight("bias", count, BIAS_DEVIATION),
            g.weight("running_mean", count, BIAS_DEVIATION * math.sqrt(x.power), counted=False),
            g.weight("running_var", count, 0.1 * x.power, mean=x.power, least=0.5 * x.power, counted=False),
        ]
        return g.node("BatchNormalization", [x, *parts], x.shape, epsilon=1e-5, momentum=0.9, training_mode=0)


def layer_norm(g: Graph, x: Value, name: str, epsilon: float) -> Value:
    """Adds LayerNorm over the last axis to the graph."""
    with g.scope(name):
        count = (x.shape[-1],)
        parts = [g.weight("weight", count, BIAS_DEVIATION, mean=1.0), g.weight("bias", count, BIAS_DEVIATION)]
        return g.node("LayerNormalization", [x, *parts], x.shape, axis=-1, epsilon=epsilon)


# Functions of one tensor.


def relu(g: Graph, x: Value) -> Value:
    """Adds ReLU of `x` to the graph."""
    return g.node("Relu", [x], x.shape, power=0.5 * x.power)


def relu6(g: Graph, x: Value) -> Value:
    """Adds ReLU6 of `x` to the graph, as a Clip."""
    bounds = [g.constant(bound, np.float32) for bound in (0.0, 6.0)]
    return g.node("Clip", [x, *bounds], x.shape, power=0.5 * x.power)


def hard_swish(g: Graph, x: Value) -> Value:
    """Adds Hardswish of `x` to the graph."""
    return g.node("HardSwish", [x], x.shape, power=0.34 * x.power)


def hard_sigmoid(g: Graph, x: Value) -> Value:
    """Adds Hardsigmoid of `x` (slope 1/6) to the graph."""
    return g.node("HardSigmoid", [x], x.shape, power=0.28, alpha=1 / 6, beta=0.5)


def sigmoid(g: Graph, x: Value) -> Value:
    """Adds Sigmoid of `x` to the graph."""
    return g.node("Sigmoid", [x], x.shape, power=0.29)


def silu(g: Graph, x: Value) -> Value:
    """Adds SiLU of `x` to the graph, as Sigmoid and Mul."""
    gate = sigmoid(g, x)
    return g.node("Mul", [x, gate], x.shape, power=0.36 * x.power)


def gelu(g: Graph, x: Value) -> Value:
    """Adds GELU of `x` with the error function to the graph: five nodes."""
    root, one, half = (g.constant(value, np.float32) for value in (math.sqrt(2), 1.0, 0.5))
    y = g.node("Erf", [g.node("Div", [x, root], x.shape)], x.shape)
    y = g.node("Mul", [x, g.node("Add", [y, one], x.shape)], x.shape)
    return g.node("Mul", [y, half], x.shape, power=0.43 * x.power)


def softmax(g: Graph, x: Value) -> Value:
    """Adds Softmax of `x` over the last axis to the graph."""
    return g.node("Softmax", [x], x.shape, power=1 / x.shape[-1], axis=-1)


# Two tensors.


def _broadcast(a: Value, b: Value) -> tuple[int, ...]:
    return np.broadcast_shapes(a.shape, b.shape)


def add(g: Graph, a: Value, b: Value) -> Value:
    """Adds a + b to the graph."""
    return g.node("Add", [a, b], _broadcast(a, b), power=a.power + b.power)


def multiply(g: Graph, a: Value, b: Value) -> Value:
    """Adds a * b to the graph."""
    return g.node("Mul", [a, b], _broadcast(a, b), power=a.power * b.power)


def scaled(g: Graph, x: Value, factor: float) -> Value:
    """Adds `x` times the number `factor` to the graph."""
    return multiply(g, x, g.constant(factor, np.float32))


# Pools.


def max_pool(g: Graph, x: Value, kernel: int, stride: int, padding: int = 0, *, up: bool = False) -> Value:
    """Adds MaxPool2d to the graph; `up` is PyTorch's ceil_mode."""
    rows, columns = (windows(size, kernel, stride, padding, up=up) for size in x.size)
    return g.node(
        "MaxPool",
        [x],
        (*x.shape[:2], rows, columns),
        power=x.power,
        ceil_mode=int(up),
        kernel_shape=[kernel] * 2,
        pads=[padding] * 4,
        strides=[stride] * 2,
    )


def average_pool(g: Graph, x: Value, kernel: int, stride: int, padding: int = 0) -> Value:
    """Adds AvgPool2d, whose means include the padding, to the graph."""
    rows, columns = (windows(size, kernel, stride, padding) for size in x.size)
    return g.node(
        "AveragePool",
        [x],
        (*x.shape[:2], rows, columns),
        power=x.power,
        ceil_mode=0,
        count_include_pad=1,
        kernel_shape=[kernel] * 2,
        pads=[padding] * 4,
        strides=[stride] * 2,
    )


def global_pool(g: Graph, x: Value) -> Value:
    """Adds AdaptiveAvgPool2d(1) to the graph: the mean over all rows and columns of each channel."""
    return g.node("GlobalAveragePool", [x], (*x.shape[:2], 1, 1), power=x.power)


def adaptive_pool(g: Graph, x: Value, size: int) -> Value:
    """Adds AdaptiveAvgPool2d(size) to the graph, as an AveragePool that reduces the image to `size` rows and `size`
    columns. `size` must divide the numbers of rows and columns. An axis that is already shorter than `size` is not
    reduced.
    """
    rows, columns = x.size
    kernel = [max(rows // size, 1), max(columns // size, 1)]
    shape = (*x.shape[:2], rows // kernel[0], columns // kernel[1])
    return g.node("AveragePool", [x], shape, power=x.power, kernel_shape=kernel, strides=kernel)


def mean(g: Graph, x: Value, axes: Sequence[int]) -> Value:
    """Adds PyTorch's x.mean(axes) to the graph."""
    gone = {axis % len(x.shape) for axis in axes}
    shape = [extent for axis, extent in enumerate(x.shape) if axis not in gone]
    return g.node("ReduceMean", [x], shape, power=x.power, axes=list(axes), keepdims=0)


# Moves.


def flatten(g: Graph, x: Value) -> Value:
    """Adds PyTorch's x.flatten(1) to the graph."""
    shape = (x.shape[0], math.prod(x.shape[1:]))
    return g.node("Flatten", [x], shape, power=x.power, axis=1)


def reshape(g: Graph, x: Value, shape: Sequence[int]) -> Value:
    """Adds PyTorch's x.reshape(shape) to the graph; `shape` has all sizes, no -1."""
    assert math.prod(shape) == math.prod(x.shape), (x, shape)
    return g.node("Reshape", [x, g.constant(shape)], shape, power=x.power, integer=x.integer)


def transpose(g: Graph, x: Value, *axes: int) -> Value:
    """Adds PyTorch's x.permute(axes) to the graph."""
    return g.node("Transpose", [x], [x.shape[axis] for axis in axes], power=x.power, perm=list(axes))


def concat(g: Graph, xs: Sequence[Value], axis: int) -> Value:
    """Adds torch.cat(xs, axis) to the graph."""
    shape = list(xs[0].shape)
    shape[axis] = sum(x.shape[axis] for x in xs)
    power = sum(x.power * x.shape[axis] for x in xs) / shape[axis]
    return g.node("Concat", xs, shape, power=power, axis=axis)


def split(g: Graph, x: Value, sizes: Sequence[int], axis: int) -> list[Value]:
    """Adds PyTorch's x.split(sizes, axis) to the graph; returns the parts."""
    shapes = [[*x.shape[:axis], size, *x.shape[axis + 1 :]] for size in sizes]
    return g.node_of_many("Split", [x, g.constant(sizes)], shapes, power=x.power, axis=axis)


def unbind(g: Graph, x: Value) -> list[Value]:
    """Adds PyTorch's x.unbind(0) to the graph: a Split, and a Squeeze for each part; returns the parts."""
    parts = split(g, x, [1] * x.shape[0], 0)
    axis = g.constant([0])
    return [g.node("Squeeze", [part, axis], x.shape[1:], power=x.power) for part in parts]


def select(g: Graph, x: Value, axis: int, place: int) -> Value:
    """Adds PyTorch's x.select(axis, place), for an `axis` of 0 or more, to the graph, as a Gather."""
    shape = [*x.shape[:axis], *x.shape[axis + 1 :]]
    return g.node("Gather", [x, g.constant(place)], shape, power=x.power, axis=axis, integer=x.integer)


def slice_axis(g: Graph, x: Value, axis: int, start: int, end: int, step: int = 1) -> Value:
    """Adds x[start:end:step] along the axis `axis` to the graph."""
    shape = list(x.shape)
    shape[axis] = len(range(*slice(start, end, step).indices(x.shape[axis])))
    bounds = [g.constant([value]) for value in (start, end, axis, step)]
    # Starts, ends, axes, steps.
    return g.node("Slice", [x, *bounds], shape, power=x.power)


def pad(g: Graph, x: Value, before: Sequence[int], after: Sequence[int]) -> Value:
    """Adds PyTorch's F.pad with zeros to the graph, even if there is nothing to pad. `before`, `after`: number of zeros
    in front of and behind the data of each axis.
    """
    shape = [extent + a + b for extent, a, b in zip(x.shape, before, after, strict=True)]
    amounts = [g.constant([*before, *after]), g.constant(0.0, np.float32)]
    return g.node("Pad", [x, *amounts], shape, power=x.power, mode="constant")


def resize(g: Graph, x: Value, size: tuple[int, int]) -> Value:
    """Adds PyTorch's F.interpolate(x, size, mode="bilinear", align_corners=False) to the graph."""
    sizes = g.constant([*x.shape[:2], *size])
    return g.node(
        "Resize",
        [x, None, None, sizes],
        (*x.shape[:2], *size),
        power=x.power,
        coordinate_transformation_mode="pytorch_half_pixel",
        cubic_coeff_a=-0.75,
        mode="linear",
        nearest_mode="floor",
    )
