"""Layers in plain numpy, written from the equations of PyTorch's documentation, to compare `vdla.nn` with."""

from __future__ import annotations

from math import erf
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from vdla import nn

Array = np.ndarray
phi = np.vectorize(lambda x: (1 + erf(x / 2**0.5)) / 2)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array, axis: int = -1) -> Array:
    shares = np.exp(x - x.max(axis, keepdims=True))
    return shares / shares.sum(axis, keepdims=True)


def layer_norm(x: Array, weight: Array, bias: Array | float, eps: float = 1e-5) -> Array:
    axes = tuple(range(-weight.ndim, 0))
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps) * weight + bias


def conv2d(x: Array, weight: Array, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups: int = 1) -> Array:
    """The convolution of x [batch, channels, height, width] with weight [outputs, channels / groups, height, width],
    one output position after the other. Strides, zero padding on both sides and dilations are (height, width).
    """
    x = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    outer, inner, *kernel = weight.shape
    sizes = [(x.shape[i + 2] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in (0, 1)]
    result = np.zeros((len(x), outer, *sizes))
    for o in range(outer):
        first = o // (outer // groups) * inner
        for i, j in np.ndindex(*sizes):
            cut = [
                slice(at * s, at * s + d * (k - 1) + 1, d)
                for at, s, d, k in zip((i, j), stride, dilation, kernel, strict=True)
            ]
            result[:, o, i, j] = (x[:, first : first + inner, cut[0], cut[1]] * weight[o]).sum((1, 2, 3))
    return result


def lstm(x: Array, w: dict[str, Array], ending: str, h: Array, c: Array) -> tuple[Array, Array, Array]:
    """An LSTM layer in one direction over x [sequence, batch, features], from the states `h` and `c`. `w`: parameters
    by PyTorch's names, which end in `ending` (such as "_l0"); gates in PyTorch's order: i, f, g, o. Returns the outputs
    of all steps, and the last h and c.
    """
    outputs = []
    for step in x:
        sums = step @ w[f"weight_ih{ending}"].T + h @ w[f"weight_hh{ending}"].T
        sums = sums + w.get(f"bias_ih{ending}", 0) + w.get(f"bias_hh{ending}", 0)
        i, f, g, o = np.split(sums, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.stack(outputs), h, c


def gru(x: Array, w: dict[str, Array], ending: str, h: Array) -> tuple[Array, Array]:
    """A GRU layer in one direction, arguments as in `lstm`; returns the outputs of all steps and the last h. Gates in
    PyTorch's order: r, z, n; r multiplies the product with the hidden state after its bias is added.
    """
    outputs = []
    for step in x:
        read = step @ w[f"weight_ih{ending}"].T + w.get(f"bias_ih{ending}", 0)
        held = h @ w[f"weight_hh{ending}"].T + w.get(f"bias_hh{ending}", 0)
        (r1, z1, n1), (r2, z2, n2) = np.split(read, 3, -1), np.split(held, 3, -1)
        r, z = sigmoid(r1 + r2), sigmoid(z1 + z2)
        h = (1 - z) * np.tanh(n1 + r * n2) + z * h
        outputs.append(h)
    return np.stack(outputs), h


def attention(q: Array, k: Array, v: Array, seen: Array | None = None) -> Array:
    """softmax(q k^T / sqrt(size)) v for q, k, v [batch, heads, sequence, size], without keys where `seen` is False."""
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    if seen is not None:
        scores = np.where(seen, scores, -np.inf)
    return np.einsum("bhqk,bhkd->bhqd", softmax(scores), v)


def evaluated(model: onnx.ModelProto, inputs: dict[str, Array]) -> list[Array]:
    """The outputs of a model by ONNX's reference implementation, after ONNX's checker has accepted the model."""
    onnx.checker.check_model(model, full_check=True)
    return ReferenceEvaluator(model).run(None, inputs)  # type: ignore[return-value]


def values(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def filled(module: Any, seed: int = 5) -> dict[str, Array]:
    """Sets all parameters of a module to random numbers (variances to positive ones); returns the state dict."""
    random = np.random.default_rng(seed)
    state = {
        name: random.standard_normal(p.shape).astype(np.float32) for name, p in module.named_parameters()
    }
    state = {name: abs(array) + 0.5 if name.endswith("_var") else array for name, array in state.items()}
    module.load_state_dict(state)
    return state


def run(module: Any, *inputs: Array) -> list[Array]:
    """The outputs of a module for arrays; asserts that they have the shapes and types that the module declares."""
    names = [f"x{number}" for number in range(len(inputs))]

    class Root(nn.Module):
        def __init__(self) -> None:
            self.part = module

        def forward(self, **given):
            return self.part(*(given[name] for name in names))

    pairs = dict(zip(names, inputs, strict=True))
    spec = {name: nn.spec.Tensor(array.shape, str(array.dtype)) for name, array in pairs.items()}
    model = Root().export({"forward": spec})
    outputs = evaluated(model, pairs)
    for info, array in zip(model.graph.output, outputs, strict=True):
        tensor = info.type.tensor_type
        assert tuple(d.dim_value for d in tensor.shape.dim) == array.shape
        assert onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type) == array.dtype
    return outputs


def close(actual: Array, expected: Array, tolerance: float = 2e-5) -> None:
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)
