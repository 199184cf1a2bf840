"""Operators as functions of tensors, with the names and arguments of `torch.nn.functional`."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from .arguments import need_number, window_numbers
from .spec import NetworkError, Size
from .tensor import Tensor, record

if TYPE_CHECKING:
    from .module import Parameter
    from .tensor import Operand

Pair = int | tuple[int, ...]
"""A number for each dimension of an image, rows and columns; an integer stands for all dimensions."""
_LEAST = float(np.finfo(np.float32).min)
"""Score of a position that attention does not see."""


def relu(x: Tensor) -> Tensor:
    """max(x, 0)."""
    return record("Relu", x)


def relu6(x: Tensor) -> Tensor:
    """min(max(x, 0), 6)."""
    return record("Clip", x, 0.0, 6.0)


def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x, times `negative_slope` where x is below 0."""
    need_number(x.recorder.where, negative_slope=negative_slope)
    return record("LeakyRelu", x, alpha=float(negative_slope))


def hardswish(x: Tensor) -> Tensor:
    """x * hardsigmoid(x)."""
    return record("HardSwish", x)


def hardsigmoid(x: Tensor) -> Tensor:
    """min(max(x / 6 + 1/2, 0), 1)."""
    return record("HardSigmoid", x, alpha=1 / 6, beta=0.5)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x * Phi(x) with Phi of the normal distribution, or its approximation by "tanh"."""
    if approximate not in ("none", "tanh"):
        raise NetworkError(f"{x.recorder.where}: approximate is {approximate!r}; give 'none' or 'tanh'")
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
    return record("Softmax", x, axis=x.axes(dim)[0])


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
    if window_numbers(x.recorder.where, "output_size", output_size, 2, least=1) != (1, 1):
        raise NetworkError(f"{x.recorder.where}: output_size is {output_size}; give 1, or use avg_pool2d")
    return record("GlobalAveragePool", x)


def interpolate(
    x: Tensor,
    size: Pair | None = None,
    scale_factor: float | tuple[float, ...] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """x [batch, channels, rows, columns] with `size` rows and columns, or `scale_factor` times its own.

    `mode` is "nearest" or "bilinear"; with `align_corners`, bilinear keeps the elements in the corners. Raises
    NetworkError for other modes, and unless exactly one of `size` and `scale_factor` is given.
    """
    where = x.recorder.where
    need_dims(x, 2)
    if mode not in ("nearest", "bilinear"):
        raise NetworkError(f"{where}: mode is {mode!r}; give 'nearest' or 'bilinear'")
    if (size is None) == (scale_factor is None):
        raise NetworkError(f"{where}: size is {size}, scale_factor is {scale_factor}; give one of them")
    linear = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    if align_corners:
        linear["coordinate_transformation_mode"] = "align_corners"
    near = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    kind = near if mode == "nearest" else linear
    if scale_factor is None:
        sizes = window_numbers(where, "size", size, 2, least=1)
        shape = (*x.shape[:2], *sizes)
        return record(
            "Resize", x, None, None, np.array(sizes), label="resize", axes=(2, 3), shape=shape, **kind
        )
    factors = tuple(scale_factor) if isinstance(scale_factor, tuple | list) else (scale_factor,) * 2
    for factor in factors:
        need_number(where, scale_factor=factor)
    if len(factors) != 2 or min(factors) <= 0:
        raise NetworkError(
            f"{where}: scale_factor is {scale_factor!r}; give a positive number, or two of them"
        )
    scaled = [None if isinstance(n, str) else int(n * f) for n, f in zip(x.shape[2:], factors, strict=True)]
    scales = np.array([1, 1, *factors], np.float32)
    return record("Resize", x, None, scales, label="resize", shape=(*x.shape[:2], *scaled), **kind)


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


def window(
    x: Tensor,
    kernel_size: Pair,
    stride: Pair | None,
    padding: Pair,
    dilation: Pair = 1,
    dims: int = 2,
) -> dict[str, Any]:
    """ONNX's attributes of a window that slides over the last `dims` dimensions. Raises NetworkError for arguments that
    are no integers, and if x has no place for the window.
    """
    where = x.recorder.where
    kernel = window_numbers(where, "kernel_size", kernel_size, dims, least=1)
    pads = window_numbers(where, "padding", padding, dims)
    steps = window_numbers(where, "dilation", dilation, dims, least=1)
    strides = kernel if stride is None else window_numbers(where, "stride", stride, dims, least=1)
    need_dims(x, dims)
    for size, extent, pad, step in zip(x.shape[2:], kernel, pads, steps, strict=True):
        if not isinstance(size, str) and size + 2 * pad < (extent - 1) * step + 1:
            raise NetworkError(
                f"{where}: the window of {'x'.join(map(str, kernel))} elements is larger than the input {x}; make "
                "kernel_size smaller or padding larger"
            )
    return {"kernel_shape": kernel, "strides": strides, "pads": pads * 2, "dilations": steps}


def need_dims(x: Tensor, dims: int) -> None:
    """Raises NetworkError unless x has a batch, channels, and `dims` more dimensions."""
    if x.ndim != 2 + dims:
        names = ", ".join(("batch", "channels", *(("length",) if dims == 1 else ("rows", "columns"))))
        raise NetworkError(f"{x.recorder.where}: the input is {x}, not [{names}]; use reshape or unsqueeze")


def need(x: Tensor, axis: int, size: Size, name: str) -> None:
    """Raises NetworkError unless x has `size` elements along `axis`; `name` says in the message where that is set."""
    if not -x.ndim <= axis < x.ndim or x.shape[axis] != size:
        raise NetworkError(
            f"{x.recorder.where}: the input is {x}, but dimension {axis} must be {size}, {name}; change one of them"
        )
