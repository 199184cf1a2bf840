"""Memory layouts of tensors: packing and unpacking of activations and constants.

Legalization picks the layout. *blocked*: int8 [ceil(N / batch), ceil(C / block), H, W, batch, block]
(`te.blocks.Blocks`), read and written by every layer; lanes beyond N and C are arbitrary. *interleaved*: int8 [N, H, W,
C] without gaps, the host's order of images; only graph inputs have it, and only if every reader supports it
(`LOAD.PATCH`: few channels, a short row of the window).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..te.blocks import Blocks, Window, ceil_div
from ..te.ops.patch_layout import PatchLayout
from ..te.sweep import Sweep
from ..te.taps import TapGroups

if TYPE_CHECKING:
    from vdla.isa.config import Config

Layout = Literal["blocked", "interleaved"]


def blocked_shape(config: Config, shape: tuple[int, int, int, int]) -> tuple[int, ...]:
    """Shape of the blocked form of an (N, C, H, W) tensor."""
    n, c, h, w = shape
    block = Blocks.of(config).block
    return (ceil_div(n, config.batch), ceil_div(c, block), h, w, config.batch, block)


def pack_activation(config: Config, values: np.ndarray, layout: Layout) -> np.ndarray:
    """int8 (N, C, H, W) `values` in the given layout, flat; lanes beyond N and C are zero."""
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
    """int8 (O, C, kh, kw) as tiles [OB, CB, kh, kw, block_out, block_in], in whole blocks of filters and of channels.

    If a block has several input vectors, the tiles of a tap follow one another, [OB, CB, kh, kw * inputs, ...] with
    inputs = `Blocks.inputs_read`. The result is a view of `weight` if that has whole blocks: it is copied once, by the
    caller.
    """
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


def pack_patch_weight(config: Config, weight: np.ndarray, cut: np.ndarray) -> np.ndarray:
    """int8 (O, C, kh, kw) as [OB, KB, block_out, block_in], in whole blocks of filters; KB is the products of an
    output.

    `cut` is int [5], the arguments of `PatchLayout.of`: apart, count, columns, and the window's two strides. The taps
    of the window come before the channels, as in a patch of an interleaved image. Where several columns of outputs
    share a patch there is one shifted copy for each: [OB, columns, KB, block_out, block_in].
    """
    o, c, kh, kw = weight.shape
    apart, count, columns, down, right = cut.tolist()
    window = Window(kernel=(kh, kw), strides=(down, right))
    layout = PatchLayout.of(window, c, config.block_in, apart=apart, count=count, columns=columns)
    filters = ceil_div(o, Blocks.of(config).block) * Blocks.of(config).block
    lanes, run, rows = layout.products * config.block_in, layout.run, layout.first_rows
    padded = np.zeros((filters, columns, lanes), dtype=np.int8)
    taps = weight.transpose(0, 2, 3, 1).reshape(o, kh, kw * c)
    for column in range(columns):
        shifted = np.zeros((o, kh, run), dtype=np.int8)
        shifted[:, :, column * right * c :][:, :, : kw * c] = taps
        for patch in range(count):
            first = patch * rows
            last = kh if patch == count - 1 else first + rows
            start, size = patch * layout.each * config.block_in, (last - first) * run
            padded[:o, column, start : start + size] = shifted[:, first:last].reshape(o, size)
    split = padded.reshape(-1, config.block_out, columns, layout.products, config.block_in)
    packed = split.transpose(0, 2, 3, 1, 4)
    return np.ascontiguousarray(packed if columns > 1 else packed[:, 0])


def pack_depthwise_weight(config: Config, weight: np.ndarray) -> np.ndarray:
    """int8 (C, kh, kw) as tiles [ceil(C / block), T, block_out, block_in], in which each tap is a row of the block's
    channels.

    T = ceil(kh * kw / m), where a tile holds m = min(block_in, block_out) rows.
    """
    c, kh, kw = weight.shape
    block, taps = Blocks.of(config).block, min(config.block_in, config.block_out)
    cb, tiles = ceil_div(c, block), ceil_div(kh * kw, taps)
    padded = np.zeros((cb * block, tiles * taps), dtype=np.int8)
    padded[:c, : kh * kw] = weight.reshape(c, kh * kw)
    rows = padded.reshape(cb, block, tiles, taps).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(rows).reshape(cb, tiles, config.block_out, config.block_in)


def pack_taps_weight(config: Config, weight: np.ndarray, dilation: np.ndarray) -> np.ndarray:
    """int8 (C, kh, kw) packed by `pack_depthwise_weight`, with the taps grouped by `TapGroups`.

    `dilation`: int [1], the dilation of columns. A kernel row is its groups, a group TAPS rows, in T tiles. On a
    machine that sweeps over the window the order is that of `Sweep.packed`.
    """
    c, kh, kw = weight.shape
    window = Window(kernel=(kh, kw), dilations=(1, int(dilation[0])))
    groups = TapGroups.of(window)
    if groups is None:
        raise ValueError(f"the columns of a {kh}x{kw} window make no groups")
    rows = groups.rows(weight, int(dilation[0]))
    if (sweep := Sweep.of(config, window)) is not None:
        return sweep.packed(config, rows)
    rows = rows.reshape(c, -1)
    return pack_depthwise_weight(config, rows[:, None])


def pack_parameters(config: Config, bias: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """int32 [OB, 2, block_out], in whole blocks of channels: biases, then the bits of float32 scales.

    Spare lanes have bias 0 and scale 1.0; scale 0.0 on a machine with the extension `fold`, which skips spare lanes.
    """
    count, shape = len(bias), Blocks.of(config)
    blocks = ceil_div(count, shape.block) * shape.outputs
    packed = np.zeros((2, blocks * config.block_out), dtype=np.int32)
    packed[1] = np.float32(not config.has("fold")).view(np.int32)
    packed[0, :count] = bias
    packed[1, :count] = np.broadcast_to(np.asarray(scale, dtype=np.float32), (count,)).view(np.int32)
    return np.ascontiguousarray(packed.reshape(2, blocks, config.block_out).transpose(1, 0, 2))


def dilated_columns(weight: np.ndarray, dilation: int) -> np.ndarray:
    """int8 (O, C, kh, (kw - 1) * dilation + 1): a kernel with its dilated columns in place, zeros between them."""
    if dilation == 1:
        return weight
    *outer, columns = weight.shape
    spread = np.zeros((*outer, (columns - 1) * dilation + 1), dtype=np.int8)
    spread[..., ::dilation] = weight
    return spread


def dense_groups(weight: np.ndarray, groups: int) -> np.ndarray:
    """The dense (O, C, kh, kw) weight that computes the same as a grouped convolution's int8 (O, C / groups, kh, kw)
    weight."""
    if groups == 1:
        return weight
    o, per_group, kh, kw = weight.shape
    dense = np.zeros((groups, o // groups, groups, per_group, kh, kw), dtype=np.int8)
    split = weight.reshape(groups, o // groups, per_group, kh, kw)
    for group in range(groups):
        dense[group, :, group] = split[group]
    return dense.reshape(o, groups * per_group, kh, kw)


Form = Callable[..., np.ndarray]
"""A packing function of `layout` (`pack_...`): form(config, *arrays) -> the array in the machine's memory order."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Constant:
    """Arrays with their packing function. They are packed only when their bytes are needed, which timing never does."""

    form: Form
    arrays: tuple[np.ndarray, ...]

    def packed(self, config: Config) -> np.ndarray:
        """The packed array, in the memory order of a machine of this configuration."""
        return self.form(config, *self.arrays)

    def same(self, other: Constant) -> bool:
        """Whether both have equal arrays and the same packing function, so that their bytes are equal on any
        machine."""
        return (
            self.form is other.form
            and len(self.arrays) == len(other.arrays)
            and all(_same(a, b) for a, b in zip(self.arrays, other.arrays, strict=True))
        )


_FIRST = 64


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays have equal bytes. The first elements are compared first: most unequal arrays differ there."""
    if a is b:
        return True
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind == "f":
        return a.tobytes() == b.tobytes()
    return np.array_equal(a.flat[:_FIRST], b.flat[:_FIRST]) and np.array_equal(a, b)


def pack_spread_weight(config: Config, weight: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """`pack_weight` with zeros where a kernel reads nothing: in other groups, and between its dilated columns.

    `spread` is int [2]: the groups, and the dilation of columns.
    """
    groups, dilation = spread.tolist()
    return pack_weight(config, dilated_columns(dense_groups(weight, groups), dilation))


def pack_operand(config: Config, values: np.ndarray) -> np.ndarray:
    """A constant int8 tensor (N, C, H, W) packed in the blocked layout, which every layer reads."""
    return pack_activation(config, values, "blocked")


def unpacked(_: Config, values: np.ndarray) -> np.ndarray:
    """The array itself: a packing function for arrays that need no packing."""
    return values
