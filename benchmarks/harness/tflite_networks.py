"""Small int8 TFLite networks with random weights, in the shapes of published ones: the operators, pads, strides and
activations of these networks, with fewer channels and smaller images.

Weights are scaled so that the results of each layer have the variance 1; the scales of activations follow from this
variance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from .tflite_files import Written

NONE, RELU, RELU6 = 0, 1, 3
SAME, VALID = 0, 1
SPREAD = 3.5
"""Largest value that a quantized activation represents, in standard deviations of its values."""


@dataclass
class Network(Written):
    """A network under construction. A tensor is an index into `tensors`. Methods that add an operator read the tensor
    `x` and return the output tensor. `mean_square`: for each activation, the mean of its squared values, which decides
    the scale of the weights that are multiplied with this activation.
    """

    mean_square: dict[int, float] = field(default_factory=dict)

    def image(self, *shape: int) -> int:
        """Adds the network's int8 input of `shape`, quantized for values from -1 to 1, and returns it."""
        x = self.input(shape, np.int8, 0.0078431377, -1)
        self.mean_square[x] = 1 / 3
        return x

    def result(self, shape: Sequence[int], act: int = NONE, deviation: float = 1.0) -> int:
        """Adds an int8 activation of `shape` for an operator's result and returns it. Its values have the mean 0 and
        the standard deviation `deviation` before the fused activation function `act` (one of TFLite's numbers). The
        scale and the zero point of the activation fit these values.
        """
        if act == NONE:
            scale, zero = 2 * SPREAD * deviation / 255.3, int(self.rng.integers(-6, 7))
        else:
            scale, zero = (6 / 255 if act == RELU6 else SPREAD * deviation / 254.7), -128
        y = self.tensor(shape, np.int8, scale, zero)
        self.mean_square[y] = deviation**2 / (1 if act == NONE else 2)
        return y

    def scaled(self, shape: Sequence[int], axis: int | None, x: int, products: int) -> int:
        """Adds int8 weights of `shape` and returns them. There is one scale for each index along `axis`, or a single
        scale if `axis` is None. The scales are chosen so that a sum of `products` products with elements of `x` has a
        variance of about 1.
        """
        index = self.weights(tuple(shape), axis)
        wanted = 1 / np.sqrt(products * self.mean_square[x])
        spread = 0.8 + 0.4 * self.rng.random(len(self.tensors[index]["scale"]))
        self.tensors[index]["scale"] = (wanted / 73.6 * spread).astype(np.float32)
        return index

    def conv(
        self, x: int, outputs: int, kernel: int | tuple[int, int] = 1, stride: int = 1, act: int = RELU6,
        padding: int = SAME, dilation: int = 1, depthwise: bool = False,
    ) -> int:  # fmt: skip
        batch, height, width, channels = self.shape(x)
        k = (kernel, kernel) if isinstance(kernel, int) else kernel
        plane = [
            -(-n // stride) if padding == SAME else (n - (e - 1) * dilation - 1) // stride + 1
            for n, e in zip((height, width), k, strict=True)
        ]
        products = k[0] * k[1] * (1 if depthwise else channels)
        shape = (1, *k, outputs) if depthwise else (outputs, *k, channels)
        weights = self.scaled(shape, 3 if depthwise else 0, x, products)
        bias = self.bias(x, weights, outputs)
        y = self.result((batch, *plane, outputs), act)
        fields = {
            "Padding": padding, "StrideH": stride, "StrideW": stride, "DilationHFactor": dilation,
            "DilationWFactor": dilation, "FusedActivationFunction": act,
        }  # fmt: skip
        if depthwise:
            fields["DepthMultiplier"] = outputs // channels
            return self.add("DEPTHWISE_CONV_2D", [x, weights, bias], y, "DepthwiseConv2D", **fields)
        return self.add("CONV_2D", [x, weights, bias], y, "Conv2D", **fields)

    def depthwise(
        self, x: int, kernel: int | tuple[int, int] = 3, stride: int = 1, act: int = RELU6, **more
    ) -> int:
        return self.conv(x, self.shape(x)[3], kernel, stride, act, depthwise=True, **more)

    def separable(self, x: int, outputs: int, stride: int = 1, act: int = RELU6, dilation: int = 1) -> int:
        return self.conv(self.depthwise(x, 3, stride, act, dilation=dilation), outputs, act=act)

    def inverted(
        self, x: int, outputs: int, stride: int = 1, expand: int = 4, kernel: int = 3, dilation: int = 1
    ) -> int:
        """Adds an inverted residual block and returns its output: a 1x1 convolution to `expand` times the channels of
        `x`; a depthwise convolution with a window of `kernel` rows and columns, `stride` and `dilation`; a 1x1
        convolution to `outputs` channels; and the sum with `x` if the shapes are equal.
        """
        wide = self.conv(x, self.shape(x)[3] * expand)
        y = self.conv(self.depthwise(wide, kernel, stride, dilation=dilation), outputs, act=NONE)
        return self.sum(x, y) if self.shape(x) == self.shape(y) else y

    def sum(self, a: int, b: int, act: int = NONE) -> int:
        deviation = float(np.sqrt(self.mean_square[a] + self.mean_square[b]))
        y = self.result(self.shape(a), act, deviation)
        return self.add("ADD", [a, b], y, "Add", FusedActivationFunction=act)

    def connected(self, x: int, outputs: int, act: int = NONE) -> int:
        rows, length = self.shape(x)
        weights = self.scaled((outputs, length), None, x, length)
        bias = self.bias(x, weights, outputs)
        y = self.result((rows, outputs), act)
        return self.add(
            "FULLY_CONNECTED", [x, weights, bias], y, "FullyConnected", FusedActivationFunction=act
        )

    def average(self, x: int, kernel: tuple[int, int] | None = None) -> int:
        """Adds an AVERAGE_POOL_2D of `x`, without overlap or padding, over windows of `kernel` (rows, columns); None:
        one window of all rows and columns.
        """
        batch, height, width, channels = self.shape(x)
        k = kernel or (height, width)
        y = self.like(x, (batch, height // k[0], width // k[1], channels))
        self.mean_square[y] = self.mean_square[x]
        fields = {
            "Padding": VALID,
            "StrideH": k[0],
            "StrideW": k[1],
            "FilterHeight": k[0],
            "FilterWidth": k[1],
        }
        return self.add("AVERAGE_POOL_2D", [x], y, "Pool2D", **fields)

    def mean(self, x: int, *, keep: bool = False) -> int:
        batch, _, _, channels = self.shape(x)
        axes = self.constant(np.array([1, 2], np.int32))
        y = self.tensor((batch, 1, 1, channels) if keep else (batch, channels), np.int8, 0.0109371, -100)
        self.mean_square[y] = 0.25
        return self.add("MEAN", [x, axes], y, "Reducer", KeepDims=keep)

    def reshape(self, x: int, *shape: int) -> int:
        y = self.like(x, shape)
        self.mean_square[y] = self.mean_square[x]
        return self.add("RESHAPE", [x], y, "Reshape", NewShape=list(shape))

    def function(self, kind: str, x: int, scale: float, zero: int, options: str = "") -> int:
        y = self.tensor(self.shape(x), np.int8, scale, zero)
        self.mean_square[y] = self.mean_square[x] / 2
        return self.add(kind, [x], y, options)

    def softmax(self, x: int) -> int:
        y = self.tensor(self.shape(x), np.int8, 1 / 256, -128)
        return self.add("SOFTMAX", [x], y, "Softmax", Beta=1.0)

    def logistic(self, x: int) -> int:
        return self.function("LOGISTIC", x, 1 / 256, -128)

    def swish(self, x: int) -> int:
        return self.function("HARD_SWISH", x, 0.0148217, -103, "HardSwish")

    def squeezed(self, x: int) -> int:
        """Adds a squeeze-and-excitation block of MobileNet v3: two 1x1 convolutions and a hard sigmoid compute a factor
        for each channel of `x` from the channels' means, and `x` is multiplied by these factors.
        """
        channels = self.shape(x)[3]
        few = self.conv(self.mean(x, keep=True), max(channels // 4, 8), act=RELU)
        gate = self.conv(few, channels, act=NONE)
        three = self.constant(np.array(127, np.int8), 3 / 127, 0)
        shifted = self.result(self.shape(gate), RELU6)
        self.add("ADD", [gate, three], shifted, "Add", FusedActivationFunction=RELU6)
        sixth = self.constant(np.array(127, np.int8), 1 / 6 / 127, 0)
        share = self.tensor(self.shape(gate), np.int8, 1 / 255.7, -128)
        self.add("MUL", [shifted, sixth], share, "Mul")
        y = self.tensor(
            self.shape(x), np.int8, float(self.tensors[x]["scale"][0]) * 0.9, int(self.tensors[x]["zero"][0])
        )
        self.mean_square[y] = self.mean_square[x] / 3
        return self.add("MUL", [x, share], y, "Mul")

    def resized(self, x: int, height: int, width: int) -> int:
        batch, _, _, channels = self.shape(x)
        size = self.constant(np.array([height, width], np.int32))
        y = self.like(x, (batch, height, width, channels))
        self.mean_square[y] = self.mean_square[x]
        return self.add("RESIZE_BILINEAR", [x, size], y, "ResizeBilinear", HalfPixelCenters=True)

    def joined(self, parts: Sequence[int], axis: int) -> int:
        """Adds a CONCATENATION of `parts` along `axis`. Before it, a QUANTIZE converts each part but the first to the
        scale and zero point of the first part, as TFLite's converter does.
        """
        first, alike = self.tensors[parts[0]], [parts[0]]
        for part in parts[1:]:
            alike.append(self.add("QUANTIZE", [part], self.like(parts[0], self.shape(part)), "Quantize"))
        shape = list(self.shape(parts[0]))
        shape[axis] = sum(self.shape(part)[axis] for part in parts)
        y = self.tensor(shape, np.int8, first["scale"], first["zero"])
        self.mean_square[y] = self.mean_square[parts[0]]
        return self.add("CONCATENATION", alike, y, "Concatenation", Axis=axis)

    def done(self, *outputs: int) -> Network:
        self.outputs = list(outputs)
        return self


def mobilenet_v1() -> Network:
    net = Network()
    x = net.conv(net.image(1, 32, 32, 3), 8, 3, 2)
    for outputs, stride in ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1)):
        x = net.separable(x, outputs, stride)
    x = net.conv(net.average(x), 10, act=NONE)
    return net.done(net.softmax(net.reshape(x, 1, 10)))


def mobilenet_v2() -> Network:
    net = Network()
    x = net.separable(net.conv(net.image(1, 32, 32, 3), 16, 3, 2), 8)
    for outputs, stride in ((12, 1), (12, 1), (16, 2), (16, 1), (24, 2), (24, 1)):
        x = net.inverted(x, outputs, stride)
    x = net.mean(net.conv(x, 64))
    return net.done(net.softmax(net.connected(x, 10)))


def mobilenet_v3() -> Network:
    net = Network()
    x = net.swish(net.conv(net.image(1, 32, 32, 3), 16, 3, 2, NONE))
    x = net.conv(net.squeezed(net.depthwise(x, 3, 2, RELU)), 16, act=NONE)
    for outputs, stride in ((16, 1), (24, 2), (24, 1)):
        wide = net.swish(net.conv(x, 48, act=NONE))
        y = net.squeezed(net.swish(net.depthwise(wide, 5, stride, NONE)))
        y = net.conv(y, outputs, act=NONE)
        x = net.sum(x, y) if net.shape(x) == net.shape(y) else y
    x = net.swish(net.conv(net.mean(net.swish(net.conv(x, 64, act=NONE)), keep=True), 64, act=NONE))
    return net.done(net.softmax(net.connected(net.reshape(x, 1, 64), 10)))


def efficientnet_lite() -> Network:
    net = Network()
    x = net.separable(net.conv(net.image(1, 32, 32, 3), 16, 3, 2), 8)
    for outputs, stride, kernel in ((12, 2, 3), (12, 1, 3), (20, 2, 5), (20, 1, 5), (32, 1, 5)):
        x = net.inverted(x, outputs, stride, 6, kernel)
    x = net.average(net.conv(x, 64))
    return net.done(net.softmax(net.connected(net.reshape(x, 1, 64), 10)))


def person_detection() -> Network:
    net = Network()
    x = net.conv(net.image(1, 48, 48, 1), 8, 3, 2, depthwise=True)
    for outputs, stride in ((16, 1), (16, 2), (32, 1), (32, 2), (64, 2)):
        x = net.separable(x, outputs, stride)
    x = net.conv(net.average(x), 2, act=NONE)
    return net.done(net.softmax(net.reshape(x, 1, 2)))


def keyword_spotting() -> Network:
    """DS-CNN for spoken words. Input: 490 numbers, 10 features for each of 49 time steps."""
    net = Network()
    x = net.reshape(net.image(1, 490), 1, 49, 10, 1)
    x = net.conv(x, 32, (10, 4), 2, RELU)
    for _ in range(4):
        x = net.separable(x, 32, act=RELU)
    x = net.reshape(net.average(x), 1, 32)
    return net.done(net.softmax(net.connected(x, 12)))


def anomaly_detection() -> Network:
    """An autoencoder of fully connected layers."""
    net = Network()
    x = net.image(1, 320)
    for outputs in (64, 64, 8, 64, 64):
        x = net.connected(x, outputs, RELU)
    return net.done(net.connected(x, 320))


def resnet() -> Network:
    """A network like ResNet-8 of MLPerf Tiny."""
    net = Network()
    x = net.conv(net.image(1, 32, 32, 3), 16, 3, act=RELU)
    for outputs, stride in ((16, 1), (32, 2), (64, 2)):
        y = net.conv(net.conv(x, outputs, 3, stride, RELU), outputs, 3, act=NONE)
        x = net.sum(y, x if stride == 1 else net.conv(x, outputs, 1, stride, NONE), RELU)
    x = net.reshape(net.average(x), 1, 64)
    return net.done(net.softmax(net.connected(x, 10)))


def posenet() -> Network:
    """A network that computes heatmaps and offsets of key points, from a backbone with dilated layers."""
    net = Network()
    x = net.conv(net.image(1, 33, 33, 3), 16, 3, 2)
    for outputs, stride, dilation in ((16, 1, 1), (32, 2, 1), (48, 1, 2), (48, 1, 2)):
        x = net.separable(x, outputs, stride, dilation=dilation)
    heat = net.logistic(net.conv(x, 17, act=NONE))
    return net.done(heat, net.conv(x, 34, act=NONE), net.conv(x, 32, act=NONE))


def deeplab() -> Network:
    """A segmentation network: the results of dilated convolutions are concatenated with features of the image's mean;
    the class scores are resized to the image's size.
    """
    net = Network()
    x = net.separable(net.conv(net.image(1, 33, 33, 3), 16, 3, 2), 8)
    for outputs, stride, dilation in ((12, 2, 1), (16, 1, 2), (16, 1, 2)):
        x = net.inverted(x, outputs, stride, dilation=dilation)
    _, height, width, _ = net.shape(x)
    whole = net.resized(net.conv(net.average(x), 32, act=RELU), height, width)
    x = net.conv(net.joined([whole, net.conv(x, 32, act=RELU)], 3), 32, act=RELU)
    return net.done(net.resized(net.conv(x, 21, act=NONE), 33, 33))


def ssd() -> Network:
    """A network like SSD that computes boxes and class scores from three feature maps, without the custom operator that
    selects boxes.
    """
    net = Network()
    x = net.conv(net.image(1, 48, 48, 3), 16, 3, 2)
    maps = []
    for outputs, stride in ((24, 2), (32, 2), (48, 1)):
        x = net.separable(x, outputs, stride)
    maps.append(x)
    for outputs in (48, 48):
        x = net.conv(net.conv(x, 24), outputs, 3, 2)
        maps.append(x)
    boxes, classes = [], []
    for feature in maps:
        _, height, width, _ = net.shape(feature)
        boxes.append(net.reshape(net.conv(feature, 12, act=NONE), 1, height * width * 3, 4))
        classes.append(net.reshape(net.conv(feature, 15, act=NONE), 1, height * width * 3, 5))
    return net.done(net.joined(boxes, 1), net.logistic(net.joined(classes, 1)))


def yamnet() -> Network:
    """A network that classifies sounds. Input: a spectrogram of 96 time steps and 64 frequency bands."""
    net = Network()
    x = net.conv(net.reshape(net.image(1, 96, 64), 1, 96, 64, 1), 8, 3, 2, RELU)
    for outputs, stride in ((16, 1), (32, 2), (32, 1), (64, 2), (64, 2)):
        x = net.separable(x, outputs, stride, RELU)
    return net.done(net.logistic(net.connected(net.mean(x), 52)))


NETWORKS: Mapping[str, Callable[[], Network]] = MappingProxyType(
    {
        "MobileNet v1": mobilenet_v1,
        "MobileNet v2": mobilenet_v2,
        "MobileNet v3": mobilenet_v3,
        "EfficientNet-Lite": efficientnet_lite,
        "person detection": person_detection,
        "keyword spotting": keyword_spotting,
        "anomaly detection": anomaly_detection,
        "ResNet-8": resnet,
        "PoseNet": posenet,
        "DeepLab": deeplab,
        "SSD": ssd,
        "YAMNet": yamnet,
    }
)
"""Functions that make the networks, by name."""
