"""Networks of PyTorch-like modules. `Module.export` returns a network as an ONNX model in memory.

from vdla import nn

class Mlp(nn.Module):
    def __init__(self):
        self.fc1, self.relu1, self.fc2 = nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)

    def forward(self, x):
        return self.fc2(self.relu1(self.fc1(x)))

model = Mlp().export(spec={"forward": {"x": nn.spec.Tensor((1, 784), "float32")}})

Layers have the arguments and the parameters of PyTorch's layers of the same name.
"""

from . import functional as functional
from . import spec as spec
from .layers import GELU as GELU
from .layers import AdaptiveAvgPool2d as AdaptiveAvgPool2d
from .layers import AvgPool2d as AvgPool2d
from .layers import BatchNorm as BatchNorm
from .layers import BatchNorm1d as BatchNorm1d
from .layers import BatchNorm2d as BatchNorm2d
from .layers import BatchNorm3d as BatchNorm3d
from .layers import Conv1d as Conv1d
from .layers import Conv2d as Conv2d
from .layers import ConvTranspose2d as ConvTranspose2d
from .layers import Dropout as Dropout
from .layers import Embedding as Embedding
from .layers import Flatten as Flatten
from .layers import GroupNorm as GroupNorm
from .layers import Hardsigmoid as Hardsigmoid
from .layers import Hardswish as Hardswish
from .layers import Identity as Identity
from .layers import LayerNorm as LayerNorm
from .layers import LeakyReLU as LeakyReLU
from .layers import Linear as Linear
from .layers import MaxPool2d as MaxPool2d
from .layers import ReLU as ReLU
from .layers import ReLU6 as ReLU6
from .layers import RMSNorm as RMSNorm
from .layers import Sigmoid as Sigmoid
from .layers import SiLU as SiLU
from .layers import Softmax as Softmax
from .layers import Tanh as Tanh
from .layers import Upsample as Upsample
from .module import Module as Module
from .module import ModuleList as ModuleList
from .module import Parameter as Parameter
from .module import Sequential as Sequential
from .sequences import GRU as GRU
from .sequences import LSTM as LSTM
from .sequences import MultiHeadAttention as MultiHeadAttention
from .spec import NetworkError as NetworkError
from .tensor import Tensor as Tensor
from .tensor import record as record
