"""A convolution, independent of the layout of its tensors: its sizes, and the input that each weight multiplies.

A phase is the set of outputs along an axis that use the same weights. An ordinary convolution has one phase. In a
transposed convolution, outputs with the same remainder modulo the stride are a phase: a dense convolution of the input
with every stride-th tap, so that no product with an inserted zero is computed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir.expr import Expr
from ..blocks import Pads, Pair, Window, ceil_div

WINOGRAD_TAPS = 3
"""Rows and columns of the kernels that Winograd's method (`winograd`) computes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """The outputs t * `every` + `rest` along one axis, for t below `outputs`.

    Output t sums weight `first` + m * `step` times input t * `stride` + `base` + m * `reach` over m below `taps`.
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
        """Position, along this axis of the output tensor, of the phase's output number `t`."""
        return t * self.every + self.rest

    def weight(self, m: Expr) -> Expr:
        """The index, along the axis, of the weight that tap number `m` of an output multiplies."""
        return m * self.step + self.first

    def read(self, t: Expr, m: Expr, pads: int = 0) -> Expr:
        """The position, along the axis, of the input that tap number `m` of output number `t` reads; the input has
        `pads` positions of padding in front.
        """
        start = t * self.stride + (self.base + pads)
        return start + m * self.reach if self.reach >= 0 else start - m * -self.reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """Sizes of a convolution, in elements; a depthwise one has as many groups as channels.

    With `transposed` (ONNX's ConvTranspose) the output has `output_padding` additional rows and columns. Raises
    ValueError if `groups` does not divide channels and filters.
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

    def in_one_row(self) -> Convolution:
        """The convolution with all positions in one row if it is 1x1 without strides and pads; else itself."""
        window = self.window
        alone = window.kernel == (1, 1) and window.strides == (1, 1) and not any(window.pads)
        if not alone or self.transposed:
            return self
        return replace(self, height=1, width=self.height * self.width)

    @property
    def outputs(self) -> Pair:
        """Rows and columns of the output. Raises ValueError if the window does not fit, or if pads leave no output."""
        if self.transposed:
            from .transposed_convolution import transposed_outputs

            return transposed_outputs(self.window, self.height, self.width, self.output_padding)
        return self.window.outputs(self.height, self.width)

    @property
    def axes(self) -> tuple[tuple[Phase, ...], tuple[Phase, ...]]:
        """The phases of rows and of columns, including empty ones, in the order of their first outputs (`rest`)."""
        window, outputs = self.window, self.outputs
        phases = _single_phase
        if self.transposed:
            from .transposed_convolution import transposed_phases as phases
        rows, columns = (
            phases(size, kernel, stride, dilation, before)
            for size, kernel, stride, dilation, before in zip(
                outputs, window.kernel, window.strides, window.dilations, window.pads[:2], strict=True
            )
        )
        return rows, columns

    @property
    def pads(self) -> Pads:
        """Numbers of padding rows and columns that taps read: (top, left, bottom, right)."""
        if not self.transposed:
            return self.window.pads
        from .transposed_convolution import margins

        (top, bottom), (left, right) = (
            margins(phases, size) for phases, size in zip(self.axes, (self.height, self.width), strict=True)
        )
        return top, left, bottom, right


def _single_phase(outputs: int, kernel: int, stride: int, dilation: int, before: int) -> tuple[Phase, ...]:
    """The phase along an axis of an ordinary convolution with `before` pads in front."""
    return (Phase(outputs=outputs, taps=kernel, stride=stride, base=-before, reach=dilation),)


def suits_winograd(shape: Convolution) -> bool:
    """Whether Winograd's method applies: one group, 3 x 3 taps without dilation, stride 1, not transposed."""
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
