"""Outputs, phases and margins of a transposed convolution, ONNX's ConvTranspose."""

from __future__ import annotations

from math import gcd

from ...ir.limits import MOST_PHASES
from ..blocks import Pair, Window, ceil_div
from .convolution import Phase


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
            raise ValueError(f"its pads of {pads} elements crop all of its {outputs + pads} outputs")
        sizes.append(outputs)
    rows, columns = (min(stride, size) for stride, size in zip(window.strides, sizes, strict=True))
    if rows * columns > MOST_PHASES:
        raise ValueError(
            f"strides {window.strides} make {rows * columns:,} convolutions, more than {MOST_PHASES:,}"
        )
    return sizes[0], sizes[1]


def transposed_phases(
    outputs: int, kernel: int, stride: int, dilation: int, before: int
) -> tuple[Phase, ...]:
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


def margins(phases: tuple[Phase, ...], size: int) -> Pair:
    """Numbers of positions before and after the input's axis of `size` that the taps of all `phases` read."""
    used = [p for p in phases if p.taps]
    before = max((-(p.base + (p.taps - 1) * p.reach) for p in used), default=0)
    behind = max((p.outputs + p.base - size for p in used), default=0)
    return max(before, 0), max(behind, 0)
