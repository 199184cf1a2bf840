"""Window arithmetic of convolutions and pools: output sizes, automatic padding, divisors of averages.

Formulas are those of the ONNX operator specifications (Conv, MaxPool, AveragePool).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

import numpy as np

from ..te.blocks import Pads, Pair, Window, ceil_div


def window_extent(kernel: int, dilation: int) -> int:
    """Number of input elements along an axis from the first to the last element of a window."""
    return dilation * (kernel - 1) + 1


def output_size(size: int, kernel: int, stride: int, dilation: int, pad_begin: int, pad_end: int) -> int:
    """Number of whole windows along one axis; 0 or less if none fits."""
    return (size + pad_begin + pad_end - window_extent(kernel, dilation)) // stride + 1


def output_plane(plane: Pair, kernel: Pair, strides: Pair, dilations: Pair, pads: Pads) -> Pair:
    """The number of windows along both axes (`output_size`) of an (H, W) plane; `pads` are (top, left,
    bottom, right).
    """
    top, left, bottom, right = pads
    return (
        output_size(plane[0], kernel[0], strides[0], dilations[0], top, bottom),
        output_size(plane[1], kernel[1], strides[1], dilations[1], left, right),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Windows of a convolution or pool in any number of dimensions (`te.blocks.Window` has exactly two). `pads`: pads
    before each dimension, then pads after each dimension.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """Along each dimension, the number of input elements from the first to the last element of a window."""
        return tuple([window_extent(k, d) for k, d in zip(self.kernel, self.dilations, strict=True)])


def automatic_pads(
    mode: str, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[int, ...]:
    """Pads for `mode`, which is the value SAME_UPPER, SAME_LOWER or VALID of the attribute auto_pad. Returns the pads
    before each dimension, then the pads after each dimension.

    With SAME_UPPER and SAME_LOWER there are ceil(size / stride) outputs.
    """
    totals = [
        0 if mode == "VALID" else max(0, (ceil_div(size, stride) - 1) * stride + window_extent(k, d) - size)
        for size, k, stride, d in zip(sizes, kernel, strides, dilations, strict=True)
    ]
    small, large = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return (*small, *large) if mode == "SAME_UPPER" else (*large, *small)


def ceiling_pads(
    sizes: Sequence[int], extents: Sequence[int], strides: Sequence[int], pads: Sequence[int]
) -> tuple[int, ...]:
    """Pads that replace `ceil_mode`: a pool with these pads and without ONNX's `ceil_mode` gives the same outputs as a
    pool with `ceil_mode` and `pads`. `extents`: lengths of a window along each dimension. Returns the pads before each
    dimension, then the pads after each dimension.

    A last window that would start in the pad at the end is dropped. ONNX requires this since opset 19, and ONNX Runtime
    does so in every opset.
    """
    rank = len(sizes)
    ends: list[int] = []
    for size, extent, stride, begin, end in zip(
        sizes, extents, strides, pads[:rank], pads[rank:], strict=True
    ):
        outputs = ceil_div(size + begin + end - extent, stride) + 1
        if (outputs - 1) * stride >= size + begin:
            outputs -= 1
        ends.append(max(0, (outputs - 1) * stride + extent - size - begin))
    return (*pads[:rank], *ends)


def average_divisors(
    sizes: Sequence[int], window: Window | Windows, declared: Sequence[int], count_include_pad: bool
) -> np.ndarray:
    """The divisor for each window of an average pool: the number of elements that its mean counts. int32, with one
    dimension for each of `sizes`.

    With `count_include_pad` elements of the `declared` pads are counted. Pads of `window` beyond the declared pads
    (`ceiling_pads` adds them for ceil_mode) are never counted.
    """
    counts, rank = np.ones((), np.int64), len(sizes)
    for axis, size in enumerate(sizes):
        kernel, stride, dilation = window.kernel[axis], window.strides[axis], window.dilations[axis]
        before, behind = window.pads[axis], window.pads[rank + axis]
        starts = np.arange(output_size(size, kernel, stride, dilation, before, behind)) * stride - before
        bounds = (-declared[axis], size + declared[rank + axis]) if count_include_pad else (0, size)
        # For elements start + k * dilation: the first k inside, and the first k after the end.
        first, end = (np.clip(-((starts - bound) // dilation), 0, kernel) for bound in bounds)
        counts = counts[..., None] * np.maximum(end - first, 0)
    return counts.astype(np.int32)


def positions_read(
    size: int, kernel: int, stride: int, dilation: int, pad_begin: int, outputs: np.ndarray
) -> np.ndarray:
    """For each row (or column) of the input, whether some window reads it: bool (size,). `outputs`, bool (windows,):
    the windows that are considered.
    """
    starts = np.flatnonzero(outputs) * stride - pad_begin
    touched = (starts[:, None] + dilation * np.arange(kernel)).reshape(-1)
    read = np.zeros(size, dtype=bool)
    read[touched[(touched >= 0) & (touched < size)]] = True
    return read


def plane_read(
    plane: Pair, window: Window, outputs: tuple[np.ndarray, np.ndarray] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Finds the rows and columns of an (H, W) plane that the windows of an operator read. Returns two bool arrays: (H,)
    for rows and (W,) for columns. An element is read if both its row and its column are marked.

    `outputs`: two bool arrays that select the rows and columns of windows to consider. None considers all windows.
    """
    if outputs is None:
        return _plane_read_by_all(plane, window)
    return _plane_read(plane, window, outputs)


@lru_cache(maxsize=1024)
def _plane_read_by_all(plane: Pair, window: Window) -> tuple[np.ndarray, np.ndarray]:
    """Returns which rows and which columns of an (H, W) plane at least one window reads: bool (H,) and bool (W,), as
    `plane_read` does. Results are cached, because reports and design-space explorations ask for the same planes for
    every configuration.
    """
    rows, columns = window.outputs(*plane)
    read = _plane_read(plane, window, (np.ones(rows, dtype=bool), np.ones(columns, dtype=bool)))
    for axis in read:
        axis.setflags(write=False)
    return read


def _plane_read(
    plane: Pair, window: Window, outputs: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = (
        positions_read(
            plane[axis],
            window.kernel[axis],
            window.strides[axis],
            window.dilations[axis],
            window.pads[axis],
            outputs[axis],
        )
        for axis in range(2)
    )
    return rows, columns


def permutation_of(view: np.ndarray) -> tuple[int, ...] | None:
    """Finds the permutation of axes with which a transpose of a tensor gives `view`; None if there is none. `view`: for
    each element, its row-major index in the tensor. A view of only a part of the tensor has no permutation.
    """
    plain = np.arange(view.size)
    for order in permutations(range(view.ndim)):
        before = [view.shape[order.index(axis)] for axis in range(view.ndim)]
        if np.array_equal(plain.reshape(before).transpose(order), view):
            return order
    return None
