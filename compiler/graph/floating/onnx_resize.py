"""Resize (two axes, nearest or bilinear) and GridSample of a float model."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor
from types import MappingProxyType

import numpy as np

from ...ir.limits import MOST_POSITIONS
from ...te.ops.grid_sample import Outside, Sampling, grid_sample
from ...te.ops.resize import Coordinates, Rounding
from ..onnx_context import NodeContext, OnnxNode
from ..operators import Computed, Permute, Resize
from .onnx_context import FloatContext

COORDINATES: Mapping[str, Coordinates] = MappingProxyType(
    {
        "half_pixel": "half_pixel",
        "pytorch_half_pixel": "pytorch_half_pixel",
        "align_corners": "align_corners",
        "asymmetric": "asymmetric",
    }
)
Order = tuple[int, int, int, int]
IN_ORDER: Order = (0, 1, 2, 3)
ROUNDINGS: Mapping[str, Rounding] = MappingProxyType(
    {
        "round_prefer_floor": "round_prefer_floor",
        "round_prefer_ceil": "round_prefer_ceil",
        "floor": "floor",
        "ceil": "ceil",
    }
)


def import_resize(context: FloatContext, node: OnnxNode) -> None:
    """Imports Resize of two axes of four by constant scales or to constant sizes, modes "nearest" and "linear"."""
    data = context.operand(node, 0)
    operator, shape, order = read_resize(context, node, data.shape)
    if order == IN_ORDER:
        context.add(node, operator, (data.name,), shape)
        return
    moved = tuple(data.shape[axis] for axis in order)
    source = context.add(
        node, Permute(axes=order), (data.name,), moved, output=context.temporary(node, "moved")
    )
    resized = context.add(node, operator, (source,), shape, output=context.temporary(node, "resized"))
    back = (order.index(0), order.index(1), order.index(2), order.index(3))
    context.add(node, Permute(axes=back), (resized,), tuple(shape[axis] for axis in back))


def read_resize(
    context: NodeContext, node: OnnxNode, given: tuple[int, ...]
) -> tuple[Resize, tuple[int, ...], Order]:
    """Reads a Resize of a tensor of shape `given`: the operator that resizes rows and columns, the shape of its result,
    and the order of the tensor's axes as an image (N, C, H, W) of which only H and W change."""
    if len(given) != 4:
        context.fail(node, f"resizes a tensor of shape {given}", "give it (N, C, H, W)")
    mode = node.text("mode", "nearest")
    coordinates = COORDINATES.get(node.text("coordinate_transformation_mode", "half_pixel"))
    rounding = ROUNDINGS.get(node.text("nearest_mode", "round_prefer_floor"))
    if mode not in ("nearest", "linear") or coordinates is None or rounding is None:
        context.fail(
            node,
            f"has mode {mode!r}, coordinate_transformation_mode "
            f"{node.text('coordinate_transformation_mode', 'half_pixel')!r} and nearest_mode "
            f"{node.text('nearest_mode', 'round_prefer_floor')!r}",
            f"use nearest or linear with {', '.join(COORDINATES)}; {', '.join(ROUNDINGS)}",
        )
    if node.integer("antialias", 0) or node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        context.fail(node, "smooths, or keeps the aspect ratio", "export the model without that")
    shape, scales = _outputs(context, node, given)
    # A scale may keep a size and still change the positions that are read.
    changed = [a for a in range(4) if shape[a] != given[a] or scales[a] not in (None, 1.0)]
    if min(shape) < 1 or len(changed) > 2:
        context.fail(node, f"resizes {given} to {shape}", "resize two axes at most")
    if coordinates == "align_corners" and any(
        factor is not None and shape[axis] != given[axis] * factor for axis, factor in enumerate(scales)
    ):
        # ONNX places the corner at size * scale, ONNX Runtime at the integer below it.
        context.fail(
            node,
            f"aligns corners of {given} by scales that give no whole sizes, which have two meanings",
            f"give it the sizes {shape}",
        )
    order = IN_ORDER
    if not set(changed) <= {2, 3}:
        # The order of the unchanged axes does not matter.
        rest = [axis for axis in range(4) if axis not in changed]
        first, second, third, fourth = (*rest[:2], *rest[2:], *changed)
        order = (first, second, third, fourth)
    operator = Resize(
        mode="nearest" if mode == "nearest" else "linear",
        coordinates=coordinates,
        rounding=rounding,
        scales=(scales[order[2]], scales[order[3]]),
    )
    return operator, tuple(shape[axis] for axis in order), order


def _outputs(
    context: NodeContext, node: OnnxNode, shape: tuple[int, ...]
) -> tuple[tuple[int, ...], list[float | None]]:
    """The output's shape, and the scale of each axis; None for axes to which the model gives a size or nothing."""
    scales, sizes = context.array(node, 2, "scales"), context.array(node, 3, "sizes")
    given = node.integers("axes", range(4))
    by_size = sizes is not None and sizes.size > 0
    values = sizes if by_size else scales
    if values is None or values.size != len(given) or any(not -4 <= axis < 4 for axis in given):
        context.fail(node, "has no scale and no size for each axis", "give it constant scales or sizes")
    outputs = list(shape)
    factors: list[float | None] = [None] * 4
    if not np.isfinite(values).all() or (values <= 0).any():
        context.fail(
            node, f"has the {'sizes' if by_size else 'scales'} {values.tolist()}", "give numbers above 0"
        )
    for axis, value in zip(given, values, strict=True):
        if by_size:
            outputs[axis] = int(value)
        else:
            outputs[axis] = floor(shape[axis] * float(value))
            factors[axis] = float(value)
    if longest := [size for size in outputs if size > MOST_POSITIONS]:
        context.fail(
            node,
            f"makes an axis of {longest[0]:,}, more than the {MOST_POSITIONS:,} that there may be",
            "resize to less",
        )
    return tuple(outputs), factors


def import_grid_sample(context: FloatContext, node: OnnxNode) -> None:
    """Imports GridSample of two or three spatial dimensions; mode cubic of two only."""
    data, grid = context.operand(node, 0), context.operand(node, 1)
    modes: dict[str, Sampling] = {
        "nearest": "nearest",
        "linear": "linear",
        "cubic": "cubic",
        "bilinear": "linear",
        "bicubic": "cubic",
    }
    outsides: dict[str, Outside] = {"zeros": "zeros", "border": "border", "reflection": "reflection"}
    mode = modes.get(node.text("mode", "linear"))
    outside = outsides.get(node.text("padding_mode", "zeros"))
    rank = len(data.shape) - 2
    fits = len(grid.shape) == rank + 2 and grid.shape[0] == data.shape[0] and grid.shape[-1] == rank
    if mode is None or outside is None or rank not in (2, 3) or not fits or (mode == "cubic" and rank == 3):
        context.fail(
            node,
            f"samples {data.shape} at {grid.shape} by mode {node.text('mode', 'linear')} and padding_mode "
            f"{node.text('padding_mode', 'zeros')}",
            "give it (N, C, H, W) or (N, C, D, H, W); a mode of nearest, linear or, of two dimensions, cubic; and a "
            f"padding_mode of {', '.join(outsides)}",
        )
    outputs = grid.shape[1:-1]
    program = grid_sample(
        data.shape, outputs, mode, outside, align_corners=bool(node.integer("align_corners", 0))
    )
    context.add(node, Computed(program=program), (data.name, grid.name), (*data.shape[:2], *outputs))
