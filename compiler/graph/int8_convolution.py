"""Int8 convolution, and quantization of a tensor's integers. Tensors are (N, C, H, W), as in `int8_operators`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..te.blocks import Pair, Window
from ..te.post import Post

ActivationType = Literal["int8", "uint8"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """real = scale * (integer - zero_point), with integers and zero point in the model's own type `dtype`."""

    scale: np.float32
    zero_point: int
    dtype: ActivationType

    @property
    def offset(self) -> int:
        """The difference between the model's integer and the stored int8 value: 128 for uint8, 0 for int8."""
        return 128 if self.dtype == "uint8" else 0

    @property
    def stored_zero_point(self) -> int:
        """The zero point of the stored int8 values."""
        return self.zero_point - self.offset


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Int8Convolution:
    """An int8 convolution. Inputs: data and, if `post` combines the result with a second operand, this operand. out[n,
    o] = bias[o] + sum over window of weight[o] * data, requantized with scale[o] by `post`.

    `weight` is int8 (O, C / groups, kh, kw), with the kernel of `window`; `scale` is float32, one value or (O,), finite
    and positive. `bias` is int32 (O,) and includes the correction `-zero_point * sum(weight[o])` for the input's zero
    point; elements outside the input read as `pad_value` (the input's zero point), never 0.

    The other fields are optional. `pool`: a max-pool of the sums, before requantization; pads never win. `table`: a
    look-up table, int8 (256,), applied after requantization and before the combination with the second operand.
    `phases`: an Interleave, which moves the result's elements. `share`: the fraction of the model's convolution that
    this node computes. It is below 1 for a node with some of the filters, and 0 for a node that only moves values.
    `spaced` (columns, pitch): the output consists of rows of `columns` pixels, and arbitrary values follow each row up
    to a length of `pitch`. `taken`: only the first `taken` pixels of each image are read, as if the input were (N, C,
    `taken`, 1); the output also has `taken` pixels."""

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
            raise ValueError(
                f"weights of shape {self.weight.shape} do not match the window, whose kernel is {self.window.kernel}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Interleave:
    """Last step of a transposed convolution. A phase is the set of outputs with equal remainders modulo the strides. An
    ordinary convolution has computed all phases as separate channels; this operator joins them into one image. Input:
    data. Output: out[n, c, y, x] = data[n, phase * `stride` + c, (y + top) // sy, (x + left) // sx], where phase = (y +
    top) % sy * sx + (x + left) % sx.

    `factors`: (sy, sx), the strides; `before`: (top, left), the pads; `outputs`: (channels, rows, columns); `kernel`:
    rows and columns of the transposed convolution's kernel."""

    factors: Pair
    before: Pair
    stride: int
    outputs: tuple[int, int, int]
    kernel: Pair

    def taps(self, axis: int) -> tuple[int, ...]:
        """For each phase along an axis, the number of kernel rows (`axis` 0) or columns (1) that contribute to an
        output. The outputs of a phase have the same remainder of the row or column modulo the stride."""
        return tuple(
            [-(-(self.kernel[axis] - phase) // self.factors[axis]) for phase in range(self.factors[axis])]
        )

    def remainders(self, axis: int) -> tuple[int, ...]:
        """For each output row (`axis` 0) or column (1), the number of its phase along this axis. This is (index + pad)
        modulo the stride, with the pad in `before`.
        """
        before, factor = self.before[axis], self.factors[axis]
        return tuple([(place + before) % factor for place in range(self.outputs[axis + 1])])
