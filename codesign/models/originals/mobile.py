"""MobileNet-v2, v3 and v4, EfficientNet-B0, MnasNet and ShuffleNet-v2, after torchvision's files of these names, but
MobileNet-v4 after timm's mobilenetv3.py.

All normalizations are folded into convolutions.
"""

from dataclasses import dataclass

from . import operators as op
from .classic import CLASSES
from .gates import Function, make_divisible, squeeze_and_excite
from .graph import Graph
from .values import Value


def mobilenet_v2(g: Graph, x: Value) -> Value:
    """Adds MobileNet-v2 with input `x` to the graph; returns the class scores. Sandler et al., "MobileNetV2: Inverted
    Residuals and Linear Bottlenecks" (2018), table 2.
    """
    x = op.relu6(g, op.conv(g, x, "features.0.0", g.channels(32), op.Window(3, 2, 1), norm=True))
    settings = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    place = 1
    for expansion, width, count, first_stride in settings:
        out = g.channels(width)
        for block in range(g.repeats(count)):
            stride = first_stride if not block else 1
            with g.scope(f"features.{place}"):
                y, inside = x, x.channels * expansion
                if expansion != 1:
                    y = op.relu6(g, op.conv(g, y, "conv.0.0", inside, 1, norm=True))
                y = op.relu6(
                    g, op.conv(g, y, "conv.1.0", inside, op.Window(3, stride, 1), groups=inside, norm=True)
                )
                y = op.conv(g, y, "conv.2", out, 1, norm=True)
                x = op.add(g, x, y) if stride == 1 and x.channels == out else y
            place += 1
    x = op.relu6(g, op.conv(g, x, f"features.{place}.0", g.channels(1280), 1, norm=True))
    return op.linear(g, op.flatten(g, op.global_pool(g, x)), "classifier.1", CLASSES)


