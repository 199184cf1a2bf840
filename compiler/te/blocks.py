"""The layout of activations in blocks of channels, which all operators share, and the geometry of sliding windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vdla.isa.config import Config

Pair = tuple[int, int]
Pads = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Sizes of the blocks of stored activations: int8 [ceil(N / batch), ceil(C / block), H, W, batch, block].

    `block` is the larger of the accelerator's block_in and block_out (inputs and outputs of its array of multipliers).
    The array reads the channels of a block at a position (row, column) as `inputs` vectors of block_in channels; they
    are stored as `outputs` vectors of block_out channels.
    """

    batch: int
    block_in: int
    block_out: int

    @property
    def block(self) -> int:
        """Channels of a block of activations."""
        return max(self.block_in, self.block_out)

    @property
    def inputs(self) -> int:
        """Number of input vectors (of block_in channels) at one position (row, column) of a block of channels."""
        return self.block // self.block_in

    @property
    def outputs(self) -> int:
        """Number of output vectors (of block_out channels) at one position (row, column) of a block of channels."""
        return self.block // self.block_out

    def inputs_read(self, channels: int, kernel: Pair) -> int:
        """Number of input vectors that a convolution without groups reads at one position (row, column) of a block of
        channels.

        A 1 x 1 window on a single block leaves out vectors that hold only padding channels; other windows read all
        vectors of the position.
        """
        if kernel != (1, 1) or channels > self.block:
            return self.inputs
        return ceil_div(channels, self.block_in)

    @staticmethod
    def of(config: Config) -> Blocks:
        """The block sizes of activations for an accelerator configuration."""
        return Blocks(batch=config.batch, block_in=config.block_in, block_out=config.block_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A sliding window: `kernel`, `strides` and `dilations` are (rows, columns), `pads` (top, left, bottom, right)."""

    kernel: Pair
    strides: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    dilations: Pair = (1, 1)

    def outputs(self, height: int, width: int) -> Pair:
        """Output rows and columns on an input of `height` x `width`; raises ValueError if the window does not fit."""
        top, left, bottom, right = self.pads
        padded = (height + top + bottom, width + left + right)
        sizes: list[int] = []
        for size, kernel, stride, dilation in zip(
            padded, self.kernel, self.strides, self.dilations, strict=True
        ):
            span = (kernel - 1) * dilation + 1
            if size < span:
                raise ValueError(
                    f"a window of {span} positions does not fit into the {size} padded positions"
                )
            sizes.append((size - span) // stride + 1)
        return sizes[0], sizes[1]

    def has_pad_taps(self, height: int, width: int) -> bool:
        """Whether the first or last row or column of taps (elements of the window) reads only padding for every output,
        on an input of `height` x `width`.
        """
        outputs = self.outputs(height, width)
        for axis, size in enumerate((height, width)):
            stride, begin = self.strides[axis], self.pads[axis]
            for start in (-begin, (self.kernel[axis] - 1) * self.dilations[axis] - begin):
                skipped = max(0, ceil_div(-start, stride))  # outputs for which the tap lies before the input
                if skipped >= outputs[axis] or start + skipped * stride >= size:
                    return True
        return False

    def padded(self, height: int, width: int) -> Pair:
        """Rows and columns of an input of `height` x `width` together with the window's pads."""
        top, left, bottom, right = self.pads
        return height + top + bottom, width + left + right


def ceil_div(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)
