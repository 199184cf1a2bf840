"""The integer graph: every activation an int8 tensor, every node one step of integer arithmetic.

A tensor of the model that is uint8 is stored as `value - 128`, so that the whole graph has one activation
type; zero points move with it. `Quantization.offset` leads back to the model's own integers.

Layout is logical: (N, C, H, W), or (N, K), which every node reads as (N, K, 1, 1). How a tensor lies in
memory is decided later. A fully connected layer is a `Convolution` whose kernel covers its whole input.

Arithmetic is that of `vdla.isa.arithmetic`; the dataclasses here carry its constants and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

ActivationType = Literal["int8", "uint8"]
HostType = Literal["float32", "int8", "uint8"]
CombineKind = Literal["add", "multiply", "rescale"]
Pair = tuple[int, int]
Pads = tuple[int, int, int, int]
NOTHING = np.float32(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """real = scale * (integer - zero_point), with both integers in the model's own type `dtype`."""

    scale: np.float32
    zero_point: int
    dtype: ActivationType

    @property
    def offset(self) -> int:
        """What to add to a stored int8 value to get the model's own integer: 128 for uint8, 0 for int8."""
        return 128 if self.dtype == "uint8" else 0

    @property
    def stored_zero_point(self) -> int:
        """The zero point of the stored int8 values."""
        return self.zero_point - self.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """An int8 activation of `shape` (N, C, H, W) or (N, K)."""

    name: str
    shape: tuple[int, ...]
    quantization: Quantization

    @property
    def nchw(self) -> tuple[int, int, int, int]:
        """The shape with the two spatial dimensions always present."""
        if len(self.shape) == 2:
            return (self.shape[0], self.shape[1], 1, 1)
        n, c, h, w = self.shape
        return (n, c, h, w)

    @property
    def size(self) -> int:
        """Elements, which are bytes too."""
        n, c, h, w = self.nchw
        return n * c * h * w


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Requantize:
    """Stage A of the store pipeline: `vdla.isa.arithmetic.requantize(acc, scale, zero_point, low, high)`.

    `scale` is float32 of one value per output channel, finite and positive; `zero_point`, `low` and `high`
    are in the stored int8 domain.
    """

    scale: np.ndarray
    zero_point: int
    low: int = -128
    high: int = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class Combine:
    """Stage B of the store pipeline, applied to an int8 value q ("self") and, but for rescale, to `operand`.

    add       `combine_add(q, operand, AddConstants(ratio_self, ratio_operand, offset, unsigned), low, high)`
    multiply  `combine_multiply(q, operand, zero_point_self, zero_point_operand, ratio_self, zero_point,
              unsigned, low, high)`
    rescale   `rescale(q, zero_point_self, ratio_self, zero_point, low, high)`; ratio 1 with equal zero
              points is a clamp and nothing else

    all of `vdla.isa.arithmetic`. With `swap` the operand is the first input of add and multiply, with its
    ratio or zero point, and q the second: the order decides last bits. Ratio_self always belongs to q.
    Fields that a kind does not use are 0. Zero points, `low` and `high` are stored ones.
    """

    kind: CombineKind
    operand: str | None
    ratio_self: np.float32
    ratio_operand: np.float32 = NOTHING
    offset: np.float32 = NOTHING
    zero_point_self: int = 0
    zero_point_operand: int = 0
    zero_point: int = 0
    unsigned: bool = False
    swap: bool = False
    low: int = -128
    high: int = 127

    @property
    def only_clamps(self) -> bool:
        """Whether it changes no value inside low..high."""
        return self.kind == "rescale" and self.ratio_self == 1 and self.zero_point_self == self.zero_point


