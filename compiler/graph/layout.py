"""Memory layouts of tensors: packing and unpacking of activations and constants.

Legalization picks the layout. *blocked*: int8 [ceil(N / batch), ceil(C / block), H, W, batch, block]
(`te.blocks.Blocks`). Every layer reads and writes this layout; elements beyond N and C are arbitrary. *interleaved*:
int8 [N, H, W, C] without gaps, the host's order of images. Only graph inputs have this layout, and only if every reader
can load them by the instruction `LOAD.PATCH` (for few channels and short rows of the window).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..te.blocks import Blocks, ceil_div

if TYPE_CHECKING:
    from vdla.isa.config import Config

Layout = Literal["blocked", "interleaved"]


def blocked_shape(config: Config, shape: tuple[int, int, int, int]) -> tuple[int, ...]:
    """Shape of the blocked form of an (N, C, H, W) tensor."""
    n, c, h, w = shape
    block = Blocks.of(config).block
    return (ceil_div(n, config.batch), ceil_div(c, block), h, w, config.batch, block)


def pack_activation(config: Config, values: np.ndarray, layout: Layout) -> np.ndarray:
    """int8 (N, C, H, W) `values` in the given layout, flat; elements beyond N and C are zero."""
    n, c, h, w = values.shape
    if layout == "interleaved":
        return np.ascontiguousarray(values.transpose(0, 2, 3, 1)).reshape(-1)
    images, blocks, _, _, batch, block = blocked_shape(config, (n, c, h, w))
    padded = np.zeros((images * batch, blocks * block, h, w), dtype=np.int8)
    padded[:n, :c] = values
    split = padded.reshape(images, batch, blocks, block, h, w)
    return np.ascontiguousarray(split.transpose(0, 2, 4, 5, 1, 3)).reshape(-1)


def unpack_activation(
    config: Config, flat: np.ndarray, shape: tuple[int, int, int, int], layout: Layout
) -> np.ndarray:
    """The int8 (N, C, H, W) tensor of `shape` from its flat array in memory."""
    n, c, h, w = shape
    if layout == "interleaved":
        return np.ascontiguousarray(flat.reshape(n, h, w, c).transpose(0, 3, 1, 2))
    images, blocks, _, _, batch, block = held = blocked_shape(config, shape)
    split = flat.reshape(held).transpose(0, 4, 1, 5, 2, 3)
    return np.ascontiguousarray(split.reshape(images * batch, blocks * block, h, w)[:n, :c])


def activation_bytes(config: Config, shape: tuple[int, int, int, int], layout: Layout) -> int:
    """Bytes of a tensor of `shape` in memory in the given layout."""
    if layout == "interleaved":
        return int(np.prod(shape))
    return int(np.prod(blocked_shape(config, shape)))


# --- constants ------------------------------------------------------------------------------------------


def pack_weight(config: Config, weight: np.ndarray) -> np.ndarray:
    """Packs int8 weights (O, C, kh, kw) as tiles of block_out x block_in: [O blocks, C blocks, kh, kw, block_out,
    block_in]. Filters and channels are padded to whole blocks with zeros.

    If a block of channels takes several tiles, the tiles follow one another: [O blocks, C blocks, kh, kw * inputs, ...]
    with inputs = `Blocks.inputs_read`. The result may be a view of `weight`; the caller copies it."""
    o, c, kh, kw = weight.shape
    shape = Blocks.of(config)
    of, cb, inputs = ceil_div(o, shape.block) * shape.block, ceil_div(c, shape.block), shape.inputs
    padded = weight
    if weight.shape[:2] != (of, cb * shape.block):
        padded = np.zeros((of, cb * shape.block, kh, kw), dtype=np.int8)
        padded[:o, :c] = weight
    split = padded.reshape(-1, config.block_out, cb, inputs, config.block_in, kh, kw)
    read = shape.inputs_read(c, (kh, kw))
    tiles = split.transpose(0, 2, 5, 6, 3, 1, 4)[:, :, :, :, :read]
    return tiles.reshape(len(tiles), cb, kh, kw * read, config.block_out, config.block_in)


def pack_parameters(config: Config, bias: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Packs `bias` (C,) and `scale`, (C,) or a single value, as int32 [blocks, 2, block_out]: for each block of
    channels the biases, then the bits of the float32 scales. Channels are padded to whole blocks.

    The padding has bias 0 and scale 1.0. On a machine with the extension `fold` its scale is 0.0, and it is skipped.
    """
    count, shape = len(bias), Blocks.of(config)
    blocks = ceil_div(count, shape.block) * shape.outputs
    packed = np.zeros((2, blocks * config.block_out), dtype=np.int32)
    packed[1] = np.float32(not config.has("fold")).view(np.int32)
    packed[0, :count] = bias
    packed[1, :count] = np.broadcast_to(np.asarray(scale, dtype=np.float32), (count,)).view(np.int32)
    return np.ascontiguousarray(packed.reshape(2, blocks, config.block_out).transpose(1, 0, 2))


Form = Callable[..., np.ndarray]
"""A packing function of `layout` (`pack_...`): form(config, *arrays) -> the array in the machine's memory order."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Constant:
    """Arrays with their packing function. They are packed only when their bytes are needed; a simulation of timing
    alone does not need them.
    """

    form: Form
    arrays: tuple[np.ndarray, ...]

    def packed(self, config: Config) -> np.ndarray:
        """The packed array, in the memory order of a machine of this configuration."""
        return self.form(config, *self.arrays)

    def same(self, other: Constant) -> bool:
        """Whether two constants have equal arrays and the same packing function, so that their bytes are equal."""
        return (
            self.form is other.form
            and len(self.arrays) == len(other.arrays)
            and all(_same(a, b) for a, b in zip(self.arrays, other.arrays, strict=True))
        )


_FIRST = 64


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays have equal shapes, types and bytes. Compares the first elements first: most differ there."""
    if a is b:
        return True
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind == "f":
        return a.tobytes() == b.tobytes()
    return np.array_equal(a.flat[:_FIRST], b.flat[:_FIRST]) and np.array_equal(a, b)


def pack_operand(config: Config, values: np.ndarray) -> np.ndarray:
    """A constant int8 tensor (N, C, H, W) packed in the blocked layout, which every layer reads."""
    return pack_activation(config, values, "blocked")


def unpacked(_: Config, values: np.ndarray) -> np.ndarray:
    """The array itself: a packing function for arrays that need no packing."""
    return values
