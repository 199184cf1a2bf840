"""The shipped networks with seeded He-normal weights; calibration normalizes them afterwards.

ResNet-18 follows He et al., "Deep Residual Learning for Image Recognition" (2015), table 1, option B shortcuts, as
commonly shipped (v1: a block's stride is in its first 3x3 convolution). ResNet-50 is from the same table; a block's
stride is in its 3x3 convolution, as frameworks ship it (often called v1.5). MobileNet-v1 follows Howard et al.,
"MobileNets: Efficient Convolutional Neural Networks for Mobile Vision Applications" (2017), table 1. DQN follows Mnih
et al., "Human-level control through deep reinforcement learning" (2015), extended data table 1.
"""

from dataclasses import replace

import numpy as np

from .layers import (
    INPUT,
    Add,
    AveragePool,
    Convolution,
    Dense,
    GlobalAveragePool,
    Layer,
    MaxPool,
    Network,
)


def _convolution(
    rng: np.random.Generator,
    name: str,
    data: str,
    channels: tuple[int, int],
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    relu: bool = True,
) -> Convolution:
    """A convolution layer with random weights and pads of `kernel` // 2; an odd `kernel` then preserves rows and
    columns at stride 1. `channels`: (inputs, outputs); `data`: name of the input tensor.
    """
    inputs, outputs = channels
    depth = inputs // groups
    deviation = np.sqrt(2.0 / (depth * kernel * kernel))
    return Convolution(
        name=name,
        data=data,
        weight=rng.standard_normal((outputs, depth, kernel, kernel)) * deviation,
        bias=np.zeros(outputs),
        stride=stride,
        padding=kernel // 2,
        groups=groups,
        relu=relu,
    )


def _dense(rng: np.random.Generator, name: str, data: str, inputs: int, outputs: int, relu: bool) -> Dense:
    weight = rng.standard_normal((outputs, inputs)) * np.sqrt(2.0 / inputs)
    return Dense(name=name, data=data, weight=weight, bias=np.zeros(outputs), relu=relu)


def resnet18(seed: int) -> Network:
    """ResNet-18 v1: maps 3x224x224 to scores of 1000 classes by 20 convolutions and one dense layer."""
    rng = np.random.default_rng(seed)
    layers: list[Layer] = [
        _convolution(rng, "conv1", INPUT, (3, 64), 7, stride=2),
        MaxPool(name="maxpool", data="conv1", kernel=3, stride=2, padding=1),
    ]
    data, channels = "maxpool", 64
    for stage, width in enumerate((64, 128, 256, 512), start=1):
        for block in range(2):
            prefix = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            layers += [
                _convolution(rng, f"{prefix}.conv1", data, (channels, width), 3, stride),
                _convolution(rng, f"{prefix}.conv2", f"{prefix}.conv1", (width, width), 3, relu=False),
            ]
            shortcut = data
            if stride == 2:
                shortcut = f"{prefix}.downsample"
                layers.append(_convolution(rng, shortcut, data, (channels, width), 1, stride, relu=False))
            layers.append(Add(name=f"{prefix}.add", first=f"{prefix}.conv2", second=shortcut))
            data, channels = f"{prefix}.add", width
    layers += [
        GlobalAveragePool(name="avgpool", data=data),
        _dense(rng, "fc", "avgpool", 512, 1000, relu=False),
    ]
    return Network(name="resnet18", input_shape=(3, 224, 224), classes=1000, layers=tuple(layers))


def resnet50(seed: int) -> Network:
    """ResNet-50: maps 3x224x224 to scores of 1000 classes by 53 convolutions and one dense layer."""
    rng = np.random.default_rng(seed)
    layers: list[Layer] = [
        _convolution(rng, "conv1", INPUT, (3, 64), 7, stride=2),
        MaxPool(name="maxpool", data="conv1", kernel=3, stride=2, padding=1),
    ]
    data, channels = "maxpool", 64
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), start=1):
        for block in range(blocks):
            prefix = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            layers += [
                _convolution(rng, f"{prefix}.conv1", data, (channels, width), 1),
                _convolution(rng, f"{prefix}.conv2", f"{prefix}.conv1", (width, width), 3, stride),
                _convolution(rng, f"{prefix}.conv3", f"{prefix}.conv2", (width, 4 * width), 1, relu=False),
            ]
            shortcut = data
            if block == 0:
                shortcut = f"{prefix}.downsample"
                layers.append(_convolution(rng, shortcut, data, (channels, 4 * width), 1, stride, relu=False))
            layers.append(Add(name=f"{prefix}.add", first=f"{prefix}.conv3", second=shortcut))
            data, channels = f"{prefix}.add", 4 * width
    layers += [
        GlobalAveragePool(name="avgpool", data=data),
        _dense(rng, "fc", "avgpool", 2048, 1000, relu=False),
    ]
    return Network(name="resnet50", input_shape=(3, 224, 224), classes=1000, layers=tuple(layers))


