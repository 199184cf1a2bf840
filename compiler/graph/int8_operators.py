"""The integer operators: what a node computes from stored int8 tensors, without names and shapes.

Tensors are (N, C, H, W), or (N, K), which every operator reads as (N, K, 1, 1). How a tensor lies in memory is decided
later. A fully connected layer is a convolution whose window covers its whole input.

Arithmetic is that of `vdla.isa.arithmetic`; stages A and B of a result are stated by `te.post`, for graphs and tensor
expressions alike. The dataclasses here carry an operator's constants and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..te.blocks import Pair, Window
from ..te.post import Combination, Post
from .quantization import Quantization


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Int8Convolution:
    """Inputs: data, and the operand of stage B where `post` has one. out[n, o] = `post` of
    bias[o] + sum over window of weight[o] * data, with scale[o].

    `weight` is int8 (O, C / groups, kh, kw), with the kernel of `window`; `scale` is float32, one value or (O,), finite
    and positive. `bias` is int32 (O,) and already holds the correction `-zero_point * sum(weight[o])` for the input's
    zero point; positions outside the input read as `pad_value` (the input's zero point), never 0. With `pool` the
    maximum of the sums over its windows comes before stage A; its pads never win. `table` is that of `Table`, int8
    (256,), between both stages where `post.table` says so. With `phases` that operator moves the result. `share` is how
    much of a convolution of the model this is: less than 1 of its filters, or 0 of what only moves values. With
    `spaced` (columns, pitch) outputs lie in rows of so many positions, and what lies behind a row up to the pitch is
    anything. With `taken` it is a convolution of the first so many positions of each image, as one row; its outputs are
    as many.
    """

    weight: np.ndarray
    bias: np.ndarray
    scale: np.ndarray
    window: Window
    pad_value: int
    post: Post
    groups: int = 1
    pool: Window | None = None
    table: np.ndarray | None = None
    phases: Interleave | None = None
    share: float = 1.0
    spaced: Pair | None = None
    taken: int | None = None

    def __post_init__(self) -> None:
        if self.weight.shape[2:] != self.window.kernel:
            raise ValueError(f"weights {self.weight.shape} do not have the kernel {self.window.kernel}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8MaxPool:
    """Input: data. The maximum of stored values over windows; positions outside the input never win (they read as
    -128)."""

    window: Window


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Int8AveragePool:
    """Input: data. out = stage A of `post`, of bias + sum over window, with the scale of that window's divisor.

    Positions outside the input read as `pad_value` (the input's zero point) and `bias` is
    `-kernel area * pad_value`, so pads add nothing. `divisors` is int32 (OH, OW): how many positions each
    window counts. `scale_by_divisor` has the float32 scale for each distinct divisor, in ascending order.
    """

    window: Window
    count_include_pad: bool
    pad_value: int
    bias: int
    divisors: np.ndarray
    scale_by_divisor: tuple[tuple[int, np.float32], ...]
    post: Post

    @property
    def uniform(self) -> bool:
        """Whether one scale serves every window."""
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
    """Inputs: a, and b where `combination` has an operand. out = stage B of stored a, and of b.

    b has the same shape, or (where a target has that) height and width 1: one value for each channel's plane."""

    combination: Combination


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """Input: data. out = `table`[stored value + 128], int8 (256,): any function of one quantized tensor. For
    processors, and accelerators with the extension `table`."""

    table: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Channels:
    """Inputs: parts. Channel c of the output is channel `sources`[c][1] of part `sources`[c][0]: concatenations,
    splits, shuffles."""

    sources: tuple[Pair, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interleave:
    """Input: data. out[n, c, y, x] = data[n, phase * `stride` + c, (y + top) // sy, (x + left) // sx]: the last step of
    a transposed convolution, whose phases are convolutions.

    `factors` are (sy, sx), `before` (top, left), `outputs` channels, rows and columns, `kernel` the transposed
    convolution's; phase = (y + top) % sy * sx + (x + left) % sx.
    """

    factors: Pair
    before: Pair
    stride: int
    outputs: tuple[int, int, int]
    kernel: Pair

    def taps(self, axis: int) -> tuple[int, ...]:
        """How many rows (or columns, `axis` 1) of the kernel an output of each phase meets."""
        return tuple(
            [-(-(self.kernel[axis] - phase) // self.factors[axis]) for phase in range(self.factors[axis])]
        )

    def remainders(self, axis: int) -> tuple[int, ...]:
        """The phase, in rows or columns alone, of each output."""
        before, factor = self.before[axis], self.factors[axis]
        return tuple([(place + before) % factor for place in range(self.outputs[axis + 1])])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Positions:
    """Inputs: parts of as many channels. Position p of the output, (n, y, x), has all channels of position `index`[p]
    of the parts, counted over these and their images, rows and columns; -1 stands for `fill` in all channels, or, where
    that is None, for anything, which no reader lets count. `index` is int64 (N, OH, OW): slices, pads, repeated and
    moved rows and columns, and joined ones. With `channels` (first, count) the output has those alone. Both are for
    accelerators."""

    index: np.ndarray
    fill: int | None = 0
    channels: Pair | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """Input: data. out[n, p, c] = data[n, c, p], positions counted row by row: the first `positions` become channels,
    and channels positions; of these only `channels` (first, count) where that is given, which is for accelerators."""

    positions: int
    channels: Pair | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Turned:
    """Input: data. `Swap` of what `convolution`, a plain one of single positions, makes of all positions: its filters
    become positions, and positions channels. For accelerators."""

    convolution: Int8Convolution


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resample:
    """Input: data. Along rows (`axis` 0) or columns (1) the output at p is stage A of `post`, of bias + sum over t of
    `weight`[p, t] * data[`first`[p] + t], with `scale`.

    `first` is int64 (O,), `weight` int8 (O, taps), whose rows all have one sum; a tap of weight 0 reads nothing. `bias`
    is `-zero_point * sum` for the input's zero point.
    """

    axis: int
    first: np.ndarray
    weight: np.ndarray
    bias: int
    scale: np.float32
    post: Post


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One product of `Products`: at which channel and position it begins in a, b and the output; `image` of all."""

    image: int
    a: Pair
    b: Pair
    output: Pair


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Products:
    """Inputs: a, b, and the operand of stage B where `post` has one, which lies like the output. For each group, with
    the (channel, position) at which it begins in each tensor, for i below `rows` and j below `columns`

        out[channel + j, position + i] = `post` of sum over k below `depth` of
            (a[channel + k, position + i] - zero_points[0]) * (b[channel + k, position + j] - zero_points[1])

    with `scale`; positions are counted over a plane. The groups fill the output. `table` as of `Int8Convolution`. For
    the accelerator.
    """

    groups: tuple[Group, ...]
    rows: int
    columns: int
    depth: int
    zero_points: Pair
    scale: np.float32
    post: Post
    table: np.ndarray | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """Input: data. A row is all channels of a position. out = stage A of `post`, of bias[c] + share, with scale[c].

    Shares are those of `isa.rows`: `softmax_shares` with the table `entries`, int64 (256,), or without one
    `normalized_shares`, where `zero_point` comes off the elements, `centre` says whether their mean does, and `epsilon`
    is (mantissa, shift). `bias` is int32 and `scale` float32 of either sign, (C,) or (1,). With `plane` outputs lie in
    planes of so many positions, and what lies behind the input's is anything. For accelerators with the extension
    `rows`.
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
    """Inputs: the two factors of `scores`, and the second one of `context`, whose first is the `shares` of the scores.
    out = `context`; every group of it has the rows of the group of `scores` in its place. For accelerators with a chain
    memory, which has scores and shares."""

    scores: Products
    shares: Rows
    context: Products


@dataclass(frozen=True, slots=True, kw_only=True)
class Normed:
    """Inputs: those of `convolution`. Outputs: `rows` of what that makes, and this itself. For accelerators."""

    convolution: Int8Convolution
    rows: Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantize:
    """Input: what the host hands over: float32, or the model's own integers. Output: stored values of `quantization`,
    rounded as QuantizeLinear does, with the input's elements in their order. For processors only."""

    quantization: Quantization


@dataclass(frozen=True, slots=True, kw_only=True)
class Dequantize:
    """Input: stored values. Output: what the host reads: float32 by `quantization`, or the model's own integers, with
    the input's elements in their order. For processors only."""

    quantization: Quantization


Int8Operator = (
    Int8Convolution
    | Int8MaxPool
    | Int8AveragePool
    | Int8Elementwise
    | Table
    | Channels
    | Interleave
    | Positions
    | Resample
    | Swap
    | Turned
    | Rows
    | Products
    | Attention
    | Normed
    | Quantize
    | Dequantize
)
