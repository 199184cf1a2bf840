"""A convolution, independent of the layout of its tensors: its sizes, and the input that each weight multiplies.

A phase is the set of outputs along an axis that use the same weights. An ordinary convolution has one phase. In a
transposed one, outputs with the same remainder modulo the stride are a phase: a dense convolution of the input with
every stride-th tap, so that no product with an inserted zero is computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from ...ir.expr import Expr
from ...ir.limits import MOST_PHASES
from ..blocks import Pads, Pair, Window, ceil_div

WINOGRAD_TAPS = 3
"""Rows and columns of the kernels that Winograd's method (`winograd`) computes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Along one axis, the outputs t * `every` + `rest` for t below `outputs`.

    Each is the sum over m below `taps` of weight `first` + m * `step` times input t * `stride` + `base` + m * `reach`.
    """

    outputs: int
    taps: int
    rest: int = 0
    every: int = 1
    first: int = 0
    step: int = 1
    stride: int = 1
    base: int = 0
    reach: int = 1

    def output(self, t: Expr) -> Expr:
        """The position of the phase's output t along the axis."""
        return t * self.every + self.rest

    def weight(self, m: Expr) -> Expr:
        """The weight of tap m."""
        return m * self.step + self.first

    def read(self, t: Expr, m: Expr, pads: int = 0) -> Expr:
        """The position along the axis of the input that tap m of output t reads; the input has `pads` in front."""
        start = t * self.stride + (self.base + pads)
        return start + m * self.reach if self.reach >= 0 else start - m * -self.reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """Sizes of a convolution, in elements; a depthwise one has as many groups as channels.

    A `transposed` one, ONNX's ConvTranspose, has `output_padding` more rows and columns of outputs. Raises ValueError
    if `groups` does not divide channels and filters.
    """

    batch: int
    channels: int
    height: int
    width: int
    filters: int
    window: Window
    groups: int = 1
    transposed: bool = False
    output_padding: Pair = (0, 0)

    def __post_init__(self) -> None:
        if self.channels % self.groups or self.filters % self.groups:
            raise ValueError(
                f"{self.groups} groups do not divide {self.channels} channels and {self.filters} filters"
            )

    @property
    def group_channels(self) -> int:
        """Number of channels of a group."""
        return self.channels // self.groups

    @property
    def group_filters(self) -> int:
        """Number of filters of a group."""
        return self.filters // self.groups

    @property
    def outputs(self) -> Pair:
        """Rows and columns of the output. Raises ValueError if the window does not fit, or if pads leave no output."""
        if self.transposed:
            return transposed_outputs(self.window, self.height, self.width, self.output_padding)
        return self.window.outputs(self.height, self.width)

    @property
    def axes(self) -> tuple[tuple[Phase, ...], tuple[Phase, ...]]:
        """The phases of rows and of columns, in the order of `rest`, including phases without taps."""
        window, outputs = self.window, self.outputs
        rows, columns = (
            _phases(size, kernel, stride, dilation, before)
            if self.transposed
            else (Phase(outputs=size, taps=kernel, stride=stride, base=-before, reach=dilation),)
            for size, kernel, stride, dilation, before in zip(
                outputs, window.kernel, window.strides, window.dilations, window.pads[:2], strict=True
            )
        )
        return rows, columns

    @property
    def pads(self) -> Pads:
        """Number of rows and columns around the input that taps read."""
        if not self.transposed:
            return self.window.pads
        (top, bottom), (left, right) = (
            _margins(phases, size) for phases, size in zip(self.axes, (self.height, self.width), strict=True)
        )
        return top, left, bottom, right


def transposed_outputs(window: Window, height: int, width: int, output_padding: Pair = (0, 0)) -> Pair:
    """Rows and columns of a transposed convolution's output. Raises ValueError if the output is empty, or if strides
    make more than MOST_PHASES phases.
    """
    top, left, bottom, right = window.pads
    sizes: list[int] = []
    for size, kernel, stride, dilation, pads, more in zip(
        (height, width),
        window.kernel,
        window.strides,
        window.dilations,
        (top + bottom, left + right),
        output_padding,
        strict=True,
    ):
        outputs = (size - 1) * stride + (kernel - 1) * dilation + 1 + more - pads
        if outputs < 1:
            raise ValueError(f"pads of {pads} leave nothing of {outputs + pads} outputs")
        sizes.append(outputs)
    rows, columns = (min(stride, size) for stride, size in zip(window.strides, sizes, strict=True))
    if rows * columns > MOST_PHASES:
        raise ValueError(
            f"strides {window.strides} make {rows * columns:,} convolutions, more than {MOST_PHASES:,}"
        )
    return sizes[0], sizes[1]


def _phases(outputs: int, kernel: int, stride: int, dilation: int, before: int) -> tuple[Phase, ...]:
    """The phases along an axis of a transposed convolution with `before` pads in front."""
    # Tap k of output y reads input (y + before - k * dilation) / stride if that is a whole number.
    common = gcd(stride, dilation)
    step = stride // common
    found: list[Phase] = []
    for rest in range(min(stride, outputs)):
        first = next(
            (k for k in range(min(step, kernel)) if (rest + before - k * dilation) % stride == 0), None
        )
        found.append(
            Phase(
                outputs=ceil_div(outputs - rest, stride),
                taps=0 if first is None else ceil_div(kernel - first, step),
                rest=rest,
                every=stride,
                first=first or 0,
                step=step,
                base=0 if first is None else (rest + before - first * dilation) // stride,
                reach=-(dilation // common),
            )
        )
    return tuple(found)


def _margins(phases: tuple[Phase, ...], size: int) -> Pair:
    """Number of positions in front of and behind an input of `size` along an axis that a transposed convolution's taps
    read.
    """
    used = [p for p in phases if p.taps]
    before = max((-(p.base + (p.taps - 1) * p.reach) for p in used), default=0)
    behind = max((p.outputs + p.base - size for p in used), default=0)
    return max(before, 0), max(behind, 0)


def suits_winograd(shape: Convolution) -> bool:
    """Whether Winograd's method applies to a convolution: 3 x 3 taps without dilation, stride 1, one group."""
    window, ones = shape.window, (1, 1)
    plain = shape.groups == 1 and not shape.transposed
    return plain and (window.kernel, window.strides, window.dilations) == (
        (WINOGRAD_TAPS, WINOGRAD_TAPS),
        ones,
        ones,
    )


def tile_counts(m: int, shape: Convolution) -> Pair:
    """Number of tiles of m x m outputs from top to bottom and from left to right."""
    rows, columns = shape.outputs
    return ceil_div(rows, m), ceil_div(columns, m)
