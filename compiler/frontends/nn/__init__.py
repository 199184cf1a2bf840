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

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Signature, signature
from itertools import chain, product
from math import prod, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from . import functional as functional
from . import spec as spec
from .module import Module as Module
from .module import ModuleList as ModuleList
from .module import Parameter as Parameter
from .module import Sequential as Sequential
from .spec import NetworkError as NetworkError
from .spec import Pair, check_arguments, integers, need, need_room, need_size, window
from .tensor import Tensor as Tensor
from .tensor import record as record

if TYPE_CHECKING:
    from .tensor import Operand


def _uniform(shape: tuple[int, ...], bound: float) -> Parameter:
    """A parameter with initial values spread evenly between -bound and bound."""
    return Parameter(shape, lambda random, shape: random.uniform(-bound, bound, shape))


class Linear(Module):
    """x @ weight.T + bias; weight [out_features, in_features], bias [out_features]."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        check_arguments(self, in_features=in_features, out_features=out_features)
        bound = 1 / sqrt(in_features)
        self.weight = _uniform((out_features, in_features), bound)
        self.bias = _uniform((out_features,), bound) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Maps x [..., in_features] to [..., out_features]."""
        return functional.linear(x, self.weight, self.bias)


class Conv2d(Module):
    """A 2-D convolution; weight [out_channels, in_channels / groups, rows, columns], bias [out_channels]."""

    operator, dims = "Conv", 2

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Pair,
        stride: Pair = 1,
        padding: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        check_arguments(self, in_channels=in_channels, out_channels=out_channels, groups=groups)
        where, self.in_channels = f"{type(self).__name__}: ", in_channels
        fits, pair = in_channels % groups == out_channels % groups == 0, (in_channels, out_channels)
        need(fits, f"{where}(in_channels, out_channels)", pair, f"multiples of groups ({groups})")
        self.attributes = window(self.dims, kernel_size, stride, padding, dilation, where)
        self.attributes["group"] = groups
        rows, columns = pair if self.operator == "ConvTranspose" else pair[::-1]
        shape = (rows, columns // groups, *self.attributes["kernel_shape"])
        bound = 1 / sqrt(prod(shape[1:]))
        self.weight, self.bias = _uniform(shape, bound), _uniform((out_channels,), bound) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Maps x [batch, in_channels, rows, columns], for Conv1d without rows, to [batch, out_channels, ...]."""
        need_size(x, 1, self.in_channels, "in_channels")
        if self.operator == "Conv":
            need_room(x, self.attributes)
        return record(self.operator, x, self.weight, self.bias, **self.attributes)


class Conv1d(Conv2d):
    """A 1-D convolution; weight [out_channels, in_channels / groups, kernel_size], bias [out_channels]."""

    dims = 1


class ConvTranspose2d(Conv2d):
    """A transposed 2-D convolution; weight [in_channels, out_channels / groups, rows, columns], bias [out_channels]."""

    operator = "ConvTranspose"

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Pair,
        stride: Pair = 1,
        padding: Pair = 0,
        output_padding: Pair = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Pair = 1,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)
        self.attributes["output_padding"] = integers("ConvTranspose2d: output_padding", output_padding, 2, 0)


class BatchNorm(Module):
    """Batch normalization of dimension 1 by the stored running_mean and running_var, as in PyTorch after `eval()`.

    `momentum` acts in training only, and is ignored.
    """

    ranks: tuple[int, ...] = ()
    """The numbers of dimensions that x may have; () for all numbers."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True
    ) -> None:
        check_arguments(self, num_features=num_features, eps=eps)
        self.eps, sizes = eps, (num_features,)
        self.weight, self.bias = (Parameter(np.ones(sizes)), Parameter(sizes)) if affine else (None, None)
        self.running_mean, self.running_var = Parameter(sizes), Parameter(np.ones(sizes))

    def forward(self, x: Tensor) -> Tensor:
        """Normalizes each channel of x [batch, num_features, ...]."""
        ranks, size = self.ranks or (x.ndim,), self.running_mean.shape[0]
        need(x.ndim in ranks, "the input", x, f"a tensor of {' or '.join(map(str, ranks))} dimensions")
        need_size(x, 1, size, "num_features")
        weight, bias = self.weight or np.ones(size, np.float32), self.bias or np.zeros(size, np.float32)
        parameters = (weight, bias, self.running_mean, self.running_var)
        return record("BatchNormalization", x, *parameters, epsilon=self.eps)


BatchNorm1d = type("BatchNorm1d", (BatchNorm,), {"ranks": (2, 3)})
"""`BatchNorm` of x [batch, num_features] or [batch, num_features, length]."""
BatchNorm2d = type("BatchNorm2d", (BatchNorm,), {"ranks": (4,)})
"""`BatchNorm` of x [batch, num_features, rows, columns]."""
BatchNorm3d = type("BatchNorm3d", (BatchNorm,), {"ranks": (5,)})
"""`BatchNorm` of x [batch, num_features, planes, rows, columns]."""


