"""The integer operators: computations on stored int8 tensors, without names and shapes.

Tensors are (N, C, H, W), or (N, K), which every operator reads as (N, K, 1, 1). Memory layout is decided later. A fully
connected layer is a convolution whose window covers its whole input.

Arithmetic is that of `vdla.isa.arithmetic`. A result passes two stages, requantization (A) and combination with an
operand (B); `te.post` defines both, for graphs and tensor expressions alike. The dataclasses here have an operator's
constants and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..te.blocks import Pair, Window
from ..te.combination import Combination
from ..te.post import Post
from .int8_convolution import Int8Convolution, Interleave, Quantization


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8MaxPool:
    """Input: data. The maximum of stored values over windows; elements outside the input never win (they read
    as -128).
    """

    window: Window


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Int8AveragePool:
    """Input: data. out = (`bias` + sum over the window), requantized by `post` with a scale that depends on the number
    of elements in the window.

    Elements outside the input read as `pad_value` (the input's zero point) and `bias` is `-kernel area * pad_value`, so
    pads add nothing. `divisors`, int32 (OH, OW): the number by which each window's sum is divided. `scale_by_divisor`:
    pairs (divisor, float32 scale), one for each number that occurs in `divisors`, in ascending order.
    """

    window: Window
    pad_value: int
    bias: int
    divisors: np.ndarray
    scale_by_divisor: tuple[tuple[int, np.float32], ...]
    post: Post

    @property
    def uniform(self) -> bool:
        """Whether all windows have one divisor and so one scale."""
        return len(self.scale_by_divisor) == 1

    @property
    def scales(self) -> np.ndarray:
        """The scale of every window, float32 (OH, OW)."""
        scales = np.zeros(self.divisors.shape, np.float32)
        for divisor, scale in self.scale_by_divisor:
            scales[self.divisors == divisor] = scale
        return scales


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8Elementwise:
    """An element-wise operator on int8. out = `combination` of the stored values of a and, if the combination has a
    second operand, of b.

    b has the shape of a. On targets with `Abilities.planes` it may have height and width 1 instead: one value for each
    channel.
    """

    combination: Combination


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """Input: data. out = `table`[stored value + 128], where `table` is int8 (256,). It represents any function of one
    quantized tensor.

    For processors, and accelerators with the extension `table`.
    """

    table: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Channels:
    """Selection and concatenation of channels. Inputs: one or several tensors (parts) with equal numbers of images and
    equal numbers of pixels in an image; heights may differ. Channel c of the output is channel `sources`[c][1] of part
    `sources`[c][0]. Splits and shuffles of channels have this form, too.
    """

    sources: tuple[Pair, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Positions:
    """Moves pixels. Inputs: tensors with equal numbers of channels. Output pixel p has all channels of input pixel
    `index`[p]. Input pixels are numbered row by row within an image, then image by image, then input by input. An index
    of -1 gives all channels of the output pixel the value `fill`; if `fill` is None, the values are arbitrary, and no
    reader uses them.

    `index` is int64 (N, OH, OW). Slices, pads, repetitions, moves and concatenations of rows and columns have this
    form. With `channels` (first, count) the output has only `count` channels, from `first` on. `channels`, and None for
    `fill`, are for accelerators.
    """

    index: np.ndarray
    fill: int | None = 0
    channels: Pair | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """Exchange of pixels and channels. Input: data. out[n, p, c] = data[n, c, p], where p counts pixels row by row. The
    first `positions` pixels become channels. With `channels` (first, count), only `count` channels, from `first` on,
    become pixels; this is for accelerators only.
    """

    positions: int
    channels: Pair | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TransposedProduct:
    """A 1x1 convolution whose result is stored with pixels and channels exchanged: its filters become pixels, and its
    pixels channels. Input: data. out = `Swap`, over all pixels, of the result of `convolution`. For accelerators.
    """

    convolution: Int8Convolution


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resample:
    """Resize along one axis. Input: data. Along rows (`axis` 0) or columns (1) the output at index p is bias + sum over
    t of `weight`[p, t] * data[`first`[p] + t], requantized by `scale` and `post`.

    `first` is int64 (O,). `weight` is int8 (O, number of weights for an output); the sum of the weights is equal for
    all outputs. An element with weight 0 is not read. `bias` is minus the input's zero point times the sum of the
    weights. For accelerators.
    """

    axis: int
    first: np.ndarray
    weight: np.ndarray
    bias: int
    scale: np.float32
    post: Post


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Neighbours:
    """The two neighbouring input elements of each output along an axis. `first`: index of the first neighbour (int64);
    `weight`: weights of both, float32 (O, 2). An index behind the last element stands for the last element.
    """

    first: np.ndarray
    weight: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Interpolation:
    """Resize of images. Input: data, of the quantization `source`. The real values of the data are interpolated between
    neighbouring `rows` and `columns`, in float32 and in ONNX Runtime's order. Output: the interpolated values,
    quantized by `grid` and clamped to `low`..`high` in stored integers. For processors only.
    """

    rows: Neighbours
    columns: Neighbours
    source: Quantization
    grid: Quantization
    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One matrix product of the operator `Products`. `image`: index of the image that holds the matrices. `a`, `b` and
    `output`: the position of the matrix's first element in each tensor, as (channel, row-major index of the pixel).
    """

    image: int
    a: Pair
    b: Pair
    output: Pair


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Products:
    """Matrix products of two activations. Inputs: a, b and, if `post` combines the result with an operand, this
    operand, in the output's shape. Each matrix product is a `Group`: it has the channel and the position (row-major
    index of a pixel) of the product's first element in a, in b, and in the output. For i below `rows` and j below
    `columns`

        out[channel + j, position + i] = `post` of sum over k below `depth` of
            (a[channel + k, position + i] - zero_points[0]) * (b[channel + k, position + j] - zero_points[1])

    where `post` requantizes by `scale`. Together the groups fill the output. `table`: look-up table between the stages
    of `post`, as in `Int8Convolution`. For accelerators.
    """

    groups: tuple[Group, ...]
    rows: int
    columns: int
    depth: int
    zero_points: Pair
    scale: np.float32
    post: Post
    table: np.ndarray | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """Repeats channels. Input: data with C channels. Each element becomes a pixel with `channels` equal channels:
    out[n, j, p * C + c] = data[n, c, p] for all j below `channels`, where p counts pixels row by row. For accelerators.
    """

    channels: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionSums:
    """Computes the matrix products `products`, each of one row, from factors in other layouts. Inputs: first, the
    result of `Repeated` for the factor a, whose channels are the `depth` of the products; second, the factor b with
    channels and pixels exchanged, so that each product sums over all pixels of b. For accelerators with depthwise
    products.
    """

    products: Products


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """Softmax or normalization over the channels of each pixel. Input: data. First `isa.rows` computes an integer share
    for each channel c. Then out = share + bias[c], requantized by scale[c] and `post`.

    For a softmax, `entries` is the table of exponentials, int64 (256,), and `softmax_shares` computes the shares. For a
    normalization, `entries` is None, and `normalized_shares` computes the shares: it subtracts `zero_point` and, with
    `centre`, the mean; `epsilon` is (m, s) for m * 2**s. `bias` is int32 and `scale` float32 of either sign, (C,) or
    (1,). With `plane`, pixels of arbitrary value follow the input's pixels, up to `plane` pixels. For accelerators with
    the extension `rows`.
    """

    entries: np.ndarray | None
    bias: np.ndarray
    scale: np.ndarray
    post: Post
    zero_point: int = 0
    centre: bool = False
    epsilon: Pair = (0, 0)
    plane: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Two matrix products with a softmax between them. First `scores` multiplies two inputs, then `shares` computes the
    softmax of the result, and last `context` multiplies the result of the softmax by a third input. Output: the result
    of `context`.

    A group is one matrix product. Group i of `scores` and group i of `context` compute the same rows. For accelerators
    with a chain memory (on-chip memory between operators), which holds the results of `scores` and `shares`.
    """

    scores: Products
    shares: Rows
    context: Products


@dataclass(frozen=True, slots=True, kw_only=True)
class Normed:
    """A convolution and the softmax or normalization of its result. Inputs: the inputs of `convolution`. Two outputs:
    the result of the operator `rows` for the convolution's result, and the convolution's result itself. For
    accelerators.
    """

    convolution: Int8Convolution
    rows: Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantize:
    """Input: a model input, float32 or the model's integers. Output: stored values of `quantization`, rounded as
    QuantizeLinear does, with the input's elements in their order. For processors only."""

    quantization: Quantization


@dataclass(frozen=True, slots=True, kw_only=True)
class Dequantize:
    """Converts a stored int8 tensor to a model output, with the elements in the same order. The output is float32 (by
    `quantization`), or has the model's own integer type. For processors only.
    """

    quantization: Quantization


Int8Operator = (
    Int8Convolution | Int8MaxPool | Int8AveragePool | Int8Elementwise | Table | Channels | Interleave
    | Positions | Resample | Interpolation | Swap | TransposedProduct | Rows | Products | Repeated
    | PositionSums | Attention | Normed | Quantize | Dequantize
)  # fmt: skip
