"""Operators as functions of tensors, with the names and arguments of `torch.nn.functional`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from . import check
from .check import Pair
from .spec import Size
from .tensor import Tensor, record

if TYPE_CHECKING:
    from .module import Parameter
    from .tensor import Operand

_LEAST = float(np.finfo(np.float32).min)
"""Number added to the score of a masked position, the least float32: softmax then gives 0 for the position."""


def _unary(
    name: str, operator: str, formula: str, *constants: float, **attributes: Any
) -> Callable[[Tensor], Tensor]:
    """Makes the function `name` (docstring: `formula`), which records one ONNX node that reads x and `constants`."""

    def function(x: Tensor) -> Tensor:
        return record(operator, x, *constants, **attributes)

    function.__name__, function.__qualname__, function.__doc__ = name, name, formula
    return function


relu = _unary("relu", "Relu", "max(x, 0).")
relu6 = _unary("relu6", "Clip", "min(max(x, 0), 6).", 0.0, 6.0)
hardsigmoid = _unary("hardsigmoid", "HardSigmoid", "min(max(x / 6 + 1/2, 0), 1).", alpha=1 / 6, beta=0.5)
hardswish = _unary("hardswish", "HardSwish", "x * min(max(x / 6 + 1/2, 0), 1).")
sigmoid = _unary("sigmoid", "Sigmoid", "1 / (1 + exp(-x)).")
tanh = _unary("tanh", "Tanh", "The hyperbolic tangent.")


def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x, times `negative_slope` where x is below 0."""
    check.number(x.recorder.where, negative_slope=negative_slope)
    return record("LeakyRelu", x, alpha=float(negative_slope))


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """GELU: x * Phi(x), where Phi is the distribution function of the normal distribution. With `approximate` "tanh",
    Phi is approximated by a formula with tanh.
    """
    if approximate not in ("none", "tanh"):
        raise x.recorder.mistake(f"approximate is {approximate!r}; give 'none' or 'tanh'")
    return record("Gelu", x, approximate=approximate)


def silu(x: Tensor) -> Tensor:
    """x * sigmoid(x)."""
    return record("Mul", x, record("Sigmoid", x, label="sigmoid"))


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """exp(x) / sum(exp(x)), the sum along the dimension `dim`."""
    return record("Softmax", x, axis=x.axes(dim)[0])


def where(condition: Tensor, x: Tensor, y: Operand) -> Tensor:
    """The elements of `x` where `condition` (bool) is true, and of `y` elsewhere."""
    y = np.array(y, x.dtype) if isinstance(y, int | float) else y
    return record("Where", condition, x, y, label="where")