def mobilenet_v4_small(g: Graph, x: Value) -> Value:
    """Adds MobileNet-v4-Conv-Small with input `x` to the graph; returns the class scores. Qin et al., "MobileNetV4:
    Universal Models for the Mobile Ecosystem" (2024), table 11; names as in timm's mobilenetv3.py.
    """
    x = op.relu(g, op.conv(g, x, "conv_stem", g.channels(32), op.Window(3, 2, 1), norm=True))
    for stage, widths in enumerate(((32, 32), (96, 64))):
        for place, (width, window) in enumerate(zip(widths, (op.Window(3, 2, 1), 1), strict=True)):
            x = op.relu(
                g, op.conv(g, x, f"blocks.{stage}.{place}.conv", g.channels(width), window, norm=True)
            )
    # Universal inverted bottlenecks: kernel before and kernel after the expansion (0: none), stride, expansion, width.
    stages = (
        ((5, 5, 2, 3, 96), *(4 * ((0, 3, 1, 2, 96),)), (3, 0, 1, 4, 96)),
        (
            (3, 3, 2, 6, 128), (5, 5, 1, 4, 128), (0, 5, 1, 4, 128), (0, 5, 1, 3, 128), (0, 3, 1, 4, 128),
            (0, 3, 1, 4, 128),
        ),
    )  # fmt: skip
    for stage, rows in enumerate(stages, start=2):
        for place, (before, after, stride, expansion, width) in enumerate(rows[: g.repeats(len(rows))]):
            with g.scope(f"blocks.{stage}.{place}"):
                y, out = x, g.channels(width)
                inside = make_divisible(x.channels * expansion)
                if before:
                    window = op.Window(before, 1 if after else stride, before // 2)
                    y = op.conv(g, y, "dw_start.conv", y.channels, window, groups=y.channels, norm=True)
                y = op.relu(g, op.conv(g, y, "pw_exp.conv", inside, 1, norm=True))
                if after:
                    window = op.Window(after, stride, after // 2)
                    y = op.relu(g, op.conv(g, y, "dw_mid.conv", inside, window, groups=inside, norm=True))
                y = op.conv(g, y, "pw_proj.conv", out, 1, norm=True)
                x = op.add(g, y, x) if stride == 1 and x.channels == out else y
    x = op.relu(g, op.conv(g, x, "blocks.4.0.conv", g.channels(960), 1, norm=True))
    x = op.relu(g, op.conv(g, op.global_pool(g, x), "conv_head", g.channels(1280), 1, norm=True))
    return op.linear(g, op.flatten(g, x), "classifier", CLASSES)


def mnasnet(g: Graph, x: Value) -> Value:
    """Adds MnasNet-B1 with input `x` to the graph; returns the class scores. Tan et al., "MnasNet: Platform-Aware
    Neural Architecture Search for Mobile" (2018).
    """
    stem = g.channels(32)
    x = op.relu(g, op.conv(g, x, "layers.0", stem, op.Window(3, 2, 1), norm=True))
    x = op.relu(g, op.conv(g, x, "layers.3", stem, op.Window(3, 1, 1), groups=stem, norm=True))
    x = op.conv(g, x, "layers.6", g.channels(16), 1, norm=True)
    settings = (
        (24, 3, 2, 3, 3),
        (40, 5, 2, 3, 3),
        (80, 5, 2, 6, 3),
        (96, 3, 1, 6, 2),
        (192, 5, 2, 6, 4),
        (320, 3, 1, 6, 1),
    )
    for stage, (width, kernel, first_stride, expansion, count) in enumerate(settings, start=8):
        out = g.channels(width)
        for block in range(g.repeats(count)):
            stride = first_stride if not block else 1
            with g.scope(f"layers.{stage}.{block}.layers"):
                inside = x.channels * expansion
                y = op.relu(g, op.conv(g, x, "0", inside, 1, norm=True))
                y = op.relu(
                    g,
                    op.conv(
                        g, y, "3", inside, op.Window(kernel, stride, kernel // 2), groups=inside, norm=True
                    ),
                )
                y = op.conv(g, y, "6", out, 1, norm=True)
                # A narrower copy may have equal channels where the original has different ones.
                x = op.add(g, y, x) if block else y
    x = op.relu(g, op.conv(g, x, "layers.14", g.channels(1280), 1, norm=True))
    return op.linear(g, op.mean(g, x, (2, 3)), "classifier.1", CLASSES)


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """A block of MobileNet-v3: size of the kernel, numbers of channels inside (`expanded`) and at the output, stride
    and dilation (a block with a dilation above 1 has no stride). `gated`: it has squeeze-and-excitation. `swish`: its
    activation is hard swish instead of ReLU.
    """

    kernel: int
    expanded: int
    out: int
    gated: bool
    swish: bool
    stride: int
    dilation: int = 1


def _rows(*rows: tuple[int, int, int, bool, bool, int]) -> tuple[Bottleneck, ...]:
    return tuple(Bottleneck(*row) for row in rows)


LARGE = _rows(
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
)
SMALL = _rows(
    (3, 16, 16, True, False, 2),
    (3, 72, 24, False, False, 2),
    (3, 88, 24, False, False, 1),
    (5, 96, 40, True, True, 2),
    (5, 240, 40, True, True, 1),
    (5, 240, 40, True, True, 1),
    (5, 120, 48, True, True, 1),
    (5, 144, 48, True, True, 1),
    (5, 288, 96, True, True, 2),
    (5, 576, 96, True, True, 1),
    (5, 576, 96, True, True, 1),
)


def mobilenet_v3_large(g: Graph, x: Value) -> Value:
    """Adds MobileNet-v3-Large with input `x` to the graph; returns the class scores. Howard et al., "Searching for
    MobileNetV3" (2019), table 1.
    """
    return _head_v3(g, mobilenet_v3_features(g, x, LARGE)[-1], 1280)


def mobilenet_v3_small(g: Graph, x: Value) -> Value:
    """Adds MobileNet-v3-Small with input `x` to the graph; returns the class scores. Howard et al., "Searching for
    MobileNetV3" (2019), table 2.
    """
    return _head_v3(g, mobilenet_v3_features(g, x, SMALL)[-1], 1024)


def _head_v3(g: Graph, x: Value, width: int) -> Value:
    x = op.flatten(g, op.global_pool(g, x))
    x = op.hard_swish(g, op.linear(g, x, "classifier.0", g.channels(width)))
    return op.linear(g, x, "classifier.3", CLASSES)


def mobilenet_v3_features(
    g: Graph, x: Value, rows: tuple[Bottleneck, ...], name: str = "features"
) -> list[Value]:
    """Adds the convolutions of a MobileNet-v3 with the blocks `rows` to the graph; returns the outputs of the first
    convolution, of each block, and of the last convolution.
    """
    with g.scope(name):
        x = op.hard_swish(g, op.conv(g, x, "0.0", g.channels(16), op.Window(3, 2, 1), norm=True))
        kept = [x]
        for place, row in enumerate(rows, start=1):
            with g.scope(f"{place}.block"):
                x = _bottleneck(g, x, row)
            kept.append(x)
        x = op.hard_swish(g, op.conv(g, x, f"{len(rows) + 1}.0", 6 * x.channels, 1, norm=True))
    return [*kept, x]


def _bottleneck(g: Graph, x: Value, row: Bottleneck) -> Value:
    function: Function = op.hard_swish if row.swish else op.relu
    expanded, out = g.channels(row.expanded), g.channels(row.out)
    stride = 1 if row.dilation > 1 else row.stride
    place, y = 0, x
    if expanded != x.channels:
        y = function(g, op.conv(g, y, "0.0", expanded, 1, norm=True))
        place = 1
    window = op.Window(row.kernel, stride, (row.kernel - 1) // 2 * row.dilation, row.dilation)
    y = function(g, op.conv(g, y, f"{place}.0", expanded, window, groups=expanded, norm=True))
    if row.gated:
        place += 1
        y = squeeze_and_excite(g, y, str(place), make_divisible(expanded // 4), op.relu, op.hard_sigmoid)
    y = op.conv(g, y, f"{place + 1}.0", out, 1, norm=True)
    return op.add(g, y, x) if row.stride == 1 and x.channels == out else y


def efficientnet_b0(g: Graph, x: Value) -> Value:
    """Adds EfficientNet-B0 with input `x` to the graph; returns the class scores. Tan and Le, "EfficientNet: Rethinking
    Model Scaling for Convolutional Neural Networks" (2019), table 1.
    """
    x = op.silu(g, op.conv(g, x, "features.0.0", g.channels(32), op.Window(3, 2, 1), norm=True))
    settings = (
        (1, 3, 1, 16, 1),
        (6, 3, 2, 24, 2),
        (6, 5, 2, 40, 2),
        (6, 3, 2, 80, 3),
        (6, 5, 1, 112, 3),
        (6, 5, 2, 192, 4),
        (6, 3, 1, 320, 1),
    )
    for stage, (expansion, kernel, first_stride, width, count) in enumerate(settings, start=1):
        out = g.channels(width)
        for block in range(g.repeats(count)):
            stride = first_stride if not block else 1
            with g.scope(f"features.{stage}.{block}.block"):
                inside = x.channels * expansion
                place, y = 0, x
                if expansion != 1:
                    y = op.silu(g, op.conv(g, y, "0.0", inside, 1, norm=True))
                    place = 1
                window = op.Window(kernel, stride, kernel // 2)
                y = op.conv(g, y, f"{place}.0", inside, window, groups=inside, norm=True)
                y = squeeze_and_excite(
                    g, op.silu(g, y), str(place + 1), max(1, x.channels // 4), op.silu, op.sigmoid
                )
                y = op.conv(g, y, f"{place + 2}.0", out, 1, norm=True)
                x = op.add(g, y, x) if stride == 1 and x.channels == out else y
    x = op.silu(g, op.conv(g, x, "features.8.0", 4 * x.channels, 1, norm=True))
    return op.linear(g, op.flatten(g, op.global_pool(g, x)), "classifier.1", CLASSES)


def shufflenet_v2(g: Graph, x: Value) -> Value:
    """Adds ShuffleNet-v2 (1x) with input `x` to the graph; returns the class scores. Ma et al., "ShuffleNet V2:
    Practical Guidelines for Efficient CNN Architecture Design" (2018), table 5.
    """
    x = op.relu(g, op.conv(g, x, "conv1.0", g.channels(24), op.Window(3, 2, 1), norm=True))
    x = op.max_pool(g, x, 3, 2, 1)
    for stage, (width, count) in enumerate(((116, 4), (232, 8), (464, 4)), start=2):
        half = g.channels(width) // 2
        for block in range(max(2, g.repeats(count))):
            with g.scope(f"stage{stage}.{block}"):
                if not block:
                    first = op.conv(
                        g, x, "branch1.0", x.channels, op.Window(3, 2, 1), groups=x.channels, norm=True
                    )
                    first = op.relu(g, op.conv(g, first, "branch1.2", half, 1, norm=True))
                    second = x
                else:
                    # x.chunk(2, 1): slices, since the exporter computes the channels from the shape.
                    first = op.slice_axis(g, x, 1, 0, half)
                    second = op.slice_axis(g, x, 1, half, 2 * half)
                second = op.relu(g, op.conv(g, second, "branch2.0", half, 1, norm=True))
                second = op.conv(
                    g, second, "branch2.3", half, op.Window(3, 1 if block else 2, 1), groups=half, norm=True
                )
                second = op.relu(g, op.conv(g, second, "branch2.5", half, 1, norm=True))
                x = shuffle(g, op.concat(g, [first, second], 1), 2)
    x = op.relu(g, op.conv(g, x, "conv5.0", g.channels(1024), 1, norm=True))
    return op.linear(g, op.mean(g, x, (2, 3)), "fc", CLASSES)


def shuffle(g: Graph, x: Value, groups: int) -> Value:
    """Adds a channel shuffle to the graph: the channels of `groups` groups are interleaved."""
    batch, channels, rows, columns = x.shape
    y = op.reshape(g, x, (batch, groups, channels // groups, rows, columns))
    y = op.transpose(g, y, 0, 2, 1, 3, 4)
    return op.reshape(g, y, (batch, channels, rows, columns))
