"""ResNet-50, Wide ResNet-50-2, ResNeXt-50 and RegNet-Y-400MF, after torchvision's resnet.py and regnet.py.

The stride of a block is in its 3x3 convolution. All normalizations are folded into convolutions.
"""

from . import operators as op
from .classic import CLASSES
from .gates import squeeze_and_excite
from .graph import Graph
from .values import Value


def resnet50(g: Graph, x: Value) -> Value:
    """Adds ResNet-50 with input `x` to the graph; returns the class scores. He et al., "Deep Residual Learning for
    Image Recognition" (2015), table 1.
    """
    return _resnet(g, x)


def wide_resnet50(g: Graph, x: Value) -> Value:
    """Adds Wide ResNet-50-2 with input `x` to the graph; returns the class scores. Zagoruyko and Komodakis, "Wide
    Residual Networks" (2016): the 3x3 convolutions have twice the channels of ResNet-50.
    """
    return _resnet(g, x, base_width=128)


def resnext50(g: Graph, x: Value) -> Value:
    """Adds ResNeXt-50 (32 groups of 4 channels) with input `x` to the graph; returns the class scores. Xie et al.,
    "Aggregated Residual Transformations for Deep Neural Networks" (2016).
    """
    return _resnet(g, x, groups=32, base_width=4)


def _resnet(g: Graph, x: Value, groups: int = 1, base_width: int = 64) -> Value:
    stem = g.channels(64)
    x = op.relu(g, op.conv(g, x, "conv1", stem, op.Window(7, 2, 3), norm=True))
    x = op.max_pool(g, x, 3, 2, 1)
    for stage, blocks in enumerate((3, 4, 6, 3)):
        # In narrower copies, groups keep their number of channels.
        group_width = base_width << stage
        count = max(1, groups * stem // 64)
        width = group_width * count if groups > 1 else (stem * base_width // 64) << stage
        for block in range(g.repeats(blocks)):
            with g.scope(f"layer{stage + 1}.{block}"):
                stride = 2 if stage and not block else 1
                y = op.relu(g, op.conv(g, x, "conv1", width, 1, norm=True))
                grouped = count if groups > 1 else 1
                y = op.relu(
                    g, op.conv(g, y, "conv2", width, op.Window(3, stride, 1), groups=grouped, norm=True)
                )
                y = op.conv(g, y, "conv3", (4 * stem) << stage, 1, norm=True)
                if not block:
                    x = op.conv(g, x, "downsample.0", y.channels, op.Window(1, stride), norm=True)
                x = op.relu(g, op.add(g, y, x))
    return op.linear(g, op.flatten(g, op.global_pool(g, x)), "fc", CLASSES)


def regnet_y_400mf(g: Graph, x: Value) -> Value:
    """Adds RegNetY-400MF (groups of 8 channels, squeeze-and-excitation) with input `x` to the graph; returns the class
    scores. Radosavovic et al., "Designing Network Design Spaces" (2020).
    """
    x = op.relu(g, op.conv(g, x, "stem.0", g.channels(32), op.Window(3, 2, 1), norm=True))
    for stage, (width, blocks) in enumerate(((48, 1), (104, 3), (208, 6), (440, 6)), start=1):
        out = g.channels(width)
        for block in range(g.repeats(blocks)):
            with g.scope(f"trunk_output.block{stage}.block{stage}-{block}"):
                stride = 2 if not block else 1
                inside = x.channels
                shortcut = op.conv(g, x, "proj.0", out, op.Window(1, 2), norm=True) if not block else x
                with g.scope("f"):
                    y = op.relu(g, op.conv(g, x, "a.0", out, 1, norm=True))
                    y = op.relu(
                        g, op.conv(g, y, "b.0", out, op.Window(3, stride, 1), groups=out // 8, norm=True)
                    )
                    y = squeeze_and_excite(g, y, "se", round(0.25 * inside), op.relu, op.sigmoid)
                    y = op.conv(g, y, "c.0", out, 1, norm=True)
                x = op.relu(g, op.add(g, shortcut, y))
    return op.linear(g, op.flatten(g, op.global_pool(g, x)), "fc", CLASSES)
