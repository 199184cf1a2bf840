"""ConvNeXt-Tiny, after torchvision's convnext.py."""

from . import operators as op
from .classic import CLASSES
from .graph import Graph
from .values import Value

EPSILON = 1e-6
LAYER_SCALE = 0.3
"""Value of layer scales, about as large as in trained networks; training starts at 1e-6."""


def _norm(g: Graph, x: Value, name: str) -> Value:
    """Adds LayerNorm over the channels of an image, between two transpositions, to the graph."""
    y = op.layer_norm(g, op.transpose(g, x, 0, 2, 3, 1), name, EPSILON)
    return op.transpose(g, y, 0, 3, 1, 2)


def convnext_tiny(g: Graph, x: Value) -> Value:
    """Adds ConvNeXt-Tiny with input `x` to the graph; returns the class scores. Liu et al., "A ConvNet for the 2020s"
    (2022).
    """
    x = _norm(g, op.conv(g, x, "features.0.0", g.channels(96), op.Window(4, 4)), "features.0.1")
    for stage, (width, count) in enumerate(((96, 3), (192, 3), (384, 9), (768, 3))):
        if stage:
            with g.scope(f"features.{2 * stage}"):
                x = op.conv(g, _norm(g, x, "0"), "1", g.channels(width), op.Window(2, 2))
        for block in range(g.repeats(count)):
            with g.scope(f"features.{2 * stage + 1}.{block}"):
                x = _block(g, x)
    x = _norm(g, op.global_pool(g, x), "classifier.0")
    return op.linear(g, op.flatten(g, x), "classifier.2", CLASSES)


def _block(g: Graph, x: Value) -> Value:
    width = x.channels
    y = op.conv(g, x, "block.0", width, op.Window(7, 1, 3), groups=width)
    y = op.layer_norm(g, op.transpose(g, y, 0, 2, 3, 1), "block.2", EPSILON)
    y = op.gelu(g, op.linear(g, y, "block.3", 4 * width))
    y = op.transpose(g, op.linear(g, y, "block.5", width), 0, 3, 1, 2)
    scale = g.weight("layer_scale", (width, 1, 1), 0.1 * LAYER_SCALE, mean=LAYER_SCALE)
    return op.add(g, op.multiply(g, scale, y), x)