def mobilenet(seed: int) -> Network:
    """MobileNet-v1 of width 1: 3x224x224 to 1000 classes, one convolution, then 13 depthwise-separable blocks.

    Channels have a mean of one standard deviation (`shift`), so that most values pass the ReLU. With a mean of 0,
    rounding errors would grow by a fifth in each layer, since the network has no shortcuts and a ReLU halves the
    values but not their differences; no two libraries would then agree to 1e-5.
    """
    rng = np.random.default_rng(seed)
    layers: list[Layer] = [_convolution(rng, "conv1", INPUT, (3, 32), 3, stride=2)]
    data, channels = "conv1", 32
    widths = (
        (64, 1),
        (128, 2),
        (128, 1),
        (256, 2),
        (256, 1),
        (512, 2),
        *[(512, 1)] * 5,
        (1024, 2),
        (1024, 1),
    )
    for block, (width, stride) in enumerate(widths, start=1):
        depthwise, pointwise = f"block{block}.depthwise", f"block{block}.pointwise"
        layers += [
            _convolution(rng, depthwise, data, (channels, channels), 3, stride, groups=channels),
            _convolution(rng, pointwise, depthwise, (channels, width), 1),
        ]
        data, channels = pointwise, width
    layers += [
        GlobalAveragePool(name="avgpool", data=data),
        _dense(rng, "fc", "avgpool", 1024, 1000, relu=False),
    ]
    return Network(name="mobilenet", input_shape=(3, 224, 224), classes=1000, layers=tuple(layers), shift=1.0)


def dqn(seed: int) -> Network:
    """DQN: maps the last 4 frames of 84x84 to the values of 18 actions; no layer has padding."""
    rng = np.random.default_rng(seed)
    layers: tuple[Layer, ...] = (
        replace(_convolution(rng, "conv1", INPUT, (4, 32), 8, stride=4), padding=0),
        replace(_convolution(rng, "conv2", "conv1", (32, 64), 4, stride=2), padding=0),
        replace(_convolution(rng, "conv3", "conv2", (64, 64), 3), padding=0),
        _dense(rng, "fc1", "conv3", 7 * 7 * 64, 512, relu=True),
        _dense(rng, "fc2", "fc1", 512, 18, relu=False),
    )
    return Network(name="dqn", input_shape=(4, 84, 84), classes=18, layers=layers)


def small_cnn(seed: int) -> Network:
    """A small CNN with the operators of ResNet-18, but an average pool in place of the global one, and with numbers of
    channels that are no multiples of a block: 3x32x32 to 20 classes.
    """
    rng = np.random.default_rng(seed)
    layers: tuple[Layer, ...] = (
        _convolution(rng, "conv1", INPUT, (3, 19), 5),
        MaxPool(name="maxpool", data="conv1", kernel=3, stride=2, padding=1),
        _convolution(rng, "conv2", "maxpool", (19, 33), 3),
        _convolution(rng, "conv3", "conv2", (33, 33), 3, relu=False),
        Add(name="add", first="conv3", second="conv2"),
        _convolution(rng, "conv4", "add", (33, 40), 3, stride=2),
        AveragePool(name="avgpool", data="conv4", kernel=2, stride=2),
        _dense(rng, "fc", "avgpool", 40 * 4 * 4, 20, relu=False),
    )
    return Network(name="small_cnn", input_shape=(3, 32, 32), classes=20, layers=layers)


def mlp(seed: int) -> Network:
    """A perceptron of 784, 256 and 10 units with one ReLU."""
    rng = np.random.default_rng(seed)
    layers: tuple[Layer, ...] = (
        _dense(rng, "fc1", INPUT, 784, 256, relu=True),
        _dense(rng, "fc2", "fc1", 256, 10, relu=False),
    )
    return Network(name="mlp", input_shape=(784,), classes=10, layers=layers)
