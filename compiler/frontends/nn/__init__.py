"""Networks in a few lines: modules as in PyTorch, which `export` turns into an ONNX model in memory.

from vdla import nn

class Mlp(nn.Module):
    def __init__(self):
        self.fc1, self.relu1, self.fc2 = nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)

    def forward(self, x):
        return self.fc2(self.relu1(self.fc1(x)))

model = Mlp().export(spec={"forward": {"x": nn.spec.Tensor((1, 784), "float32")}})
"""

from . import functional, spec
from .attention import MultiHeadAttention
from .convolutions import Conv1d, Conv2d, ConvTranspose2d
from .layers import (
    GELU,
    AdaptiveAvgPool2d,
    AvgPool2d,
    BatchNorm,
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    Dropout,
    Embedding,
    Flatten,
    GroupNorm,
    Hardsigmoid,
    Hardswish,
    Identity,
    LayerNorm,
    LeakyReLU,
    Linear,
    MaxPool2d,
    ReLU,
    ReLU6,
    RMSNorm,
    Sigmoid,
    SiLU,
    Softmax,
    Tanh,
    Upsample,
)
from .module import Module, ModuleList, Parameter, Sequential
from .recurrent import GRU, LSTM
from .spec import NetworkError
from .tensor import Tensor, record

__all__ = [
    "GELU",
    "GRU",
    "LSTM",
    "AdaptiveAvgPool2d",
    "AvgPool2d",
    "BatchNorm",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Conv1d",
    "Conv2d",
    "ConvTranspose2d",
    "Dropout",
    "Embedding",
    "Flatten",
    "GroupNorm",
    "Hardsigmoid",
    "Hardswish",
    "Identity",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "MaxPool2d",
    "Module",
    "ModuleList",
    "MultiHeadAttention",
    "NetworkError",
    "Parameter",
    "RMSNorm",
    "ReLU",
    "ReLU6",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Tanh",
    "Tensor",
    "Upsample",
    "functional",
    "record",
    "spec",
]