class GroupNorm(Module):
    """Normalization of each group of channels by its own mean and variance; weight and bias are [num_channels]."""

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True) -> None:
        check_arguments(self, num_groups=num_groups, num_channels=num_channels, eps=eps)
        fits, wanted = num_channels % num_groups == 0, f"a multiple of num_groups ({num_groups})"
        need(fits, "GroupNorm: num_channels", num_channels, wanted)
        self.groups, self.eps, sizes = num_groups, eps, (num_channels,)
        self.weight, self.bias = (Parameter(np.ones(sizes)), Parameter(sizes)) if affine else (None, None)
        self.num_channels = num_channels

    def forward(self, x: Tensor) -> Tensor:
        """Normalizes each group of channels of x [batch, num_channels, ...]."""
        need_size(x, 1, self.num_channels, "num_channels")
        ones, zeros = np.ones(self.groups, np.float32), np.zeros(self.groups, np.float32)
        groups = x.reshape(x.shape[0], self.groups, -1)
        normal = record("InstanceNormalization", groups, ones, zeros, label="normal", epsilon=self.eps)
        y = normal.reshape(*x.shape)
        if self.weight is None or self.bias is None:
            return y
        axes = x.recorder.sizes(range(1, x.ndim - 1))
        scales = record("Unsqueeze", self.weight, axes, label="scales")
        offsets = record("Unsqueeze", self.bias, axes, label="offsets")
        return record("Add", record("Mul", y, scales, label="scaled"), offsets)


class LayerNorm(Module):
    """Normalization over the last dimensions of x. `normalized_shape`: the sizes of these dimensions, which are also
    the shape of weight and bias.
    """

    def __init__(self, normalized_shape: int | tuple[int, ...], eps: float = 1e-5, bias: bool = True) -> None:
        shape = integers(f"{type(self).__name__}: normalized_shape", normalized_shape)
        check_arguments(self, eps=eps)
        self.eps, self.weight, self.bias = eps, Parameter(np.ones(shape)), Parameter(shape) if bias else None

    def axes(self, x: Tensor) -> range:
        """The last axes of x, as many as weight has. Raises NetworkError unless their sizes are those of weight."""
        axes = range(-len(self.weight.shape), 0)
        for axis in axes:
            need_size(x, axis, self.weight.shape[axis], "normalized_shape")
        return axes

    def forward(self, x: Tensor) -> Tensor:
        """(x - mean) / sqrt(variance + eps) * weight + bias."""
        parameters, first = (self.weight, self.bias), self.axes(x)[0]
        return record("LayerNormalization", x, *parameters, axis=first, epsilon=self.eps)


