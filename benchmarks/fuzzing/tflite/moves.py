"""Drawings of TFLite's operators that move elements: reshapes, transpositions, joins, cuts, pads and gathers."""

from __future__ import annotations

import numpy as np
import tflite

from .builder import TfliteBuilder


def reshape(b: TfliteBuilder) -> None:
    """Adds a random RESHAPE to a shape of the same size: flat, two-dimensional, or of another or the same rank."""
    data = b.activation((1, 2, 3, 4, 4))
    shape = b.shape(data)
    size, batch = int(np.prod(shape)), shape[0]
    ways = [(size,), (batch, size // batch), (1, size), (1, 1, *shape)[-4:], tuple(reversed(shape))]
    if len(shape) == 4:
        ways.append((batch, shape[1] * shape[2], shape[3]))
    ways += [(1, n, size // n, 1) for n in (2, 3, 4, 6) if size % n == 0]
    after = b.draw.of([way for way in ways if int(np.prod(way)) == size])
    shaped = [data] if b.draw.chance(0.5) else [data, b.integers(after)]
    b.node("RESHAPE", shaped, "Reshape", grid="same", NewShape=list(after))


def squeezed(b: TfliteBuilder) -> None:
    """Adds a random SQUEEZE of some axes of size 1, or of all."""
    data = b.activation((1, 2, 3, 4), lambda index: 1 in b.shape(index) and max(b.shape(index)) > 1)
    ones = [axis for axis, size in enumerate(b.shape(data)) if size == 1]
    chosen = [axis for axis in ones if b.draw.chance(0.6)]
    axes = [axis - len(b.shape(data)) * b.draw.chance(0.3) for axis in chosen]
    b.node("SQUEEZE", [data], "Squeeze", grid="same", SqueezeDims=axes)


def expanded(b: TfliteBuilder) -> None:
    """Adds a random EXPAND_DIMS to the graph."""
    data = b.activation((1, 2, 3))
    rank = len(b.shape(data)) + 1
    b.node("EXPAND_DIMS", [data, b.integers(b.draw.below(2 * rank) - rank)], "ExpandDims", grid="same")


def transpose(b: TfliteBuilder) -> None:
    """Adds a random TRANSPOSE to the graph."""
    data = b.activation((2, 3, 4))
    order = b.draw.rng.permutation(len(b.shape(data)))
    b.node("TRANSPOSE", [data, b.integers(order)], "Transpose", grid="same")


def shaped(b: TfliteBuilder) -> None:
    """Adds a random SHAPE to the graph."""
    b.node("SHAPE", [b.activation()], "Shape", dtype=np.int32, OutType=tflite.TensorType.INT32)


def blocks(b: TfliteBuilder, kind: str) -> None:
    """Adds a random DEPTH_TO_SPACE or SPACE_TO_DEPTH, as `kind` says, to the graph."""
    size = b.draw.of((2, 2, 3))
    deep = kind == "DEPTH_TO_SPACE"

    def fits(index: int) -> bool:
        _, height, width, channels = b.shape(index)
        return channels % size**2 == 0 if deep else height % size == width % size == 0

    data = b.activation((4,), fits)
    b.node(kind, [data], "DepthToSpace" if deep else "SpaceToDepth", grid="same", BlockSize=size)


def space_to_batch(b: TfliteBuilder) -> None:
    """Adds a random SPACE_TO_BATCH_ND of images."""
    data = b.activation((4,))
    block, pads = [1 + b.draw.below(3) for _ in range(2)], []
    for size, extent in zip(b.shape(data)[1:3], block, strict=True):
        before = b.draw.below(3)
        pads.append((before, -(size + before) % extent))
    b.node("SPACE_TO_BATCH_ND", [data, b.integers(block), b.integers(pads)], "SpaceToBatchND", grid="same")


def batch_to_space(b: TfliteBuilder) -> None:
    """Adds a random BATCH_TO_SPACE_ND of images."""
    data = b.activation((4,), lambda index: b.shape(index)[0] > 1)
    batch = b.shape(data)[0]
    block = b.draw.of([(r, c) for r in (1, 2, 3) for c in (1, 2, 3) if batch % (r * c) == 0])
    crops = [(b.draw.below(2), b.draw.below(2)) for _ in block]
    b.node("BATCH_TO_SPACE_ND", [data, b.integers(block), b.integers(crops)], "BatchToSpaceND", grid="same")


def concatenated(b: TfliteBuilder) -> None:
    """Adds a random CONCATENATION of tensors with the same grid or, for uint8, sometimes with different grids."""
    first = b.activation((1, 2, 3, 4))
    shape = b.shape(first)
    axis = b.draw.below(len(shape))
    other = b.draw.chance(0.3) and b.dtype(first) == np.uint8
    kind = b.same_kind(first) if other else b.same_grid(first)

    def fits(index: int) -> bool:
        found = b.shape(index)
        return kind(index) and len(found) == len(shape) and not any(
            a != axis and n != m for a, (n, m) in enumerate(zip(found, shape, strict=True))
        )  # fmt: skip

    parts = [first]
    found = [index for index in b.arrays if fits(index)]
    for _ in range(1 + b.draw.below(3)):
        if b.draw.chance(0.2):
            sizes = list(shape)
            sizes[axis] = 1 + b.draw.below(4)
            parts.append(b.like(first, sizes, same=True))
        else:
            parts.append(b.draw.of(found))
    b.draw.rng.shuffle(parts)
    place = axis - len(shape) * b.draw.chance(0.4)
    activation = b.draw.of((0, 0, 0, 1)) if b.dtype(first) == np.float32 else 0
    grid = "free" if other else "same"
    b.node("CONCATENATION", parts, "Concatenation", grid=grid, Axis=place, FusedActivationFunction=activation)


def packed(b: TfliteBuilder) -> None:
    """Adds a random PACK to the graph."""
    first = b.activation((1, 2, 3))
    same = b.same_grid(first)
    found = [index for index in b.arrays if same(index) and b.shape(index) == b.shape(first)]
    parts = [first, *(b.draw.of(found) for _ in range(b.draw.below(3)))]
    rank = len(b.shape(first)) + 1
    axis = b.draw.below(2 * rank) - rank
    b.node("PACK", parts, "Pack", grid="same", Axis=axis, ValuesCount=len(parts))


def unpacked(b: TfliteBuilder) -> None:
    """Adds a random UNPACK to the graph."""
    data = b.activation((2, 3, 4))
    rank = len(b.shape(data))
    axis = b.draw.below(rank)
    count = b.shape(data)[axis]
    place = axis - rank * b.draw.chance(0.4)
    b.node("UNPACK", [data], "Unpack", grid="same", count=count, Num=count, Axis=place)


def pad(b: TfliteBuilder, kind: str) -> None:
    """Adds a random PAD, PADV2 or MIRROR_PAD, as `kind` says, to the graph."""
    data = b.activation((2, 3, 4))
    shape = b.shape(data)
    mode = b.draw.below(2)
    ends: list[tuple[int, int]] = []
    for axis, size in enumerate(shape):
        most = 3 if kind != "MIRROR_PAD" else max(1, size + mode)
        left_out = len(shape) == 4 and axis in (0, 3) and b.draw.chance(0.7)
        ends.append((0, 0) if left_out else (b.draw.below(most), b.draw.below(most)))
    inputs = [data, b.integers(ends, b.draw.of((np.int32, np.int32, np.int64)))]
    if kind == "PADV2":
        inputs.append(b.like(data, (), same=True))
    if kind == "MIRROR_PAD":
        b.node(kind, inputs, "MirrorPad", grid="same", Mode=mode)
    else:
        b.node(kind, inputs, "Pad" if kind == "PAD" else "PadV2", grid="same")


def cut(b: TfliteBuilder) -> None:
    """Adds a random SLICE to the graph."""
    data = b.activation((1, 2, 3, 4))
    begins = [b.draw.below(size) for size in b.shape(data)]
    sizes = [1 + b.draw.below(size - at) for size, at in zip(b.shape(data), begins, strict=True)]
    written = [-1 if b.draw.chance(0.3) else size for size in sizes]
    shape = [
        whole - at if size == -1 else size
        for whole, at, size in zip(b.shape(data), begins, written, strict=True)
    ]
    b.node("SLICE", [data, b.integers(begins), b.integers(written)], "Slice", grid="same", shape=shape)


def strided(b: TfliteBuilder) -> None:
    """Adds a random STRIDED_SLICE with positive and negative steps, and with the masks BeginMask, EndMask and
    ShrinkAxisMask; an axis in the last mask has a single index.
    """
    data = b.activation((1, 2, 3, 4))
    shape, draw = b.shape(data), b.draw
    count = len(shape) if draw.chance(0.8) else 1 + draw.below(len(shape))
    begins, ends, steps, shrunk = [], [], [], 0
    for axis, size in enumerate(shape[:count]):
        step = draw.of((1, 1, 1, 2, 3, -1, -2))
        begin, end = sorted((draw.below(size), draw.below(size + 1)))
        if step < 0:
            begin, end = end - draw.chance(0.5), begin - 1
        if draw.chance(0.12) and len(shape) > 1:
            shrunk |= 1 << axis
            step, begin, end = 1, draw.below(size), 0
            end = begin + 1
            if draw.chance(0.4):
                begin, end = begin - size, begin - size + 1
        begins.append(begin)
        ends.append(end if draw.chance(0.85) else end + 20 * (1 if step > 0 else -1))
        steps.append(step)
    masks = [draw.below(1 << count) if draw.chance(0.4) else 0 for _ in range(2)]
    inputs = [data, *(b.integers(numbers) for numbers in (begins, ends, steps))]
    b.node(
        "STRIDED_SLICE", inputs, "StridedSlice", grid="same", BeginMask=masks[0], EndMask=masks[1],
        ShrinkAxisMask=shrunk,
    )  # fmt: skip


def split(b: TfliteBuilder) -> None:
    """Adds a random SPLIT to the graph."""
    data = b.activation((1, 2, 3, 4), lambda index: max(b.shape(index)) > 1)
    rank = len(b.shape(data))
    axis = b.draw.below(rank)
    size = b.shape(data)[axis]
    count = b.draw.of([n for n in range(1, size + 1) if size % n == 0])
    place = b.integers(axis - rank * b.draw.chance(0.4))
    b.node("SPLIT", [place, data], "Split", grid="same", count=count, NumSplits=count)


def split_by_sizes(b: TfliteBuilder) -> None:
    """Adds a random SPLIT_V; one of the sizes may be -1 (the rest of the axis)."""
    data = b.activation((1, 2, 3, 4), lambda index: max(b.shape(index)) > 1)
    rank = len(b.shape(data))
    axis = b.draw.below(rank)
    left, sizes = b.shape(data)[axis], []
    while left:
        sizes.append(1 + b.draw.below(left))
        left -= sizes[-1]
    if b.draw.chance(0.3):
        sizes[b.draw.below(len(sizes))] = -1
    inputs = [data, b.integers(sizes), b.integers(axis - rank * b.draw.chance(0.4))]
    b.node("SPLIT_V", inputs, "SplitV", grid="same", count=len(sizes), NumSplits=len(sizes))


def gather(b: TfliteBuilder) -> None:
    """Adds a random GATHER by constant indices, or by an input of the model."""
    data = b.activation((1, 2, 3, 4))
    rank = len(b.shape(data))
    axis = b.draw.below(rank)
    size = b.shape(data)[axis]
    shape = b.draw.of(((), (1,), (2,), (3,), (2, 2)))
    found = b.draw.rng.integers(0, size, shape)
    if size >= 4 and b.draw.chance(0.2):
        indices = b.input(shape or (1,), np.int32)
    else:
        indices = b.integers(found, b.draw.of((np.int32, np.int32, np.int64)))
    b.node("GATHER", [data, indices], "Gather", grid="same", Axis=axis - rank * b.draw.chance(0.4))


def tiled(b: TfliteBuilder) -> None:
    """Adds a random TILE to the graph."""
    data = b.activation((1, 2, 3, 4))
    numbers = [b.draw.of((1, 1, 2, 3)) for _ in b.shape(data)]
    b.node("TILE", [data, b.integers(numbers)], "Tile", grid="same")


def broadcast(b: TfliteBuilder) -> None:
    """Adds a random BROADCAST_TO to the graph."""
    data = b.activation((1, 2, 3, 4), lambda index: 1 in b.shape(index))
    after = [b.draw.of((1, 2, 4)) if size == 1 else size for size in b.shape(data)]
    more = [2] if len(after) < 4 and b.draw.chance(0.3) else []
    b.node("BROADCAST_TO", [data, b.integers([*more, *after])], "BroadcastTo", grid="same")


def reverse(b: TfliteBuilder) -> None:
    """Adds a random REVERSE_V2 along one axis."""
    data = b.activation((1, 2, 3, 4))
    rank = len(b.shape(data))
    b.node("REVERSE_V2", [data, b.integers([b.draw.below(rank)])], "ReverseV2", grid="same")