def oriented(combine: Combine, a: str) -> Combine:
    """A stage B of tensor `a` and an operand, as one of the operand and `a`."""
    return replace(
        combine,
        operand=a,
        swap=not combine.swap,
        ratio_self=combine.ratio_operand if combine.kind == "add" else combine.ratio_self,
        ratio_operand=combine.ratio_self if combine.kind == "add" else combine.ratio_operand,
        zero_point_self=combine.zero_point_operand,
        zero_point_operand=combine.zero_point_self,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A maximum over windows, taken of a convolution's int32 sums before stage A. Pads never win."""

    kernel: Pair
    strides: Pair
    pads: Pads


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Convolution:
    """out[n, o] = requantize(bias[o] + sum over window of weight[o] * data), then `combine` where present.

    `weight` is int8 (O, C / groups, kh, kw); `bias` is int32 (O,) and already holds the correction
    `-zero_point * sum(weight[o])` for the input's zero point; positions outside the input read as
    `pad_value` (the input's zero point), never 0. With `pool` the maximum of the sums over its windows
    comes before stage A. `pads` are (top, left, bottom, right).
    """

    name: str
    members: tuple[str, ...]
    data: str
    output: str
    weight: np.ndarray
    bias: np.ndarray
    strides: Pair
    pads: Pads
    dilations: Pair
    groups: int
    pad_value: int
    requantize: Requantize
    combine: Combine | None = None
    pool: Pool | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MaxPool:
    """The maximum of stored values over windows; positions outside the input never win (they read as
    -128)."""

    name: str
    members: tuple[str, ...]
    data: str
    output: str
    kernel: Pair
    strides: Pair
    pads: Pads


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AveragePool:
    """out = requantize(bias + sum over window, scale of that window's divisor).

    Positions outside the input read as `pad_value` (the input's zero point) and `bias` is
    `-kernel area * pad_value`, so pads add nothing. `divisors` is int32 (OH, OW): how many positions each
    window counts; where all are equal, as in a global pool, `requantize` alone holds the scale.
    `scale_by_divisor` has the float32 scale for each distinct divisor, of which `requantize.scale` (one
    value) is that of the largest.
    """

    name: str
    members: tuple[str, ...]
    data: str
    output: str
    kernel: Pair
    strides: Pair
    pads: Pads
    count_include_pad: bool
    pad_value: int
    bias: int
    divisors: np.ndarray
    scale_by_divisor: tuple[tuple[int, np.float32], ...]
    requantize: Requantize

    @property
    def uniform(self) -> bool:
        """Whether one scale serves every window."""
        return len(self.scale_by_divisor) == 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Elementwise:
    """out = stage B of stored tensor `a`, with `combine.operand` (`b`) where the kind has one.

    `b` has the same shape, or (graphs for processors) height and width 1: one value for each channel's plane."""

    name: str
    members: tuple[str, ...]
    a: str
    b: str | None
    output: str
    combine: Combine


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """out = `table`[stored value + 128], int8 (256,): any function of one quantized tensor. For processors only."""

    name: str
    members: tuple[str, ...]
    data: str
    output: str
    table: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Channels:
    """Channel c of the output is channel `sources`[c][1] of `parts`[`sources`[c][0]]: concatenations, splits, shuffles.

    For processors only."""

    name: str
    members: tuple[str, ...]
    parts: tuple[str, ...]
    output: str
    sources: tuple[Pair, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interleave:
    """out[n, c, y, x] = data[n, phase * `stride` + c, (y + top) // sy, (x + left) // sx]: the last step of a transposed
    convolution, whose phases are convolutions. For processors only.

    `factors` are (sy, sx), `before` (top, left), `outputs` channels, rows and columns;
    phase = (y + top) % sy * sx + (x + left) % sx.
    """

    name: str
    members: tuple[str, ...]
    data: str
    output: str
    factors: Pair
    before: Pair
    stride: int
    outputs: tuple[int, int, int]


Node = Convolution | MaxPool | AveragePool | Elementwise | Table | Channels | Interleave


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphInput:
    """What the host hands over as `name`: `shape` and `dtype` as the model declares them.

    The host transposes by `permutation` (None: not at all), quantizes where `dtype` is float32, reshapes to
    the tensor's shape and subtracts the offset: `vdla.compiler.graph.host.store_input`.
    """

    name: str
    tensor: str
    shape: tuple[int, ...]
    dtype: HostType
    permutation: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphOutput:
    """What the host reads as `name`; a float32 output is dequantized with `quantization`."""

    name: str
    tensor: str
    shape: tuple[int, ...]
    dtype: HostType
    quantization: Quantization


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Graph:
    """A whole model: nodes in topological order, `tensors` by name, `constants` (int8, stored) by tensor
    name.

    Constants are operands of `Elementwise` that do not depend on the input; they too are listed in `tensors`.
    """

    name: str
    inputs: tuple[GraphInput, ...]
    outputs: tuple[GraphOutput, ...]
    nodes: tuple[Node, ...]
    tensors: Mapping[str, Tensor]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)


def reads(node: Node) -> tuple[str, ...]:
    """Names of the tensors that a node reads, in order, each as often as it is read."""
    match node:
        case Convolution(data=data, combine=combine):
            return (data,) if combine is None or combine.operand is None else (data, combine.operand)
        case MaxPool(data=data) | AveragePool(data=data):
            return (data,)
        case Elementwise(a=a, b=b):
            return (a,) if b is None else (a, b)
        case Table(data=data) | Interleave(data=data):
            return (data,)
        case Channels(parts=parts):
            return parts
