"""What windows read of blocked activations, and what all spaces of window operators count alike."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from vdla.isa.config import Config

from .conv2d import ConvolutionShape
from .patch_conv2d import PatchShape
from .tile_account import Filling, Side, Tiles, reach, seen, transfers
from .tiling import divide, transfer_cycles

Tiled = ConvolutionShape | PatchShape
"""What is cut into tiles: it has outputs, and an operand like them or none."""


def extents_of(shape: Tiled) -> dict[str, int]:
    """All that the loops over tiles run over."""
    return {"o": shape.output_blocks, "y": shape.out_height, "x": shape.out_width}


def outputs_of(shape: Tiled) -> int:
    """Vectors of the output."""
    return shape.images * shape.output_blocks * shape.out_height * shape.out_width


def stored_beats(config: Config, shape: Tiled) -> float:
    """Beats of the outputs, and of the operand beside them."""
    vectors = outputs_of(shape) * (2 if shape.operand else 1)
    return vectors * config.out_bytes / config.memory.bus_bytes


def stores(shape: Tiled, tiles: Tiles) -> np.ndarray:
    """STORE.POST instructions: one for each block of a tile."""
    return shape.images * shape.output_blocks * tiles.trips["y"] * tiles.trips["x"]


def least_data_beats(config: Config, shape: ConvolutionShape, element: int) -> float:
    """Beats of the inputs if what is needed of them is loaded once; `element` bytes a vector.

    Strides and dilations may be larger than the kernel: then single outputs, or single rows of the kernel, read less.
    """
    whole = (shape.out_height, shape.out_width)
    ways = [_seen(shape, sizes, cuts) for sizes in (whole, (1, 1)) for cuts in ((1, 1), shape.kernel)]
    rows, columns = (min(int(way[k]) for way in ways) for k in (0, 1))
    return shape.images * shape.input_blocks * rows * columns * element / config.memory.bus_bytes


def _seen(
    shape: ConvolutionShape,
    sizes: tuple[np.ndarray | int, np.ndarray | int],
    cuts: tuple[np.ndarray | int, np.ndarray | int],
) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the input that tiles of `sizes` outputs read at least, over tiles and cuts of the kernel."""
    outs, extents = (shape.out_height, shape.out_width), (shape.height, shape.width)
    rows, columns = (
        seen(sizes[k], outs[k], shape.kernel[k], shape.strides[k], shape.dilations[k], extents[k], cuts[k])
        for k in (0, 1)
    )
    return rows, columns


def image_filling(
    config: Config,
    shape: ConvolutionShape,
    tiles: Tiles,
    *,
    level: np.ndarray,
    copies: np.ndarray,
    blocks: np.ndarray,
    window: tuple[np.ndarray, np.ndarray],
    element: int,
    alike: bool,
) -> tuple[Filling, np.ndarray]:
    """The buffer of inputs, filled with boxes of `blocks` for a `window` of the kernel, and instructions that do it.

    `alike`: every tile of output blocks reads the same input blocks (else those of its own number). `element` bytes
    are one vector in DRAM.
    """
    outside = tiles.outside(level)
    held = [tiles.held(letter, outside) for letter in "yx"]
    cuts = tuple(divide(k, w) for k, w in zip(shape.kernel, window, strict=True))
    rows, columns = (reach(held[k], window[k], shape.strides[k], shape.dilations[k]) for k in (0, 1))
    parts, images = divide(shape.input_blocks, blocks), tiles.held("n", outside)
    seen_rows, seen_columns = _seen(shape, (held[0], held[1]), (cuts[0], cuts[1]))
    again = tiles.turns("o", outside) if alike else 1
    beats = 1.0 * shape.images * shape.input_blocks * again * seen_rows * seen_columns * element
    beats = beats / config.memory.bus_bytes
    fills = tiles.turns("nyxo", outside) * cuts[0] * cuts[1] * (parts if alike else 1)
    # Rows over the whole width are one run in DRAM, others are read one by one.
    runs = np.where(np.minimum(columns, shape.width) == shape.width, 1, rows) * blocks
    box = (
        Side.of(images, shape.images, boxes=divide(shape.images, images)),
        Side.of(blocks, shape.input_blocks, boxes=parts),
        _side(rows, shape.height, shape.kernel[0] % window[0], tiles, "y", outside, cuts[0]),
        _side(columns, shape.width, shape.kernel[1] % window[1], tiles, "x", outside, cuts[1]),
    )
    size = images * blocks * rows * columns
    filling = Filling(
        size=size,
        fills=fills,
        beats=beats,
        copies=np.minimum(copies, fills),
        exposed=np.maximum(size, transfer_cycles(config, beats / fills, runs)),
    )
    return filling, fills * transfers(box)


def _side(
    most: np.ndarray,
    size: int,
    short_window: np.ndarray,
    tiles: Tiles,
    letter: str,
    outside: Mapping[str, np.ndarray],
    cuts: np.ndarray,
) -> Side:
    """Rows or columns of the input: the last tile and the last part of the kernel may need fewer."""
    ragged = np.where(outside[letter] & (tiles.ragged(letter) > 0), 1 / tiles.trips[letter], 0.0)
    ragged = 1 - (1 - ragged) * (1 - np.where(short_window > 0, 1 / cuts, 0.0))
    # All of the rows, not as many of them with pads at one end.
    whole = (most == size) & (tiles.held(letter, outside) == tiles.extents[letter]) & (cuts == 1)
    return Side(most=most, mean=most, size=size, whole=whole, ragged=ragged)
