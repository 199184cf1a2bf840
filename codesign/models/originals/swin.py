"""Swin-T, after torchvision's swin_transformer.py: windows are made by reshapes and transposes, rolls by slices."""

import numpy as np

from . import operators as op
from .classic import CLASSES
from .graph import Graph
from .values import Value
from .vision_transformers import EMBEDDING_DEVIATION

EPSILON = 1e-5
WINDOW = 7
FORBIDDEN = -100.0
"""Number added to the attention score of two positions that are in the same window only because the image was
rolled.
"""


def swin_t(g: Graph, x: Value) -> Value:
    """Adds Swin-T with input `x` to the graph; returns the class scores. Liu et al., "Swin Transformer: Hierarchical
    Vision Transformer using Shifted Windows" (2021).
    """
    depth = g.channels(32)
    with g.scope("features.0"):
        y = op.conv(g, x, "0", 3 * depth, op.Window(4, 4))
        y = op.layer_norm(g, op.transpose(g, y, 0, 2, 3, 1), "2", EPSILON)
    for stage, (heads, count) in enumerate(((3, 2), (6, 2), (12, 6), (24, 2))):
        if stage:
            with g.scope(f"features.{2 * stage}"):
                y = _merged(g, y)
        for block in range(max(2, g.repeats(count))):
            with g.scope(f"features.{2 * stage + 1}.{block}"):
                z = op.layer_norm(g, y, "norm1", EPSILON)
                y = op.add(g, y, _attention(g, z, "attn", heads, WINDOW // 2 if block % 2 else 0))
                z = op.layer_norm(g, y, "norm2", EPSILON)
                with g.scope("mlp"):
                    z = op.gelu(g, op.linear(g, z, "0", 4 * z.shape[-1]))
                    y = op.add(g, y, op.linear(g, z, "3", y.shape[-1]))
    y = op.layer_norm(g, y, "norm", EPSILON)
    y = op.global_pool(g, op.transpose(g, y, 0, 3, 1, 2))
    return op.linear(g, op.flatten(g, y), "head", CLASSES)


def _merged(g: Graph, x: Value) -> Value:
    """Adds the merging of patches to the graph: each square of 2x2 neighbouring positions becomes one position with
    twice the channels.
    """
    _, rows, columns, width = x.shape
    x = op.pad(g, x, (0, 0, 0, 0), (0, rows % 2, columns % 2, 0))
    parts = [
        op.slice_axis(g, op.slice_axis(g, x, 1, row, op.FOREVER, 2), 2, column, op.FOREVER, 2)
        for column in (0, 1)
        for row in (0, 1)
    ]
    y = op.layer_norm(g, op.concat(g, parts, 3), "norm", EPSILON)
    return op.linear(g, y, "reduction", 2 * width, bias=False)


def _attention(g: Graph, x: Value, name: str, heads: int, shift: int) -> Value:
    """Adds attention inside windows of 7x7 pixels of the image `x` to the graph. The windows are those of the image
    rolled up by `shift` rows and left by `shift` columns; the result is rolled back. An axis with a single window is
    not rolled. An image that does not divide into windows is padded with zeros at the bottom and right before the roll.
    """
    batch, height, width, channels = x.shape
    down, right = -height % WINDOW, -width % WINDOW
    with g.scope(name):
        y = op.pad(g, x, (0, 0, 0, 0), (0, down, right, 0))
        _, rows, columns, _ = y.shape
        # An axis with a single window is not shifted.
        shifts = tuple(shift if extent > WINDOW else 0 for extent in (rows, columns))
        moved = any(shifts)
        if moved:
            y = _rolled(g, y, tuple(-s for s in shifts))
        across, along = rows // WINDOW, columns // WINDOW
        y = op.reshape(g, y, (batch, across, WINDOW, along, WINDOW, channels))
        y = op.transpose(g, y, 0, 1, 3, 2, 4, 5)
        y = op.reshape(g, y, (batch * across * along, WINDOW**2, channels))
        y = _inside(g, y, heads, batch, _mask(rows, columns, shifts) if moved else None)
        y = op.reshape(g, y, (batch, across, along, WINDOW, WINDOW, channels))
        y = op.transpose(g, y, 0, 1, 3, 2, 4, 5)
        y = op.reshape(g, y, (batch, rows, columns, channels))
        if moved:
            y = _rolled(g, y, shifts)
        return op.slice_axis(g, op.slice_axis(g, y, 1, 0, height), 2, 0, width)


def _inside(g: Graph, x: Value, heads: int, batch: int, mask: np.ndarray | None) -> Value:
    """Adds attention with `heads` heads inside each window of `x`, [windows, positions, channels], to the graph. `mask`
    ([windows of an image, positions, positions], None: no mask) is added to the scores; `batch`: number of images.
    """
    windows, places, channels = x.shape
    depth = channels // heads
    y = op.reshape(g, op.linear(g, x, "qkv", 3 * channels), (windows, places, 3, heads, depth))
    y = op.transpose(g, y, 2, 0, 3, 1, 4)
    q, k, v = (op.select(g, y, 0, place) for place in range(3))
    scores = op.matmul(g, op.scaled(g, q, depth**-0.5), op.transpose(g, k, 0, 1, 3, 2))
    # The exporter gathers the biases of the (2 * 7 - 1)^2 distances at export time.
    bias = g.weight("relative_position_bias", (1, heads, places, places), EMBEDDING_DEVIATION, counted=False)
    g.parameters += (2 * WINDOW - 1) ** 2 * heads
    scores = op.add(g, scores, bias)
    if mask is not None:
        count = windows // batch
        scores = op.reshape(g, scores, (batch, count, heads, places, places))
        scores = op.add(g, scores, g.constant(mask[None, :, None], np.float32))
        scores = op.reshape(g, scores, (windows, heads, places, places))
    y = op.matmul(g, op.softmax(g, scores), v, power=0.1 * v.power)
    y = op.reshape(g, op.transpose(g, y, 0, 2, 1, 3), (windows, places, channels))
    return op.linear(g, y, "proj", channels)


def _rolled(g: Graph, x: Value, shifts: tuple[int, ...]) -> Value:
    """Adds torch.roll of rows and columns by `shifts` to the graph: two slices and a concatenation for each axis."""
    for axis, shift in enumerate(shifts, start=1):
        parts = [op.slice_axis(g, x, axis, -shift, op.FOREVER), op.slice_axis(g, x, axis, 0, -shift)]
        x = op.concat(g, [part for part in parts if part.shape[axis]], axis)
    return x


def _mask(rows: int, columns: int, shifts: tuple[int, ...]) -> np.ndarray:
    """The mask of attention scores, [windows, 49, 49], for an image of `rows` x `columns` that was rolled up and left
    by `shifts`. It is 0 for two positions of a window that were in the same region before the roll, else FORBIDDEN.
    """
    regions = np.zeros((rows, columns), np.int64)
    for axis, (extent, shift) in enumerate(zip((rows, columns), shifts, strict=True)):
        place = np.arange(extent)
        # The original divides an axis into all windows but the last, the part of the last that stays, and the part that
        # the roll moved to the end.
        part = (place >= extent - WINDOW).astype(np.int64) + (place >= extent - shift if shift else 0)
        regions += np.expand_dims(part * 3**axis, 1 - axis)
    windows = regions.reshape(rows // WINDOW, WINDOW, columns // WINDOW, WINDOW).transpose(0, 2, 1, 3)
    flat = windows.reshape(-1, WINDOW**2)
    return np.where(flat[:, None] == flat[:, :, None], 0.0, FORBIDDEN)
