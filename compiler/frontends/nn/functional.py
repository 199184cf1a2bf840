"""Operators as functions of tensors, with the names and arguments of `torch.nn.functional`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from .spec import Pair, Size, integers, is_number, need, need_room, need_size, window
from .tensor import Tensor, record

if TYPE_CHECKING:
    from .module import Parameter
    from .tensor import Operand


def _unary(
    name: str, operator: str, formula: str, *constants: float, **attributes: Any
) -> Callable[[Tensor], Tensor]:
    """Returns a new function with the name `name` and the docstring `formula`. The function records one node of the
    ONNX operator `operator`, which has `attributes` and whose inputs are x and then the scalars `constants`.
    """

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
    need(is_number(negative_slope), "negative_slope", negative_slope, "a number")
    return record("LeakyRelu", x, alpha=float(negative_slope))


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """GELU: x * Phi(x), where Phi is the distribution function of the normal distribution. With `approximate` "tanh",
    Phi is approximated by a formula with tanh.
    """
    need(approximate in ("none", "tanh"), "approximate", approximate, "'none' or 'tanh'")
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
    need_size(x, -1, weight.shape[1], "in_features")
    if x.ndim == 2:
        return record("Gemm", x, weight, bias, transB=1)
    product = record("MatMul", x, x.recorder.derived("T", np.transpose, weight))
    return product if bias is None else record("Add", product, bias, label="biased")


def embedding(indices: Tensor, weight: Parameter) -> Tensor:
    """Selects the rows of `weight` [rows, width] at `indices`, int32 or int64 [...]. The result is float32 [...,
    width].
    """
    return record("Gather", weight, indices)


def max_pool2d(x: Tensor, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0) -> Tensor:
    """The largest element of each window of x, [batch, channels, rows, columns]. `padding`: number of rows and columns
    that are added at both ends; added elements are never the largest. `stride` is by default `kernel_size`.
    """
    places = window(2, kernel_size, stride, padding)
    need_room(x, places)
    return record("MaxPool", x, **places)


def avg_pool2d(x: Tensor, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0) -> Tensor:
    """The mean of each window of x, [batch, channels, rows, columns]. `padding`: number of rows and columns of zeros
    that are added at both ends; the means include these zeros. `stride` is by default `kernel_size`.
    """
    places = window(2, kernel_size, stride, padding)
    need_room(x, places)
    return record("AveragePool", x, count_include_pad=1, **places)


def adaptive_avg_pool2d(x: Tensor, output_size: Pair = 1) -> Tensor:
    """Mean of each channel of x, [batch, channels, 1, 1]. Raises NetworkError for output sizes other than 1."""
    need(output_size in (1, (1, 1), [1, 1]), "output_size", output_size, "1, or use avg_pool2d")
    return record("GlobalAveragePool", x)


def interpolate(
    x: Tensor,
    size: Pair | None = None,
    scale_factor: float | tuple[float, ...] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Resizes x [batch, channels, rows, columns] to `size` rows and columns, or by `scale_factor`.

    `scale_factor`: result's size / size of x, one number or (rows, columns). `mode` is "nearest" or "bilinear". With
    `align_corners`, "bilinear" keeps the elements in the corners; "nearest" ignores it. Raises NetworkError for other
    modes, and unless exactly one of `size` and `scale_factor` is given.
    """
    given = (size, scale_factor)
    need(x.ndim == 4, "the input", x, "a tensor [batch, channels, rows, columns]")
    need(mode in ("nearest", "bilinear"), "mode", mode, "'nearest' or 'bilinear'")
    need(given.count(None) == 1, "(size, scale_factor)", given, "exactly one of them")
    places = "align_corners" if align_corners else "half_pixel"
    kind: dict[str, Any] = {"mode": "linear", "coordinate_transformation_mode": places}
    if mode == "nearest":
        kind = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    kind |= {"label": "resize", "shape": (*x.shape[:2], None, None)}
    if size is not None:
        sizes = np.array(integers("size", size, 2))
        return record("Resize", x, None, None, sizes, axes=(2, 3), **kind)
    factors: Any = scale_factor if isinstance(scale_factor, tuple | list) else (scale_factor,) * 2
    fits = len(factors) == 2 and all(is_number(factor) and factor > 0 for factor in factors)
    need(fits, "scale_factor", scale_factor, "a positive number, or two of them")
    return record("Resize", x, None, np.array((1, 1, *factors), np.float32), **kind)


def flatten(x: Tensor, start_dim: int = 1, end_dim: int = -1) -> Tensor:
    """Merges the dimensions of x from `start_dim` to `end_dim` (inclusive) into one."""
    return x.flatten(start_dim, end_dim)


def dropout(x: Tensor, p: float = 0.5) -> Tensor:
    """x unchanged: dropout acts in training only."""
    del p
    return x


def arange(size: Size, like: Tensor) -> Tensor:
    """The integers 0, 1, ... below `size`, int64 [size], in the graph of `like`; `size` may be a symbol."""
    if not isinstance(size, str):
        return like.recorder.constant(np.arange(size))
    end = like.recorder.sizes([size]).squeeze(0)
    return record("Range", np.array(0), end, np.array(1), label="arange", shape=(size,))


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Operand | None = None, is_causal: bool = False
) -> Tensor:
    """softmax(query @ key.T / sqrt(size)) @ value, over [batch, heads, sequence, size].

    A `mask` of floats is added to the scores; a bool `mask` is true where a query attends to a key. With `is_causal`
    the query at position i attends to the keys at positions 0..i.
    """
    need_size(query, -1, key.shape[-1], "the size of the keys")
    size = query.shape[-1]
    need(not isinstance(size, str), "the size of a head", size, "a last dimension of known size")
    scores = record("MatMul", query, key.transpose(-1, -2), label="scores")
    scores = record("Div", scores, sqrt(int(size)), label="scaled")
    masks = [] if mask is None else [mask]
    if is_causal:
        rows, columns = arange(query.shape[-2], query).unsqueeze(1), arange(key.shape[-2], key).unsqueeze(0)
        masks.append(record("GreaterOrEqual", rows, columns, label="causal"))
    for item in masks:
        if getattr(item, "dtype", None) == np.bool_:
            # The least float32, added to the score of a masked position: softmax then gives 0 for the position.
            seen = query.recorder.constant(item) if isinstance(item, np.ndarray) else item
            none, least = (np.array(bound, scores.dtype) for bound in (0, np.finfo(np.float32).min))
            item = record("Where", seen, none, least, label="mask")
        scores = record("Add", scores, item, label="masked")
    return record("MatMul", record("Softmax", scores, label="softmax", axis=-1), value, label="context")
