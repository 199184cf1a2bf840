"""GoogLeNet and Inception-v3 without their auxiliary classifiers, after torchvision's googlenet.py and inception.py.

All normalizations are folded into convolutions; images are not transformed, as in torchvision without downloaded
weights.
"""

from . import operators as op
from .classic import CLASSES
from .graph import Graph
from .values import Value


def _basic(
    g: Graph,
    x: Value,
    name: str,
    out: int,
    kernel: int | tuple[int, int],
    stride: int = 1,
    padding: int | tuple[int, int] = 0,
) -> Value:
    """Adds a convolution with folded normalization, then ReLU, to the graph; `out` is the number of channels at full
    width.
    """
    with g.scope(name):
        return op.relu(
            g, op.conv(g, x, "conv", g.channels(out), op.Window(kernel, stride, padding), norm=True)
        )


def googlenet(g: Graph, x: Value) -> Value:
    """Adds GoogLeNet with input `x` to the graph; returns the class scores. Szegedy et al., "Going Deeper with
    Convolutions" (2014), table 1; 5x5 convolutions are replaced by 3x3, as in torchvision.
    """
    x = op.max_pool(g, _basic(g, x, "conv1", 64, 7, 2, 3), 3, 2, up=True)
    x = _basic(g, _basic(g, x, "conv2", 64, 1), "conv3", 192, 3, 1, 1)
    x = op.max_pool(g, x, 3, 2, up=True)
    for name, widths in (
        ("3a", (64, 96, 128, 16, 32, 32)),
        ("3b", (128, 128, 192, 32, 96, 64)),
        ("4a", (192, 96, 208, 16, 48, 64)),
        ("4b", (160, 112, 224, 24, 64, 64)),
        ("4c", (128, 128, 256, 24, 64, 64)),
        ("4d", (112, 144, 288, 32, 64, 64)),
        ("4e", (256, 160, 320, 32, 128, 128)),
        ("5a", (256, 160, 320, 32, 128, 128)),
        ("5b", (384, 192, 384, 48, 128, 128)),
    ):
        if name == "4a":
            x = op.max_pool(g, x, 3, 2, up=True)
        if name == "5a":
            x = op.max_pool(g, x, 2, 2, up=True)
        ones, before3, threes, before5, fives, pooled = widths
        with g.scope(f"inception{name}"):
            first = _basic(g, x, "branch1", ones, 1)
            second = _basic(g, _basic(g, x, "branch2.0", before3, 1), "branch2.1", threes, 3, 1, 1)
            third = _basic(g, _basic(g, x, "branch3.0", before5, 1), "branch3.1", fives, 3, 1, 1)
            fourth = _basic(g, op.max_pool(g, x, 3, 1, 1, up=True), "branch4.1", pooled, 1)
            x = op.concat(g, [first, second, third, fourth], 1)
    return op.linear(g, op.flatten(g, op.global_pool(g, x)), "fc", CLASSES)


def inception_v3(g: Graph, x: Value) -> Value:
    """Adds Inception-v3 with input `x` to the graph; returns the class scores. Szegedy et al., "Rethinking the
    Inception Architecture for Computer Vision" (2015).
    """
    x = _basic(g, x, "Conv2d_1a_3x3", 32, 3, 2)
    x = _basic(g, x, "Conv2d_2a_3x3", 32, 3)
    x = op.max_pool(g, _basic(g, x, "Conv2d_2b_3x3", 64, 3, 1, 1), 3, 2)
    x = _basic(g, x, "Conv2d_3b_1x1", 80, 1)
    x = op.max_pool(g, _basic(g, x, "Conv2d_4a_3x3", 192, 3), 3, 2)
    for name, pooled in (("b", 32), ("c", 64), ("d", 64)):
        with g.scope(f"Mixed_5{name}"):
            x = _inception_a(g, x, pooled)
    with g.scope("Mixed_6a"):
        x = _inception_b(g, x)
    for name, width in (("b", 128), ("c", 160), ("d", 160), ("e", 192)):
        with g.scope(f"Mixed_6{name}"):
            x = _inception_c(g, x, width)
    with g.scope("Mixed_7a"):
        x = _inception_d(g, x)
    for name in ("b", "c"):
        with g.scope(f"Mixed_7{name}"):
            x = _inception_e(g, x)
    return op.linear(g, op.flatten(g, op.global_pool(g, x)), "fc", CLASSES)


