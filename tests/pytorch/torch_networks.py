"""Small PyTorch modules for the tests, with seeded weights."""

from __future__ import annotations

import torch
import torch.ao.quantization.fx._decomposed  # registers the operators quantized_decomposed.*
from torch import Tensor, nn


class Classifier(nn.Module):
    """A convolution with batch normalization, a residual block, a mean and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.bn = nn.BatchNorm2d(16)
        self.block = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU())
        self.fc = nn.Linear(16, 10)

    def forward(self, image: Tensor) -> Tensor:
        y = self.bn(self.conv(image)).relu()
        y = (y + self.block(y)).relu()
        return self.fc(y.mean((2, 3)))


class Tokens(nn.Module):
    """Two linear layers on each token of [batch, sequence, 16]."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens + self.layers(tokens)


class Encoder(nn.Module):
    """One transformer layer on [batch, sequence, 16]."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.layer(tokens)


class Recurrent(nn.Module):
    """An LSTM and a linear layer on its last state."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.lstm = nn.LSTM(8, 16, batch_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, steps: Tensor) -> Tensor:
        return self.head(self.lstm(steps)[0][:, -1])


class Quantized(nn.Module):
    """A convolution on int8: quantized input, weights and output, by the operators that PT2E writes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.register_buffer("weight", torch.randint(-127, 128, (8, 4, 3, 3), dtype=torch.int8))

    def forward(self, x: Tensor) -> Tensor:
        ops = torch.ops.quantized_decomposed
        x = ops.quantize_per_tensor(x, 0.02, 3, -128, 127, torch.int8)
        x = ops.dequantize_per_tensor(x, 0.02, 3, -128, 127, torch.int8)
        weight = ops.dequantize_per_tensor(self.weight, 0.01, 0, -127, 127, torch.int8)
        y = nn.functional.conv2d(x, weight, padding=1)
        y = ops.quantize_per_tensor(y, 0.05, -4, -128, 127, torch.int8)
        return ops.dequantize_per_tensor(y, 0.05, -4, -128, 127, torch.int8)


class Several(nn.Module):
    """A module with two inputs, and results that are a tensor, None, an integer, the input itself and a bfloat16
    tensor.
    """

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.linear = nn.Linear(8, 8)
        self.register_buffer("shift", torch.ones(8))

    def forward(self, x: Tensor, scale: int) -> tuple[Tensor, None, int, Tensor, Tensor]:
        y = self.linear(x) + self.shift
        if scale > 2:
            y = y * scale
        return y.relu(), None, x.shape[0] * 2, x, y.to(torch.bfloat16)


def image(size: int = 8, seed: int = 0) -> Tensor:
    """A seeded image [1, 3, size, size]."""
    return torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(seed))