class RMSNorm(LayerNorm):
    """Division by the root of the mean square over the last dimensions of x. `normalized_shape`: the sizes of these
    dimensions, which are also the shape of weight. `eps` is by default the machine epsilon of float32.
    """

    def __init__(self, normalized_shape: int | tuple[int, ...], eps: float = 2.0**-23) -> None:
        super().__init__(normalized_shape, eps, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x / sqrt(mean(x ** 2) + eps) * weight."""
        axes, square = np.array(self.axes(x)), record("Pow", x, 2.0, label="square")
        root = record("Sqrt", record("ReduceMean", square, axes, label="mean") + self.eps, label="root")
        return record("Mul", record("Div", x, root, label="normal"), self.weight)


class Embedding(Module):
    """A table of vectors, weight [num_embeddings, embedding_dim], from which integer indices select rows."""

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        check_arguments(self, num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        shape = (num_embeddings, embedding_dim)
        self.weight = Parameter(shape, lambda random, shape: random.normal(size=shape))

    def forward(self, indices: Tensor) -> Tensor:
        """Maps indices, int32 or int64 [...], to their vectors, [..., embedding_dim]."""
        return functional.embedding(indices, self.weight)


class Identity(Module):
    """x unchanged; takes and ignores all arguments, as in PyTorch."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        pass

    def forward(self, x: Tensor) -> Tensor:
        """x itself."""
        return x


class _Function(Module):
    """A layer without parameters: calls one function of `functional` with its input and the arguments of the layer.

    PyTorch's argument `inplace` is ignored. Raises NetworkError for arguments that the function does not have.
    """

    function: Callable[..., Tensor]
    __signature__: Signature

    def __init_subclass__(cls) -> None:
        if function := vars(cls).get("function"):
            cls.function, cls.__doc__ = staticmethod(function), function.__doc__
            cls.__signature__ = Signature([*signature(function).parameters.values()][1:])

    def __init__(self, *arguments: Any, **named: Any) -> None:
        named.pop("inplace", None)
        try:
            self.given = self.__signature__.bind(*arguments, **named)
        except TypeError as error:
            known = ", ".join(self.__signature__.parameters) or "none"
            raise NetworkError(f"{type(self).__name__}: {error}; its arguments are: {known}") from None

    def forward(self, x: Tensor) -> Tensor:
        """The result of the layer's function for x."""
        return self.function(x, *self.given.args, **self.given.kwargs)


# Each class has the docstring of its function, and the function's arguments behind x.
ReLU = type("ReLU", (_Function,), {"function": functional.relu})
ReLU6 = type("ReLU6", (_Function,), {"function": functional.relu6})
LeakyReLU = type("LeakyReLU", (_Function,), {"function": functional.leaky_relu})
Hardswish = type("Hardswish", (_Function,), {"function": functional.hardswish})
Hardsigmoid = type("Hardsigmoid", (_Function,), {"function": functional.hardsigmoid})
GELU = type("GELU", (_Function,), {"function": functional.gelu})
SiLU = type("SiLU", (_Function,), {"function": functional.silu})
Sigmoid = type("Sigmoid", (_Function,), {"function": functional.sigmoid})
Tanh = type("Tanh", (_Function,), {"function": functional.tanh})
Softmax = type("Softmax", (_Function,), {"function": functional.softmax})
MaxPool2d = type("MaxPool2d", (_Function,), {"function": functional.max_pool2d})
AvgPool2d = type("AvgPool2d", (_Function,), {"function": functional.avg_pool2d})
AdaptiveAvgPool2d = type("AdaptiveAvgPool2d", (_Function,), {"function": functional.adaptive_avg_pool2d})
Flatten = type("Flatten", (_Function,), {"function": functional.flatten})
Upsample = type("Upsample", (_Function,), {"function": functional.interpolate})
Dropout = type("Dropout", (_Function,), {"function": functional.dropout})


class _Recurrent(Module):
    """Recurrent layers with PyTorch's names of parameters. The first layer has weight_ih_l0 [gates * hidden_size,
    input_size], weight_hh_l0 [gates * hidden_size, hidden_size], bias_ih_l0 and bias_hh_l0. Further layers have l1, l2
    ... in these names; names for the backward direction end with _reverse.
    """

    operator, states = "", 1
    order: tuple[int, ...] = ()
    """For each gate in ONNX's order, its index in PyTorch's order."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        check_arguments(self, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.batch_first, self.endings = batch_first, ("", "_reverse") if bidirectional else ("",)
        self.kinds = [["weight_ih"], ["weight_hh"], ["bias_ih", "bias_hh"]][: 3 if bias else 2]
        rows = len(self.order) * hidden_size
        for layer in range(num_layers):
            depth = hidden_size * len(self.endings) if layer else input_size
            sizes = {"weight_ih": (rows, depth), "weight_hh": (rows, hidden_size)}
            for ending, name in product(self.endings, chain(*self.kinds)):
                parameter = _uniform(sizes.get(name, (rows,)), 1 / sqrt(hidden_size))
                setattr(self, f"{name}_l{layer}{ending}", parameter)

    def _run(self, x: Tensor, states: Sequence[Tensor], **attributes: Any) -> tuple[Tensor, list[Tensor]]:
        """The outputs of the last layer, and each state after the last step, [layers * directions, batch, hidden_size].

        `states`: the first states, of the same shape, or empty. `attributes`: further attributes of the ONNX operator.
        """
        need(x.ndim == 3, "the input", x, "three dimensions: sequence, batch and features")
        need_size(x, 2, self.input_size, "input_size")
        x = x.transpose(0, 1) if self.batch_first else x
        ends: list[list[Tensor]] = []
        ways = len(self.endings)
        for layer in range(self.num_layers):
            begins = [state[layer * ways : (layer + 1) * ways] for state in states]
            parameters = [self._constant(x, layer, kinds) for kinds in self.kinds]
            y, *last = x.recorder.record(
                self.operator,
                [x, *parameters, *[None] * (4 - len(parameters) if begins else 0), *begins],
                label=f"l{layer}" if self.num_layers > 1 else "",
                outputs=1 + self.states,
                hidden_size=self.hidden_size,
                direction="bidirectional" if ways == 2 else "forward",
                **attributes,
            )
            shape = (*x.shape[:2], ways * self.hidden_size)
            x = y.squeeze(1) if ways == 1 else y.permute(0, 2, 1, 3).reshape(shape)
            ends.append(last)
        final = [each[0] if len(each) == 1 else functional.concat(each) for each in zip(*ends, strict=True)]
        return x.transpose(0, 1) if self.batch_first else x, final

    def _constant(self, x: Tensor, layer: int, kinds: Sequence[str]) -> Tensor:
        """Parameters of a layer as one input of the ONNX node, [directions, gates * hidden_size, ...], with gates in
        ONNX's order. `kinds`: the names of the parameters without the layer; several lie one behind the other.
        """

        def joined(*arrays: np.ndarray) -> np.ndarray:
            directions, gates = len(self.endings), len(self.order)
            parts = np.reshape(arrays, (len(kinds), directions, gates, -1))[:, :, [*self.order]]
            return parts.swapaxes(0, 1).reshape(directions, -1, *arrays[0].shape[1:])

        names = [f"{kind}_l{layer}{ending}" for kind in kinds for ending in self.endings]
        return x.recorder.derived("gates", joined, *(getattr(self, name) for name in names))


class LSTM(_Recurrent):
    """LSTM layers; x is [sequence, batch, input_size], or with `batch_first` [batch, sequence, input_size]."""

    operator, states = "LSTM", 2
    order = (0, 3, 1, 2)  # PyTorch: input, forget, cell, output. ONNX: input, output, forget, cell.

    def forward(
        self, x: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Returns (outputs of the last layer, (hidden state, cell state)), with the shapes of PyTorch's LSTM."""
        y, (hidden, cell) = self._run(x, state or ())
        return y, (hidden, cell)


class GRU(_Recurrent):
    """GRU layers; x is [sequence, batch, input_size], or with `batch_first` [batch, sequence, input_size]."""

    operator = "GRU"
    order = (1, 0, 2)  # PyTorch: reset, update, new. ONNX: update, reset, hidden.

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns (outputs of the last layer, hidden state), with the shapes of PyTorch's GRU."""
        y, (hidden,) = self._run(x, () if state is None else (state,), linear_before_reset=1)
        return y, hidden


class MultiHeadAttention(Module):
    """Attention with the parameters of PyTorch's MultiheadAttention.

    in_proj_weight is [3 * embed_dim, embed_dim]: queries, keys, values. If `kdim` or `vdim` (the widths of keys and
    values) differ from `embed_dim`, there are q_proj_weight, k_proj_weight and v_proj_weight instead.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
    ) -> None:
        self.embed_dim, self.num_heads, self.batch_first = embed_dim, num_heads, batch_first
        check_arguments(self, embed_dim=embed_dim, num_heads=num_heads, kdim=kdim or 1, vdim=vdim or 1)
        fits, wanted = embed_dim % num_heads == 0, f"a multiple of num_heads ({num_heads})"
        need(fits, "MultiHeadAttention: embed_dim", embed_dim, wanted)
        self.widths = (embed_dim, kdim or embed_dim, vdim or embed_dim)
        if len(set(self.widths)) == 1:
            self.in_proj_weight = _uniform((3 * embed_dim, embed_dim), sqrt(6 / (4 * embed_dim)))
        else:
            for name, width in zip("qkv", self.widths, strict=True):
                parameter = _uniform((embed_dim, width), sqrt(6 / (embed_dim + width)))
                setattr(self, f"{name}_proj_weight", parameter)
        self.in_proj_bias = Parameter((3 * embed_dim,)) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Operand | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """The attended values, of the shape of `query`: [sequence, batch, embed_dim], or with `batch_first` [batch,
        sequence, embed_dim].

        `key` is by default `query`, `value` is by default `key`. A `mask` of floats is added to the scores [batch,
        num_heads, sequence of query, sequence of key]; a bool `mask` is true where a query attends to a key. With
        `is_causal` the query at position i attends to the keys at positions 0..i.
        """
        key = query if key is None else key
        q, k, v = (self._heads(*pair) for pair in enumerate((query, key, key if value is None else value)))
        context = functional.scaled_dot_product_attention(q, k, v, mask, is_causal)
        joined = context.permute((0, 2, 1, 3) if self.batch_first else (2, 0, 1, 3))
        return self.out_proj(joined.reshape(*joined.shape[:2], self.embed_dim))

    def _heads(self, number: int, x: Tensor) -> Tensor:
        """Queries (0), keys (1) or values (2) of all heads, [batch, heads, sequence, size]."""
        name, derived = ("query", "key", "value")[number], x.recorder.derived
        need_size(x, 2, self.widths[number], f"the width of {name}")
        if len(set(self.widths)) == 1:
            weight = derived(name, lambda rows: np.split(rows, 3)[number].T, self.in_proj_weight)
        else:
            weight = derived("T", np.transpose, getattr(self, f"{name[0]}_proj_weight"))
        y = record("MatMul", x, weight, label=name)
        if self.in_proj_bias is not None:
            bias = derived(name, lambda rows: np.split(rows, 3)[number], self.in_proj_bias)
            y = record("Add", y, bias, label=f"{name}.biased")
        y = y.reshape(*x.shape[:2], self.num_heads, self.embed_dim // self.num_heads)
        return y.permute((0, 2, 1, 3) if self.batch_first else (1, 2, 0, 3))
