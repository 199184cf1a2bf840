"""How tensors lie in memory: packing and unpacking of activations and constants; legalization picks the layout.

*blocked*: int8 [ceil(N / batch), ceil(C / block), H, W, batch, block], what every layer reads and writes;
lanes beyond N and C hold nothing of meaning. *interleaved*: int8 [N, H, W, C] without gaps, as an image comes
from the host; only graph inputs have it, and only where every reader can take it (`LOAD.PATCH`: few channels, a
short row of the window).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from vdla.isa.config import Config

Layout = Literal["blocked", "interleaved"]


def blocked_shape(config: Config, shape: tuple[int, int, int, int], block: int) -> tuple[int, ...]:
    """Shape of the blocked form of an (N, C, H, W) tensor with channel blocks of `block`."""
    n, c, h, w = shape
    return (-(-n // config.batch), -(-c // block), h, w, config.batch, block)


def pack_activation(config: Config, values: np.ndarray, layout: Layout) -> np.ndarray:
    """int8 (N, C, H, W) `values` in the given layout, flat; lanes beyond N and C are zero."""
    n, c, h, w = values.shape
    if layout == "interleaved":
        return np.ascontiguousarray(values.transpose(0, 2, 3, 1)).reshape(-1)
    shape = blocked_shape(config, (n, c, h, w), config.block_in)
    padded = np.zeros((shape[0] * config.batch, shape[1] * config.block_in, h, w), dtype=np.int8)
    padded[:n, :c] = values
    split = padded.reshape(shape[0], config.batch, shape[1], config.block_in, h, w)
    return np.ascontiguousarray(split.transpose(0, 2, 4, 5, 1, 3)).reshape(-1)


def unpack_activation(
    config: Config, flat: np.ndarray, shape: tuple[int, int, int, int], layout: Layout
) -> np.ndarray:
    """The int8 (N, C, H, W) tensor of `shape` from its flat memory form."""
    n, c, h, w = shape
    if layout == "interleaved":
        return np.ascontiguousarray(flat.reshape(n, h, w, c).transpose(0, 3, 1, 2))
    blocks = blocked_shape(config, shape, config.block_out)
    split = flat.reshape(blocks).transpose(0, 4, 1, 5, 2, 3)
    return np.ascontiguousarray(
        split.reshape(blocks[0] * config.batch, blocks[1] * config.block_out, h, w)[:n, :c]
    )


def activation_bytes(config: Config, shape: tuple[int, int, int, int], layout: Layout) -> int:
    """Bytes of a tensor in memory."""
    if layout == "interleaved":
        return int(np.prod(shape))
    return int(np.prod(blocked_shape(config, shape, config.block_out)))


# --- constants ------------------------------------------------------------------------------------------


def pack_weight(config: Config, weight: np.ndarray) -> np.ndarray:
    """int8 (O, C, kh, kw) as tiles [ceil(O / block_out), ceil(C / block_in), kh, kw, block_out, block_in]."""
    o, c, kh, kw = weight.shape
    ob, cb = -(-o // config.block_out), -(-c // config.block_in)
    padded = np.zeros((ob * config.block_out, cb * config.block_in, kh, kw), dtype=np.int8)
    padded[:o, :c] = weight
    split = padded.reshape(ob, config.block_out, cb, config.block_in, kh, kw)
    return np.ascontiguousarray(split.transpose(0, 2, 4, 5, 1, 3))


def pack_patch_weight(config: Config, weight: np.ndarray) -> np.ndarray:
    """int8 (O, C, kh, kw) as [ceil(O / block_out), ceil(kh*kw*C / block_in), block_out, block_in].

    The taps of the window come before the channels, as in a patch of an interleaved image.
    """
    o, c, kh, kw = weight.shape
    flat = weight.transpose(0, 2, 3, 1).reshape(o, kh * kw * c, 1, 1)
    return pack_weight(config, flat).reshape(-(-o // config.block_out), -1, config.block_out, config.block_in)


def pack_depthwise_weight(config: Config, weight: np.ndarray) -> np.ndarray:
    """int8 (C, kh, kw) as rows [ceil(C / block), ceil(kh*kw / block), block (taps), block (channels)]."""
    c, kh, kw = weight.shape
    block = config.block_in
    cb, tiles = -(-c // block), -(-kh * kw // block)
    padded = np.zeros((cb * block, tiles * block), dtype=np.int8)
    padded[:c, : kh * kw] = weight.reshape(c, kh * kw)
    return np.ascontiguousarray(padded.reshape(cb, block, tiles, block).transpose(0, 2, 3, 1))


def pack_parameters(config: Config, bias: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """int32 [ceil(O / block_out), 2, block_out]: biases, then the bits of float32 scales; spare lanes 0 and 1.0."""
    count = len(bias)
    blocks = -(-count // config.block_out)
    packed = np.zeros((2, blocks * config.block_out), dtype=np.int32)
    packed[1] = np.float32(1).view(np.int32)
    packed[0, :count] = bias
    packed[1, :count] = np.broadcast_to(np.asarray(scale, dtype=np.float32), (count,)).view(np.int32)
    return np.ascontiguousarray(packed.reshape(2, blocks, config.block_out).transpose(1, 0, 2))


def dense_groups(weight: np.ndarray, groups: int) -> np.ndarray:
    """A grouped convolution's int8 (O, C / groups, kh, kw) weight as the (O, C, kh, kw) one that computes the same."""
    if groups == 1:
        return weight
    o, per_group, kh, kw = weight.shape
    dense = np.zeros((groups, o // groups, groups, per_group, kh, kw), dtype=np.int8)
    split = weight.reshape(groups, o // groups, per_group, kh, kw)
    for group in range(groups):
        dense[group, :, group] = split[group]
    return dense.reshape(o, groups * per_group, kh, kw)
