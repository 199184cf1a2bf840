"""Fills of on-chip buffers at many points of a search space: elements, bus beats, instructions and exposed cycles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vdla.isa.config import Config

from .estimate import BufferFill, transfer_cycles
from .tiles import CHUNK, OUTERMOST, Tiles, divide
from .workload import LayerShape, Workload


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Side:
    """One dimension of the boxes (rectangles of elements) that fill a buffer; in DRAM it has `size` elements.

    `most`, `mean`: largest and mean extent of a box. `whole`: each box covers the dimension from end to end, without
    pads. `ragged`: share of boxes smaller than `most`.
    """

    most: np.ndarray | int
    mean: np.ndarray | float
    size: int
    whole: np.ndarray | bool
    ragged: np.ndarray | float = 0.0

    @staticmethod
    def of(most: np.ndarray, size: int, *, boxes: np.ndarray | int = 1) -> Side:
        """A dimension of `size` without pads, cut into `boxes` parts, all of extent `most` except perhaps the last."""
        last = size - (boxes - 1) * most
        return Side(
            most=most,
            mean=size / np.asarray(boxes),
            size=size,
            whole=most == size,
            ragged=np.where(last < most, 1 / np.asarray(boxes), 0.0),
        )


def transfers(sides: Sequence[Side]) -> np.ndarray:
    """Average number of load instructions that fill a buffer once; `sides`: the buffer's dimensions, outermost first.

    A load instruction transfers several rows of several columns: columns are contiguous in DRAM and in the scratchpad,
    rows in the scratchpad only. Two neighbouring dimensions count as one if the loaded box covers the whole inner one
    (as in `passes.split_copies` and emission). So a box that is smaller than its buffer is loaded row by row.
    """
    count: np.ndarray = np.asarray(1.0)
    full: np.ndarray = np.asarray(1.0)
    # For each side, the number of its group of merged neighbours: 0 (none yet), 1, 2, or 3 for every later
    # one.
    none, one, two = np.asarray(True), np.asarray(False), np.asarray(False)
    joined: np.ndarray = np.asarray(False)
    bare: np.ndarray = np.asarray(False)
    stride = 1
    for side in reversed(sides):
        if (isinstance(side.most, int | np.integer) or side.most.size == 1) and side.most <= 1:
            # A dimension of one element adds no transfer, and its neighbours do not merge across it.
            joined = np.asarray(False)
            stride *= side.size
            continue
        moving = np.asarray(side.most) > 1
        begins = moving & ~joined
        # Without dense columns the first group consists of rows.
        first = begins & none
        if stride > 1:
            bare = bare | first
        second = (first & bare) | (begins & one)
        none, one, two = none & ~first, (first & ~bare) | (one & ~begins), second | (two & ~begins)
        full = np.where(moving & one, full * (1 - side.ragged), full)
        rows = np.where(two, np.where(bare, 1.0, full + (1 - full) * side.mean), side.mean)
        count = np.where(moving & ~(none | one), count * rows, count)
        joined = moving & np.asarray(side.whole)
        stride *= side.size
    return count


def seen(size: np.ndarray | int, shape: LayerShape, axis: int, cuts: np.ndarray | int = 1) -> np.ndarray:
    """Lower bound on the number of input rows (`axis` 0) or columns (1) that tiles of `size` outputs read, summed over
    all tiles and over `cuts` parts of the kernel window. Pads, at both ends of the axis, do not count.
    """
    out, extent = ((shape.out_height, shape.height), (shape.out_width, shape.width))[axis]
    kernel, stride, dilation = shape.kernel[axis], shape.strides[axis], shape.dilations[axis]
    size = np.asarray(size)
    tiles = -(-out // size)
    span = (size - 1) * stride + 1
    short = (tiles * size - out) * stride
    reach = (out - 1) * stride + (kernel - 1) * dilation + 1
    leading = min(shape.leading[axis], reach)
    beyond = leading + max(0, reach - leading - extent)
    total = tiles * (cuts * span + (kernel - cuts) * dilation) - cuts * (short + beyond)
    return np.maximum(np.minimum(total, cuts * tiles * extent), np.minimum(extent, out))


def least_data_beats(config: Config, shape: LayerShape, element: int) -> float:
    """Lower bound on input traffic in bus beats: each element that some window reads, loaded once.

    `element`: bytes of a vector. Elements that no window reads, because strides or dilations skip them, are not
    counted.
    """
    positions = _least_seen(shape, 0) * _least_seen(shape, 1)
    return shape.images * shape.input_blocks * positions * element / config.memory.bus_bytes


def _least_seen(shape: LayerShape, axis: int) -> int:
    """Lower bound on the input rows (`axis` 0) or columns (1) that any tiling reads: the least result of `seen` for
    tiles of all outputs or one output, with the kernel whole or cut into single rows (columns).
    """
    whole = np.array([[(shape.out_height, shape.out_width)[axis]], [1]])
    return int(seen(whole, shape, axis, np.array([1, shape.kernel[axis]])).min())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImageBuffer:
    """The input buffer at each point of a search space: filled in loop `level`, with `copies` copies. A fill is a box:
    `blocks` input blocks, and the rows and columns that the part `window` (rows, columns) of the kernel reads.

    `reads_all_blocks`: every tile of output blocks reads all input blocks (else only its own, as in depthwise
    convolution). `element`: bytes of a vector in DRAM. `step`: vectors written into the scratchpad in a cycle.
    """

    level: np.ndarray
    copies: np.ndarray
    blocks: np.ndarray
    window: tuple[np.ndarray, np.ndarray]
    element: int
    reads_all_blocks: bool
    step: int = 1


def image_fill(config: Config, shape: LayerShape, tiles: Tiles, image: ImageBuffer) -> BufferFill:
    """The fills of the input buffer: size, number, bus beats, load instructions."""
    outside, window = tiles.outside(image.level), image.window
    held = [tiles.held(letter, outside) for letter in "yx"]
    cuts = [divide(k, w) for k, w in zip(shape.kernel, window, strict=True)]
    rows, columns = (
        (held[k] - 1) * shape.strides[k] + (window[k] - 1) * shape.dilations[k] + 1 for k in (0, 1)
    )
    parts, images = divide(shape.input_blocks, image.blocks), tiles.held("n", outside)
    positions = seen(held[0], shape, 0, cuts[0]) * seen(held[1], shape, 1, cuts[1])
    again = tiles.repetitions("o", outside) if image.reads_all_blocks else 1
    beats = 1.0 * shape.images * shape.input_blocks * again * positions * image.element
    beats = beats / config.memory.bus_bytes
    fills = tiles.repetitions("nyxo", outside) * cuts[0] * cuts[1] * (parts if image.reads_all_blocks else 1)
    # Rows of full width are contiguous in DRAM, others are read one by one.
    runs = np.where(np.minimum(columns, shape.width) == shape.width, 1, rows) * image.blocks
    box = (
        Side.of(images, shape.images, boxes=divide(shape.images, images)),
        Side.of(image.blocks, shape.input_blocks, boxes=parts),
        _positions(rows, shape.height, shape.kernel[0] % window[0] > 0, cuts[0], (tiles, "y", outside)),
        _positions(columns, shape.width, shape.kernel[1] % window[1] > 0, cuts[1], (tiles, "x", outside)),
    )
    size = images * image.blocks * rows * columns
    return BufferFill(
        size=size,
        fills=fills,
        beats=beats,
        copies=np.minimum(image.copies, fills),
        exposed=np.maximum(size / image.step, transfer_cycles(config, beats / fills, runs)),
        loads=fills * transfers(box),
    )


def innermost(workload: Workload) -> int:
    """The innermost loop level at which inputs may be loaded. OUTERMOST if inputs are in the chain memory (on-chip
    memory for tensors between layers): nothing is loaded then.
    """
    return OUTERMOST if workload.resident else CHUNK


def resident(tiles: Tiles) -> BufferFill:
    """The `BufferFill` of the input buffer when the array reads its inputs from the chain memory (on-chip memory for
    tensors between layers) instead: no size, no traffic.
    """
    nothing = np.zeros_like(tiles.count, dtype=np.float64)
    once = np.ones_like(tiles.count)
    return BufferFill(size=nothing, fills=once, beats=nothing, copies=once, exposed=nothing, loads=once)


def _positions(
    most: np.ndarray,
    size: int,
    short_window: np.ndarray,
    cuts: np.ndarray,
    loop: tuple[Tiles, str, Mapping[str, np.ndarray]],
) -> Side:
    """Rows or columns of the boxes that fill the input buffer: at most `most` of the input's `size`. A box is smaller
    for the last tile and, where the bool array `short_window` is true, for the last of the `cuts` parts of the kernel.
    `loop`: (tiles, letter of the loop over tiles along this axis, for each letter whether the loop is around the fill).
    """
    tiles, letter, outside = loop
    ragged = np.where(outside[letter] & (tiles.ragged(letter) > 0), 1 / tiles.trips[letter], 0.0)
    ragged = 1 - (1 - ragged) * (1 - np.where(short_window, 1 / cuts, 0.0))
    # A box that covers the axis covers `size` elements, without the pads.
    whole = (most == size) & (tiles.held(letter, outside) == tiles.extents[letter]) & (cuts == 1)
    return Side(most=most, mean=most, size=size, whole=whole, ragged=ragged)
