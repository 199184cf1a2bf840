"""AlexNet, VGG-11, SqueezeNet 1.1, DenseNet-121 and U-Net.

After torchvision's alexnet.py, vgg.py, squeezenet.py and densenet.py; the U-Net is that of
benchmarks/outside_networks.py.
"""

from . import operators as op
from .graph import Graph
from .values import Value

CLASSES = 1000


def alexnet(g: Graph, x: Value) -> Value:
    """Adds AlexNet with input `x` to the graph; returns the class scores. Krizhevsky, "One weird trick for
    parallelizing convolutional neural networks" (2014).
    """
    layers = ((0, 64, 11, 4, 2), (3, 192, 5, 1, 2), (6, 384, 3, 1, 1), (8, 256, 3, 1, 1), (10, 256, 3, 1, 1))
    for place, out, kernel, stride, padding in layers:
        x = op.relu(
            g, op.conv(g, x, f"features.{place}", g.channels(out), op.Window(kernel, stride, padding))
        )
        if place in (0, 3, 10):
            x = op.max_pool(g, x, 3, 2)
    return _classifier(g, op.adaptive_pool(g, x, 6), (1, 4, 6))


def vgg11(g: Graph, x: Value) -> Value:
    """Adds VGG-11 with input `x` to the graph; returns the class scores. Simonyan and Zisserman, "Very Deep
    Convolutional Networks for Large-Scale Image Recognition" (2014), configuration A.
    """
    place = 0
    for out in (64, None, 128, None, 256, 256, None, 512, 512, None, 512, 512, None):
        if out is None:
            x = op.max_pool(g, x, 2, 2)
            place += 1
        else:
            x = op.relu(g, op.conv(g, x, f"features.{place}", g.channels(out), op.Window(3, 1, 1)))
            place += 2
    return _classifier(g, op.adaptive_pool(g, x, 7), (0, 3, 6))


def _classifier(g: Graph, x: Value, places: tuple[int, int, int]) -> Value:
    x = op.flatten(g, x)
    for place in places[:2]:
        x = op.relu(g, op.linear(g, x, f"classifier.{place}", g.channels(4096)))
    return op.linear(g, x, f"classifier.{places[2]}", CLASSES)


def squeezenet1_1(g: Graph, x: Value) -> Value:
    """Adds SqueezeNet 1.1 with input `x` to the graph; returns the class scores. Iandola et al., "SqueezeNet:
    AlexNet-level accuracy with 50x fewer parameters" (2016).
    """
    x = op.relu(g, op.conv(g, x, "features.0", g.channels(64), op.Window(3, 2)))
    fires = (
        (3, 16, 64),
        (4, 16, 64),
        (6, 32, 128),
        (7, 32, 128),
        (9, 48, 192),
        (10, 48, 192),
        (11, 64, 256),
        (12, 64, 256),
    )
    for place, squeeze, expand in fires:
        if place in (3, 6, 9):
            x = op.max_pool(g, x, 3, 2, up=True)
        with g.scope(f"features.{place}"):
            x = op.relu(g, op.conv(g, x, "squeeze", g.channels(squeeze), 1))
            ones = op.relu(g, op.conv(g, x, "expand1x1", g.channels(expand), 1))
            threes = op.relu(g, op.conv(g, x, "expand3x3", g.channels(expand), op.Window(3, 1, 1)))
            x = op.concat(g, [ones, threes], 1)
    x = op.relu(g, op.conv(g, x, "classifier.1", CLASSES, 1))
    return op.flatten(g, op.global_pool(g, x))


def densenet121(g: Graph, x: Value) -> Value:
    """Adds DenseNet-121 with input `x` to the graph; returns the class scores. Huang et al., "Densely Connected
    Convolutional Networks" (2016), table 1.

    Normalizations after a concatenation are separate nodes, as the exporter leaves them.
    """
    growth = g.channels(32)
    x = op.relu(g, op.conv(g, x, "features.conv0", 2 * growth, op.Window(7, 2, 3), norm=True))
    x = op.max_pool(g, x, 3, 2, 1)
    for block, count in enumerate((6, 12, 24, 16), start=1):
        features = [x]
        for layer in range(1, g.repeats(count) + 1):
            with g.scope(f"features.denseblock{block}.denselayer{layer}"):
                # The first layer has one tensor to concatenate; the exporter writes a Concat nevertheless.
                y = op.relu(g, op.batch_norm(g, op.concat(g, features, 1), "norm1"))
                y = op.relu(g, op.conv(g, y, "conv1", 4 * growth, 1, norm=True))
                features.append(op.conv(g, y, "conv2", growth, op.Window(3, 1, 1), bias=False))
        x = op.concat(g, features, 1)
        if block < 4:
            with g.scope(f"features.transition{block}"):
                x = op.relu(g, op.batch_norm(g, x, "norm"))
                x = op.average_pool(g, op.conv(g, x, "conv", x.channels // 2, 1, bias=False), 2, 2)
    x = op.relu(g, op.batch_norm(g, x, "features.norm5"))
    return op.linear(g, op.flatten(g, op.global_pool(g, x)), "classifier", CLASSES)


def unet(g: Graph, x: Value) -> Value:
    """Adds a U-Net with input `x` to the graph; returns the scores of two classes for each pixel. Ronneberger et al.,
    "U-Net" (2015), with five levels, 16 channels in the first level, and padded convolutions.
    """

    def twice(x: Value, name: str, out: int) -> Value:
        with g.scope(name):
            for place in (0, 3):
                x = op.relu(g, op.conv(g, x, str(place), out, op.Window(3, 1, 1), norm=True))
        return x

    sizes = [g.channels(16) << level for level in range(5)]
    kept: list[Value] = []
    for level, out in enumerate(sizes):
        x = twice(op.max_pool(g, x, 2, 2) if level else x, f"down.{level}", out)
        kept.append(x)
    for level in reversed(range(4)):
        x = op.conv_transpose(g, x, f"up.{level}", sizes[level], 2, 2)
        x = twice(op.concat(g, [x, kept[level]], 1), f"conv.{level}", sizes[level])
    return op.conv(g, x, "head", 2, 1)
