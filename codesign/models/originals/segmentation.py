"""LR-ASPP and DeepLab-v3 over MobileNet-v3-Large, after torchvision's models/segmentation.

The last three blocks of the backbone are dilated instead of strided. All normalizations are folded into convolutions.
"""

from dataclasses import replace

from . import operators as op
from .graph import Graph
from .mobile import LARGE, mobilenet_v3_features
from .values import Value

CLASSES = 21
"""Number of classes of Pascal VOC, including the background."""
DILATED = (*LARGE[:12], *(replace(row, dilation=2) for row in LARGE[12:]))
EIGHTH = 4
"""Index of a feature map in the result of `mobilenet_v3_features`: it has an eighth of the image's rows and columns."""


def lraspp(g: Graph, x: Value) -> Value:
    """Adds LR-ASPP over MobileNet-v3-Large (torchvision's lraspp_mobilenet_v3_large) with input `x` to the graph;
    returns the class scores of each pixel. Howard et al., "Searching for MobileNetV3" (2019), figure 10.
    """
    features = mobilenet_v3_features(g, x, DILATED, "backbone")
    low, high = features[EIGHTH], features[-1]
    with g.scope("classifier"):
        inside = g.channels(128)
        y = op.relu(g, op.conv(g, high, "cbr.0", inside, 1, norm=True))
        gate = op.sigmoid(g, op.conv(g, op.global_pool(g, high), "scale.1", inside, 1, bias=False))
        y = op.resize(g, op.multiply(g, y, gate), low.size)
        y = op.add(
            g, op.conv(g, low, "low_classifier", CLASSES, 1), op.conv(g, y, "high_classifier", CLASSES, 1)
        )
    return op.resize(g, y, x.size)


def deeplabv3(g: Graph, x: Value) -> Value:
    """Adds DeepLab-v3 over MobileNet-v3-Large (torchvision's deeplabv3_mobilenet_v3_large), without the auxiliary
    classifier, with input `x` to the graph; returns the class scores of each pixel. Chen et al., "Rethinking Atrous
    Convolution for Semantic Image Segmentation" (2017).
    """
    high = mobilenet_v3_features(g, x, DILATED, "backbone")[-1]
    inside = g.channels(256)
    with g.scope("classifier"):
        with g.scope("0"):
            parts = [op.relu(g, op.conv(g, high, "convs.0.0", inside, 1, norm=True))]
            for place, rate in enumerate((12, 24, 36), start=1):
                y = op.conv(g, high, f"convs.{place}.0", inside, op.Window(3, 1, rate, rate), norm=True)
                parts.append(op.relu(g, y))
            y = op.relu(g, op.conv(g, op.global_pool(g, high), "convs.4.1", inside, 1, norm=True))
            parts.append(op.resize(g, y, high.size))
            y = op.relu(g, op.conv(g, op.concat(g, parts, 1), "project.0", inside, 1, norm=True))
        y = op.relu(g, op.conv(g, y, "1", inside, op.Window(3, 1, 1), norm=True))
        y = op.conv(g, y, "4", CLASSES, 1)
    return op.resize(g, y, x.size)