def concat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors joined along the dimension `dim`; all other sizes must be equal."""
    return record("Concat", *tensors, label="concat", axis=dim)


def linear(x: Tensor, weight: Parameter, bias: Parameter | None = None) -> Tensor:
    """x @ weight.T + bias; x [..., in], weight [out, in], bias [out]."""
    check.size(x, -1, weight.shape[1], "in_features")
    if x.ndim == 2:
        return record("Gemm", x, weight, bias, transB=1)
    product = record("MatMul", x, x.recorder.parameter(weight, transposed=True))
    return product if bias is None else record("Add", product, bias, label="biased")


def embedding(indices: Tensor, weight: Parameter) -> Tensor:
    """Looks up rows of `weight` [rows, width] by `indices` (int32 or int64 [...]): float32 [..., width]."""
    return record("Gather", weight, indices)


def max_pool2d(x: Tensor, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0) -> Tensor:
    """Largest element of each window of x, [batch, channels, rows, columns]; `stride` is by default `kernel_size`."""
    return _pool(x, "MaxPool", (kernel_size, stride, padding))


def avg_pool2d(x: Tensor, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0) -> Tensor:
    """Mean of each window of x, [batch, channels, rows, columns], including zeros of the padding; `stride` is by
    default `kernel_size`.
    """
    return _pool(x, "AveragePool", (kernel_size, stride, padding), count_include_pad=1)


def _pool(x: Tensor, operator: str, sizes: tuple[Pair, Pair | None, Pair], **attributes: int) -> Tensor:
    places = check.window(x.recorder.where, 2, *sizes)
    check.room(x, places)
    return record(operator, x, **attributes, **places)


def adaptive_avg_pool2d(x: Tensor, output_size: Pair = 1) -> Tensor:
    """Mean of each channel, [batch, channels, 1, 1]. Raises NetworkError for output sizes other than 1."""
    if check.integers(x.recorder.where, "output_size", output_size, 2) != (1, 1):
        raise x.recorder.mistake(f"output_size is {output_size}; give 1, or use avg_pool2d")
    return record("GlobalAveragePool", x)


def interpolate(
    x: Tensor,
    size: Pair | None = None,
    scale_factor: float | tuple[float, ...] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Resizes x [batch, channels, rows, columns] to `size` rows and columns, or by `scale_factor`.

    `mode` is "nearest" or "bilinear". With `align_corners`, "bilinear" keeps the elements in the corners. Raises
    NetworkError for other modes, and unless exactly one of `size` and `scale_factor` is given.
    """
    where, mistake = x.recorder.where, x.recorder.mistake
    check.dims(x, 2)
    if mode not in ("nearest", "bilinear"):
        raise mistake(f"mode is {mode!r}; give 'nearest' or 'bilinear'")
    if (size is None) == (scale_factor is None):
        raise mistake(f"size is {size}, scale_factor is {scale_factor}; give exactly one of them")
    if mode == "nearest":
        kind = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    else:
        places = "align_corners" if align_corners else "half_pixel"
        kind = {"mode": "linear", "coordinate_transformation_mode": places}
    if scale_factor is None:
        sizes = check.integers(where, "size", size, 2)
        operands, shape, kind = (None, np.array(sizes)), sizes, {**kind, "axes": (2, 3)}
    else:
        factors = tuple(scale_factor) if isinstance(scale_factor, tuple | list) else (scale_factor,) * 2
        for factor in factors:
            check.number(where, scale_factor=factor)
        if len(factors) != 2 or min(factors) <= 0:
            raise mistake(f"scale_factor is {scale_factor!r}; give a positive number, or two of them")
        operands = (np.array([1, 1, *factors], np.float32),)
        shape = [
            None if isinstance(n, str) else int(n * f) for n, f in zip(x.shape[2:], factors, strict=True)
        ]
    return record("Resize", x, None, *operands, label="resize", shape=(*x.shape[:2], *shape), **kind)


def flatten(x: Tensor, start_dim: int = 1, end_dim: int = -1) -> Tensor:
    """Merges the dimensions from `start_dim` to `end_dim` into one."""
    return x.flatten(start_dim, end_dim)


def dropout(x: Tensor, p: float = 0.5) -> Tensor:
    """x unchanged: dropout acts in training only."""
    del p
    return x


def arange(size: Size, like: Tensor) -> Tensor:
    """The integers 0, 1, ... below `size`, int64 [size], in the graph of `like`; `size` may be a symbol."""
    if not isinstance(size, str):
        return like.recorder.constant(np.arange(size))
    end = like.recorder.size(size).squeeze(0)
    return record("Range", np.array(0), end, np.array(1), label="arange", shape=(size,))


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Operand | None = None, is_causal: bool = False
) -> Tensor:
    """softmax(query @ key.T / sqrt(size)) @ value, over [batch, heads, sequence, size].

    A `mask` of floats is added to the scores; a bool `mask` is true where a query attends to a key. With `is_causal`
    the query at position i attends to the keys at positions 0..i.
    """
    check.size(query, -1, key.shape[-1], "the size of the keys")
    if isinstance(query.shape[-1], str):
        raise query.recorder.mistake(
            f"the size of a head is {query.shape[-1]}; give the query a last dimension of known size"
        )
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