def _inception_a(g: Graph, x: Value, pooled: int) -> Value:
    first = _basic(g, x, "branch1x1", 64, 1)
    second = _basic(g, _basic(g, x, "branch5x5_1", 48, 1), "branch5x5_2", 64, 5, 1, 2)
    third = _basic(g, _basic(g, x, "branch3x3dbl_1", 64, 1), "branch3x3dbl_2", 96, 3, 1, 1)
    third = _basic(g, third, "branch3x3dbl_3", 96, 3, 1, 1)
    fourth = _basic(g, op.average_pool(g, x, 3, 1, 1), "branch_pool", pooled, 1)
    return op.concat(g, [first, second, third, fourth], 1)


def _inception_b(g: Graph, x: Value) -> Value:
    first = _basic(g, x, "branch3x3", 384, 3, 2)
    second = _basic(g, _basic(g, x, "branch3x3dbl_1", 64, 1), "branch3x3dbl_2", 96, 3, 1, 1)
    second = _basic(g, second, "branch3x3dbl_3", 96, 3, 2)
    return op.concat(g, [first, second, op.max_pool(g, x, 3, 2)], 1)


def _inception_c(g: Graph, x: Value, width: int) -> Value:
    row, column = ((1, 7), (0, 3)), ((7, 1), (3, 0))
    first = _basic(g, x, "branch1x1", 192, 1)
    second = _basic(g, x, "branch7x7_1", width, 1)
    second = _basic(g, second, "branch7x7_2", width, row[0], 1, row[1])
    second = _basic(g, second, "branch7x7_3", 192, column[0], 1, column[1])
    third = _basic(g, x, "branch7x7dbl_1", width, 1)
    for place, (kernel, padding) in enumerate((column, row, column, row), start=2):
        third = _basic(g, third, f"branch7x7dbl_{place}", width if place < 5 else 192, kernel, 1, padding)
    fourth = _basic(g, op.average_pool(g, x, 3, 1, 1), "branch_pool", 192, 1)
    return op.concat(g, [first, second, third, fourth], 1)


def _inception_d(g: Graph, x: Value) -> Value:
    first = _basic(g, _basic(g, x, "branch3x3_1", 192, 1), "branch3x3_2", 320, 3, 2)
    second = _basic(g, x, "branch7x7x3_1", 192, 1)
    second = _basic(g, second, "branch7x7x3_2", 192, (1, 7), 1, (0, 3))
    second = _basic(g, second, "branch7x7x3_3", 192, (7, 1), 1, (3, 0))
    second = _basic(g, second, "branch7x7x3_4", 192, 3, 2)
    return op.concat(g, [first, second, op.max_pool(g, x, 3, 2)], 1)


def _inception_e(g: Graph, x: Value) -> Value:
    # The exporter merges the concatenation of these pairs into that of the branches.
    def both(x: Value, name: str, start: str) -> list[Value]:
        row = _basic(g, x, f"{name}_{start}a", 384, (1, 3), 1, (0, 1))
        column = _basic(g, x, f"{name}_{start}b", 384, (3, 1), 1, (1, 0))
        return [row, column]

    first = _basic(g, x, "branch1x1", 320, 1)
    second = both(_basic(g, x, "branch3x3_1", 384, 1), "branch3x3", "2")
    third = _basic(g, _basic(g, x, "branch3x3dbl_1", 448, 1), "branch3x3dbl_2", 384, 3, 1, 1)
    pairs = [*second, *both(third, "branch3x3dbl", "3")]
    fourth = _basic(g, op.average_pool(g, x, 3, 1, 1), "branch_pool", 192, 1)
    return op.concat(g, [first, *pairs, fourth], 1)
