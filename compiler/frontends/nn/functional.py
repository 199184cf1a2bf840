"""Operators as functions of tensors, with the names and arguments of `torch.nn.functional`."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from .spec import NetworkError, Size
from .tensor import Tensor, record

if TYPE_CHECKING:
    from .module import Parameter
    from .tensor import Operand

Pair = int | tuple[int, int]
"""Rows and columns; an integer stands for both."""
_LEAST = float(np.finfo(np.float32).min)
"""Score of a position that attention does not see."""


def relu(x: Tensor) -> Tensor:
    """max(x, 0)."""
    return record("Relu", x)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x * Phi(x) with Phi of the normal distribution, or its approximation by "tanh"."""
    return record("Gelu", x, approximate=approximate)


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return record("Sigmoid", x)


def silu(x: Tensor) -> Tensor:
    """x * sigmoid(x)."""
    return record("Mul", x, record("Sigmoid", x, label="sigmoid"))


def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return record("Tanh", x)


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along `dim`."""
    return record("Softmax", x, axis=dim)


def where(condition: Tensor, x: Tensor, y: Operand) -> Tensor:
    """Elements of `x` where the condition is true, else of `y`."""
    y = np.array(y, x.dtype) if isinstance(y, int | float) else y
    return record("Where", condition, x, y, label="where")


def concat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors joined along `dim`."""
    return record("Concat", *tensors, label="concat", axis=dim)


def linear(x: Tensor, weight: Parameter, bias: Parameter | None = None) -> Tensor:
    """x @ weight.T + bias; x [..., in], weight [out, in], bias [out]."""
    need(x, -1, weight.shape[1], "in_features")
    if x.ndim == 2:
        return record("Gemm", x, weight, bias, transB=1)
    product = record("MatMul", x, x.recorder.parameter(weight, transposed=True))
    return product if bias is None else record("Add", product, bias, label="biased")


def embedding(indices: Tensor, weight: Parameter) -> Tensor:
    """Rows of `weight`, [rows, width], by integer indices."""
    return record("Gather", weight, indices)


def max_pool2d(x: Tensor, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0) -> Tensor:
    """Largest element of each window of x, [batch, channels, rows, columns]; `stride` is by default `kernel_size`."""
    return record("MaxPool", x, **window(x, kernel_size, stride, padding))


def avg_pool2d(x: Tensor, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0) -> Tensor:
    """Mean of each window, including zeros of the padding; the arguments are those of `max_pool2d`."""
    return record("AveragePool", x, count_include_pad=1, **window(x, kernel_size, stride, padding))


def adaptive_avg_pool2d(x: Tensor, output_size: Pair = 1) -> Tensor:
    """Mean of each channel, [batch, channels, 1, 1]. Raises NetworkError for another output size than 1."""
    if pair(output_size) != (1, 1):
        raise NetworkError(f"{x.recorder.where}: output_size is {output_size}; give 1, or use avg_pool2d")
    return record("GlobalAveragePool", x)


def flatten(x: Tensor, start_dim: int = 1, end_dim: int = -1) -> Tensor:
    """One dimension in place of those from `start_dim` to `end_dim`."""
    return x.flatten(start_dim, end_dim)


def dropout(x: Tensor, p: float = 0.5) -> Tensor:
    """x unchanged, as dropout is for training."""
    del p
    return x


def arange(size: Size, like: Tensor) -> Tensor:
    """The integers 0, 1, ... below `size`, int64 [size], in the graph of `like`; `size` may be a symbol."""
    recorder = like.recorder
    if not isinstance(size, str):
        return recorder.constant(np.arange(size))
    end = recorder.size(size).squeeze(0)
    return record("Range", np.array(0), end, np.array(1), label="arange", shape=(size,))


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Operand | None = None, is_causal: bool = False
) -> Tensor:
    """softmax(query @ key.T / sqrt(size)) @ value, over [batch, heads, sequence, size].

    `mask` is added to the scores, or, if its type is bool, is true where a query sees a key. With `is_causal` a query
    sees the keys up to its own position.
    """
    need(query, -1, key.shape[-1], "the size of the keys")
    if isinstance(query.shape[-1], str):
        raise NetworkError(f"{query.recorder.where}: the size of a head is {query.shape[-1]}; give a number")
    products = record("MatMul", query, key.transpose(-1, -2), label="scores")
    scores = record("Div", products, sqrt(query.shape[-1]), label="scaled")
    masks = [] if mask is None else [mask]
    if is_causal:
        rows, columns = arange(query.shape[-2], query).unsqueeze(1), arange(key.shape[-2], key).unsqueeze(0)
        masks.append(record("GreaterOrEqual", rows, columns, label="causal"))
    for item in masks:
        if getattr(item, "dtype", None) == np.bool_:
            seen = query.recorder.constant(item) if isinstance(item, np.ndarray) else item
            none, least = np.zeros((), scores.dtype), np.full((), _LEAST, scores.dtype)
            item = record("Where", seen, none, least, label="mask")
        scores = record("Add", scores, item, label="masked")
    return record("MatMul", record("Softmax", scores, label="softmax", axis=-1), value, label="context")


def pair(value: Pair) -> tuple[int, int]:
    """The numbers for rows and columns. Raises NetworkError for other than two."""
    if isinstance(value, int):
        return (value, value)
    if len(value) != 2:
        raise NetworkError(f"{value!r} is no number of rows and columns; give an integer or two")
    return value


def window(
    x: Tensor, kernel_size: Pair, stride: Pair | None, padding: Pair, dilation: Pair = 1
) -> dict[str, Any]:
    """ONNX's attributes of a window that slides over rows and columns. Raises NetworkError if x has no place for it."""
    kernel, pads, steps = pair(kernel_size), pair(padding), pair(dilation)
    if x.ndim != 4:
        raise NetworkError(
            f"{x.recorder.where}: the input is {x}, not [batch, channels, rows, columns]; use reshape or unsqueeze"
        )
    for size, extent, pad, step in zip(x.shape[2:], kernel, pads, steps, strict=True):
        if not isinstance(size, str) and size + 2 * pad < (extent - 1) * step + 1:
            raise NetworkError(
                f"{x.recorder.where}: the window of {kernel[0]}x{kernel[1]} elements is larger than the input {x}; "
                "make kernel_size smaller or padding larger"
            )
    strides = kernel if stride is None else pair(stride)
    return {"kernel_shape": kernel, "strides": strides, "pads": pads * 2, "dilations": steps}


def need(x: Tensor, axis: int, size: Size, name: str) -> None:
    """Raises NetworkError unless x has `size` elements along `axis`; `name` says in the message where that is set."""
    if not -x.ndim <= axis < x.ndim or x.shape[axis] != size:
        raise NetworkError(
            f"{x.recorder.where}: the input is {x}, but dimension {axis} must be {size}, {name}; change one of them"
        )
