"""Window arithmetic of convolutions and pools: output sizes, automatic padding, divisors of averages.

Formulas are those of the ONNX operator specifications (Conv, MaxPool, AveragePool).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..te.blocks import Pads, Pair, Window


def window_extent(kernel: int, dilation: int) -> int:
    """Input positions from the first to the last tap of a window."""
    return dilation * (kernel - 1) + 1


def output_size(size: int, kernel: int, stride: int, dilation: int, pad_begin: int, pad_end: int) -> int:
    """Number of whole windows along one axis; 0 or less where none fits."""
    return (size + pad_begin + pad_end - window_extent(kernel, dilation)) // stride + 1


def output_plane(plane: Pair, kernel: Pair, strides: Pair, dilations: Pair, pads: Pads) -> Pair:
    """`output_size` of both axes of an (H, W) plane; `pads` are (top, left, bottom, right)."""
    top, left, bottom, right = pads
    return (
        output_size(plane[0], kernel[0], strides[0], dilations[0], top, bottom),
        output_size(plane[1], kernel[1], strides[1], dilations[1], left, right),
    )


def automatic_pads(mode: str, plane: Pair, kernel: Pair, strides: Pair, dilations: Pair) -> Pads:
    """Pads of auto_pad SAME_UPPER, SAME_LOWER or VALID: ceil(size / stride) outputs along each axis."""
    if mode == "VALID":
        return (0, 0, 0, 0)
    begins: list[int] = []
    ends: list[int] = []
    for size, window, stride, dilation in zip(plane, kernel, strides, dilations, strict=True):
        outputs = -(-size // stride)
        total = max(0, (outputs - 1) * stride + window_extent(window, dilation) - size)
        small, large = total // 2, total - total // 2
        begins.append(small if mode == "SAME_UPPER" else large)
        ends.append(large if mode == "SAME_UPPER" else small)
    return (begins[0], begins[1], ends[0], ends[1])


def ceiling_pads(plane: Pair, kernel: Pair, strides: Pair, pads: Pads) -> Pads:
    """Pads with which whole windows give the same outputs as `ceil_mode` with `pads`.

    A last window that would start in the pad at the end is dropped, as ONNX has required since opset 19 and as ONNX
    Runtime does at every opset.
    """
    ends: list[int] = []
    for axis in range(2):
        size, window, stride, begin, end = (
            plane[axis],
            kernel[axis],
            strides[axis],
            pads[axis],
            pads[axis + 2],
        )
        outputs = -(-(size + begin + end - window) // stride) + 1
        if (outputs - 1) * stride >= size + begin:
            outputs -= 1
        ends.append(max(0, (outputs - 1) * stride + window - size - begin))
    return (pads[0], pads[1], ends[0], ends[1])


def average_divisors(plane: Pair, window: Window, declared: Pads, count_include_pad: bool) -> np.ndarray:
    """Number of positions in the divisor of each window of an average: int32 (OH, OW). ValueError if the window does
    not fit.

    With `count_include_pad` the `declared` pads count; the additional pads in `window`, which stand for ceil_mode,
    never do.
    """
    counts: list[np.ndarray] = []
    outputs = window.outputs(*plane)
    for axis in range(2):
        starts = np.arange(outputs[axis]) * window.strides[axis] - window.pads[axis]
        low = -declared[axis] if count_include_pad else 0
        high = plane[axis] + (declared[axis + 2] if count_include_pad else 0)
        counts.append(np.minimum(starts + window.kernel[axis], high) - np.maximum(starts, low))
    return (counts[0][:, None] * counts[1][None, :]).astype(np.int32)


def positions_read(
    size: int, kernel: int, stride: int, dilation: int, pad_begin: int, outputs: np.ndarray
) -> np.ndarray:
    """Positions along one axis, of `size`, that some window reads: bool (size,). `outputs`, bool (windows,), selects
    windows."""
    starts = np.flatnonzero(outputs) * stride - pad_begin
    touched = (starts[:, None] + dilation * np.arange(kernel)).reshape(-1)
    read = np.zeros(size, dtype=bool)
    read[touched[(touched >= 0) & (touched < size)]] = True
    return read


def plane_read(
    plane: Pair, window: Window, outputs: tuple[np.ndarray, np.ndarray] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of an (H, W) plane that `window` reads somewhere: bool (H,) and bool (W,).

    An element is read if its row and its column are. `outputs` selects the rows and columns of windows (None: all).
    """
    if outputs is None:
        return _plane_read_by_all(plane, window)
    return _plane_read(plane, window, outputs)


@lru_cache(maxsize=1024)
def _plane_read_by_all(plane: Pair, window: Window) -> tuple[np.ndarray, np.ndarray]:
    """`plane_read` of all windows; cached, as reports and every configuration of a study need the same planes."""
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
