"""A CNN in vdla.nn: the cycles of two kinds of blocks, layer by layer, before either has been trained.

    pip install -e . && python examples/nn_cnn.py

A block with full 3x3 convolutions is compared with a block that has a depthwise and a 1x1 convolution in place of each.
Cycles do not depend on the weights, so the random weights that `export` draws are good enough here.
"""

import numpy as np

import vdla
from vdla import nn


class Full(nn.Module):
    """A 3x3 convolution with batch normalization and a rectifier."""

    def __init__(self, channels: int) -> None:
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm(channels)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Maps `x` [batch, channels, rows, columns] to a tensor of the same shape."""
        return nn.functional.relu(self.bn(self.conv(x)))


class Separable(nn.Module):
    """A 3x3 convolution of each channel by itself, then a 1x1 convolution across channels."""

    def __init__(self, channels: int) -> None:
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.pointwise = nn.Conv2d(channels, channels, 1, bias=False)
        self.bn = nn.BatchNorm(channels)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Maps `x` [batch, channels, rows, columns] to a tensor of the same shape."""
        return nn.functional.relu(self.bn(self.pointwise(self.depthwise(x))))


class Cnn(nn.Module):
    """A CNN: a stem, two blocks (each with a residual connection), a mean, and a classifier of ten classes."""

    def __init__(self, block: type[Full] | type[Separable], channels: int = 16) -> None:
        self.stem = nn.Sequential(nn.Conv2d(3, channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.blocks = nn.ModuleList([block(channels) for _ in range(2)])
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(channels, 10)

    def forward(self, image: nn.Tensor) -> nn.Tensor:
        """Maps `image` [batch, 3, rows, columns] to scores [batch, 10]."""
        x = self.stem(image)
        for block in self.blocks:
            x = block(x) + x
        return self.fc(self.pool(x).flatten(1))


def main() -> None:
    """Print the cycles of both networks by layer, and the largest error of the int8 scores against float32 scores, as a
    share of the largest float32 score.
    """
    images = np.random.default_rng(0).random((8, 3, 16, 16), dtype=np.float32)
    for block in (Full, Separable):
        model = Cnn(block).export(spec={"forward": {"image": nn.spec.Tensor(("batch", 3, 16, 16))}})
        quantized = vdla.quantize(model, {"image": images})
        report = vdla.simulate(vdla.compile(quantized.content, config="tiny"), {"image": images[:1]})
        with vdla.compile(model, target="llvm") as processor:
            scores = processor.run({"image": images[:1]})["output"]
        error = abs(report.outputs["output"] - scores).max() / abs(scores).max()
        print(f"{block.__name__}: {report.cycles:,} cycles, int8 scores within {error:.1%} of the largest")
        for layer in report.rows():
            print(f"  {layer['name']:20} {layer['cycles']:8,} cycles")


if __name__ == "__main__":
    main()
